"""``numawise docker``, ``podman`` and ``nerdctl`` with ``--print``, and what they refuse."""

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.run import EXAMPLES, numawise, process, refused

SERVER = EXAMPLES / "8gpu-server" / "machine.yaml"
TRAIN = "run -d --name ai-training-gpu0 --shm-size=16g -v /data:/data my-training-image:latest python train.py --gpu 0"


@pytest.fixture(autouse=True)
def own_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ledger that must stay as it is: absent."""
    for name in (
        "DOCKER_HOST",
        "DOCKER_CONTEXT",
        "CONTAINER_HOST",
        "CUDA_VISIBLE_DEVICES",
        "NVIDIA_VISIBLE_DEVICES",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NUMAWISE_LEDGER", str(tmp_path / "ledger.db"))
    return tmp_path / "ledger.db"


def printed(
    capsys: pytest.CaptureFixture[str], flags: str, words: str, engine: str = "docker"
) -> tuple[str, str]:
    ran = numawise(capsys, engine, "--machine", SERVER, *flags.split(), "--print", "--", *shlex.split(words))
    assert ran.status == 0, ran
    return ran.out, ran.err


# fmt: off
@pytest.mark.parametrize(("flags", "words", "gpus", "cpus", "mems"), [
    pytest.param("--gpu-ids 0",  TRAIN,                   "0",         "0-31,64-95",  "0",   id="one GPU, shared CPUs near to it"),
    pytest.param("--gpus 4",     "run -d box",            "0,1,2,3",   "0-31,64-95",  "0",   id="four GPUs of one node"),
    pytest.param("--gpu-ids 4,5,6,7", "run -d box",       "4,5,6,7",   "32-63,96-127", "1",  id="the other node"),
    pytest.param("--cpus 16 --gpu-ids 0", "run -m 32g box", "0",       "1-8,65-72",   "0",   id="CPUs of its own, the first core kept back"),
    pytest.param("--gpu-ids 0,1,2,3,4", "run -d box",     "0,1,2,3,4", "0-127",       "0-1", id="across nodes"),
])
def test_the_documents_machine(
    capsys: pytest.CaptureFixture[str], own_ledger: Path, flags: str, words: str, gpus: str, cpus: str, mems: str
) -> None:
    out, _ = printed(capsys, f"{flags} --memory-policy bind", words)
    lines = out.splitlines()
    assert lines[:4] == ["docker run \\", f"  --gpus '\"device={gpus}\"' \\", f"  --cpuset-cpus={cpus} \\", f"  --cpuset-mems={mems} \\"]
    argv = shlex.split(out.replace("\\\n", " "))
    assert argv[-len(shlex.split(words)) + 1 :] == shlex.split(words)[1:]
    assert "numawise" not in out
    assert not own_ledger.exists()
    spilling, said = printed(capsys, flags, words)
    assert spilling == out.replace(f"  --cpuset-mems={mems} \\\n", "")
    assert "memory policy" not in said
# fmt: on


def test_a_memory_policy_that_only_the_container_could_set_is_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    out, err = printed(capsys, "--gpu-ids 0,4 --memory-policy interleave", "run box")
    assert "--cpuset-mems" not in out
    assert "memory is not interleaved over NUMA 0-1: nobody outside of a container can set" in err
    assert "numactl --interleave=0-1" in err


def test_the_first_example_to_the_letter(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = printed(capsys, "--gpu-ids 0 --memory-policy bind", TRAIN)
    assert not err
    assert out.splitlines() == [
        "docker run \\",
        "  --gpus '\"device=0\"' \\",
        "  --cpuset-cpus=0-31,64-95 \\",
        "  --cpuset-mems=0 \\",
        "  -d \\",
        "  --name ai-training-gpu0 \\",
        "  --shm-size=16g \\",
        "  -v /data:/data \\",
        "  my-training-image:latest \\",
        "  python train.py --gpu 0",
    ]


def test_other_engines(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        "nerdctl run \\\n  --gpus '\"device=0\"'" in printed(capsys, "--gpu-ids 0", "run box", "nerdctl")[0]
    )
    out, err = printed(capsys, "--gpu-ids 0", "run box", "podman")
    assert out.startswith("podman run \\\n  --device nvidia.com/gpu=0 \\\n  --cpuset-cpus=")
    assert "no CDI files were found" in err
    assert "--device nvidia.com/gpu=0" in printed(capsys, "--gpu-ids 0 --cdi", "run box")[0]


def test_variables(capsys: pytest.CaptureFixture[str]) -> None:
    with_them, _ = printed(capsys, "--cpus 4", "run box")
    assert "-e OMP_NUM_THREADS=2 \\" in with_them
    assert "-e" not in printed(capsys, "--cpus 4 --no-env", "run box")[0].split()


def test_a_fight_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = printed(capsys, "--gpu-ids 4,5", "run -e CUDA_VISIBLE_DEVICES=4,5 box")
    assert "-e CUDA_VISIBLE_DEVICES=4,5" in out
    assert "inside the container the granted GPUs are 0-1: write 0,1 or leave it out" in err


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(
        capsys, "docker", "--machine", SERVER, "--gpu-ids", "5", "--print", "-o", "json", "--", "run", "box"
    )
    data = json.loads(ran.out)
    assert (data["apiVersion"], data["kind"]) == ("numawise.dev/v1", "ContainerCommand")
    assert data["command"] == [
        "docker",
        "run",
        "--gpus",
        '"device=5"',
        "--cpuset-cpus=32-63,96-127",
        "box",
    ]
    assert data["cpus"] == "32-63,96-127"
    assert (data["mems"], data["memoryPolicy"]) == ("1", "preferred")


# fmt: off
@pytest.mark.parametrize(("flags", "words", "told"), [
    pytest.param("", "",                            ["no command", "docker"],                        id="no command"),
    pytest.param("", "exec x sh",                   ["docker exec cannot be placed"],                id="exec"),
    pytest.param("", "compose up",                  ["docker compose cannot be placed"],             id="compose"),
    pytest.param("", "run",                         ["docker run names no image"],                   id="no image"),
    pytest.param("", "run --cpuset-cpus 0 box",     ["--cpuset-cpus 0 is for numawise to decide"],   id="CPUs"),
    pytest.param("", "run --gpus all box",          ["--gpus all is for numawise", "--gpu-ids LIST"], id="GPUs"),
    pytest.param("--memory 1g", "run -m 2g box",    ["-m 2g is for numawise", "give the amount once"], id="memory twice"),
    pytest.param("", "run -m much box",             ["docker run --memory", "'much' is not a size"],    id="no size"),
    pytest.param("--gpu-ids 9", "run box",          ["'9' is not a GPU of this machine"],               id="no such GPU"),
    pytest.param("--cpus 500", "run box",           ["cannot give that"],                            id="more than there is"),
    pytest.param("--name a/b", "run box",           ["'a/b' is not a valid name"],                            id="no name"),
])
def test_refusals(capsys: pytest.CaptureFixture[str], own_ledger: Path, flags: str, words: str, told: list[str]) -> None:
    ran = numawise(capsys, "docker", "--machine", SERVER, *flags.split(), "--print", "--", *words.split())
    refused(ran, *told)
    assert not own_ledger.exists()
# fmt: on


@pytest.mark.parametrize(
    ("variable", "value"), [("DOCKER_HOST", "ssh://box"), ("DOCKER_HOST", "tcp://10.0.0.1:2375")]
)
def test_a_daemon_elsewhere(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    own_ledger: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
) -> None:
    (tmp_path / "docker").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv(variable, value)
    refused(numawise(capsys, "docker", "--cpus", "1", "--", "run", "box"), f"{value} is not on this machine")
    assert not own_ledger.exists()


def test_an_engine_that_is_not_installed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, own_ledger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    ran = numawise(capsys, "nerdctl", "--cpus", "1", "--", "run", "box")
    assert ran.status == 127
    assert ran.err == "numawise: nerdctl: command not found; check its name and PATH\n"
    assert not own_ledger.exists()


def test_the_engines_own_help(tmp_path: Path) -> None:
    """Asked for after --, it is the engine that answers; here a client that tells what it was given."""
    (tmp_path / "docker").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "docker").chmod(0o755)
    ran = process("docker", "--", "run", "--help", PATH=f"{tmp_path}:/usr/bin:/bin")
    assert (ran.status, ran.out) == (0, "run --help\n")
