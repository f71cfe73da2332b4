"""What each release of the kubelet makes of a state file, under the policy that the file names."""

from collections.abc import Iterable

from numawise.codec.checkpoint import CPU_FILE, MEMORY_FILE, decode_cpu, decode_devices, decode_memory
from numawise.codec.checkpoint.look import V2, V3, Look
from numawise.node.state.folder import GATE, Against, StateFile, StateFolder
from numawise.rules.behaviour import behaviour_of
from numawise.rules.check import Refusal
from numawise.rules.gates import gates_of
from numawise.rules.model import Rules
from numawise.rules.versions import NEWEST, OLDEST, Version, shown
from numawise.values import dataclass, replace

GATED = {CPU_FILE: V3, MEMORY_FILE: V2}
"""The formats that are written with the gate alone."""
RELEASES: tuple[Version, ...] = tuple((1, minor) for minor in range(OLDEST[1], NEWEST[1] + 1))


@dataclass(frozen=True, slots=True)
class Reading:
    """What one release says to a file."""

    version: Version
    gate: bool
    """With the gate ``PodLevelResourceManagers`` on."""
    problem: str = ""
    """In the kubelet's words; '' when it takes the file."""


def has_gate(version: Version) -> bool:
    """Whether a release knows the gate by which pods get their share as a whole."""
    return GATE in gates_of(version)


def informed(folder: StateFolder, against: Against) -> Against:
    """With the gate on, where it is not given and a file is in the form that only the gate writes."""
    if against.config is not None or against.gate or not has_gate(against.version):
        return against
    gated = any(file.look.format == GATED.get(file.name) for file in folder.files)
    return replace(against, gate=gated)


def rules_for(found: Look, version: Version, *, gate: bool = False) -> Rules:
    """The rules of a kubelet with the policy that the file names."""
    return Rules(
        cpu_static=found.policy == "static",
        memory_static=found.policy == "Static",
        pod_level_managers=gate,
        behaviour=behaviour_of(version),
    )


def reading(file: StateFile, version: Version, *, gate: bool = False) -> Reading:
    """What a release makes of the file."""
    return Reading(version, gate, problem_of(file.name, file.text, rules_for(file.look, version, gate=gate)))


def problem_of(name: str, text: str, rules: Rules) -> str:
    """What a kubelet with these rules says to the text of a file; '' when it takes it."""
    if name == CPU_FILE:
        cpu = decode_cpu(text, rules)
        return cpu.message if isinstance(cpu, Refusal) else ""
    if name == MEMORY_FILE:
        memory = decode_memory(text, rules)
        return memory.message if isinstance(memory, Refusal) else ""
    devices = decode_devices(text, rules)
    return devices if isinstance(devices, str) else ""


def readings(file: StateFile) -> tuple[Reading, ...]:
    """What every known release makes of it; releases without the manager are left out."""
    found = []
    for version in RELEASES:
        if file.name == MEMORY_FILE and not behaviour_of(version).has_memory_manager:
            continue
        found.append(reading(file, version))
        if has_gate(version):
            found.append(reading(file, version, gate=True))
    return tuple(found)


def accepted_text(found: Iterable[Reading]) -> str:
    """Which releases take the file: ``1.20 to 1.36``, and with which of them the gate matters."""
    found = tuple(found)
    plain = {one.version for one in found if not one.gate and not one.problem}
    gated = {one.version for one in found if one.gate and not one.problem}
    known = [one.version for one in found if not one.gate]
    both = [one.version for one in found if one.gate]
    parts = []
    if plain:
        parts.append(_span(plain, known))
    alone = gated - plain
    if alone:
        parts.append(f"{_span(alone, both)} with {GATE}")
    refused = (plain & set(both)) - gated
    if refused:
        parts.append(f"but not {_span(refused, both)} with {GATE}")
    return ", ".join(parts) or "none"


def _span(some: set[Version], known: list[Version]) -> str:
    runs: list[list[Version]] = []
    for before, version in zip([None, *known], known, strict=False):
        if version not in some:
            continue
        if runs and runs[-1][-1] == before:
            runs[-1].append(version)
        else:
            runs.append([version])
    return ", ".join(
        shown(run[0]) if len(run) == 1 else f"{shown(run[0])} to {shown(run[-1])}" for run in runs
    )
