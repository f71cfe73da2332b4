"""Every refusal that a kubelet would make at its start, one after the other, and who is to blame for each.

Rules kept here:

1. The kubelet's own judgement is asked (``decode``, ``check``, ``build``, ``start``), never repeated here.
   The first refusal is what it would say; the others come once that one is out of the way.
2. After a refusal the smallest part that lets the kubelet get further is taken out, and it is asked again.
   What would only follow from that is not reported.
3. To blame is what has to be taken out for the complaint to change: found by trying, not by reading words.
4. Without a machine one is made up that the configuration and the state files cannot object to; what only a
   machine can refuse is not reported then.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from numawise.codec.checkpoint import CPU_FILE, MEMORY_FILE
from numawise.codec.kubelet.config import decode_kubelet_config
from numawise.codec.lines import Steps
from numawise.engine.start import CPU_STAGE, CPU_START, MEMORY_STAGE, MEMORY_START, TOPOLOGY
from numawise.machine.model import Machine
from numawise.node.node import Files, SimulatedNode, boot
from numawise.node.refusal_codes import GATE_STAGES, VALIDATION
from numawise.patience import look
from numawise.rules.check import MERGING, SETTING, Refusal, check
from numawise.rules.gates import gates_of, resolve_gates
from numawise.rules.model import KubeletConfig
from numawise.rules.validate import managers as validate
from numawise.rules.versions import Version
from numawise.sets import CpuSet
from numawise.values import dataclass, field, replace

Raw = Mapping[str, Any]
MOST, FEW = 64, 16
"""How many complaints are looked into one by one, and parts are tried one by one."""
EVICTION = "evictionHard"
STAGE_OF = {"kubeReserved": "kube-reserved", "systemReserved": "system-reserved", EVICTION: "eviction-hard"}


@dataclass(frozen=True, slots=True)
class StartRefusal:
    """One refusal: when, in whose words, and which field is to blame."""

    stage: str
    message: str
    steps: Steps = ()
    config: KubeletConfig | None = None
    """The configuration it was said about; None: it could not be decoded."""


@dataclass(slots=True)
class Start:
    """How far a kubelet gets."""

    refusals: list[StartRefusal] = field(default_factory=list)
    written: KubeletConfig | None = None
    """The configuration as it is written, without what cannot be read or is not valid."""
    config: KubeletConfig | None = None
    """What is left of it once everything refused was taken out."""
    node: SimulatedNode | None = None
    """The kubelet that starts on what is left."""
    first: Refusal | None = None
    """The refusal that the kubelet itself would print."""
    more: bool = False
    """There are refusals beyond ``MOST``, which nobody has looked for."""


def started(raw: Raw, machine: Machine, files: Mapping[str, str], version: Version) -> Start:
    """Start a kubelet, past every refusal (rules 1 and 2)."""
    start = Start()
    first = boot(machine, raw, Files(dict(files)), version=version)
    start.first = first if isinstance(first, Refusal) else None
    raw = _decodable(dict(raw), version, start)
    raw = _settled_gates(raw, version, start)
    raw = _valid(raw, version, start)
    config = decode_kubelet_config(raw, version)
    if isinstance(config, Refusal):
        return start
    start.written = config
    _built(config, machine, dict(files), version, start)
    return start


# --- who is to blame (rule 3) ---------------------------------------------------------------


class Removals:
    """A configuration with parts of it taken out, each judged once.

    ``judge`` answers which complaints are left, as bits.  Of many parts the culprit is searched for by
    halves: a part whose removal changes nothing by itself, but only together with others, is then not found,
    and what it lies in is to blame.
    """

    def __init__(self, raw: Raw, judge: Callable[[Raw], int]) -> None:
        self._raw, self._judge = raw, judge
        self._left: dict[tuple[Steps, int], int] = {}

    def blamed(self, complaints: int) -> Steps:
        """The innermost part without which all of these complaints are gone."""
        steps: Steps = ()
        for _ in range(MOST):
            parts = _inside(self._raw, steps)
            at = self._culprit(steps, parts, complaints)
            if at is None:
                return steps
            steps = (*steps, parts[at])
        return steps

    def _culprit(self, steps: Steps, parts: list[str | int], complaints: int) -> int | None:
        def is_settled(first: int, last: int) -> bool:
            return not self._without(steps, parts, first, last) & complaints

        if len(parts) <= FEW:
            return next((at for at in range(len(parts)) if is_settled(at, at + 1)), None)
        last = bisect_left(range(len(parts)), True, key=lambda at: is_settled(0, at + 1))
        return last if last < len(parts) and is_settled(last, last + 1) else None

    def _without(self, steps: Steps, parts: list[str | int], first: int, last: int) -> int:
        key = ((*steps, parts[first]), last)
        if key not in self._left:
            look()
            self._left[key] = self._judge(without(self._raw, steps, parts[first:last]))
        return self._left[key]


def without(raw: Raw, steps: Steps, parts: Sequence[str | int]) -> dict[str, Any]:
    """The same with some of the parts at ``steps`` taken out."""
    copy: Any = dict(raw)
    at = copy
    for step in steps:
        inner = at[step]
        at[step] = dict(inner) if isinstance(inner, Mapping) else list(inner)
        at = at[step]
    for part in reversed(parts):
        del at[part]
    return copy  # type: ignore[no-any-return]


def _inside(raw: Raw, steps: Steps) -> list[str | int]:
    value: Any = raw
    for step in steps:
        value = value[step]
    if isinstance(value, Mapping):
        return sorted(value)
    return list(range(len(value))) if isinstance(value, list) else []


# --- before the managers --------------------------------------------------------------------


def _decodable(raw: dict[str, Any], version: Version, start: Start) -> dict[str, Any]:
    def complaint(value: Raw) -> str | None:
        config = decode_kubelet_config(value, version)
        return config.message if isinstance(config, Refusal) else None

    for _ in range(MOST):
        config = decode_kubelet_config(raw, version)
        if not isinstance(config, Refusal):
            break
        steps = Removals(raw, lambda value, said=config.message: complaint(value) == said).blamed(1)  # type: ignore[misc]
        start.refusals.append(StartRefusal(config.stage, config.message, steps))
        if not steps:
            break
        raw = without(raw, steps[:-1], steps[-1:])
    else:
        start.more = True
    return raw


def _settled_gates(raw: dict[str, Any], version: Version, start: Start) -> dict[str, Any]:
    """Take out gates that stop the kubelet; each is reported in the words it would have alone."""
    config = decode_kubelet_config(raw, version)
    if isinstance(config, Refusal):
        return raw
    settled = resolve_gates(config.feature_gates, version)
    if not isinstance(settled, str):
        return raw
    early = start.first is not None and start.first.stage == GATE_STAGES[0]
    stage, words = (
        (GATE_STAGES[0], MERGING) if early or _while_decoding(version) else (GATE_STAGES[1], SETTING)
    )
    kept = dict(config.feature_gates)
    for name in sorted(config.feature_gates):
        alone = resolve_gates({name: kept[name]}, version)
        if isinstance(alone, str) and not _needs(alone):
            steps = ("featureGates", name)
            start.refusals.append(StartRefusal(stage, f"{words}: {alone}", steps, config))
            del kept[name]
    rest = resolve_gates(kept, version)
    if isinstance(rest, str):
        culprit = _gate_in(rest, kept)
        start.refusals.append(StartRefusal(stage, f"{words}: {rest}", ("featureGates", *culprit), config))
        kept = {name: value for name, value in kept.items() if name not in gates_of(version)}
    return {**raw, "featureGates": kept}


def _while_decoding(version: Version) -> bool:
    refusal = check(KubeletConfig(feature_gates={"": True}), CpuSet(1), 1, version)
    return isinstance(refusal, Refusal) and refusal.stage == GATE_STAGES[0]


def _needs(message: str) -> bool:
    return "depends on features that are disabled" in message


def _gate_in(message: str, gates: Mapping[str, bool]) -> tuple[str, ...]:
    return next(((name,) for name in sorted(gates) if name in message), ())


def _valid(raw: dict[str, Any], version: Version, start: Start) -> dict[str, Any]:
    def problems(value: Raw) -> list[str]:
        config = decode_kubelet_config(value, version)
        if isinstance(config, Refusal):
            return []
        gates = resolve_gates(config.feature_gates, version)
        return [] if isinstance(gates, str) else list(validate.problems(config, gates, version))

    config = decode_kubelet_config(raw, version)
    told = config if isinstance(config, KubeletConfig) else None
    left = tuple(dict.fromkeys(problems(raw)))
    for steps, problem in zip(_blamed_for(raw, left, problems), left, strict=True):
        start.refusals.append(StartRefusal(VALIDATION, problem, steps, told))
    for _ in range(MOST):
        left = tuple(dict.fromkeys(problems(raw)))
        blamed = {steps for steps in _blamed_for(raw, left, problems) if steps}
        if not blamed:
            break
        outer = [steps for steps in blamed if not any(steps[:at] in blamed for at in range(1, len(steps)))]
        for steps in sorted(outer, key=_by_number, reverse=True):
            raw = _stand_in(without(raw, steps[:-1], steps[-1:]), steps)
    return raw


def _blamed_for(raw: Raw, listed: Sequence[str], problems: Callable[[Raw], Iterable[str]]) -> list[Steps]:
    """Who is to blame for each problem; beyond ``MOST`` of them, what all others lie in."""
    bits = {problem: 1 << min(at, MOST) for at, problem in enumerate(listed)}
    trials = Removals(raw, lambda value: sum({bits.get(problem, 0) for problem in problems(value)}))
    blamed = {bit: trials.blamed(bit) for bit in bits.values()}
    return [blamed[bits[problem]] for problem in listed]


def _by_number(steps: Steps) -> tuple[tuple[int, str], ...]:
    """Members of a list in their order: backwards, those that are left keep their numbers."""
    return tuple((step, "") if isinstance(step, int) else (-1, step) for step in steps)


def _stand_in(raw: dict[str, Any], steps: Steps) -> dict[str, Any]:
    """Keep what was taken out from leading to further refusals (rule 2)."""
    if steps[0] == "reservedSystemCPUs":
        return {**raw, "kubeReserved": {**(raw.get("kubeReserved") or {}), "cpu": "1"}}
    if steps[0] in ("reservedMemory", *STAGE_OF) and raw.get("memoryManagerPolicy") == "Static":
        return {**raw, "memoryManagerPolicy": "None"}
    return raw


# --- the managers and their files -----------------------------------------------------------


def _built(
    config: KubeletConfig, machine: Machine, files: dict[str, str], version: Version, start: Start
) -> None:
    for _ in range(MOST):
        node = boot(machine, config, Files(dict(files)), version=version)
        if isinstance(node, SimulatedNode):
            start.config, start.node = config, node
            return
        steps, past, file = _past(node, config, machine, version)
        start.refusals.append(StartRefusal(node.stage, node.message, steps, config))
        if past == config and file not in files:
            return
        files.pop(file, None)
        config = past
    start.more = True


def _past(
    refusal: Refusal, config: KubeletConfig, machine: Machine, version: Version
) -> tuple[Steps, KubeletConfig, str]:
    """The blamed field, the configuration that gets past the refusal, and the file to leave out for it."""
    match refusal.stage:
        case "reserved-cpus":
            return ("reservedSystemCPUs",), _one_cpu(replace(config, reserved_system_cpus="")), ""
        case stage if stage in STAGE_OF.values():
            name = next(name for name, own in STAGE_OF.items() if own == stage)
            return _past_amounts(name, config, machine, version)
        case "policy-options":
            cpu = refusal.message.startswith("CPU")
            steps = ("cpuManagerPolicyOptions" if cpu else "topologyManagerPolicyOptions",)
            if cpu:
                return steps, replace(config, cpu_manager_policy_options={}), ""
            return steps, replace(config, topology_manager_policy_options={}), ""
        case stage if stage == TOPOLOGY:
            return _past_topology(refusal, config, machine, version)
        case stage if stage == CPU_STAGE:
            return _past_cpus(refusal, config, machine, version)
        case stage if stage == MEMORY_STAGE:
            unknown = refusal.message.startswith(("unknown policy", "policy "))
            steps = ("memoryManagerPolicy",) if unknown else ("reservedMemory",)
            return steps, replace(config, memory_manager_policy="None"), ""
        case stage if stage == CPU_START:
            return (), config, CPU_FILE
        case stage if stage == MEMORY_START:
            return (), config, MEMORY_FILE
    return (), replace(config, cpu_manager_policy="none", cpu_manager_policy_options={}), ""


def _one_cpu(config: KubeletConfig) -> KubeletConfig:
    return replace(config, kube_reserved={**config.kube_reserved, "cpu": "1"})


def _past_amounts(
    name: str, config: KubeletConfig, machine: Machine, version: Version
) -> tuple[Steps, KubeletConfig, str]:
    given = _amounts(config, name)
    bad = _bad_key(config, name, machine, version)
    if not bad:
        return (name,), _with_amounts(config, name, {}), ""
    past = _with_amounts(config, name, {key: text for key, text in given.items() if key != bad})
    if bad == "cpu":
        past = _one_cpu(past)
    elif (bad == "memory" or name == EVICTION) and past.memory_manager_policy == "Static":
        past = replace(past, memory_manager_policy="None")
    return (name, bad), past, ""


def _bad_key(config: KubeletConfig, name: str, machine: Machine, version: Version) -> str:
    """The first entry that is refused also when it is the only one."""
    for key, text in sorted(_amounts(config, name).items()):
        trial = _with_amounts(config, name, {key: text})
        found = check(trial, CpuSet(machine.layout.all), machine.capacity, version)
        if isinstance(found, Refusal) and found.stage == STAGE_OF[name]:
            return key
    return ""


def _amounts(config: KubeletConfig, name: str) -> Mapping[str, str]:
    if name == EVICTION:
        return config.eviction_hard
    return config.kube_reserved if name == "kubeReserved" else config.system_reserved


def _with_amounts(config: KubeletConfig, name: str, given: Mapping[str, str]) -> KubeletConfig:
    if name == EVICTION:
        return replace(config, eviction_hard=given)
    if name == "kubeReserved":
        return replace(config, kube_reserved=given)
    return replace(config, system_reserved=given)


def _past_topology(
    refusal: Refusal, config: KubeletConfig, machine: Machine, version: Version
) -> tuple[Steps, KubeletConfig, str]:
    options = config.topology_manager_policy_options
    none = replace(config, topology_manager_policy="none", topology_manager_policy_options={})
    if refusal.message.startswith("unsupported on machines"):
        return ("topologyManagerPolicy",), none, ""
    for name in sorted(options):
        kept = {one: value for one, value in options.items() if one != name}
        past = replace(config, topology_manager_policy_options=kept)
        if boot(machine, past, Files(), version=version) != refusal:
            return ("topologyManagerPolicyOptions", name), past, ""
    return ("topologyManagerPolicyOptions",), none, ""


def _past_cpus(
    refusal: Refusal, config: KubeletConfig, machine: Machine, version: Version
) -> tuple[Steps, KubeletConfig, str]:
    options = config.cpu_manager_policy_options
    none = replace(config, cpu_manager_policy="none", cpu_manager_policy_options={})
    if refusal.message.startswith("new none policy"):
        return ("cpuManagerPolicyOptions",), none, ""
    for name in sorted(options):
        kept = {one: value for one, value in options.items() if one != name}
        past = replace(config, cpu_manager_policy_options=kept)
        if boot(machine, past, Files(), version=version) != refusal:
            return ("cpuManagerPolicyOptions", name), past, ""
    if "unable to reserve" in refusal.message:
        counted = [name for name in ("kubeReserved", "systemReserved") if "cpu" in _amounts(config, name)]
        return (counted[0], "cpu") if counted else ("cpuManagerPolicy",), none, ""
    return ("cpuManagerPolicy",), none, ""
