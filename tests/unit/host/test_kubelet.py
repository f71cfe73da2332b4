"""Where a kubelet's settings are: the process that runs, programs with a kubelet inside, installers' places."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from numawise.host.discover import nvidia_uuids
from numawise.host.kubelet import (
    Running,
    files_in,
    folder_seen,
    installed_configs,
    installed_flags,
    node_kubelets,
    own_arguments,
    passed_arguments,
    pod_folders,
    program_version,
    read_seen,
    read_whole,
)
from tests import needs
from tests.unit.host.trees import grow, pipe
from tests.waiting import PATIENCE, until


def process(
    pid: int,
    name: str,
    *words: str,
    state: str = "S",
    uid: int = 0,
    program: str = "/usr/bin/kubelet",
    group: str = "/system.slice/kubelet.service",
    mounts: str = "mnt:[1]",
    numbers: str = "pid:[2]",
) -> dict[str, str | bytes | None]:
    return {
        f"proc/{pid}/stat": f"{pid} ({name}) {state} 1 1 1 {' '.join(['0'] * 15)} 500 0 0",
        f"proc/{pid}/cmdline": b"\0".join(word.encode() for word in words) + b"\0",
        f"proc/{pid}/status": f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}",
        f"proc/{pid}/exe": f"-> {program}",
        f"proc/{pid}/cgroup": f"12:cpuset:/\n0::{group}",
        f"proc/{pid}/ns/mnt": f"-> {mounts}",
        f"proc/{pid}/ns/pid": f"-> {numbers}",
    }


FIRST = process(1, "systemd", "/sbin/init", program="/usr/lib/systemd/systemd", group="/init.scope")


def test_kubelets_of_their_own_program_come_first(tmp_path: Path) -> None:
    root = grow(
        tmp_path,
        FIRST
        | process(20, "k3s-server", "k3s", "server", program="/var/lib/rancher/k3s/data/current/bin/k3s")
        | process(30, "kubelet", "/usr/bin/kubelet", "--root-dir=/data", program="/usr/bin/kubelet (deleted)")
        | process(40, "kubelet", "gone", state="Z")
        | process(50, "bash", "kubelet"),
    )
    kubelets = node_kubelets(root)
    assert [kubelet.pid for kubelet in kubelets] == [30, 20]
    assert kubelets[0].directory == Path("/data")
    assert [kubelet.embedded for kubelet in kubelets] == [False, True]
    assert node_kubelets(tmp_path / "nowhere") == ()


@pytest.mark.parametrize(("differs", "reason"), [
    ({"mounts": "mnt:[7]"},                            "it is in another mount namespace, as in a container"),
    ({"numbers": "pid:[7]"},                           "it is in another process namespace, as in a container"),
    ({"uid": 1000},                                    "it does not run as root"),
    ({"program": "/home/x/miner"},                     "its program is called otherwise"),
    ({"group": "/kubepods/besteffort/pod1/ab"},        "it is in the control group of a container"),
    ({"group": "/kubepods.slice/kubepods-pod1.slice"}, "it is in the control group of a container"),
    ({"group": "/kubelet.slice/kubelet-kubepods.slice/x/cri-containerd-ab.scope"}, "it is in the control group of a container"),
    ({"group": "/system.slice/docker-ab.scope"},       "it is in the control group of a container"),
    ({"group": "/docker/" + "0a" * 32},                "it is in the control group of a container"),
    ({"group": "/../../" + "0a" * 32},                 "it is in the control group of a container"),
    ({"group": "/machine.slice/libpod-ab.scope"},      "it is in the control group of a container"),
    ({"group": "/pod.slice/crio-ab.scope"},            "it is in the control group of a container"),
    ({"group": "/lxc.payload.box/system.slice/kubelet.service"}, "it is in the control group of a container"),
    ({"group": "/a:kubepods/../docker"},               "it is in the control group of a container"),
])  # fmt: skip
def test_what_is_only_called_kubelet_does_not_count(tmp_path: Path, differs: Any, reason: str) -> None:
    root = grow(tmp_path, FIRST | process(30, "kubelet", "kubelet", "--config=/etc/shadow", **differs))
    notes: list[str] = []
    assert node_kubelets(root, notes.append) == ()
    assert notes == [f"process 30 is called kubelet, but was passed over: {reason}"]


@pytest.mark.parametrize("hidden", ["1/ns/mnt", "30/ns/mnt", "30/ns/pid", "30/cgroup", "30/exe", "30/status"])
def test_what_may_not_be_looked_at_does_not_count(tmp_path: Path, hidden: str) -> None:
    root = grow(tmp_path, FIRST | process(30, "kubelet", "kubelet"))
    assert [kubelet.pid for kubelet in node_kubelets(root)] == [30]
    (root / "proc" / hidden).unlink()
    assert node_kubelets(root) == ()


def test_inside_a_container_its_own_kubelet_counts(tmp_path: Path) -> None:
    ours = f"/docker/{'0a' * 32}"
    root = grow(
        tmp_path,
        process(1, "init", "init", group=f"{ours}/init.scope")
        | process(30, "kubelet", "kubelet", group=f"{ours}/kubelet.slice/kubelet.service")
        | process(31, "kubelet", "kubelet", group=f"{ours}/kubelet.slice/kubepods/pod1/x"),
    )
    assert [kubelet.pid for kubelet in node_kubelets(root)] == [30]


@pytest.mark.parametrize(("name", "words", "expected"), [
    pytest.param("k3s-server", ["k3s", "server", "--kubelet-arg=v=4", "--kubelet-arg", "cpu-manager-policy=static"], "--v=4 --cpu-manager-policy=static", id="passed on"),
    pytest.param("k3s-server", ["k3s", "server"],                                                "",                                       id="nothing to be seen"),
    pytest.param("kubelite",   ["kubelite", "--kubelet-args-file=/args/kubelet"],                "--cpu-manager-policy=static\n",          id="in a file"),
])  # fmt: skip
def test_what_is_passed_on(tmp_path: Path, name: str, words: list[str], expected: str) -> None:
    root = grow(tmp_path, {"args/kubelet": "--cpu-manager-policy=static"})
    assert passed_arguments(Running(7, name, tuple(words)), root) == expected


@pytest.mark.parametrize(("name", "words", "expected"), [
    pytest.param("kubelet",   ["/usr/bin/kubelet", "--v=2", "--root-dir=/x/kubelet"], ("--v=2", "--root-dir=/x/kubelet"), id="its own program"),
    pytest.param("hyperkube", ["/hyperkube", "kubelet", "--v=2"],                     ("--v=2",),                         id="one program of many"),
    pytest.param("kubelet",   ["kubelet", "kubelet", "--v=2"],                        ("kubelet", "--v=2"),               id="a word too many"),
    pytest.param("kubelet",   [],                                                     (),                                 id="nothing"),
])  # fmt: skip
def test_its_own_arguments(name: str, words: list[str], expected: tuple[str, ...]) -> None:
    assert own_arguments(Running(7, name, tuple(words))) == expected


def test_paths_are_those_of_the_process(tmp_path: Path) -> None:
    root = grow(
        tmp_path,
        {
            "etc/k.yaml": "the host's",
            "proc/7/root/etc/k.yaml": "its own",
            "proc/7/cwd/k.yaml": "beside it",
            "proc/7/root/etc/k.d": None,
        },
    )
    kubelet = Running(7, "kubelet", ("kubelet",))
    assert read_seen("/etc/k.yaml", kubelet, root).data == b"its own\n"
    assert read_seen("k.yaml", kubelet, root).data == b"beside it\n"
    assert read_seen("/etc/k.yaml", None, root).data == b"the host's\n"
    assert read_seen("/etc/other", kubelet, root).problem == "does not exist"
    assert folder_seen("/etc/k.d", kubelet, root) == root / "proc/7/root/etc/k.d"
    assert folder_seen("/etc/k.d", None, root) is None


@needs.PROC
def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    pipe(tmp_path, "etc/pipe")
    assert read_whole(tmp_path / "etc/pipe").problem == "is not a regular file"
    assert read_whole(tmp_path / "etc").problem
    assert read_whole(tmp_path / "nowhere").problem == "does not exist"
    grow(tmp_path, {"etc/link": "-> /no/such/place", "etc/broken": "-> /proc/self/mem"})
    assert read_whole(tmp_path / "etc/link").problem == "is a link that leads nowhere"
    assert read_whole(tmp_path / "etc/broken").problem == "cannot be read: Input/output error"
    assert read_whole(tmp_path / "etc/a\0b").problem == "cannot be read: its name has a zero byte"


def test_installers(tmp_path: Path) -> None:
    root = grow(
        tmp_path,
        {
            "var/lib/kubelet/config.yaml": "kind: KubeletConfiguration",
            "etc/kubernetes/kubelet/config.json": "{}",
            "lib/systemd/system/kubelet.service": "[Service]",
            "usr/lib": "-> ../lib",
            "etc/default/kubelet": "KUBELET_EXTRA_ARGS=--v=2",
        },
    )
    assert [one.path for one in installed_configs(root)] == [
        "/var/lib/kubelet/config.yaml",
        "/etc/kubernetes/kubelet/config.json",
    ]
    assert [one.path for one in installed_flags(root)] == [
        "/usr/lib/systemd/system/kubelet.service",
        "/etc/default/kubelet",
    ]


def test_drop_ins_come_by_name(tmp_path: Path) -> None:
    grow(tmp_path, {"20.conf": "", "10/b.conf": "", "10/a.conf": "", "05.conf": ""})
    assert [path.relative_to(tmp_path).as_posix() for path in files_in(tmp_path)] == [
        "05.conf",
        "10/a.conf",
        "10/b.conf",
        "20.conf",
    ]
    assert list(files_in(tmp_path / "nowhere")) == []
    (tmp_path / "10" / "again").symlink_to("..")
    assert len(list(files_in(tmp_path))) == 5  # a link is not walked into


def test_names_out_of_log_folders(tmp_path: Path) -> None:
    uid = "d8cef786c3e6fab90c6e83f71a6881b7"
    grow(tmp_path, {f"kube-system_etcd-n1_{uid}": None, "not-a-pod": None})
    assert pod_folders(tmp_path) == {uid: ("kube-system", "etcd-n1")}
    assert pod_folders(tmp_path / "nowhere") == {}


def go_program(*texts: str) -> bytes:
    """The bytes that matter of what Go's linker writes: texts that a build was given lie between zeros."""
    return b"\x7fELF" + b"\0" * 999 + b"".join(b"\0" + text.encode() + b"\0\x80W" for text in texts) + b"end"


