"""Where a kubelet's settings are: the process that runs, programs with a kubelet inside, installers' places."""

import os
from pathlib import Path

import pytest

from numawise.host.discover import nvidia_uuids
from numawise.host.kubelet import (
    Running,
    command_line,
    files_in,
    folder_seen,
    installed_configs,
    installed_flags,
    pod_folders,
    read_seen,
    read_whole,
    reported_version,
    running_kubelets,
)
from tests.unit.host.trees import grow, pipe


def process(
    pid: int, name: str, *words: str, state: str = "S", uid: int = 0
) -> dict[str, str | bytes | None]:
    return {
        f"proc/{pid}/stat": f"{pid} ({name}) {state} 1 1 1 {' '.join(['0'] * 15)} 500 0 0",
        f"proc/{pid}/cmdline": b"\0".join(word.encode() for word in words) + b"\0",
        f"proc/{pid}/status": f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}",
    }


def test_the_kubelet_of_root_comes_first(tmp_path: Path) -> None:
    root = grow(
        tmp_path,
        process(10, "kubelet", "/home/x/kubelet", "--config=/etc/shadow", uid=1000)
        | process(20, "k3s-server", "k3s", "server")
        | process(30, "kubelet", "/usr/bin/kubelet", "--root-dir=/data")
        | process(40, "kubelet", "gone", state="Z")
        | process(50, "bash", "kubelet"),
    )
    found = running_kubelets(root)
    assert [one.pid for one in found] == [30, 10, 20]
    assert found[0].directory == Path("/data")
    assert [one.embedded for one in found] == [False, False, True]
    assert running_kubelets(tmp_path / "nowhere") == ()


@pytest.mark.parametrize(("name", "words", "expected"), [
    pytest.param("kubelet",    ["kubelet", "--v=2", "--config", "/a b"],                         "--v=2 --config '/a b'",                  id="its own"),
    pytest.param("k3s-server", ["k3s", "server", "--kubelet-arg=v=4", "--kubelet-arg", "cpu-manager-policy=static"], "--v=4 --cpu-manager-policy=static", id="passed on"),
    pytest.param("k3s-server", ["k3s", "server"],                                                "",                                       id="nothing to be seen"),
    pytest.param("kubelite",   ["kubelite", "--kubelet-args-file=/args/kubelet"],                "--cpu-manager-policy=static\n",          id="in a file"),
])  # fmt: skip
def test_command_lines(tmp_path: Path, name: str, words: list[str], expected: str) -> None:
    root = grow(tmp_path, {"args/kubelet": "--cpu-manager-policy=static"})
    assert command_line(Running(7, name, tuple(words)), root) == expected


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


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    pipe(tmp_path, "etc/pipe")
    assert read_whole(tmp_path / "etc/pipe").problem == "is not a regular file"
    assert read_whole(tmp_path / "etc").problem
    assert "cannot be read" in read_whole(tmp_path / "nowhere").problem


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


def test_names_out_of_log_folders(tmp_path: Path) -> None:
    uid = "d8cef786c3e6fab90c6e83f71a6881b7"
    grow(tmp_path, {f"kube-system_etcd-n1_{uid}": None, "not-a-pod": None})
    assert pod_folders(tmp_path) == {uid: ("kube-system", "etcd-n1")}
    assert pod_folders(tmp_path / "nowhere") == {}


def test_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "kubelet"
    program.write_text('#!/bin/sh\necho "Kubernetes v1.36.4-eks-123"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert reported_version(None) == "v1.36.4-eks-123"
    monkeypatch.setenv("PATH", "/nowhere")
    assert reported_version(None) == ""
    assert reported_version(Running(os.getpid(), "kubelet", ("x",))) == ""  # Python says something else
    assert reported_version(Running(2**22 + 1, "kubelet", ("x",))) == ""


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
