"""Which rank a process is on its host: every launcher's variables, those inside each other, and nonsense."""

import pytest

from numawise.apps.launch.launchers import LAUNCHERS, is_launched, local_rank, tasks_on
from numawise.errors import InputError


def variables(text: str) -> dict[str, str]:
    """``A=1 B=2``."""
    return dict(pair.split("=", 1) for pair in text.split())


# fmt: off
@pytest.mark.parametrize(("environment", "rank", "size", "variable"), [
    pytest.param("LOCAL_RANK=3 LOCAL_WORLD_SIZE=8 RANK=11",                   3, 8,    "LOCAL_RANK",                 id="torchrun"),
    pytest.param("LOCAL_RANK=3 LOCAL_SIZE=8 RANK=11 CROSS_SIZE=2",            3, 8,    "LOCAL_RANK",                 id="DeepSpeed"),
    pytest.param("OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=4", 1, 4,    "OMPI_COMM_WORLD_LOCAL_RANK", id="Open MPI"),
    pytest.param("MPI_LOCALRANKID=2 MPI_LOCALNRANKS=4 PMI_RANK=6",            2, 4,    "MPI_LOCALRANKID",            id="Intel MPI"),
    pytest.param("MV2_COMM_WORLD_LOCAL_RANK=0 MV2_COMM_WORLD_LOCAL_SIZE=2",   0, 2,    "MV2_COMM_WORLD_LOCAL_RANK",  id="MVAPICH2"),
    pytest.param("PALS_LOCAL_RANKID=1 PMI_LOCAL_SIZE=4",                      1, 4,    "PALS_LOCAL_RANKID",          id="PALS"),
    pytest.param("PMI_LOCAL_RANK=1 PMI_LOCAL_SIZE=4 PMI_RANK=9",              1, 4,    "PMI_LOCAL_RANK",             id="Cray's PMI"),
    pytest.param("JSM_NAMESPACE_LOCAL_RANK=5 JSM_NAMESPACE_LOCAL_SIZE=6",     5, 6,    "JSM_NAMESPACE_LOCAL_RANK",   id="jsrun"),
    pytest.param("FLUX_TASK_LOCAL_ID=2 FLUX_JOB_SIZE=64",                     2, None, "FLUX_TASK_LOCAL_ID",         id="Flux tells no size"),
    pytest.param("SLURM_LOCALID=3 SLURM_STEP_TASKS_PER_NODE=4(x2),5",         3, 4,    "SLURM_LOCALID",              id="srun, first host"),
    pytest.param("SLURM_LOCALID=3 SLURM_NODEID=2 SLURM_STEP_TASKS_PER_NODE=4(x2),5 SLURM_TASKS_PER_NODE=1(x3)",
                                                                              3, 5,    "SLURM_LOCALID",              id="srun, third host, the step counts"),
    pytest.param("SLURM_LOCALID=1 SLURM_NODEID=7 SLURM_NTASKS_PER_NODE=2",    1, 2,    "SLURM_LOCALID",              id="srun, one number for all hosts"),
    pytest.param("SLURM_LOCALID=0 SLURM_NTASKS=8",                            0, None, "SLURM_LOCALID",              id="srun, a total is no local number"),
    pytest.param("SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE=1 LOCAL_RANK=6 LOCAL_WORLD_SIZE=8",
                                                                              6, 8,    "LOCAL_RANK",                 id="torchrun inside srun"),
    pytest.param("SLURM_LOCALID=0 SLURM_TASKS_PER_NODE=8 OMPI_COMM_WORLD_LOCAL_RANK=6 OMPI_COMM_WORLD_LOCAL_SIZE=8",
                                                                              6, 8,    "OMPI_COMM_WORLD_LOCAL_RANK", id="mpirun inside a batch job"),
    pytest.param("LOCAL_RANK= SLURM_LOCALID=1 SLURM_NTASKS_PER_NODE=2",       1, 2,    "SLURM_LOCALID",              id="an empty variable tells nothing"),
])
def test_launchers(environment: str, rank: int, size: int | None, variable: str) -> None:
    found = local_rank(variables(environment))
    assert (found.rank, found.size, found.variable) == (rank, size, variable)
    assert is_launched(variables(environment))


@pytest.mark.parametrize(("environment", "flags", "rank", "size"), [
    pytest.param("LOCAL_RANK=3 LOCAL_WORLD_SIZE=8", {"rank": 1},                            1, None, id="a rank by flag stands alone"),
    pytest.param("LOCAL_RANK=3 LOCAL_WORLD_SIZE=8", {"size": 4},                            3, 4,    id="a size by flag wins"),
    pytest.param("MY_RANK=2",                       {"variable": "MY_RANK", "size": 4},     2, 4,    id="a launcher of one's own"),
    pytest.param("SLURM_LOCALID=1 LOCAL_RANK=0 SLURM_NTASKS_PER_NODE=2", {"variable": "SLURM_LOCALID"}, 1, 2, id="another of two"),
])
def test_flags(environment: str, flags: dict[str, object], rank: int, size: int | None) -> None:
    found = local_rank(variables(environment), **flags)  # type: ignore[arg-type]
    assert (found.rank, found.size) == (rank, size)


@pytest.mark.parametrize(("environment", "flags", "message"), [
    pytest.param("RANK=3 WORLD_SIZE=8", {},                            "no launcher gave this process a rank",        id="a global rank is none"),
    pytest.param("LOCAL_RANK=8 LOCAL_WORLD_SIZE=8", {},                "LOCAL_RANK=8 is not a rank: this host has 8",                  id="too high"),
    pytest.param("LOCAL_RANK=-1", {},                                  "LOCAL_RANK: '-1' is not a rank",                   id="negative"),
    pytest.param("LOCAL_RANK=one", {},                                 "LOCAL_RANK: 'one' is not a rank",                  id="no number"),
    pytest.param("LOCAL_RANK=99999999999", {},                         "LOCAL_RANK: '99999999999' is not a rank",          id="absurd"),
    pytest.param("LOCAL_RANK=1 LOCAL_WORLD_SIZE=two", {},              "LOCAL_WORLD_SIZE: 'two' is not a rank",            id="size is no number"),
    pytest.param("SLURM_LOCALID=0 SLURM_STEP_TASKS_PER_NODE=4x2", {},  "SLURM_STEP_TASKS_PER_NODE: '4x2' is not a list",   id="Slurm's list is broken"),
    pytest.param("", {"variable": "MY_RANK"},                          "--rank-variable: the variable MY_RANK is not",  id="variable not set"),
    pytest.param("", {"rank": 4, "size": 4},                           "--local-rank 4 is not a rank: this host has 4",                id="flags contradict"),
])
def test_nonsense(environment: str, flags: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        local_rank(variables(environment), **flags)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)
    assert caught.value.advice
# fmt: on


def test_without_a_launcher_all_variables_are_named() -> None:
    with pytest.raises(InputError) as caught:
        local_rank({})
    assert all(launcher.rank in caught.value.message for launcher in LAUNCHERS)
    assert not is_launched({"RANK": "1"})


@pytest.mark.parametrize(("host", "tasks"), [(0, 4), (1, 4), (2, 3), (3, None)])
def test_tasks_of_a_host(host: int, tasks: int | None) -> None:
    assert tasks_on("4(x2),3", host, "X") == tasks
