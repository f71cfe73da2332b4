"""``numawise verify --pods``: one look at the containers of a node, on the files of a real kubelet's."""

import json
from pathlib import Path

import pytest

from tests.cli.run import program
from tests.watched import RECORDED, recorded_node


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return recorded_node(tmp_path, a="N0=100 N1=0", b="N0=0 N1=100")


def words(root: Path, *more: str) -> list[str]:
    return ["verify", "--pods", *more, "--root", str(root), "--kubelet-dir", str(root / "var/lib/kubelet")]


def cpuset(root: Path, pod: str, text: str) -> None:
    pods = json.loads((RECORDED / "pods.json").read_text())["items"]
    (value,) = [one for one in pods if one["metadata"]["name"] == pod]
    id_ = value["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    (place,) = (root / "sys/fs/cgroup").glob(f"kubepods/**/{id_}")
    for name in ("cpuset.cpus", "cpuset.cpus.effective"):
        (place / name).write_text(f"{text}\n")


def test_everything_is_as_granted(root: Path) -> None:
    ran = program(*words(root))
    assert ran.status == 0
    assert [line.split()[:2] for line in ran.out.splitlines()] == [
        ["CONTAINER", "VERDICT"], ["a-n1/c", "aligned"], ["b-n1/c", "aligned"], ["d-n1/c", "aligned"],
    ]  # fmt: skip
    assert "PodResources was not compared" in ran.err


def test_a_changed_cpuset_in_the_words_of_the_watcher(root: Path) -> None:
    cpuset(root, "a-n1", "0-7")
    ran = program(*words(root))
    assert ran.status == 1
    assert "error    container c may run outside CPUs 2-3" in ran.out
    assert "it may run on CPUs 4-5, which b-n1/c has alone" in ran.out
    assert "to do: let the agent write it back" in ran.out
    data = json.loads(program(*words(root, "default/a-n1"), "-o", "json").out)
    (job,) = data["jobs"]
    assert (data["aligned"], job["label"], job["cpus"]) == (False, "a-n1/c", "0-7")
    assert job["granted"]["cpus"] == "2-3"
    assert job["sentence"] == "not aligned: container c may run outside CPUs 2-3"
    assert job["findings"][0]["code"] == "cpuset-changed"
    assert program(*words(root, "b-n1")).status == 0


def test_sentences_of_what_is_aligned(root: Path) -> None:
    jobs = json.loads(program(*words(root), "-o", "json").out)["jobs"]
    assert [job["sentence"] for job in jobs] == [
        "aligned: CPUs 2-3 (NUMA 0), 100 % of 100 MiB local",
        "aligned: CPUs 4-5 (NUMA 1), 100 % of 100 MiB local",
        "aligned: CPUs 0-1,6-7 (NUMA 0-1), of the shared pool",
    ]


def test_what_is_not_known_is_status_3(tmp_path: Path) -> None:
    ran = program(*words(recorded_node(tmp_path)))
    assert ran.status == 3
    assert "where the memory of container c lies is not known" in ran.out


@pytest.mark.parametrize(("more", "status", "message"), [
    pytest.param(["nope"],               2, "no container of a pod 'nope' runs here; there are default/a-n1, default/b-n1, default/d-n1", id="no such pod"),
    pytest.param(["a-n1", "--measure"],  2, "--measure: measures one job; name a hold or a process",  id="measured"),
    pytest.param(["kube-system/a-n1"],   2, "no container of a pod 'kube-system/a-n1' runs here",     id="another namespace"),
])  # fmt: skip
def test_typed_wrong(root: Path, more: list[str], status: int, message: str) -> None:
    ran = program(*words(root, *more))
    assert ran.status == status
    assert message in ran.err


def test_no_kubelet_here(root: Path) -> None:
    ran = program("verify", "--pods", "--root", str(root), "--kubelet-dir", str(root / "none"))
    assert ran.status == 2
    assert "cpu_manager_state does not exist; run it as root on the node" in ran.err


def test_a_damaged_record_is_said(root: Path) -> None:
    file = root / "var/lib/kubelet/cpu_manager_state"
    file.write_text(file.read_text().replace('"4-5"', '"6-7"'))
    ran = program(*words(root))
    assert "cpu_manager_state: its checksum is wrong" in ran.err
    assert "may run outside" not in ran.out