@pytest.mark.parametrize(("texts", "expected"), [
    (["v1.36.4"],                                "v1.36.4"),
    (["v1.36.4-eks-123", "v1.36.4-eks-123"],     "v1.36.4-eks-123"),
    (["v1.30.4+k3s1", "v1.7.20-k3s1", "v1.30.0-k3s2"], "v1.30.4+k3s1"),
    (["v1.36.4", "v1.35.1"],                     ""),
    (["1.36.4", "v1.36", "v1.36.4 rm -rf", "v1.36.4+" + "x" * 60, "v2.36.4"], ""),
    (["xv1.36.4"],                               ""),
])  # fmt: skip
def test_versions_are_read_and_nothing_is_run(tmp_path: Path, texts: list[str], expected: str) -> None:
    kubelet = Running(30, "kubelet", ("kubelet",))
    root = grow(
        tmp_path, {"proc/30/exe": "-> /opt/kubelet", "opt/kubelet": go_program(*texts), "usr/bin": None}
    )
    assert program_version(kubelet, root) == expected
    assert program_version(None, root) == ""
    (root / "usr/bin/kubelet").write_bytes(go_program(*texts))
    assert program_version(None, root) == expected


def test_a_version_across_two_reads(tmp_path: Path) -> None:
    for shift in range(-8, 2):
        data = b"x" * ((1 << 20) + shift) + b"\0v1.36.4\0" + b"x" * 5000
        root = grow(tmp_path / str(shift), {"usr/bin/kubelet": data})
        assert program_version(None, root) == "v1.36.4", shift


