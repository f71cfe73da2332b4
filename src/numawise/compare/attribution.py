"""Two releases side by side, and a kubelet that is of the one but keeps some ways of the other.

What a release decides can differ from another's in three places: named behaviours, gates that are on by
default, and fields of the configuration that only one of them reads.  Each difference is a *switch*.
Starting the newer release with some switches set back shows which of them an outcome depends on.

Rules kept here:

1. With all switches set back, the newer release decides as the older one does.
2. An outcome is explained by a smallest set of switches that bring the old outcome back: no switch
   of it can be left out.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Generic, TypeVar

from numawise.codec.kubelet.config import decode_kubelet_config
from numawise.codec.kubelet.fields import field_since
from numawise.engine.start import MANAGER_GATES
from numawise.rules.behaviour import WAYS, Behaviour, behaviour_of
from numawise.rules.check import Refusal, Settings
from numawise.rules.gates import gates_of, resolve_gates
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import Version, shown
from numawise.values import dataclass, replace

Raw = Mapping[str, object]
Outcome = TypeVar("Outcome")

KINDS = ("field", "gate", "behaviour")
"""What is left out first where several explain an outcome: a named behaviour says most."""
WORDY = {"reserved_system_cpus": "reservedSystemCPUs"}
NOT_SWITCHES = frozenset({"feature_gates", "given", "other"})
"""What a release reads of these follows from its gates, or only validation looks at it."""


@dataclass(frozen=True, slots=True, order=True)
class ReleaseDifference:
    """One thing that two releases do differently."""

    kind: str
    """``behaviour``, ``gate`` or ``field``."""
    name: str


@dataclass(frozen=True, slots=True)
class Pair:
    """An older and a newer release, each with the configuration it is given."""

    old: Version
    new: Version
    old_config: Raw
    new_config: Raw
    counterparts: tuple[tuple[Raw, Raw], ...] = ()
    """(for the new, for the old): configurations that replace these later, at a restart."""

    def for_old(self, kubelet: object) -> Raw:
        """The old release's counterpart of a configuration that the new one is given."""
        return next((old for new, old in self.counterparts if new is kubelet), self.old_config)


def switches(pair: Pair) -> tuple[ReleaseDifference, ...]:
    """Everything the two releases do differently, gates and fields first."""
    old, new = behaviour_of(pair.old), behaviour_of(pair.new)
    found = [
        ReleaseDifference("behaviour", way.name)
        for way in WAYS
        if getattr(old, way.name) != getattr(new, way.name)
    ]
    configs = [(pair.old_config, pair.new_config), *((old, new) for new, old in pair.counterparts)]
    settings: set[ReleaseDifference] = set()
    for old_raw, new_raw in configs:
        settings.update(_gate_switches(pair, old_raw, new_raw))
        settings.update(_field_switches(pair, old_raw, new_raw))
    return (*sorted(settings), *found)


def _gate_switches(pair: Pair, old_raw: Raw, new_raw: Raw) -> Iterable[ReleaseDifference]:
    old, new = _gates(old_raw, pair.old), _gates(new_raw, pair.new)
    return (ReleaseDifference("gate", name) for name in MANAGER_GATES if old.get(name) != new.get(name))


def _field_switches(pair: Pair, old_raw: Raw, new_raw: Raw) -> Iterable[ReleaseDifference]:
    old, new = decode_kubelet_config(old_raw, pair.old), decode_kubelet_config(new_raw, pair.new)
    if isinstance(old, Refusal) or isinstance(new, Refusal):
        return ()
    names = [one.name for one in fields(KubeletConfig) if one.name not in NOT_SWITCHES]
    return (ReleaseDifference("field", name) for name in names if getattr(old, name) != getattr(new, name))


def _gates(raw: Raw, version: Version) -> Mapping[str, bool]:
    """The gates that are on or off; none where they stop the kubelet."""
    config = decode_kubelet_config(raw, version)
    gates = {} if isinstance(config, Refusal) else resolve_gates(config.feature_gates, version)
    return {} if isinstance(gates, str) else gates


