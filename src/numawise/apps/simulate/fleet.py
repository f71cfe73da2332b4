"""Many nodes and a queue of pods: which node each goes to, and who fits nowhere.

Rules kept here:

1. Pods arrive in order, and none leaves.  A node must have enough by sums, as the scheduler sees it, before
   its kubelet is asked.
2. ``first``: the first node in order whose kubelet admits the pod and starts its containers.  ``spread``:
   likewise, but the emptiest first.  ``sums``: the emptiest by sums, as a scheduler sends it that knows no
   NUMA nodes; when the kubelet there refuses, the pod has failed.
3. A kubelet that is only asked remembers nothing; the answer holds until its state changes, for all nodes in
   the same state and all pods that ask for the same.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path

from numawise.apps.simulate.scenario import Progress
from numawise.codec.bundle.archive import is_bundle
from numawise.codec.document import Part, read_file
from numawise.codec.infile import is_file, is_folder, is_there, members
from numawise.engine.admit import Crashed, Rejected, admit
from numawise.engine.lifecycle import start_containers
from numawise.engine.matching import Unmet, kept_away
from numawise.engine.predicates import Insufficient, Sums, add, asked, insufficient, judged, used
from numawise.engine.state import NodeState
from numawise.errors import InputError, quoted
from numawise.inputs.machine import MACHINE_FILES, is_name
from numawise.inputs.nodefolder import folder_spec
from numawise.inputs.spec import NodeSpec, read_node, start_node
from numawise.node.node import SimulatedNode
from numawise.render.demands import unmet_text
from numawise.request.defaults import ORDINARY, RawPod
from numawise.request.model import CPU, MEMORY, PodRequest
from numawise.results.simulation import NOWHERE, PLACED, REJECTED, FleetNode, FleetRun, Sent, Simulated
from numawise.strconv import whole_number
from numawise.values import dataclass, field, replace

FIRST, SPREAD, SUMS = "first", "spread", "sums"
CHOICES = (FIRST, SPREAD, SUMS)
CRASHES, NO_START = "the kubelet crashes", "a container cannot start"


@dataclass(slots=True)
class Member:
    """One node of many."""

    name: str
    node: SimulatedNode
    token: int
    """Stands for the state: nodes with the same one would answer the same."""
    allocatable: Mapping[str, int] = field(default_factory=dict)
    used: dict[str, int] = field(default_factory=dict)
    placed: list[Simulated] = field(default_factory=list)
    rejected: int = 0
    """Pods that were sent here and refused."""
    before: int = 0
    """Pods that were here from the start."""
    free: float = 0.0
    """The share of CPU and memory that no pod asked for."""

    def __post_init__(self) -> None:
        self.count()

    def count(self) -> None:
        """Work out the free share again."""
        shares = [
            1 - self.used.get(name, 0) / self.allocatable[name]
            for name in (CPU, MEMORY)
            if self.allocatable.get(name)
        ]
        self.free = sum(shares) / len(shares) if shares else 0.0


@dataclass(slots=True)
class Fleet:
    """All nodes, and what became of the pods so far."""

    members: tuple[Member, ...]
    choice: str = FIRST
    sent: list[Sent] = field(default_factory=list)
    total: int = 0
    interrupted: bool = False

    def result(self) -> FleetRun:
        """What became of all of it so far."""
        nodes = tuple(
            FleetNode(
                name=member.name,
                version=member.node.version,
                pods=member.before + len(member.placed),
                rejected=member.rejected,
                exclusive_cpus=exclusive_cpus(member.node.state),
                allocatable=dict(member.allocatable),
                requested=member.used,
                resources=tuple(sorted(member.node.state.devices.plugins)),
            )
            for member in self.members
        )
        return FleetRun(nodes, self.choice, self.sent, self.total, self.interrupted)


def fleet_of(groups: Iterable[tuple[Sequence[str], SimulatedNode]], choice: str = FIRST) -> Fleet:
    """Nodes out of kubelets that were started; those of one group begin alike."""
    tokens = count()
    members: list[Member] = []
    for names, node in groups:
        node.write_files = False
        token = next(tokens)
        limits, sums = node.allocatable(), used(node.state)
        for name in names:
            own = replace(node) if len(names) > 1 else node
            before = len(node.state.active)
            members.append(Member(name, own, token, limits, dict(sums), before=before))
    return Fleet(tuple(members), choice)


def send(fleet: Fleet, pods: Sequence[RawPod], progress: Progress = lambda _: None) -> Fleet:
    """Send the pods in order; interrupted, the fleet reports what was done so far."""
    fleet.total = len(pods)
    desk = _Desk(fleet)
    try:
        for number, pod in enumerate(pods, 1):
            fleet.sent.append(desk.send(pod))
            progress(number)
    except KeyboardInterrupt:
        fleet.interrupted = True
    return fleet


Shape = tuple[object, ...]


@dataclass(slots=True)
class _Asked:
    """What is known about pods of one shape."""

    refused: dict[int, str] = field(default_factory=dict)
    """State → why it does not go there."""
    nowhere: tuple[int, Sent] | None = None
    """After how many changes no node took it, and what was said."""


class _Desk:
    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.tokens = count(1 + max((one.token for one in fleet.members), default=0))
        self.changes = 0
        self.known: dict[Shape, _Asked] = {}
        self.shapes: dict[int, Shape] = {}
        self.kept: list[object] = []
        self.wanted: dict[tuple[int, frozenset[str]], tuple[PodRequest, dict[str, int]]] = {}

    def send(self, raw: RawPod) -> Sent:
        self.wanted.clear()
        known = self.known.setdefault(self.shape(raw), _Asked())
        if known.nowhere is not None and known.nowhere[0] == self.changes:
            return replace(known.nowhere[1], pod=raw)
        return self.by_sums(raw, known) if self.fleet.choice == SUMS else self.by_asking(raw, known)

    def shape(self, raw: RawPod) -> Shape:
        """What a pod asks for, as a key; pods of one workload share their containers."""
        found = self.shapes.get(id(raw.containers))
        if found is None or raw.requests is not None or raw.limits is not None:
            containers = tuple(
                (one.name, one.role, _key(one.requests), _key(one.limits)) for one in raw.containers
            )
            found = (containers, _key(raw.requests), _key(raw.limits), raw.qos, repr(raw.constraints))
            self.shapes[id(raw.containers)] = found
            self.kept.append(raw.containers)  # as long as it lives, nothing else has its id
        return found if found[3] == raw.qos else (*found[:3], raw.qos, found[4])

    def by_asking(self, raw: RawPod, known: _Asked) -> Sent:
        """The first node that admits it (rule 2)."""
        refused = known.refused
        for member in self.in_order():
            if member.token in refused:
                continue
            found = self.ask(member, raw)
            if isinstance(found, str):
                refused[member.token] = found
                continue
            pod, outcome, state = found
            self.settle(member, pod, outcome, state)
            return Sent(raw, PLACED, member.name, outcome)
        reasons = Counter(refused[member.token] for member in self.fleet.members)
        sent = Sent(raw, NOWHERE, reasons=tuple(reasons.most_common()), why=self.why(raw, known))
        known.nowhere = (self.changes, sent)
        return sent

    def by_sums(self, raw: RawPod, known: _Asked) -> Sent:
        """The emptiest node; its kubelet has the last word (rule 2)."""
        lacks: Counter[str] = Counter()
        for member in self.in_order():
            pod, want = self.want(member, raw)
            short = _lack(member, pod, want)
            if short is not None:
                lacks[short.reason] += 1
                continue
            answer = self.ask(member, raw)
            if not isinstance(answer, str):
                self.settle(member, *answer)
                return Sent(raw, PLACED, member.name, answer[1])
            why = _why(member, raw)
            decision = member.node.admit(pod)  # this time it is meant: what a refusal leaves behind stays
            member.rejected += 1
            self.changed(member)
            outcome = Simulated(pod, decision, (), (), member.node.state, member.node.facts)
            return Sent(raw, REJECTED, member.name, outcome, ((answer, 1),), why)
        sent = Sent(raw, NOWHERE, reasons=tuple(lacks.most_common()))
        known.nowhere = (self.changes, sent)
        return sent

    def want(self, member: Member, raw: RawPod) -> tuple[PodRequest, dict[str, int]]:
        """What reaches a kubelet of these rules, and its sums; worked out once for each pod."""
        rules = member.node.rules
        key = id(rules), member.node.claimed(raw)
        found = self.wanted.get(key)
        if found is None:
            pod = member.node.requested(raw)
            found = self.wanted[key] = pod, judged(rules, pod)
        return found

    def in_order(self) -> Iterable[Member]:
        if self.fleet.choice == FIRST:
            return self.fleet.members
        return sorted(self.fleet.members, key=lambda member: -member.free)

    def ask(self, member: Member, raw: RawPod) -> tuple[PodRequest, Simulated, NodeState] | str:
        """What a kubelet would do with a pod, or why it would not; nothing is kept (rules 1 and 3)."""
        node = member.node
        pod, want = self.want(member, raw)
        short = _lack(member, pod, want)
        if short is not None:
            return short.reason
        sums = None  # the scheduler has looked at them, and at what it asks for more than the kubelet
        if node.description is not None or pod.constraints is not ORDINARY:
            sums = Sums(member.allocatable, member.used, node.description)
        decision = admit(node.machine, node.rules, node.state, pod, sums=sums)
        if isinstance(decision, Rejected):
            return decision.reason
        if isinstance(decision, Crashed):
            return CRASHES
        state, started = start_containers(node.machine, node.rules, decision.state, pod, decision.affinity)
        if any(one.error for one in started):
            return NO_START
        granted = NodeState(decision.state.cpu, decision.state.memory, state.devices)
        return pod, Simulated(pod, decision, (), started, granted, node.facts), state

    def settle(self, member: Member, pod: PodRequest, outcome: Simulated, state: NodeState) -> None:
        member.node.keep(state)
        add(member.used, asked(pod))
        member.count()
        member.placed.append(outcome)
        self.changed(member)

    def changed(self, member: Member) -> None:
        member.token = next(self.tokens)
        self.changes += 1

    def why(self, raw: RawPod, known: _Asked) -> str:
        """Of one node where the sums would do: what decided, for its scheduler or its kubelet."""
        for member in self.fleet.members:
            if not known.refused[member.token].startswith("OutOf"):
                pod, want = self.want(member, raw)
                short = _lack(member, pod, want)
                if not isinstance(short, Unmet):
                    return _why(member, raw)
                cause, fix = unmet_text(short, pod, lambda uid: uid)
                return f"{member.name}: {cause}; {fix}"
        return ""


def _lack(member: Member, pod: PodRequest, want: dict[str, int]) -> Insufficient | Unmet | None:
    """Why a scheduler would not send a pod to a node (rule 1)."""
    node = member.node
    short = insufficient(node.rules, Sums(member.allocatable, member.used), want)
    return short[0] if short else kept_away(node.rules, node.description, pod, node.state.active.items())


def _why(member: Member, raw: RawPod) -> str:
    from numawise.explain.case import case_of  # noqa: PLC0415 - few pods need it
    from numawise.explain.explain import explain  # noqa: PLC0415

    answer = explain(case_of(member.node, raw), suggest=False).answer
    return f"{member.name}: {answer}"


def _key(amounts: object) -> object:
    if not isinstance(amounts, dict):
        return None
    return tuple((name, amount.nano, amount.exact) for name, amount in amounts.items())


def exclusive_cpus(state: NodeState) -> int:
    """How many CPUs of a node are exclusive."""
    found = 0
    for containers in state.cpu.assignments.values():
        for own in containers.values():
            found |= own
    for own in state.cpu.pods.values():
        found |= own
    return found.bit_count()


# --------------------------------------------------------------------------------------------------
# Where many nodes come from: ``machine:count``, folders, bundles, or a file that lists them.
#
# Rules kept here:
#
# 1. ``MACHINE:COUNT`` gives so many equal nodes of a machine in any form.
# 2. A folder with a machine file or a ``/sys`` is a node; so is a bundle.  Any other folder is a folder of
#    nodes, by name.
# 3. A file lists nodes with ``machine``, ``kubelet``, ``state``, ``node``, ``bundle``, ``name``, ``count``;
#    paths are relative to it.  What a node lacks comes from the command line.
# 4. Files that several nodes name are read once, and equal nodes are started once.


COUNTED = re.compile(r"(.+):(\d+)", re.ASCII)
NOT_A_NAME = re.compile(r"[^A-Za-z0-9.-]+")
FIELDS = ("name", "machine", "kubelet", "state", "node", "device_plugin", "bundle", "count")
MOST_NODES = 20_000


@dataclass(frozen=True, slots=True)
class Group:
    """So many equal nodes."""

    name: str
    named: NodeSpec
    count: int = 1
    numbered: bool = False
    """Their names end in a number, even if it is one alone."""


def groups_of(
    texts: Sequence[str], given: NodeSpec, say: Callable[[str], None] = lambda _: None
) -> list[tuple[tuple[str, ...], SimulatedNode]]:
    """Every group of nodes with their names, and a kubelet that was started for all of them.

    ``say`` is called with what a person should know about a release or a state file.
    """
    groups = [group for text in texts for group in _groups(text, given)]
    total = sum(group.count for group in groups)
    if total > MOST_NODES:
        raise InputError(f"{total} nodes are too many", field="--nodes", advice=f"at most {MOST_NODES}")
    taken: set[str] = set()
    started: dict[NodeSpec, SimulatedNode] = {}
    found = []
    for group in groups:
        if group.named not in started:
            source = read_node(group.named)
            started[group.named] = node = start_node(source)
            for remark in source.remarks_of_start:
                say(remark)
            if node.files.forgotten:
                say(f"warning: {source.state_place}: {node.files.forgotten}")
        node = started[group.named]
        found.append((_names(group, taken), replace(node)))
    return found


def _names(group: Group, taken: set[str]) -> tuple[str, ...]:
    many = group.count > 1 or group.numbered
    names = [f"{group.name}-{number}" for number in range(group.count)] if many else [group.name]
    for name in names:
        if name in taken:
            advice = "give each node a name of its own"
            raise InputError(f"two nodes are named {quoted(name)}", field="--nodes", advice=advice)
        taken.add(name)
    return tuple(names)


def _groups(text: str, given: NodeSpec) -> Iterator[Group]:
    path = Path(text)
    if not is_there(path):
        yield _counted(text, given)
    elif is_bundle(text):
        yield Group(_plain(path), folder_spec(text, given))
    elif is_folder(path):
        yield from _folder(path, given)
    else:
        yield from _file(text, given)


def _counted(text: str, given: NodeSpec) -> Group:
    found = COUNTED.fullmatch(text) if not is_there(text) else None
    machine, count = (found[1], whole_number(found[2])) if found else (text, 1)
    if not count:
        raise InputError(f"{quoted(text)} gives no nodes", field="--nodes", advice="count at least one")
    path = Path(machine)
    name = (
        (path.resolve().parent.name if path.stem == "machine" else path.stem) if is_there(path) else machine
    )
    return Group(NOT_A_NAME.sub("-", name), replace(given, machine=(machine,)), count, numbered=True)


def _folder(path: Path, given: NodeSpec) -> Iterator[Group]:
    """Rule 2."""
    if any(is_file(path / name) for name in MACHINE_FILES):
        yield _node_folder(path, given)
        return
    if is_folder(path / "sys"):
        yield _counted(str(path), given)
        return
    inside = [one for one in members(path) if _is_node(one)]
    if not inside:
        advice = "expected folders with machine.yaml and kubelet.yaml, or bundles"
        raise InputError("has no nodes", file=str(path), advice=advice)
    for one in inside:
        if is_bundle(str(one)):
            yield Group(_plain(one), folder_spec(str(one), given))
        else:
            yield _node_folder(one, given)


def _is_node(path: Path) -> bool:
    return is_bundle(str(path)) or (is_folder(path) and any(is_file(path / name) for name in MACHINE_FILES))


def _node_folder(path: Path, given: NodeSpec) -> Group:
    return Group(path.resolve().name, folder_spec(str(path), given))


def _file(text: str, given: NodeSpec) -> Iterator[Group]:
    """A list of nodes; any other file is the machine of one node."""
    try:
        documents = read_file(text)
    except InputError:
        documents = ()
    root = documents[0].root if documents else None
    if root is None or not (
        isinstance(root.value, list) or (isinstance(root.value, dict) and "nodes" in root.value)
    ):
        yield _counted(text, given)
        return
    if len(documents) > 1:
        raise documents[1].error((), "nodes are listed in one document")
    if isinstance(root.value, dict):
        root.mapping(("apiVersion", "kind", "nodes"))
        root = root.at("nodes")
    parts = root.items("a list of nodes")
    if not parts:
        raise root.error("lists no nodes", f"give each {', '.join(FIELDS[:3])}")
    for number, part in enumerate(parts):
        yield _listed(part, number, Path(text).parent, given)


def _listed(part: Part, number: int, folder: Path, given: NodeSpec) -> Group:
    part.mapping(FIELDS, "a node, such as {name: a, machine: machine.yaml}")
    count = part.at("count")
    many = 1 if count.value is None else count.integer(1, MOST_NODES)
    name = part.at("name")
    called = f"node-{number}" if name.value is None else name.text()
    named = given
    for key in ("machine", "kubelet", "state", "node", "device_plugin", "bundle"):
        one = part.at(key)
        if one.value is None:
            continue
        path = folder / one.text()
        known = key == "machine" and is_name(one.text())
        if not is_there(path) and not known:
            raise one.error(f"there is no file {quoted(str(path))}", "paths are relative to this file")
        value = one.text() if known and not is_there(path) else str(path)
        named = _with(named, key, value)
    if not named.bundle and not named.machine:
        raise part.at("machine").error("is missing", "give the node a machine, or a bundle")
    if part.at("bundle").value is not None and part.at("machine").value is None:
        named = replace(named, machine=())
    return Group(called, named, many, numbered=count.value is not None)


def _with(named: NodeSpec, key: str, value: str) -> NodeSpec:
    if key == "machine":
        return replace(named, machine=(value,))
    if key == "kubelet":
        return replace(named, kubelet_config=(value,))
    if key == "node":
        return replace(named, node_object=value)
    if key == "device_plugin":
        return replace(named, device_plugin_config=value)
    return replace(named, state=(value,)) if key == "state" else replace(named, bundle=value)


def _plain(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
