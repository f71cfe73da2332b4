"""``numawise flags``: of this machine, of another, of a hold that runs; and every kind of bad input."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from numawise.apps.launch.flags import _unit_text
from numawise.cli.flags import FORMATS
from numawise.host import mempolicy
from tests import needs
from tests.cli.run import ROOT, numawise, refused

MACHINE = "2s 2n 8c 2t 4gpu"
RUN = (sys.executable, "-m", "numawise", "run", "-q", "--mode", "affinity")
binds_memory = pytest.mark.skipif(bool(mempolicy.problem()), reason="memory policies are refused here")


@pytest.fixture(autouse=True)
def _ledger(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("NUMAWISE_", "OMP_", "GOMP_", "CUDA_", "LOCAL_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NUMAWISE_LEDGER", str(tmp_path / "ledger.db"))
    monkeypatch.setenv("NUMAWISE_RESERVED_CPUS", "none")


@pytest.fixture
def held() -> Iterator[str]:
    """A hold of one CPU, by the name of ``train``."""
    with subprocess.Popen(
        [*RUN, "--cpus", "1", "--name", "train", "--", "sh", "-c", "echo ready; exec sleep 3600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        yield "train"
        running.terminate()


def test_all_programs(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "flags", "--cpus", 4, "--memory", "8g", "--gpus", 1, "--machine", MACHINE)
    assert ran.status == 0
    headings = [line[2:] for line in ran.out.splitlines() if line.startswith("# ") and line[2:] in FORMATS]
    assert headings == list(FORMATS)
    assert "numactl --physcpubind=0-1,8-9 --preferred=0 COMMAND" in ran.out
    assert "numawise: taskset: memory is not bound to NUMA node 0" in ran.err


def test_one_program_alone_has_no_heading(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "flags", "--cpus", 4, "--machine", MACHINE, "--format", "taskset")
    assert ran.out == "taskset --cpu-list 0-1,8-9 COMMAND\n"


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(
        capsys,
        "flags",
        "--cpus",
        2,
        "--gpu-ids",
        2,
        "--machine",
        MACHINE,
        "-o",
        "json",
        "--format",
        "numactl",
        "--format",
        "env",
    )
    found = json.loads(ran.out)
    assert (found["apiVersion"], found["kind"]) == ("numawise.dev/v1", "Flags")
    assert found["placement"]["gpus"][0]["name"] == "GPU2"
    assert list(found["formats"]) == ["numactl", "env"]
    assert found["formats"]["numactl"]["argv"][1:3] == ["--physcpubind=4,12", "--preferred=1"]
    assert found["environment"]["OMP_PLACES"] == "{4,12}"
    assert not [name for name in found["environment"] if name.startswith("NUMAWISE")]


@needs.PROC
@needs.SYS
def test_this_machine_and_nothing_is_held(capsys: pytest.CaptureFixture[str]) -> None:
    first = numawise(capsys, "flags", "--cpus", 1, "--format", "taskset")
    assert first.status == 0
    assert numawise(capsys, "flags", "--cpus", 1, "--format", "taskset").out == first.out
    cpu = int(first.out.split()[2])
    done = subprocess.run(
        first.out.replace("COMMAND", "nproc"), shell=True, capture_output=True, text=True, check=False
    )
    if "not found" not in done.stderr:
        assert done.stdout == "1\n", f"CPU {cpu}"


@needs.PROC
@needs.SYS
@binds_memory
def test_a_hold(capsys: pytest.CaptureFixture[str], held: str) -> None:
    ran = numawise(capsys, "flags", "--hold", held, "--format", "env")
    assert ran.status == 0
    assert "export NUMAWISE_NAME=train\n" in ran.out
    cpu = next(
        line.partition("=")[2] for line in ran.out.splitlines() if line.startswith("export NUMAWISE_CPUS")
    )
    every = len(os.sched_getaffinity(0))
    if every > 1:
        other = numawise(capsys, "flags", "--cpus", 1, "--format", "taskset").out.split()[2]
        assert other != cpu
    no = numawise(capsys, "flags", "--cpus", every)
    assert no.status == 1
    assert no.err.startswith("numawise: no room: ")
    assert "train" in no.err


@needs.PROC
@needs.SYS
@binds_memory
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_ranks_within_a_hold(tmp_path: Path) -> None:
    """run, a launcher, and bind: each rank has its own part of the hold, and the threads of that part."""
    script = tmp_path / "launcher"
    script.write_text(
        "#!/bin/sh\nfor rank in 0 1; do\n"
        f"  LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 {sys.executable} -m numawise bind -- sh -c "
        "'echo $(taskset -cp $$ | sed s/.*://) $OMP_NUM_THREADS $OMP_PLACES $NUMAWISE_NAME'\ndone\n"
    )
    script.chmod(0o755)
    done = subprocess.run(
        [*RUN, "--cpus", "2", "--name", "both", "--", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    first, second = (line.split() for line in done.stdout.splitlines())
    assert first[1:] == ["1", f"{{{first[0]}}}", "both"]
    assert second[1:] == ["1", f"{{{second[0]}}}", "both"]
    assert first[0] != second[0]


# fmt: off
@pytest.mark.parametrize(("arguments", "words"), [
    pytest.param(["--cpus", "4000"],                                  ["4000 CPUs"],                        marks=needs.SYS, id="more than the machine has"),
    pytest.param(["--gpus", "9", "--machine", MACHINE],               ["9 GPUs"],                           id="more GPUs than the machine has"),
    pytest.param(["--gpu-ids", "GPU77", "--machine", MACHINE],        ["GPU77"],                            id="no such GPU"),
    pytest.param(["--cpus", "x"],                                     ["--cpus", "'x'"],                    id="no number"),
    pytest.param(["--hold", "nosuch"],                                ["'nosuch'", "numawise ps"],           marks=needs.PROC, id="no such hold"),
    pytest.param(["--hold", "x", "--cpus", "2"],                      ["--hold and --cpus"],                id="a hold and a wish"),
    pytest.param(["--hold", "x", "--device", "nvme=1"],               ["--hold and --device"],              id="a hold and a device"),
    pytest.param(["--hold", "x", "--machine", MACHINE],               ["--hold and --machine"],             id="a hold and another machine"),
    pytest.param(["--machine", "nosuch"],                             ["'nosuch'"],                         id="no such machine"),
])
def test_bad_input(capsys: pytest.CaptureFixture[str], arguments: list[str], words: list[str]) -> None:
    refused(numawise(capsys, "flags", *arguments), *words)
# fmt: on


@pytest.mark.parametrize(("machine", "resource", "variable"), [
    pytest.param("mi300x",   "amd.com/gpu",    "ROCR_VISIBLE_DEVICES", id="AMD"),
    pytest.param("dgx-h100", "nvidia.com/gpu", "CUDA_VISIBLE_DEVICES", id="NVIDIA"),
])  # fmt: skip
def test_the_maker_of_a_gpu_survives_a_machine_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, machine: str, resource: str, variable: str
) -> None:
    file = tmp_path / "machine.yaml"
    file.write_text(numawise(capsys, "machine", "new", machine).out)
    saved = tmp_path / "hardware.json"
    saved.write_text(numawise(capsys, "show", file, "-o", "json").out)
    for name in (machine, file, saved):
        ran = numawise(
            capsys, "flags", "--cpus", 4, "--memory", "8g", "--gpus", 1, "--machine", name, "-o", "json"
        )
        formats = json.loads(ran.out)["formats"]
        assert f'{resource}: "1"' in formats["kubernetes"]["text"]
        assert f"export {variable}=0\n" in formats["env"]["text"]


def test_gpus_of_an_unknown_maker_get_no_variables(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "machine.yaml"
    file.write_text(
        numawise(capsys, "machine", "new", "2s 2n 8c 2gpu").out.replace("nvidia.com/gpu", "example.com/gpu")
    )
    ran = numawise(capsys, "flags", "--cpus", 2, "--gpus", 1, "--machine", file, "-o", "json")
    formats = json.loads(ran.out)["formats"]
    assert 'example.com/gpu: "1"' in formats["kubernetes"]["text"]
    assert "VISIBLE_DEVICES" not in formats["env"]["text"]
    assert "the maker of GPU0 is unknown" in formats["docker"]["text"]


@pytest.mark.parametrize("size", ["64g", "64G", "64Gi", "64GiB"])
def test_a_size_means_the_same_in_every_command(capsys: pytest.CaptureFixture[str], size: str) -> None:
    machine = ("--machine", "8gpu-server")
    asked = ("--cpus", 8, "--memory", size)
    ran = numawise(capsys, "run", "--dry-run", *machine, *asked, "-o", "json", "--", "true")
    assert json.loads(ran.out)["memory"] == 64 << 30
    ran = numawise(capsys, "flags", *machine, *asked, "-o", "json")
    assert json.loads(ran.out)["placement"]["memory"] == 64 << 30
    ran = numawise(capsys, "docker", "--print", *machine, *asked, "-o", "json", "--", "run", "box")
    assert json.loads(ran.out)["memory"] == 64 << 30
    ran = numawise(capsys, "plan", "pod", *machine, "--image", "box", *asked)
    assert "memory: 64Gi" in ran.out
    ran = numawise(capsys, "plan", "kubelet", *machine, "--reserve-memory", size)
    assert "64Gi" in ran.out


def test_a_bad_size_is_refused_in_the_same_words(capsys: pytest.CaptureFixture[str]) -> None:
    told = "--memory: '64x' is not a size; write it like 64g, 64Gi or 512m"
    refused(numawise(capsys, "run", "--memory", "64x", "--", "true"), told)
    refused(numawise(capsys, "plan", "pod", "--machine", "dgx-h100", "--image", "x", "--memory", "64x"), told)


@pytest.mark.parametrize(
    "command",
    [("flags", "--format", "systemd"), ("run", "--dry-run"), ("docker", "--print"), ("flags", "-o", "json")],
    ids=" ".join,
)
@pytest.mark.parametrize(("field", "value"), [
    pytest.param("uuid",     "GPU-1\nExecStart=/bin/sh -c evil",  id="a line of a unit"),
    pytest.param("uuid",     'GPU-1" --privileged "',             id="quotes"),
    pytest.param("uuid",     "GPU-1,GPU-2",                       id="two in one"),
    pytest.param("uuid",     "GPU-1 %n",                          id="a specifier"),
    pytest.param("uuid",     "GPU-\x1b[31m",                      id="an escape"),
    pytest.param("name",     "GPU0\n",                            id="a name"),
    pytest.param("resource", 'x.io/gpu: "1"\n    evil',           id="a resource"),
])  # fmt: skip
def test_a_device_that_is_no_plain_word_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: tuple[str, ...], field: str, value: str
) -> None:
    hardware = json.loads(numawise(capsys, "show", "1s 2n 4c 1gpu", "-o", "json").out)
    hardware["gpu_devices"][0][field] = value
    file = tmp_path / "hardware.json"
    file.write_text(json.dumps(hardware))
    after = {"run": ("--", "true"), "docker": ("--", "run", "image")}.get(command[0], ())
    ran = numawise(capsys, *command, "--machine", file, "--cpus", 1, "--gpus", 1, *after)
    refused(
        ran, "cannot be the name of a device; in the machine's file, use letters, digits and . _ : / - alone"
    )


def test_values_in_a_unit_file_stay_on_their_line() -> None:
    assert _unit_text('A=a\nb"c\\d%e\x1b') == r'"A=a\nb\"c\\d%%e\x1b"'
