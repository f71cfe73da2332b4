"""What a release says of its gates, options and fields, against numawise's tables."""

from collections.abc import Iterator, Mapping
from typing import Any

from numawise.codec.kubelet.fields import configuration_of
from numawise.rules.gates import gates_of
from numawise.rules.options import CPU_MATURITY, TOPOLOGY_MATURITY, History
from numawise.rules.versions import Version

Data = Mapping[str, Any]
MANAGERS = (
    "cpuManagerPolicy", "topologyManagerPolicy", "topologyManagerScope", "memoryManagerPolicy",
    "cpuManagerReconcilePeriod", "maxPods", "podsPerCore", "enforceNodeAllocatable", "failSwapOn",
    "mergeDefaultEvictionSettings", "failCgroupV1",
)  # fmt: skip
"""The defaults that decide about placement."""


def table_differences(described: Data, version: Version, previous: Data | None = None) -> list[str]:
    """One line for each thing that the tables for ``version`` do not say as the release does."""
    lines = [
        *_gates(described["gates"], version),
        *_options("CPU", described["cpu_options"], CPU_MATURITY, version),
        *_options("Topology", described["topology_options"], TOPOLOGY_MATURITY, version),
        *_fields(described["fields"], version),
    ]
    if previous is not None:
        for name in MANAGERS:
            old, new = previous["defaults"].get(name), described["defaults"].get(name)
            if old != new:
                lines.append(f"default of {name}: {old!r} before, {new!r} in the release")
    return lines


def _gates(gates: Data, version: Version) -> Iterator[str]:
    known = gates_of(version)
    for name in sorted({*gates, *known}):
        ours, theirs = known.get(name), gates.get(name)
        if theirs is None:
            yield f"gate {name}: in the tables, not in the release"
        elif ours is None:
            yield f"gate {name}: {_level(theirs)} in the release, not in the tables"
        else:
            told = {"stage": ours.stage, "default": ours.default, "locked": ours.locked}
            if told != theirs:
                yield f"gate {name}: {_level(theirs)} in the release, {_level(told)} in the tables"


def _level(gate: Data) -> str:
    stage = str(gate["stage"]).lower() or "stable"
    return f"{stage}, {'locked ' if gate['locked'] else ''}{'on' if gate['default'] else 'off'}"


def _options(manager: str, levels: Data, known: Mapping[str, History], version: Version) -> Iterator[str]:
    theirs = {name: level for level, names in levels.items() for name in names}
    for name in sorted({*theirs, *known}):
        history = [level.value for since, level in sorted(known.get(name, {}).items()) if since <= version]
        ours = history[-1] if history else None
        if ours != theirs.get(name):
            yield f"{manager} option {name}: {theirs.get(name, 'absent')} in the release, {ours or 'absent'} in the tables"


def _fields(fields: list[str], version: Version) -> Iterator[str]:
    known = set(configuration_of(version).fields) - {"apiVersion", "kind"}
    theirs = set(fields) - {"apiVersion", "kind"}
    for name in sorted(theirs - known):
        yield f"field {name}: in the release, not in the tables"
    for name in sorted(known - theirs):
        yield f"field {name}: in the tables, not in the release"
