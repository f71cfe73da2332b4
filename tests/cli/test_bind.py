"""``numawise bind``: real processes on this kernel, every rank's table, and every kind of bad input."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from numawise.host import mempolicy
from tests import needs
from tests.cli.run import ROOT, Ran, numawise, process, refused

pytestmark = needs.PROC
ALLOWED = sorted(os.sched_getaffinity(0))
LAUNCHERS = ("LOCAL_", "RAY_", "SLURM_", "OMPI_", "PMI_", "MPI_", "NUMAWISE_", "OMP_", "CUDA_", "GOMP_")
SHOW = (
    "import os; from numawise.host.mempolicy import read_mempolicy as policy; "
    "print(sorted(os.sched_getaffinity(0)), policy(), os.environ.get('OMP_NUM_THREADS'))"
)
needs_two = pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two CPUs")
binds_memory = pytest.mark.skipif(bool(mempolicy.problem()), reason="memory policies are refused here")


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(LAUNCHERS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NUMAWISE_LEDGER", str(tmp_path / "ledger"))


def bind(*arguments: object, **environment: str) -> Ran:
    return process("bind", *arguments, **environment)


def shown(*arguments: object, **environment: str) -> str:
    ran = bind(*arguments, "--", sys.executable, "-c", SHOW, **environment)
    assert ran.status == 0, ran
    return ran.out.strip()


@needs_two
@binds_memory
def test_ranks_are_bound_before_they_start() -> None:
    for rank in range(2):
        cpus = [cpu for i, cpu in enumerate(ALLOWED) if i * 2 // len(ALLOWED) == rank]
        found = shown(LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2")
        mask, _, rest = found.rpartition("] ")
        assert rest.split()[0].startswith("bind:")
        assert mask + "]" == str(cpus)


@pytest.mark.parametrize(
    "variables",
    [
        {"SLURM_LOCALID": "0", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"},
        {"OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"},
        {"MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "1"},
    ],
)
def test_other_launchers(variables: dict[str, str]) -> None:
    assert shown(**variables).startswith(f"{ALLOWED} ")


@binds_memory
@pytest.mark.parametrize(
    ("memory", "policy"), [("bind", "bind:"), ("preferred", "preferred:"), ("off", "default ")]
)
def test_memory(memory: str, policy: str) -> None:
    assert f"] {policy}" in shown("--memory", memory, LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")


@needs_two
def test_a_hold_is_divided() -> None:
    last = ALLOWED[-1]
    hold = {"NUMAWISE_HOLD": "k3", "NUMAWISE_CPUS": str(last), "NUMAWISE_MEMS": "0"}
    assert shown(LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", **hold).startswith(f"[{last}] ")
    said = bind("-v", "--", "true", LOCAL_RANK="1", LOCAL_WORLD_SIZE="2", **hold)
    assert f"rank 1 of 2: CPUs {last}" in said.err
    assert "has 1 core here for 2 ranks" in said.err


@needs_two
@pytest.mark.parametrize("wrapper", [(), ("sh", "-c", '"$@"; exit $?', "sh")], ids=["plain", "in a shell"])
def test_a_launcher_that_binds_its_ranks(wrapper: tuple[str, ...]) -> None:
    """Like mpirun does by default: the rank keeps to its CPU, and says how to have it otherwise."""
    done = subprocess.run(
        [*wrapper, sys.executable, "-m", "numawise", "bind", "--", sys.executable, "-c", SHOW],
        env={**os.environ, "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
        preexec_fn=lambda: os.sched_setaffinity(0, ALLOWED[-1:]),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout.startswith(f"[{ALLOWED[-1]}] ")
    assert f"has bound this rank to CPUs {ALLOWED[-1]}" in done.stderr
    assert "mpirun --bind-to none" in done.stderr


def test_the_command_takes_the_place_of_the_process() -> None:
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "numawise",
            "bind",
            "--",
            "sh",
            "-c",
            "echo $$; grep SigIgn /proc/$$/status; exit 7",
        ],
        env={**os.environ, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"},
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as started:
        out, _ = started.communicate()
    pid, ignored = out.splitlines()
    assert int(pid) == started.pid
    assert int(ignored.split()[1], 16) >> 12 & 1 == 0, "SIGPIPE is ignored in the command"
    assert started.returncode == 7


def test_words_and_variables_pass_through() -> None:
    ran = bind("--", "printf", "%s|", "a b", "--by", "--", "*", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    assert (ran.status, ran.out) == (0, "a b|--by|--|*|")
    ran = bind(
        "--", "sh", "-c", "echo $MINE $LOCAL_RANK; cat", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", MINE="x y"
    )
    assert ran.out == "x y 0\n"


def test_only_the_first_rank_talks() -> None:
    many = str(len(ALLOWED) + 1)
    assert "ranks of a NUMA node share" in bind("--", "true", LOCAL_RANK="0", LOCAL_WORLD_SIZE=many).err
    assert not bind("--", "true", LOCAL_RANK="1", LOCAL_WORLD_SIZE=many).err


def test_too_few_cores_is_a_no() -> None:
    ran = bind("--by", "exclusive", "--", "true", LOCAL_RANK="0", LOCAL_WORLD_SIZE="5000")
    assert ran.status == 1
    assert ran.err.count("\n") == 1
    assert "for 5000 ranks" in ran.err


# fmt: off
@pytest.mark.parametrize(("arguments", "environment", "words"), [
    pytest.param(["--", "true"],                  {},                                               ["no launcher", "LOCAL_RANK", "SLURM_LOCALID", "--rank-variable"], id="no launcher"),
    pytest.param(["--", "true"],                  {"LOCAL_RANK": "2", "LOCAL_WORLD_SIZE": "2"},     ["LOCAL_RANK=2 is not a rank: this host has 2"],     id="rank too high"),
    pytest.param(["--rank-variable", "X", "--", "true"], {},                                        ["--rank-variable", "X is not set"],  id="no such variable"),
    pytest.param([],                              {"LOCAL_RANK": "0"},                              ["no command", "--"],                 id="no command"),
    pytest.param(["true"],                        {"LOCAL_RANK": "0"},                              ["'true'", "write -- before"],        id="dashes forgotten"),
    pytest.param(["--by", "node", "python", "train.py", "--lr", "3"], {"LOCAL_RANK": "0"},          ["'python'", "-- python train.py --lr 3"], id="dashes forgotten before flags"),
    pytest.param(["--machine", "dgx-h100", "--", "true"], {"LOCAL_RANK": "0"},                      ["--machine", "--dry-run"],           id="another machine to run on"),
    pytest.param(["--dry-run", "--machine", "nosuch"],    {},                                       ["'nosuch'"],                         id="no such machine"),
    pytest.param(["--cpus", "4000", "--", "true"], {"LOCAL_RANK": "0"},                             ["--cpus", "4000"],                   id="CPUs that are not there"),
    pytest.param(["--cpus", "x", "--dry-run"],    {},                                               ["--cpus", "'x'"],                    id="no list of CPUs"),
    pytest.param(["--", "true"],                  {"LOCAL_RANK": "0", "NUMAWISE_HOLD": "k", "NUMAWISE_CPUS": "0-"}, ["NUMAWISE_CPUS", "'0-'"], id="a broken hold"),
])
def test_bad_input(arguments: list[str], environment: dict[str, str], words: list[str]) -> None:
    refused(bind(*arguments, **environment), *words)
# fmt: on


def test_a_command_that_cannot_be_run(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("x")
    script = tmp_path / "script"
    script.write_text("#!/no/such/python\n")
    script.chmod(0o755)
    for command, status, words in (
        ("nosuchcommand", 127, "nosuchcommand: command not found"),
        (tmp_path / "none", 127, "command not found"),
        (plain, 126, "cannot be executed"),
        (tmp_path, 126, "is a folder"),
        (script, 127, "its first line names /no/such/python"),
    ):
        ran = bind("--", command, LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
        assert ran.status == status, ran
        assert words in ran.err
        assert ran.err.count("\n") == 1


def test_a_script_without_a_first_line_is_run_by_the_shell(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.write_text("echo here $1\n")
    bare.chmod(0o755)
    ran = bind("--", bare, "too", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")
    assert (ran.status, ran.out) == (0, "here too\n")


def test_a_dry_run_shows_all_ranks(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "bind", "--dry-run", "--local-size", 4, "--machine", "2s 2n 8c 2t 4gpu")
    assert ran.status == 0
    assert ran.out.splitlines() == [
        "RANK  GPU   NUMA  CPUS       CORES  MEMORY  THREADS  NICS",
        "0     GPU0  0     0-1,8-9    2      NUMA 0  2        -",
        "1     GPU1  0     2-3,10-11  2      NUMA 0  2        -",
        "2     GPU2  1     4-5,12-13  2      NUMA 1  2        -",
        "3     GPU3  1     6-7,14-15  2      NUMA 1  2        -",
    ]


def test_a_dry_run_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "bind", "--dry-run", "--by", "node", "--machine", "dgx-h100", "-o", "json")
    found = json.loads(ran.out)
    assert (found["apiVersion"], found["kind"], found["by"], found["memory"]) == (
        "numawise.dev/v1",
        "Ranks",
        "node",
        "bind",
    )
    assert found["ranks"][5] == {
        "rank": 5,
        "gpu": "GPU5",
        "gpuUuid": None,
        "numa": [1],
        "cpus": "56-111,168-223",
        "cores": 56,
        "alone": False,
        "mems": "1",
        "threads": 14,
        "nics": ["mlx5_9"],
    }


def test_a_dry_run_here_needs_no_launcher(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "bind", "--dry-run", "--local-size", len(ALLOWED) + 1, "--", "true")
    assert ran.status == 0
    assert len(ran.out.splitlines()) == len(ALLOWED) + 2


FROM_PYTHON = (
    "import os, threading, numawise\n"
    "go = threading.Event(); other = threading.Thread(target=go.wait); other.start()\n"
    "from numawise.host.mempolicy import read_mempolicy as policy\n"
    "try:\n"
    "    bound = numawise.bind(OPTIONS)\n"
    "    masks = {tuple(sorted(os.sched_getaffinity(t))) for t in (0, other.native_id)}\n"
    "    print(bound.rank, bound.size, list(bound.cpus), masks == {bound.cpus}, policy(),\n"
    "          os.environ['OMP_NUM_THREADS'] == str(bound.threads))\n"
    "except numawise.NumawiseError as problem:\n"
    "    print(problem)\n"
    "finally:\n"
    "    go.set()\n"
).replace("numawise.NumawiseError", "__import__('numawise.errors').errors.NumawiseError")


def bound_in_python(options: str = "", **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", FROM_PYTHON.replace("OPTIONS", options)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )
    return done.stdout.strip()


@needs_two
@binds_memory
@pytest.mark.parametrize(("rank", "size"), [
    ("LOCAL_RANK",                 "LOCAL_WORLD_SIZE"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID",            "MPI_LOCALNRANKS"),
    ("SLURM_LOCALID",              "SLURM_NTASKS_PER_NODE"),
])  # fmt: skip
def test_a_rank_binds_itself_from_python(rank: str, size: str) -> None:
    for number in range(2):
        cpus = [cpu for i, cpu in enumerate(ALLOWED) if i * 2 // len(ALLOWED) == number]
        words = bound_in_python(**{rank: str(number), size: "2"})
        assert words.startswith(f"{number} 2 {cpus} True bind:"), words
        assert words.endswith("True")


def test_options_from_python_are_those_of_the_command() -> None:
    cpu = ALLOWED[-1]
    words = bound_in_python(f"local_rank=0, local_size=1, cpus='{cpu}', memory='off', threads=3")
    assert words == f"0 1 [{cpu}] True default True"


@pytest.mark.parametrize(("options", "environment", "told"), [
    pytest.param("",                             {},                          "no launcher gave this process a rank", id="no launcher"),
    pytest.param("",                             {"LOCAL_RANK": "9", "LOCAL_WORLD_SIZE": "2"}, "LOCAL_RANK=9",         id="a rank beyond the size"),
    pytest.param("by='core'",                    {"LOCAL_RANK": "0"},         "by: unknown value 'core'",              id="an unknown way to divide"),
    pytest.param("memory='yes'",                 {"LOCAL_RANK": "0"},         "memory: unknown value 'yes'",           id="an unknown memory policy"),
    pytest.param("gpu='two'",                    {"LOCAL_RANK": "0"},         "gpu: unknown value 'two'",              id="an unknown number of GPUs"),
    pytest.param("by='exclusive', local_size=4096", {"LOCAL_RANK": "0"},      "for 4096 ranks; start fewer ranks",     id="too few cores"),
    pytest.param("",                             {"RAY_RAYLET_PID": "7", "CUDA_VISIBLE_DEVICES": ""}, "num_gpus, or give local_rank and local_size", id="a Ray worker without a GPU"),
    pytest.param("",                             {"RAY_RAYLET_PID": "7", "SLURM_LOCALID": "0"}, "Ray shows this worker no GPU", id="Ray inside srun"),
])  # fmt: skip
def test_what_cannot_be_bound_from_python(options: str, environment: dict[str, str], told: str) -> None:
    words = bound_in_python(options, **environment)
    assert told in words
    assert "--" not in words
    assert "\n" not in words


def test_the_api_says_where_a_job_would_go() -> None:
    import numawise as api  # noqa: PLC0415

    found = api.place(cpus=8, memory="64g", gpus=2, machine="8gpu-server")
    assert isinstance(found, api.JobPlacement)
    assert (len(found.cpus), found.memory, len(found.gpus), found.aligned) == (8, 64 << 30, 2, True)
    assert found.environment["OMP_NUM_THREADS"] == "4"
