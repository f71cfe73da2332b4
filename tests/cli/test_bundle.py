"""``numawise bundle``: made, shown, refused, and taken by every other command."""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from numawise.codec.bundle.manifest import Names, key_of
from numawise.codec.checkpoint import encode_devices
from numawise.engine.state import DeviceFile
from tests import needs
from tests.cli.run import Ran, numawise, program, refused
from tests.kube.server import Server, State, kubeconfig, serving
from tests.nodetree import CONFIG, MACHINE_ID, grow_node, pod, pod_list

NAMES = Names(key_of(MACHINE_ID))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pods.json").write_text(pod_list())
    return grow_node(tmp_path / "root")


@pytest.fixture
def node(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    made = make(
        capsys, root, "-o", tmp_path / "node.tar.gz", "--pods", tmp_path / "pods.json", "--kube", "1.36.4"
    )
    assert made.status == 0, made
    return tmp_path / "node.tar.gz"


def make(capsys: pytest.CaptureFixture[str], root: Path, *more: object) -> Ran:
    return numawise(capsys, "bundle", "--root", root, *more)


# --- making ---------------------------------------------------------------------------------


def test_a_kubelet_folder_is_named_from_here(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(root / "var/lib")
    ran = numawise(capsys, "bundle", "--kubelet-dir", "kubelet", "-o", tmp_path / "node.tar.gz")
    assert ran.status == 0, ran
    assert "cpu_manager_state" not in ran.err, "it is inside"


def test_it_says_what_it_wrote_and_what_is_missing(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = make(capsys, root)
    assert (ran.status, ran.out) == (0, "")
    first, *rest = ran.err.splitlines()
    (file,) = tmp_path.glob("numawise-bundle-*.tar.gz")
    assert first.startswith(f"{file.name}: ")
    assert any(
        "not inside: kubelet version: no program of a kubelet was found that shows it; give --kube VERSION"
        in line
        for line in rest
    )
    assert file.stat().st_mode & 0o777 == 0o600


def test_standard_output(root: Path) -> None:
    import subprocess  # noqa: PLC0415 - bytes are wanted here
    import sys  # noqa: PLC0415

    words = [sys.executable, "-m", "numawise", "bundle", "--root", str(root), "-o", "-"]
    done = subprocess.run(words, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as found:
        assert "numawise-bundle/manifest.json" in found.getnames()
    assert b"not inside" in done.stderr


@pytest.mark.parametrize(("flags", "words"), [
    pytest.param(["--root", "/no/such/place"],                 ["/no/such/place", "is not a folder"],         id="no root"),
    pytest.param(["--pods", "/no/such/file"],                  ["/no/such/file", "there is no such file"],    id="no pods"),
    pytest.param(["--kubelet-config", "/no/such/file"],        ["/no/such/file", "check --kubelet-config"],   id="no configuration"),
    pytest.param(["--configz", "/no/such/file"],               ["/no/such/file", "there is no such file"],    id="no configz"),
    pytest.param(["-o", "/no/such/place/x.tar.gz"],            ["/no/such/place/x.tar.gz", "cannot be written"], id="nowhere to write"),
])  # fmt: skip
def test_bad_input(
    root: Path, capsys: pytest.CaptureFixture[str], flags: list[str], words: list[str]
) -> None:
    refused(make(capsys, root, *flags), *words)


def test_configz_that_is_none(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text('{"kind": "Pod"}')
    refused(make(capsys, root, "--configz", tmp_path / "x.json"), "x.json", "is not a configz response")


def test_nobody_at_an_address(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = make(capsys, root, "--pods", "http://127.0.0.1:1/pods")
    assert ran.status == 5
    assert "http://127.0.0.1:1/pods cannot be reached" in ran.err


@needs.PROC
@pytest.mark.parametrize(("path", "reason"), [
    ("etc/kubelet.yaml",                               "configuration: /etc/kubelet.yaml cannot be read: Input/output error"),
    ("var/lib/kubelet/cpu_manager_state",              "cpu_manager_state: /var/lib/kubelet/cpu_manager_state is a link, which no kubelet makes"),
    ("run/manifests/a.yaml",                           "a static pod: /run/manifests/a.yaml cannot be read: Input/output error"),
    ("etc/machine-id",                                 ""),
    ("etc/os-release",                                 ""),
    ("proc/238/cmdline",                               "configuration: no kubelet is running here"),
    ("proc/238/status",                                "was passed over"),
    ("proc/238/cgroup",                                "was passed over"),
    ("sys/devices/system/node/node0/meminfo",          ""),
])  # fmt: skip
def test_files_that_cannot_be_read(
    root: Path, capsys: pytest.CaptureFixture[str], path: str, reason: str
) -> None:
    place = root / path
    place.unlink(missing_ok=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to("/proc/self/mem")
    ran = make(capsys, root, "-o", root / "b.tar.gz", "--kube", "1.36")
    assert ran.status == 0, ran.err
    assert reason in ran.err
    assert numawise(capsys, "bundle", "show", root / "b.tar.gz").status == 0


@needs.PROC
@pytest.mark.parametrize("option", ["--pods", "--configz", "--kubelet-config"])
def test_named_files_that_cannot_be_read(root: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    refused(
        make(capsys, root, option, "/proc/self/mem"), "/proc/self/mem", "cannot be read: Input/output error"
    )


@needs.PROC
def test_bundles_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused(
        numawise(capsys, "bundle", "show", "/proc/self/mem"), "/proc/self/mem: cannot be read: Input/output"
    )
    refused(numawise(capsys, "bundle", "show", tmp_path / "gone.tar.gz"), "there is no such file")


@pytest.mark.parametrize(
    "metadata", [[], ["x"], "x", 7, {"annotations": ["x"]}, {"annotations": "x"}, {"name": ["x"]}]
)
def test_pods_whose_metadata_are_none(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], metadata: object
) -> None:
    odd = pod("d") | {"kind": "Pod", "metadata": metadata}
    (root / "run/manifests").mkdir(parents=True)
    (root / "run/manifests/odd.json").write_text(json.dumps(odd))
    (tmp_path / "odd.json").write_text(
        json.dumps({"kind": "List", "items": [odd, pod("a") | {"kind": "Pod"}]})
    )
    ran = make(capsys, root, "-o", tmp_path / "b.tar.gz", "--pods", tmp_path / "odd.json", "--kube", "1.36")
    assert ran.status == 0, ran.err
    shown = json.loads(numawise(capsys, "bundle", "show", tmp_path / "b.tar.gz", "-o", "json").out)
    assert shown["pods"] >= 1
    folder = tmp_path / "unpacked"
    with tarfile.open(tmp_path / "b.tar.gz") as packed:
        for entry in packed:
            (folder / entry.name).parent.mkdir(parents=True, exist_ok=True)
            (folder / entry.name).write_bytes(stream.read() if (stream := packed.extractfile(entry)) else b"")
    (folder / "numawise-bundle/pods.json").write_text(json.dumps({"kind": "List", "items": [odd]}))
    for words in (
        ["bundle", "show"],
        ["check", "--bundle"],
        ["why", "--bundle"],
        ["state", "show"],
        ["show"],
    ):
        assert numawise(capsys, *words, folder / "numawise-bundle").status in (0, 1, 2), words


# --- with the API server --------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    info = {
        "kubeletVersion": "v1.36.4",
        "machineID": MACHINE_ID,
        "containerRuntimeVersion": "containerd://1.6",
    }
    state = State(
        pods=[pod(letter) for letter in "abcd"],
        nodes={"n1": {"metadata": {"name": "n1"}, "status": {"nodeInfo": info}}},
        configz={"n1": yaml.safe_load(CONFIG.replace("single-numa-node", "restricted"))},
    )
    with serving(state) as running:
        kubeconfig(tmp_path / "config", running.address)
        yield running


def test_node_pods_and_configz_of_the_cluster(
    server: Server, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "node.tar.gz"
    ran = make(capsys, root, "-o", out, "--kubeconfig", tmp_path / "config")
    assert ran.status == 0, ran
    assert "topologyManagerPolicy: the running kubelet uses a different value than its files" in ran.err
    told = json.loads(numawise(capsys, "bundle", "show", out, "-o", "json").out)
    assert told["versions"]["kubelet"] == "v1.36.4"
    assert told["versions"]["runtime"] == "containerd://1.6"
    assert told["pods"] == 4
    assert told["sources"]["pods"] == "the API server (4)"
    assert told["sources"]["configz"] == "the API server"
    assert server.state.asked


def test_configz_may_be_forbidden(
    server: Server, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.state.forbidden = {"/proxy/"}
    ran = make(capsys, root, "-o", tmp_path / "x.tar.gz", "--kubeconfig", tmp_path / "config")
    assert ran.status == 0
    assert "not inside: configz: you may not get nodes/proxy of node n1 (403)" in ran.err


def test_another_node(server: Server, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = make(capsys, root, "--kubeconfig", tmp_path / "config", "--node", "n7")
    assert ran.status == 5
    assert "there is no node 'n7'" in ran.err
    assert server.state.asked


# --- showing --------------------------------------------------------------------------------


def test_show(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "bundle", "show", node)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith(f"Node {NAMES.name('node', 'n1')}, collected ")
    assert "4 pods, 1 of them refused by the kubelet" in ran.out
    assert "policy static, checksum right" in ran.out
    assert "manifest.json" not in ran.out


def test_show_as_json(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(numawise(capsys, "bundle", "show", node, "-o", "json").out)
    assert (found["apiVersion"], found["kind"]) == ("numawise.dev/v1", "Bundle")
    assert found["state"]["cpu_manager_state"] == {"policy": "static", "format": "v2", "checksum": True}
    assert {one["name"] for one in found["members"]} >= {"machine.yaml", "kubelet.yaml", "pods.json"}


@pytest.mark.parametrize("content", [b"", b"hello", b"\x1f\x8b\x08"])
def test_no_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    path = tmp_path / "x.tar.gz"
    path.write_bytes(content)
    refused(numawise(capsys, "bundle", "show", path), str(path))


def test_an_archive_that_leads_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.tar.gz"
    with tarfile.open(path, "w:gz") as out:
        entry = tarfile.TarInfo("../evil")
        out.addfile(entry)
    for words in (["bundle", "show"], ["why", "--bundle"], ["simulate", "--bundle"], ["check", "--bundle"]):
        more = ["x.yaml"] if words[0] == "simulate" else []
        refused(numawise(capsys, *words, path, *more), "'../evil' points outside the bundle")
    assert not (tmp_path.parent / "evil").exists()


# --- every other command --------------------------------------------------------------------


def test_why(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "why", "--bundle", node, "-o", "json")
    assert (ran.status, ran.err) == (1, "")
    (found,) = json.loads(ran.out)["pods"]
    assert found["name"] == NAMES.name("pod", "train-c-n1")
    assert found["answer"] == (
        "Rejected, not now (2 pods hold 2 example.com/gpu): example.com/gpu: 1 is asked for and none is free "
        "(2 in all, 2 in use)"
    )
    removal = next(one for one in found["suggestions"] if one.get("remove"))
    names = {NAMES.name("pod", f"train-{letter}-n1") for letter in "ab"}
    assert any(name in removal["text"] for name in names)


def test_why_by_name_file_and_other_nodes(
    node: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = NAMES.name("pod", "train-a-n1")
    ran = numawise(capsys, "why", "--bundle", node, name)
    assert ran.status == 0
    assert "everything on NUMA 0" in ran.out
    (tmp_path / "pod.json").write_text(json.dumps(pod("c", name="fresh", uid="fresh") | {"kind": "Pod"}))
    assert numawise(capsys, "why", "--bundle", node, tmp_path / "pod.json").status == 1
    empty = grow_node(tmp_path / "empty")
    for state in ("cpu_manager_state", "memory_manager_state"):
        (empty / "var/lib/kubelet" / state).unlink()
    record = encode_devices(DeviceFile({}, {"example.com/gpu": frozenset({"gpu0", "gpu1"})}))
    (empty / "var/lib/kubelet/device-plugins/kubelet_internal_checkpoint").write_text(record)
    other = tmp_path / "other.tar.gz"
    assert make(capsys, empty, "-o", other, "--keep-names", "--node", "n8").status == 0
    ran = numawise(capsys, "why", "--bundle", node, "--node", other, tmp_path / "pod.json", "-o", "json")
    (found,) = json.loads(ran.out)["pods"]
    assert any(one.get("node") == "n8" for one in found["suggestions"]), found["suggestions"]
    refused(numawise(capsys, "why", "--bundle", node, "nobody"), "nobody", "there is no such file")


def test_why_without_refused_pods(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "x.tar.gz"
    (tmp_path / "pods.json").write_text(pod_list("ab"))
    assert make(capsys, root, "-o", out, "--kube", "1.36", "--pods", tmp_path / "pods.json").status == 0
    refused(numawise(capsys, "why", "--bundle", out), "lists no pod that the kubelet refused")


def test_a_kubelet_that_would_not_start(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = root / "var/lib/kubelet/cpu_manager_state"
    state.write_text(state.read_text().replace("151694320", "7"))
    out = tmp_path / "x.tar.gz"
    pods = ("--pods", tmp_path / "pods.json")
    assert make(capsys, root, "-o", out, "--kube", "1.36", *pods).status == 0
    assert "checksum wrong" in numawise(capsys, "bundle", "show", out).out
    ran = numawise(capsys, "why", "--bundle", out)
    assert ran.status == 1
    assert ran.out.startswith("The kubelet does not start (cpu-manager-start): ")
    assert "could not restore state from checkpoint" in " ".join(ran.out.split())


def test_simulate(node: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pod.json").write_text(json.dumps(pod("c") | {"kind": "Pod", "apiVersion": "v1"}))
    ran = numawise(capsys, "simulate", "--bundle", node, "-o", "json", tmp_path / "pod.json")
    assert ran.status == 1
    found = json.loads(ran.out)
    assert found["kubernetes"] == "1.36"
    assert found["pods"][0]["reason"] == "TopologyAffinityError"


def test_show_check_state_and_plan(node: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawn = numawise(capsys, "show", node)
    assert drawn.status == 0
    assert drawn.out.splitlines()[0] == NAMES.name("node", "n1")
    found = json.loads(numawise(capsys, "check", "--bundle", node, "-o", "json").out)
    assert found["errors"] == 0
    assert any(one["file"] == f"{node}/pods.json" for one in found["findings"])
    assert numawise(capsys, "state", "verify", node).status == 0
    held = json.loads(numawise(capsys, "state", "show", node, "-o", "json").out)
    assert NAMES.name("pod", "train-a-n1") in json.dumps(held)
    planned = numawise(capsys, "plan", "kubelet", "--bundle", node)
    assert yaml.safe_load(planned.out)["kind"] == "KubeletConfiguration"
    (tmp_path / "new.yaml").write_text(CONFIG.replace("single-numa-node", "restricted"))
    switched = numawise(capsys, "plan", "switch", node, tmp_path / "new.yaml", "-o", "json")
    assert switched.status in (0, 1), switched
    refused(numawise(capsys, "plan", "switch", node, node), "does not have all of a configuration")


@pytest.mark.parametrize("option", ["--machine", "--kubelet-config", "--state"])
def test_a_bundle_in_place_of_one_part(
    node: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    folder = tmp_path / "parts"
    with tarfile.open(node) as packed:
        for entry in packed:  # by hand: Python before 3.11.4 knows no filter for extraction
            place = folder / entry.name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(stream.read() if (stream := packed.extractfile(entry)) else b"")
    inside = folder / "numawise-bundle"
    parts = {
        "--machine": inside / "machine.yaml",
        "--kubelet-config": inside / "kubelet.yaml",
        "--state": inside / "state",
    }
    (tmp_path / "pod.json").write_text(json.dumps(pod("c") | {"kind": "Pod"}))
    flags = [word for name, path in (parts | {option: node}).items() for word in (name, path)]
    ran = numawise(capsys, "why", *flags, "--kube", "1.36", tmp_path / "pod.json")
    assert ran.status == 1
    cause = "example.com/gpu: 1 is asked for and none is free (2 in all, 2 in use)"
    assert f"Rejected, not now (2 pods hold 2 example.com/gpu): {cause}" in " ".join(ran.out.split())


def test_help_shows_examples() -> None:
    ran = program("bundle", "--help")
    assert ran.status == 0
    assert "numawise bundle show node7.tar.gz" in ran.out
