"""``numawise state``: what people see, what programs get, and what is written."""

import json
import socket
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from numawise.apps.bundle.gather import gather
from numawise.apps.bundle.pack import packed
from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.machine import encode_machine
from numawise.inputs.gathered import NodeSources
from tests.cli.run import EXAMPLES, numawise, program, refused
from tests.nodetree import grow_node, pod_list
from tests.unit.nodes import CONFIG, MIB, at_work, machine, memory_changed, pod, written

Capture = pytest.CaptureFixture[str]
SERVER = EXAMPLES / "3gpu-server"
BUSY = SERVER / "state" / "numa1-busy"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A node with two pods, and its files."""
    written(tmp_path / "state", at_work(pod("train", 4, "6Gi", 1), pod("serve", 2, "2Gi", 1)).files.texts)
    (tmp_path / "machine.yaml").write_text(yaml.safe_dump(encode_machine(machine())))
    drifted = memory_changed(machine(), -4 * MIB, 4 * MIB)
    (tmp_path / "drifted.yaml").write_text(yaml.safe_dump(encode_machine(drifted)))
    (tmp_path / "kubelet.yaml").write_text(yaml.safe_dump(dict(CONFIG)))
    items = [
        {
            "metadata": {"name": "train", "uid": "uid-train"},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        }
    ]
    (tmp_path / "pods.json").write_text(json.dumps({"kind": "PodList", "apiVersion": "v1", "items": items}))
    return tmp_path


def test_show(capsys: Capture) -> None:
    ran = numawise(capsys, "state", "show", BUSY, "--machine", SERVER / "machine.yaml", "--width", 80)
    assert (ran.status, ran.err) == (0, "")
    assert "cpu_manager_state            v2 (1.18 to 1.36)" in ran.out
    assert "f21fe02b-e6e2-4d04-9a4a-9e57367fa324  app        14-16  -       nvidia.com/gpu=gpu2" in ran.out
    assert "shared pool: CPUs 0-13,17-27 (25)" in ran.out
    assert "A f21fe02b/app: 14-16" in ran.out
    assert "gpu2: f21fe02b/app" in ran.out
    assert all(len(line) <= 80 for line in ran.out.partition("3gpu-server")[2].splitlines())


def test_show_names_pods_and_marks_those_that_are_gone(capsys: Capture, folder: Path) -> None:
    ran = numawise(capsys, "state", "show", folder / "state", "--pods", folder / "pods.json", "-o", "table")
    rows = [line.split()[:2] for line in ran.out.splitlines()]
    assert ["train", "main"] in rows
    assert ["uid-serve", "(gone)"] in rows


def test_show_as_data(capsys: Capture, folder: Path) -> None:
    ran = numawise(capsys, "state", "show", folder / "state", "-o", "json")
    found = json.loads(ran.out)
    assert (found["apiVersion"], found["kind"]) == ("numawise.dev/v1", "KubeletState")
    assert [file["file"] for file in found["files"]] == [CPU_FILE, MEMORY_FILE, DEVICE_FILE]
    assert all(one["valid"] for file in found["files"] for one in file["checksums"])
    assert {one["uid"]: one["cpus"] for one in found["holders"]} == {
        "uid-train": "1-2,9-10",
        "uid-serve": "3,11",
    }
    assert yaml.safe_load(numawise(capsys, "state", "show", folder / "state", "-o", "yaml").out) == found


@pytest.mark.parametrize(("form", "start"), [("svg", "<svg"), ("html", "<!doctype html>")])
def test_show_as_picture(capsys: Capture, form: str, start: str) -> None:
    ran = numawise(capsys, "state", "show", BUSY, "--machine", SERVER / "machine.yaml", "-o", form)
    assert ran.out.startswith(start)
    assert "f21fe02b/app" in ran.out


def test_show_says_which_cpus_the_machine_has_not(capsys: Capture, folder: Path) -> None:
    ran = numawise(capsys, "state", "show", BUSY, "--machine", folder / "machine.yaml")
    assert "CPUs 16-27 of cpu_manager_state are not on this machine" in ran.err


def test_verify_finds_nothing_wrong(capsys: Capture, folder: Path) -> None:
    beside = ("--machine", folder / "machine.yaml", "--kubelet-config", folder / "kubelet.yaml")
    ran = numawise(capsys, "state", "verify", folder / "state", *beside)
    assert ran.status == 0
    assert ran.out.endswith("\nnothing found\nfor Kubernetes 1.37; not compared: --pods not given\n")


def test_verify_finds_drift(capsys: Capture, folder: Path) -> None:
    ran = numawise(
        capsys, "state", "verify", folder / "state", "--machine", folder / "drifted.yaml", "--kube", "1.34"
    )
    assert ran.status == 1
    assert "NUMA 0 has 4Mi less memory than recorded" in ran.out
    assert (
        "the kubelet would say: start memory manager error: [memorymanager] the expected machine state"
        in ran.out
    )
    assert "error NW310" in ran.out
    data = json.loads(
        numawise(
            capsys, "state", "verify", folder / "state", "--machine", folder / "drifted.yaml", "-o", "json"
        ).out
    )
    assert (data["kind"], data["errors"]) == ("KubeletStateReport", 1)
    assert [one["code"] for one in data["findings"]] == ["NW310"]


def test_verify_the_source_documents_error(capsys: Capture) -> None:
    config = SERVER / "kubelet.yaml"
    state = SERVER / "state" / "policy-none"
    ran = numawise(capsys, "state", "verify", state, "--kubelet-config", config, "--kube", "1.27")
    assert ran.status == 1
    assert 'configured policy "static" differs from state checkpoint policy "none"' in ran.out
    assert "numawise plan switch shows all steps" in ran.out


def test_repair_shows_first_and_writes_when_told(capsys: Capture, folder: Path) -> None:
    state = folder / "state"
    before = {path.name: path.read_bytes() for path in state.rglob("*") if path.is_file()}
    words = ("state", "repair", state, "--adapt-memory", "--machine", folder / "drifted.yaml")
    ran = numawise(capsys, *words)
    assert ran.status == 0
    assert ran.out.endswith("nothing was written; use --write to do so\n")
    assert {path.name: path.read_bytes() for path in state.rglob("*") if path.is_file()} == before
    ran = numawise(capsys, *words, "--write")
    assert ran.status == 0
    (kept,) = state.glob("numawise-backup-*")
    assert ran.out.endswith(f"written; the old files are in {kept}\n")
    assert (kept / MEMORY_FILE).read_bytes() == before[MEMORY_FILE]
    assert (state / CPU_FILE).read_bytes() == before[CPU_FILE]
    beside = ("--machine", folder / "drifted.yaml", "--kubelet-config", folder / "kubelet.yaml")
    assert numawise(capsys, "state", "verify", state, *beside).status == 0
    assert numawise(capsys, *words, "--write").out == "nothing to change\n"


def test_repair_as_data(capsys: Capture, folder: Path) -> None:
    pods = ("--pods", folder / "pods.json")
    ran = numawise(capsys, "state", "repair", folder / "state", "--remove-stale", *pods, "-o", "json")
    data = json.loads(ran.out)
    assert (data["kind"], data["written"], data["backup"]) == ("KubeletStateChange", False, None)
    assert {file["file"] for file in data["files"]} == {CPU_FILE, MEMORY_FILE, DEVICE_FILE}
    assert all("uid-serve" not in file["text"] for file in data["files"])


def test_repair_waits_for_the_kubelet_to_stop(capsys: Capture, folder: Path) -> None:
    state = folder / "state"
    words = ("state", "repair", state, "--drop-pod", "uid-train", "--write")
    path = state / "device-plugins" / "kubelet.sock"
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(path))
        server.listen(1)
        ran = numawise(capsys, *words)
        assert (ran.status, ran.out) == (3, "")
        assert ran.err == (
            f"numawise: a kubelet is using {state}: a process listens on {path}; stop it first "
            "(systemctl stop kubelet), or use --even-if-running\n"
        )
        assert not list(state.glob("numawise-backup-*"))
        assert numawise(capsys, *words, "--even-if-running").status == 0
    assert "uid-train" not in (state / CPU_FILE).read_text()


def test_repair_says_what_is_left(capsys: Capture, folder: Path) -> None:
    beside = ("--machine", folder / "drifted.yaml", "--kubelet-config", folder / "kubelet.yaml")
    ran = numawise(capsys, "state", "repair", folder / "state", "--drop-pod", "uid-train", *beside)
    assert ran.status == 1
    assert "\nstill wrong afterwards:\n" in ran.out
    assert "error NW310" in ran.out


def test_convert_elsewhere(capsys: Capture, folder: Path) -> None:
    out = folder / "old"
    ran = numawise(capsys, "state", "convert", folder / "state", "--to", "1.31", "--out", out)
    assert ran.status == 0
    assert "cpu_manager_state: v4 becomes v2, as 1.31 writes it\n" in ran.out
    assert f"numawise: {out / CPU_FILE} written\n" in ran.err
    older = at_work(pod("train", 4, "6Gi", 1), pod("serve", 2, "2Gi", 1), version=(1, 31))
    assert {path.name: path.read_text() for path in out.rglob("*") if path.is_file()} == older.files.texts
    ran = numawise(capsys, "state", "convert", out, "--to", "1.37", "--write")
    assert ran.status == 0
    assert (out / CPU_FILE).read_text() == (folder / "state" / CPU_FILE).read_text()
    assert numawise(capsys, "state", "convert", out, "--to", "1.37").out == "nothing to change\n"


def test_a_bundle_has_everything(capsys: Capture, tmp_path: Path) -> None:
    root = grow_node(tmp_path / "root")
    (tmp_path / "pods.json").write_text(pod_list("abc"))
    collected = gather(NodeSources(root=root, pods=(str(tmp_path / "pods.json"),), kube="1.36.4"))
    path = tmp_path / "node.tar.gz"
    path.write_bytes(packed(collected, keep_names=False, when=datetime(2026, 11, 15, tzinfo=UTC)).data)
    for words in ((path,), ("--bundle", path)):
        ran = numawise(capsys, "state", "verify", *words)
        assert ran.status == 0, ran
        assert ran.out.endswith("\nfor Kubernetes 1.36\n")
    refused(
        numawise(capsys, "state", "repair", path, "--reset", "cpu", "--write"),
        "cannot be changed in place",
        str(path),
    )


@pytest.mark.parametrize(("words", "told"), [
    pytest.param(["show", "nowhere"],                                  ["nowhere", "there is no such file or folder"], id="no folder"),
    pytest.param(["show", "empty"],                                    ["empty", "has no kubelet state files"],  id="an empty folder"),
    pytest.param(["show", "machine.yaml"],                             ["machine.yaml", "is not a kubelet state file"], id="another file"),
    pytest.param(["verify", "state", "--kube", "1.9"],                 ["--kube", "1.9"],                        id="an old release"),
    pytest.param(["verify", "state", "--machine", "nothing"],          ["'nothing' is neither a file, a folder nor a machine"], id="no machine"),
    pytest.param(["verify", "state", "--pods", "machine.yaml"],        ["machine.yaml"],                         id="no pods"),
    pytest.param(["verify", "state", "--machine", "-", "--pods", "-"], ["standard input"],                       id="standard input twice"),
    pytest.param(["repair", "state"],                                  ["nothing to repair was named", "verify"], id="nothing to repair"),
    pytest.param(["repair", "state", "--drop-pod", "x"],               ["--drop-pod", "'x' is no pod"],          id="an unknown pod"),
    pytest.param(["repair", "state", "--remove-stale"],                ["--remove-stale", "--pods"],             id="no pods to compare with"),
    pytest.param(["convert", "state", "--to", "x"],                    ["--to", "'x' is not a Kubernetes version"], id="no release"),
    pytest.param(["convert", "state", "--to", "1.31", "--out", "o", "--write"], ["exclude each other"],          id="two places"),
])  # fmt: skip
def test_bad_input(folder: Path, words: list[str], told: list[str]) -> None:
    (folder / "empty").mkdir()
    refused(program("state", *words, cwd=folder), *told)


def test_a_new_release_is_taken_for_the_newest(capsys: Capture, folder: Path) -> None:
    ran = numawise(capsys, "state", "verify", folder / "state", "--kube", "1.99")
    assert ran.status == 0
    assert ran.err.startswith("numawise: Kubernetes 1.99 is newer than any known release")


@pytest.mark.parametrize("name", ["show", "verify", "repair", "convert"])
def test_help_has_examples(capsys: Capture, name: str) -> None:
    ran = numawise(capsys, "state", name, "--help")
    assert f"numawise state {name}" in ran.out.partition("Examples:")[2]
    assert "Exit status: 0" in ran.out
