"""What an upgrade of the kubelet does to a node: its gates, fields, state files and pods.

Rules kept here:

1. The newer kubelet is given the older one's configuration and state files, to the letter.
2. What stops it is reported one by one, not only the first: every gate, every file.
3. Pods that the state files know are running and are admitted again, the others are new; both releases go
   through the same restart, so that what differs is due to the release and not to the restart.
4. A running pod that any restart would refuse is reported as well.

The same holds for the way back: the newer release may be the lower one.
"""

from collections.abc import Iterator, Mapping, Sequence

from numawise.codec.checkpoint import (
    CPU_FILE,
    DEVICE_FILE,
    MEMORY_FILE,
    decode_cpu,
    decode_devices,
    decode_memory,
)
from numawise.codec.kubelet.config import decode_kubelet_config, unknown_fields
from numawise.codec.kubelet.fields import field_since
from numawise.compare.attribution import Blend, Pair, Raw, Search, change_text, json_name, switches
from numawise.compare.releases import Case, compare, reason_of, run
from numawise.engine.start import CLAIMS_GATE, MANAGER_GATES, build
from numawise.machine.model import Machine
from numawise.node.ruled import Tune
from numawise.request.defaults import RawPod
from numawise.results.comparison import STOPPED, Reason, UpgradeEffect, UpgradeReport
from numawise.rules.behaviour import behaviour_of
from numawise.rules.check import Refusal, check
from numawise.rules.gates import Gate, gates_of, resolve_gates
from numawise.rules.model import Rules
from numawise.rules.versions import NEWEST, OLDEST, Version, shown
from numawise.sets import CpuSet
from numawise.values import replace

GATE_UNKNOWN, GATE_LOCKED, GATE_NEEDS = "gate-unknown", "gate-locked", "gate-needs"
GATE_DEFAULT = "gate-default"
FIELD_UNKNOWN, FIELD_NEW, FIELD_GONE = "field-unknown", "field-new", "field-gone"
STATE_FILE, RESTART = "state-file", "restart-refused"
RELEASES = tuple((1, minor) for minor in range(OLDEST[1], NEWEST[1] + 1))


def upgrade(
    config: Raw,
    machine: Machine,
    files: Mapping[str, str],
    pods: Sequence[RawPod],
    old: Version,
    new: Version,
) -> UpgradeReport:
    """What becomes of a node when its kubelet goes from one release to another."""
    pair = Pair(old, new, config, config)
    case = Case(machine, files, tuple(pods), restart=True)
    findings = [*_gates(pair), *_fields(pair), *_files(case, pair)]
    stopping = tuple(Reason(one.name, one.text) for one in findings if one.stops)
    changes = tuple(
        replace(change, reasons=stopping) if change.kind == STOPPED and not change.reasons else change
        for change in compare(case, pair)
    )
    return UpgradeReport(old, new, len(pods), (*findings, *_restarts(case, pair)), changes)


# --- gates ------------------------------------------------------------------------------------


def _gates(pair: Pair) -> Iterator[UpgradeEffect]:
    config = decode_kubelet_config(pair.new_config, pair.new)
    given = {} if isinstance(config, Refusal) else config.feature_gates
    before, after = gates_of(pair.old), gates_of(pair.new)
    for name, value in sorted(given.items()):
        gate = after.get(name)
        if gate is None:
            yield _unknown_gate(name, pair)
        elif gate.locked and value != gate.default:
            where = f"{shown(pair.new)} has it locked {_on(gate)} (since {_locked_since(name)})"
            text = f"cannot be {'on' if value else 'off'}: {where}; remove it from featureGates"
            yield UpgradeEffect(GATE_LOCKED, name, text, stops=name in before and not _locked(pair.old, name))
    settled = resolve_gates(given, pair.new)
    if isinstance(settled, str) and "depends on features" in settled:
        fine_before = not isinstance(resolve_gates(given, pair.old), str)
        yield UpgradeEffect(GATE_NEEDS, "featureGates", settled, stops=fine_before)
    for name in MANAGER_GATES:
        one, other = before.get(name), after.get(name)
        if name == CLAIMS_GATE:
            continue  # only pods with claims notice, and for these it is named where they fare otherwise
        if name not in given and one and other and one.default != other.default:
            text = f"is {_on(one)} in {shown(pair.old)} and {_on(other)} in {shown(pair.new)}, if not set"
            yield UpgradeEffect(GATE_DEFAULT, name, text)


def _unknown_gate(name: str, pair: Pair) -> UpgradeEffect:
    known = [version for version in RELEASES if name in gates_of(version)]
    if not known:
        return UpgradeEffect(GATE_UNKNOWN, name, "is unknown to every release; remove it from featureGates")
    only = f"{shown(known[-1])} is the last release that has it"
    if known[0] > pair.new:
        only = f"{shown(known[0])} is the first release that has it"
    text = f"is unknown to {shown(pair.new)}, {only}; remove it from featureGates"
    return UpgradeEffect(GATE_UNKNOWN, name, text, stops=name in gates_of(pair.old))


