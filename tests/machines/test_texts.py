"""Every recorded print is read as its golden says; and the comparers notice damage."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from numawise.codec.hardware.recognise import READERS, recognise, split
from numawise.sets import format_ids
from tests.machines import lscpu, numactl, nvidia_topo, rocm_topo

HERE = Path(__file__).parent / "data" / "texts"
SHARED = Path(__file__).parents[3] / "shared" / "data"
SETS = (nvidia_topo, rocm_topo, numactl, lscpu)
FORMATS = {
    "nvidia-topo": {"nvidia-topo"},
    "rocm-topo": {"rocm-topo"},
    "numactl": {"numactl"},
    "lscpu": {"lscpu", "lscpu-table"},
}


def texts(parent: Path) -> list[Any]:
    if not parent.is_dir():
        return [pytest.param(None, None, marks=pytest.mark.skip(reason=f"there is no {parent}"))]
    return [
        pytest.param(checks, path, id=f"{checks.NAME}-{path.stem}")
        for checks in SETS
        for path in sorted((parent / checks.NAME).glob("*.txt"))
    ]


def told(path: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
    return data


def raw(path: Path) -> str:
    with path.open(newline="") as file:
        return file.read()


@pytest.mark.parametrize(("checks", "path"), [*texts(HERE), *texts(SHARED)])
def test_text(checks: ModuleType, path: Path) -> None:
    text = raw(path)
    assert checks.differences(text, told(path)) == []
    assert recognise(text) in FORMATS[checks.NAME]
    assert len(split(text)) == 1


@pytest.mark.parametrize("checks", SETS, ids=lambda checks: checks.NAME)
def test_cases_finds_every_text(checks: ModuleType) -> None:
    results = dict(checks.cases(HERE / checks.NAME))
    assert set(results) == {path.stem for path in (HERE / checks.NAME).glob("*.txt")}
    assert not any(results.values())


def damaged(golden: Mapping[str, Any], change: Callable[[Any], None]) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(golden))
    change(copy["golden"])
    return copy


@pytest.mark.parametrize(("checks", "case", "change"), [
    pytest.param(nvidia_topo, "hand-l40s-x6", lambda g: g["links"]["GPU0"].update(GPU1="SYS"), id="a link"),
    pytest.param(nvidia_topo, "hand-l40s-x6", lambda g: g["cpu_affinity"].update(GPU0="0-22"), id="CPUs"),
    pytest.param(nvidia_topo, "hand-l40s-x6", lambda g: g["links"].pop("GPU5"),                id="a row too many"),
    pytest.param(rocm_topo,   "issue-vllm-17170", lambda g: g["weight"]["GPU0"].reverse(),      id="weights"),
    pytest.param(numactl,     "power9-0-8",   lambda g: g["nodes"]["8"].update(size_mb=1),      id="memory"),
    pytest.param(lscpu,       "issue-vllm-10155", lambda g: g.update(sockets=3),                id="sockets"),
    pytest.param(lscpu,       "ext-vllm-docs", lambda g: g["3"].update(node="1"),               id="a CPU's node"),
])  # fmt: skip
def test_comparer_notices(checks: ModuleType, case: str, change: Callable[[Any], None]) -> None:
    path = HERE / checks.NAME / f"{case}.txt"
    assert checks.differences(raw(path), damaged(told(path), change))


def shared_sysfs() -> list[Any]:
    found = sorted(SHARED.glob("sysfs/*/lscpu"))
    if not found:
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"there is no {SHARED / 'sysfs'}"))]
    return [pytest.param(path, id=path.parent.name) for path in found]


@pytest.mark.parametrize("folder", shared_sysfs())
def test_forms_of_lscpu_agree(folder: Path) -> None:
    """The summary, its JSON, ``-e`` and ``-p`` of one machine tell the same CPUs on the same NUMA nodes."""
    forms = {name: (folder / f"lscpu{name}.txt").read_text() for name in ("", "-J", "-p", "-e")}
    plain, as_json = (READERS["lscpu"](forms[name], name) for name in ("", "-J"))
    assert plain == as_json
    if not any(line[:1].isdigit() for line in forms["-p"].splitlines()):
        return  # lscpu found no CPU numbers in this tree
    rows, table = (READERS["lscpu-table"](forms[name], name) for name in ("-p", "-e"))
    assert [(t.cpu, t.core, t.socket, t.numa, t.siblings) for t in rows.threads] == [
        (t.cpu, t.core, t.socket, t.numa, t.siblings) for t in table.threads
    ]
    assert {t.cpu for t in rows.threads} == {t.cpu for t in plain.threads}
    if plain.numa:
        assert {t.cpu: t.numa for t in rows.threads} == {t.cpu: t.numa for t in plain.threads}
    golden = json.loads((folder.parent / "golden.json").read_text())["lscpu"]
    ours = {str(t.cpu): [t.core, t.socket, t.numa] for t in rows.threads}
    assert ours == {cpu: [number and int(number) for number in row] for cpu, row in golden.items()}


def test_prints_in_one_file() -> None:
    """What people paste below each other comes apart again."""
    paths = [
        HERE / "lscpu" / "issue-vllm-10155.txt",
        HERE / "numactl" / "pmem-3node-quoted.txt",
        HERE / "nvidia-topo" / "hand-l40s-x6.txt",
        HERE / "lscpu" / "ext-vllm-docs.txt",
        HERE / "rocm-topo" / "issue-vllm-17170.txt",
        HERE / "nvidia-topo" / "hand-gh200-daint-commented.txt",
    ]
    text = "\n$ next command\n".join(raw(path) for path in paths)
    parts = split(text)
    assert [name for name, _ in parts] == [
        "lscpu",
        "numactl",
        "nvidia-topo",
        "lscpu-table",
        "rocm-topo",
        "nvidia-topo",
    ]
    alone = [READERS[name](raw(path), "") for (name, _), path in zip(parts, paths, strict=True)]
    assert [READERS[name](part, "") for name, part in parts] == alone
    assert format_ids(alone[1].numa[0].cpus) == "0-15"
