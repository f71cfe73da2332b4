"""Every setting of a kubelet that decides here: type, values, default in a release, and what it excludes.

Rules kept here:

1. Nothing is listed twice: fields are those of ``KubeletConfig`` and the others that admission asks for,
   types those of ``codec.kubelet.fields``; options, gates, values and defaults come from the tables of
   ``rules``.  ``data/settings.toml`` adds sentences for people.
2. A release has the fields, options and gates that its tables say; the rest is left out.
3. Gates that decisions depend on have a sentence; any other may be set, and changes nothing here.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

from numawise.codec.kubelet.effective import camel_field
from numawise.codec.kubelet.fields import (
    ByName,
    Many,
    Shape,
    Struct,
    TextType,
    Truth,
    Whole,
    configuration_of,
)
from numawise.datafile import data_text
from numawise.engine.predicates import MOST_PODS
from numawise.results.settings import (
    AMOUNTS,
    CHOICE,
    GATES,
    MEMORY,
    NUMBER,
    OPTIONS,
    TEXT,
    TEXTS,
    TRUTH,
    KubeletSetting,
    SettingList,
    SettingValue,
)
from numawise.rules import eviction
from numawise.rules.check import RESERVABLE
from numawise.rules.gates import ALPHA, BETA, DEPRECATED, WHOLE_STAGE, Gate, gates_of, needs_of
from numawise.rules.model import CPU_POLICIES, MEMORY_POLICIES, KubeletConfig
from numawise.rules.options import (
    CPU_MATURITY,
    DEFAULT_MOST_NUMA,
    EXCLUSIVE,
    MOST_NUMA,
    TOPOLOGY_MATURITY,
    History,
    Maturity,
    maturity,
)
from numawise.rules.validate.managers import (
    ENFORCED,
    TOPOLOGY_POLICIES,
    TOPOLOGY_SCOPES,
    swap_behaviours,
)
from numawise.rules.versions import Version, manners_of, shown

NOT_FIELDS = frozenset({"other", "given"})
ASKED_FOR = (
    "mergeDefaultEvictionSettings",
    "maxPods",
    "podsPerCore",
    "memorySwap.swapBehavior",
    "allowedUnsafeSysctls",
)
"""Fields beside those of ``KubeletConfig`` that a decision depends on."""
OPTION_FIELDS = {
    "topologyManagerPolicyOptions": ("TopologyManager", TOPOLOGY_MATURITY),
    "cpuManagerPolicyOptions": ("CPUManager", CPU_MATURITY),
}
GATE_FIELD = "featureGates"
LEVELS = {ALPHA: "alpha", BETA: "beta", DEPRECATED: "deprecated"}
SIGNALS = ("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available", "pid.available")
TRUTHS = (SettingValue("true"), SettingValue("false"))


@cache
def kubelet_settings(version: Version) -> SettingList:
    """All settings of a release, in the order in which they are shown."""
    found = [*_fields(version)]
    order = {
        group: at for at, group in enumerate(dict.fromkeys(one["group"] for one in _words("fields").values()))
    }
    found.sort(key=lambda one: order[one.group])
    return SettingList(shown(version), tuple(found))


def field_names() -> tuple[str, ...]:
    """The fields that decide, whether or not a release has them."""
    own = [camel_field(one.name) for one in fields(KubeletConfig) if one.name not in NOT_FIELDS]
    return (*own, *ASKED_FOR)


@cache
def _words(section: str) -> Mapping[str, Any]:
    return dict(tomllib.loads(data_text(__file__, "settings.toml"))[section])


# --- fields -----------------------------------------------------------------------------------


def _fields(version: Version) -> Iterator[KubeletSetting]:
    for name in field_names():
        path = tuple(name.split("."))
        shape = _shape(path, version)
        if shape is None:
            continue
        words = _words("fields")[name]
        values = _values(name, version)
        told = words.get("values", {})
        yield KubeletSetting(
            path=path,
            kind=_kind(name, shape, choice=bool(values)),
            group=words["group"],
            words=words["words"],
            rules=(words["rule"],) if "rule" in words else (),
            default=_default(name, version),
            values=tuple(SettingValue(value, told.get(value, "")) for value in values),
            names=_names(name),
        )
        if name in OPTION_FIELDS:
            yield from _options(name, words["group"], version)
        if name == GATE_FIELD:
            yield from _gates(words["group"], version)


def _shape(path: tuple[str, ...], version: Version) -> Shape | None:
    """The type of a field; None where the release does not have it (rule 2)."""
    shape: Shape = configuration_of(version)
    for step in path:
        if not isinstance(shape, Struct) or step not in shape.fields:
            return None
        shape = shape.fields[step].shape
    return shape


def _kind(name: str, shape: Shape, *, choice: bool) -> str:
    match shape:
        case _ if name in OPTION_FIELDS:
            return OPTIONS
        case _ if name == GATE_FIELD:
            return GATES
        case Truth():
            return TRUTH
        case Whole():
            return NUMBER
        case Many(item=Struct()):
            return MEMORY
        case Many():
            return TEXTS
        case ByName():
            return AMOUNTS
        case TextType():
            return CHOICE if choice else TEXT
    raise ValueError(f"{name} has a type that no form shows")


def _values(name: str, version: Version) -> tuple[str, ...]:
    match name:
        case "topologyManagerPolicy":
            return TOPOLOGY_POLICIES
        case "topologyManagerScope":
            return TOPOLOGY_SCOPES
        case "cpuManagerPolicy":
            return CPU_POLICIES
        case "memoryManagerPolicy":
            return MEMORY_POLICIES
        case "enforceNodeAllocatable":
            return ENFORCED
        case "memorySwap.swapBehavior":
            return swap_behaviours(version)
    return ()


def _default(name: str, version: Version) -> str:
    if name == "evictionHard":
        return ", ".join(f"{signal} {size}" for signal, size in eviction.defaults(version).items())
    if name == "maxPods":
        return str(MOST_PODS)
    own = next((one for one in fields(KubeletConfig) if camel_field(one.name) == name), None)
    value = own.default if own is not None else None
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else ""


def _names(name: str) -> tuple[str, ...]:
    if name in ("kubeReserved", "systemReserved"):
        return tuple(sorted(RESERVABLE, key=lambda one: (one not in ("cpu", "memory"), one)))
    return SIGNALS if name == "evictionHard" else ()


# --- policy options ---------------------------------------------------------------------------


def _options(name: str, group: str, version: Version) -> Iterator[KubeletSetting]:
    manager, histories = OPTION_FIELDS[name]
    for option, history in histories.items():
        level = maturity(history, version)
        if level is None:
            continue
        excludes = _excluded(option, version)
        needs = _option_gates(manager, level, version)
        yield KubeletSetting(
            path=(name, option),
            kind=NUMBER if option == MOST_NUMA else TRUTH,
            group=group,
            words=_words("options")[option],
            rules=tuple(_option_rules(level, history, needs, excludes, version)),
            default=str(DEFAULT_MOST_NUMA) if option == MOST_NUMA else "false",
            quoted=True,
            level=level.value.lower(),
            excludes=excludes,
            needs=needs,
        )


def _excluded(option: str, version: Version) -> tuple[str, ...]:
    others = [other if one == option else one for one, other in EXCLUSIVE if option in (one, other)]
    return tuple(other for other in others if maturity(CPU_MATURITY[other], version))


def _option_gates(manager: str, level: Maturity, version: Version) -> tuple[str, ...]:
    names = [f"{manager}PolicyOptions"]
    if level is not Maturity.STABLE and manners_of(version).options_have_levels:
        names.append(f"{manager}Policy{level.value}Options")
    known = gates_of(version)
    return tuple(name for name in names if name in known)


def _option_rules(
    level: Maturity, history: History, needs: tuple[str, ...], excludes: tuple[str, ...], version: Version
) -> Iterator[str]:
    since = min(release for release, stage in history.items() if stage is level)
    yield f"{level.value} since {shown(since)}."
    gates = gates_of(version)
    for name in needs:
        if not gates[name].locked:
            yield f"Needs the feature gate {name}, {_switch(gates[name])} unless it is set."
    if excludes:
        yield f"Not together with {' or '.join(excludes)}."


# --- feature gates ----------------------------------------------------------------------------


def _gates(group: str, version: Version) -> Iterator[KubeletSetting]:
    """The gates that decide, then any other (rule 3)."""
    gates, needs, words = gates_of(version), needs_of(version), _words("gates")
    for minor in (False, True):
        for name, gate in gates.items():
            if name in WHOLE_STAGE or (name in words) == minor:
                continue
            yield KubeletSetting(
                path=(GATE_FIELD, name),
                kind=TRUTH,
                group=group,
                words=words.get(name, ""),
                rules=tuple(_gate_rules(gate, needs.get(name, ()))),
                default=str(gate.default).lower(),
                values=TRUTHS,
                level=LEVELS.get(gate.stage, "stable"),
                needs=needs.get(name, ()),
                locked=gate.locked,
                minor=minor,
            )


def _gate_rules(gate: Gate, needs: tuple[str, ...]) -> Iterator[str]:
    level = LEVELS.get(gate.stage, "stable").capitalize()
    yield f"{level}, {'locked ' if gate.locked else ''}{_switch(gate)}{'' if gate.locked else ' by default'}."
    if needs:
        yield f"Needs {' and '.join(needs)} to be on."


def _switch(gate: Gate) -> str:
    return "on" if gate.default else "off"