@dataclass(frozen=True, slots=True)
class Blend:
    """The newer release with some switches set back."""

    pair: Pair
    back: frozenset[ReleaseDifference]

    def names(self, kind: str) -> list[str]:
        """The switches of one kind that are set back."""
        return [switch.name for switch in self.back if switch.kind == kind]

    def config(self, kubelet: Raw | KubeletConfig, config: KubeletConfig) -> KubeletConfig:
        """The configuration, with some fields as the old release reads them."""
        names = self.names("field")
        old = decode_kubelet_config(self.pair.for_old(kubelet), self.pair.old) if names else config
        if isinstance(old, Refusal):
            return config
        return replace(config, **{name: getattr(old, name) for name in names})

    def settings(self, kubelet: Raw | KubeletConfig, settings: Settings) -> Settings:
        """The settings, with some gates as they are in the old release."""
        names = self.names("gate")
        if not names:
            return settings
        old = _gates(self.pair.for_old(kubelet), self.pair.old)
        gates = {name: on for name, on in settings.gates.items() if name not in names}
        return replace(settings, gates={**gates, **{name: old[name] for name in names if name in old}})

    def behaviour(self, behaviour: Behaviour) -> Behaviour:
        """The behaviours, some of them those of the old release."""
        old = behaviour_of(self.pair.old)
        return replace(behaviour, **{name: getattr(old, name) for name in self.names("behaviour")})


class Search(Generic[Outcome]):
    """Looks for the switches that outcomes depend on; each blend is tried once."""

    def __init__(
        self, pair: Pair, trial: Callable[[Blend], Outcome], known: Iterable[ReleaseDifference] | None = None
    ) -> None:
        self.pair = pair
        self.trial = trial
        self.every = frozenset(switches(pair) if known is None else known)
        self.order = tuple(sorted(self.every, key=lambda switch: (KINDS.index(switch.kind), switch.name)))
        self.tried: dict[frozenset[ReleaseDifference], Outcome] = {}
        self.found: list[frozenset[ReleaseDifference]] = []

    def outcome(self, back: frozenset[ReleaseDifference]) -> Outcome:
        """What comes out with these switches set back."""
        if back not in self.tried:
            self.tried[back] = self.trial(Blend(self.pair, back))
        return self.tried[back]

    def explain(self, as_before: Callable[[Outcome], bool]) -> tuple[ReleaseDifference, ...]:
        """A smallest set of switches that bring the old outcome back; empty when none does."""
        start = next((one for one in self.found if as_before(self.outcome(one))), self.every)
        if not as_before(self.outcome(start)):
            return ()
        left = start
        for switch in self.order:
            if switch in left and as_before(self.outcome(left - {switch})):
                left -= {switch}
        if left not in self.found:
            self.found.append(left)
        return tuple(sorted(left))


def change_text(switch: ReleaseDifference, pair: Pair) -> str:
    """A sentence about one switch: what is new, or gone."""
    old, new = shown(pair.old), shown(pair.new)
    if switch.kind == "behaviour":
        way = next(way for way in WAYS if way.name == switch.name)
        gone = "" if way.holds(pair.new) else f"Not in {new}: "
        return f"{gone}{way.says} ({way.span})"
    if switch.kind == "gate":
        was, now = _gate_told(switch.name, pair.old), _gate_told(switch.name, pair.new)
        return f"Gate {switch.name} is {was} in {old}, {now} in {new}."
    name = json_name(switch.name)
    since = field_since(name)
    if since is not None and since > min(pair.old, pair.new):
        return f"Field {name} is read since {shown(since)}."
    return f"Field {name} has another default or meaning."


def _gate_told(name: str, version: Version) -> str:
    gate = gates_of(version).get(name)
    if gate is None:
        return "not there"
    return f"{'on' if gate.default else 'off'}{' and locked' if gate.locked else ''} by default"


def json_name(attribute: str) -> str:
    """``cpu_manager_policy`` as the configuration has it: ``cpuManagerPolicy``."""
    first, *rest = attribute.split("_")
    return WORDY.get(attribute) or first + "".join(map(str.capitalize, rest))
