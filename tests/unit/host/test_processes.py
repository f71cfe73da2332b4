"""Who launched a rank: the nearest parent without the rank's variable, through shells and wrappers."""

from pathlib import Path

import pytest

from numawise.host.processes import MOST_PARENTS, launcher_cpus

MARK = "LOCAL_RANK=3"


def process(root: Path, pid: int, parent: int, cpus: str = "0-3", environment: str | None = "") -> None:
    """One process; without an environment it is another user's."""
    folder = root / f"proc/{pid}"
    folder.mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} (a b) c) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 99 0 0\n")
    (folder / "status").write_text(f"Name:\tx\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0\n")
    if environment is not None:
        (folder / "environ").write_bytes("\0".join(environment.split()).encode() + b"\0")


# fmt: off
@pytest.mark.parametrize(("parents", "expected"), [
    pytest.param([("0-7", "PATH=/")],                                              0xFF, id="the parent"),
    pytest.param([("1", "LOCAL_RANK=3"), ("0-7", "PATH=/")],                       0xFF, id="through a shell"),
    pytest.param([("1", "LOCAL_RANK=3"), ("0-7", "LOCAL_RANK=1"), ("0", "")],      0xFF, id="a launcher that is a rank itself"),
    pytest.param([("0-7", None)],                                                  0xFF, id="another user's, as Slurm's"),
    pytest.param([("1", "LOCAL_RANK=3")],                                          None, id="nobody above"),
    pytest.param([("", "")],                                                       0,    id="no CPUs told"),
])
def test_launcher(tmp_path: Path, parents: list[tuple[str, str | None]], expected: int | None) -> None:
    process(tmp_path, 100, 101, environment="LOCAL_RANK=3")
    for at, (cpus, environment) in enumerate(parents):
        process(tmp_path, 101 + at, 102 + at if at + 1 < len(parents) else 0, cpus, environment)
    assert launcher_cpus(MARK, 100, tmp_path) == expected
# fmt: on


def test_a_parent_that_is_gone(tmp_path: Path) -> None:
    process(tmp_path, 100, 101)
    assert launcher_cpus(MARK, 100, tmp_path) is None
    assert launcher_cpus(MARK, 5, tmp_path) is None


def test_endless_parents(tmp_path: Path) -> None:
    for pid in range(100, 100 + MOST_PARENTS + 5):
        process(tmp_path, pid, pid + 1, environment=MARK)
    assert launcher_cpus(MARK, 100, tmp_path) is None