def test_programs_that_are_none(tmp_path: Path) -> None:
    pipe(tmp_path, "usr/bin/kubelet")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/kubelet").write_bytes(b"".join(b"\0v1.%d.1\0" % (20 + n % 80) for n in range(100_000)))
    assert program_version(None, tmp_path) == ""


WATCHED = """
import sys
from numawise.cli.main import main
started = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.fork")
sys.addaudithook(lambda event, arguments: event in started and print("STARTED", event, arguments))
sys.exit(main(sys.argv[1:]))
"""


@needs.MOUNTS
@pytest.mark.parametrize("apart", [False, True])
def test_nothing_that_a_process_brings_is_run(tmp_path: Path, apart: bool) -> None:  # noqa: FBT001 - a column
    """A process of root with a program called kubelet; ``apart``: with mounts of its own, as in a container."""
    program = tmp_path / "kubelet"
    shutil.copy(str(shutil.which("sh")), program)
    words = [str(program), "-c", "read -r line; exit", "--config=/etc/numawise-no-such-file"]
    fake = subprocess.Popen([*(["unshare", "-m"] if apart else []), *words], stdin=subprocess.PIPE)
    try:
        until(lambda: Path(f"/proc/{fake.pid}/comm").read_text().strip() == "kubelet", "its name")
        command = [sys.executable, "-c", WATCHED, "bundle", "-o", str(tmp_path / "bundle.tar.gz")]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        fake.communicate(b"\n", timeout=PATIENCE)
    assert (ran.returncode, ran.stdout) == (0, "")
    passed_over = (
        f"process {fake.pid} is called kubelet, but was passed over: it is in another mount namespace"
    )
    assert (passed_over in ran.stderr) == apart
    assert ("/etc/numawise-no-such-file does not exist" in ran.stderr) != apart


def test_uuids_that_the_driver_tells(tmp_path: Path) -> None:
    uuid = "01234567-89ab-cdef-0123-456789ABCDEF"
    root = grow(
        tmp_path,
        {
            "proc/driver/nvidia/gpus/0000:17:00.0/information": f"Model: \t\t NVIDIA H200\nGPU UUID: \t {'GPU-' + uuid}\nBus Location: \t 0000:17:00.0",
            "proc/driver/nvidia/gpus/0000:18:00.0/information": "GPU UUID: \t GPU-????????-????-????-????-????????????",
        },
    )
    assert nvidia_uuids(root) == {uuid.lower(): "0000:17:00.0"}