def _locked(version: Version, name: str) -> bool:
    gate = gates_of(version).get(name)
    return gate is not None and gate.locked


def _locked_since(name: str) -> str:
    return next(shown(version) for version in RELEASES if _locked(version, name))


def _on(gate: Gate) -> str:
    return "on" if gate.default else "off"


# --- fields -----------------------------------------------------------------------------------


def _fields(pair: Pair) -> Iterator[UpgradeEffect]:
    before, after = (_passed_over(pair.new_config, version) for version in (pair.old, pair.new))
    old, new = shown(pair.old), shown(pair.new)
    for name in sorted({*before, *after}):
        since = field_since(name.partition(".")[0].partition("[")[0])
        first = f" (read since {shown(since)})" if since else ""
        if name in before and name in after:
            yield UpgradeEffect(FIELD_UNKNOWN, name, f"is ignored by both{first}; remove it")
        elif name in before:
            yield UpgradeEffect(FIELD_NEW, name, f"was ignored by {old} and counts in {new}{first}")
        else:
            yield UpgradeEffect(
                FIELD_GONE, name, f"counted in {old} and is ignored by {new}{first}; remove it"
            )
    for switch in switches(pair):
        name = json_name(switch.name)
        if switch.kind == "field" and name not in {*before, *after}:
            yield UpgradeEffect(FIELD_NEW, name, change_text(switch, pair))


def _passed_over(raw: Raw, version: Version) -> list[str]:
    return [text.removeprefix('unknown field "').removesuffix('"') for text in unknown_fields(raw, version)]


# --- state files ------------------------------------------------------------------------------


def _files(case: Case, pair: Pair) -> Iterator[UpgradeEffect]:
    """Which files the newer release would not take over, each judged for itself."""
    before, after = _rules(case, pair.old_config, pair.old), _rules(case, pair.new_config, pair.new)
    for name, text in sorted(case.files.items()):
        was, now = _complaint(name, text, before), _complaint(name, text, after)
        if now and was:
            yield UpgradeEffect(STATE_FILE, name, f"{now}; {shown(pair.old)} does not take it either")
        elif now:
            yield UpgradeEffect(
                STATE_FILE, name, now, name != DEVICE_FILE, _file_reasons(case, pair, name, text)
            )


def _file_reasons(case: Case, pair: Pair, name: str, text: str) -> tuple[Reason, ...]:
    def trial(blend: Blend) -> str:
        return _complaint(name, text, _rules(case, pair.new_config, pair.new, blend))

    search: Search[str] = Search(pair, trial)
    return tuple(reason_of(switch, pair) for switch in search.explain(lambda complaint: not complaint))


def _rules(case: Case, raw: Raw, version: Version, tune: Tune | None = None) -> Rules | None:
    """The rules of a release, None where it does not get as far as its files."""
    config = decode_kubelet_config(raw, version)
    if isinstance(config, Refusal):
        return None
    if tune is not None:
        config = tune.config(raw, config)
    settings = check(config, CpuSet(case.machine.layout.all), case.machine.capacity, version)
    if isinstance(settings, Refusal):
        return None
    behaviour = behaviour_of(version)
    if tune is not None:
        settings, behaviour = tune.settings(raw, settings), tune.behaviour(behaviour)
    rules = build(case.machine, config, settings, version, behaviour)
    return None if isinstance(rules, Refusal) else rules


def _complaint(name: str, text: str, rules: Rules | None) -> str:
    """What a release has against a file; '' when nothing, or when it does not look."""
    if rules is None:
        return ""
    if name == CPU_FILE and rules.cpu_manager:
        cpus = decode_cpu(text, rules)
        return cpus.message if isinstance(cpus, Refusal) else ""
    if name == MEMORY_FILE and rules.memory_manager:
        memory = decode_memory(text, rules)
        return memory.message if isinstance(memory, Refusal) else ""
    if name == DEVICE_FILE and rules.device_manager:
        devices = decode_devices(text, rules)
        forgets = "; the kubelet goes on as if no devices were allocated"
        return f"{devices}{forgets}" if isinstance(devices, str) else ""
    return ""


# --- running pods -----------------------------------------------------------------------------


def _restarts(case: Case, pair: Pair) -> Iterator[UpgradeEffect]:
    """Running pods that a restart of either release refuses."""
    recorded = "".join(case.files.values())
    before, after = run(case, pair.old_config, pair.old), run(case, pair.new_config, pair.new)
    for old, new in zip(before.pods, after.pods, strict=False):
        if f'"{new.uid}"' in recorded and old.verdict == new.verdict == "rejected":
            yield UpgradeEffect(RESTART, new.pod, f"is running, and refused by any restart: {new.words}")
