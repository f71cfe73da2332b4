"""Explanations on a node that was named: part by part, or by a bundle.

Rules kept here:

1. Pods are admitted in the order given, and each is explained before it comes.
2. With a bundle and without pods that somebody names, those are explained that the kubelet refused and the
   bundle still lists, each on what was held when the bundle was made.
3. Pods that run are known by name, so that a suggestion can name them; a refused one holds nothing, and is
   explained on what the others hold.
4. Pods of one workload that come one after the other to a node that stays as it is have one explanation.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

from numawise.codec.hints import parse_hints
from numawise.engine.admit import Admitted, Crashed
from numawise.engine.hint import Family
from numawise.engine.state import NodeState
from numawise.errors import InputError, quoted
from numawise.explain.case import ExplainCase, case_of
from numawise.explain.explain import Proven, explain_case, explain_hints
from numawise.explain.node_changes import Elsewhere
from numawise.explain.resize import ExplainedResize, arrive_as_allocated, explain_resize
from numawise.explain.start import StartCase, changed_start, explain_refusal
from numawise.explain.walk import rounds_walk
from numawise.inputs.nodefolder import folder_spec
from numawise.inputs.pods import PodNamed, PodsInput
from numawise.inputs.spec import NodeInput, NodeSpec, read_node, start_node
from numawise.machine.description import NodeDescription
from numawise.machine.model import Machine
from numawise.node.node import Files, SimulatedNode, boot
from numawise.render.progress import progress_bar
from numawise.render.words import both
from numawise.request.defaults import RawPod
from numawise.results.explanation import Explanation
from numawise.results.state import Unmatched
from numawise.rules.check import Refusal
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import REFERENCE, Version
from numawise.values import dataclass, replace

Held = TypeVar("Held")

AT_BUNDLE = "what was held when the bundle was made"


@dataclass(frozen=True, slots=True)
class Explained:
    """What came of all pods, and what to warn about."""

    found: tuple[Explanation, ...]
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    unmatched: tuple[Unmatched, ...] = ()
    """What is recorded of the node and is not matched."""

    @property
    def admitted(self) -> bool:
        """True when the answer is yes for all of them, and none goes without a resource it asks for."""
        return all(one.admitted and not one.missing for one in self.found)


@dataclass(frozen=True, slots=True)
class ExplainedPod:
    """A pod that was explained, with the case and what its suggestions lead to."""

    explanation: Explanation
    case: ExplainCase | None = None
    """The pod before it came; None: it runs, and waits for another size."""
    proven: tuple[Proven, ...] = ()
    resize: ExplainedResize | None = None
    """The size that it waits for, where it does."""


class PodQueue:
    """Pods on their way to a node: each is explained, and then comes (rules 1 and 2)."""

    def __init__(
        self,
        source: NodeInput,
        node: SimulatedNode,
        pods: Sequence[PodNamed],
        others: Sequence[tuple[str, SimulatedNode]] = (),
    ) -> None:
        source.hold_published(node)
        self.source, self.node, self.others = source, node, others
        bundle = source.bundle
        self.refusals: dict[str, tuple[str, str]] = bundle.refusals() if bundle is not None else {}
        """Uid of pods that a kubelet refused → reason and message, in its words."""
        self.bundled = frozenset(self.refusals)
        read = PodsInput(())
        if pods or bundle is None:
            read = source.pods(pods, refused=True)
            self.pods, self.remarks = read.pods, read.remarks
        else:
            self.pods, self.remarks = bundle.refused_or_error(), ()
        self.refusals |= read.refusals
        for uid in (*self.refusals, *read.gone):
            node.remove(uid)
        self.came = 0
        self._last: tuple[object, NodeState, ExplainedPod] | None = None

    def explained(self, raw: RawPod, *, suggest: bool = True, walk: bool = False) -> ExplainedPod:
        """What becomes of a pod that comes now (rule 4)."""
        if raw.uid in self.refusals or raw.uid in self.node.state.active:
            return self._explained(raw, suggest=suggest, walk=walk)
        asked = (replace(raw, uid="", name=""), suggest, walk)
        state = _nameless(self.node.state)
        if self._last is None or self._last[0] != asked or self._last[1] != state:
            self._last = (asked, state, self._explained(raw, suggest=suggest, walk=walk))
        last = self._last[2]
        if last.case is None or last.explanation.uid == raw.uid:
            return last
        explanation = replace(last.explanation, name=raw.name, uid=raw.uid)
        return ExplainedPod(explanation, case_of(self.node, raw), last.proven)

    def _explained(self, raw: RawPod, *, suggest: bool, walk: bool) -> ExplainedPod:
        if raw.allocated and (waiting := explain_resize(self.node, raw)) is not None:
            return ExplainedPod(waiting.explanation, resize=waiting)
        case = case_of(self.node, raw)
        elsewhere = [Elsewhere(name, case_of(one, raw)) for name, one in self.others]
        found = explain_case(case, elsewhere, suggest=suggest, walk=walk)
        return ExplainedPod(self._beside_what_was_said(raw, found.explanation), case, found.proven)

    def _beside_what_was_said(self, raw: RawPod, found: Explanation) -> Explanation:
        refusal = self.refusals.get(raw.uid)
        if refusal is None:
            return found
        return as_said(found, *refusal, AT_BUNDLE if raw.uid in self.bundled else self._held())

    def _held(self) -> str:
        """By what a pod is judged that these files say was refused."""
        parts = [f"what {self.source.state_place} records"] if self.source.state_place else []
        if self.came:
            parts.append("the other pod given" if self.came == 1 else f"the {self.came} other pods given")
        return both(parts) or "no other pod known"

    def arrive(self, raw: RawPod, explained: ExplainedPod) -> bool:
        """Let a pod come that was explained; False: the kubelet crashes on it."""
        if explained.case is None:
            if raw.uid not in self.node.state.active:
                arrive_as_allocated(self.node, raw)
            return True
        known = self.source.bundle is not None and raw.uid in self.node.state.active
        if raw.uid in self.refusals or known:
            return True
        self.came += 1
        decision = self.node.admit(explained.case.pod)
        if isinstance(decision, Admitted):
            self.node.start(explained.case.pod, decision)
        return not isinstance(decision, Crashed)


def _nameless(state: NodeState) -> NodeState:
    """The state whichever pod came last and was refused; what it left behind goes when the next one comes."""
    uid = state.last_pod
    if uid in state.active:
        return replace(state, last_pod="")

    def own(table: Mapping[str, Held]) -> dict[str, Held]:
        return {"" if key == uid else key: value for key, value in table.items()}

    cpu, memory, reusable = state.cpu, state.memory, state.reusable
    return replace(
        state,
        cpu=replace(cpu, assignments=own(cpu.assignments), pods=own(cpu.pods)),
        memory=replace(memory, assignments=own(memory.assignments), pods=own(memory.pods)),
        devices=replace(state.devices, grants=own(state.devices.grants)),
        departed=frozenset("" if key == uid else key for key in state.departed),
        last_pod="",
        reusable=replace(
            reusable, cpus=own(reusable.cpus), memory=own(reusable.memory), devices=own(reusable.devices)
        ),
    )


def explain_on(
    source: NodeInput, pods: Sequence[str], others: Sequence[str], terminal: IO[str] | None = None
) -> Explained:
    """Explain pods on a node; ``others``: folders or bundles of nodes they could go to."""
    node = node_of(source)
    if isinstance(node, Explanation):
        return Explained((node,), unmatched=source.unmatched)
    queue = PodQueue(source, node, pods, [_other_node(folder, source.version) for folder in others])
    found = []
    for raw in _counted(queue.pods, terminal):
        explained = queue.explained(raw, walk=True)
        found.append(explained.explanation)
        if not queue.arrive(raw, explained):
            break
    forgotten = node.files.forgotten
    warnings = (f"{source.state_place}: {forgotten}",) if forgotten else ()
    return Explained(tuple(found), warnings, queue.remarks, source.unmatched)


def node_of(source: NodeInput) -> SimulatedNode | Explanation:
    """The node, or why its kubelet would not start."""
    if source.exact:
        return start_node(source)
    return started_node(
        source.machine,
        source.config,
        source.start_texts,
        source.version,
        source.running,
        source.description,
        source.holders.gone,
    )


def node_after(source: NodeInput, number: int) -> SimulatedNode:
    """The node of a kubelet that does not start, once it does: after the suggestion of that number."""
    machine, config, version = source.machine, source.config, source.version
    texts = source.start_texts
    refusal = boot(machine, config, Files(dict(texts)), version=version)
    assert isinstance(refusal, Refusal)
    start = StartCase(machine, config, Files(dict(texts)), version)
    changed, left = changed_start(start, refusal, number)
    node = started_node(
        machine, changed, left, version, source.running, source.description, source.holders.gone
    )
    assert isinstance(node, SimulatedNode)
    return node


def as_said(found: Explanation, reason: str, message: str, held: str = AT_BUNDLE) -> Explanation:
    """An explanation beside what the kubelet said when it refused the pod; ``held``: by what it is judged."""
    said = f"{reason}: {message}" if message else reason
    if found.admitted:
        return replace(
            found,
            remarks=(
                f"The kubelet refused it, but with {held} it is admitted. It said then: {said}",
                *found.remarks,
            ),
        )
    if found.reason == reason:
        return replace(found, message=message or found.message, said=bool(message))
    earlier = f"When it refused the pod the kubelet said: {said}; what was held then is not known"
    return replace(found, remarks=(earlier, *found.remarks))


def _counted(pods: Sequence[RawPod], terminal: IO[str] | None) -> Iterator[RawPod]:
    """The pods, with a bar that shows how many are done."""
    with progress_bar(terminal, "pods", len(pods)) as done:
        for number, pod in enumerate(pods):
            done(number)
            yield pod


def started_node(
    machine: Machine,
    config: KubeletConfig,
    texts: Mapping[str, str],
    version: Version,
    running: Iterable[RawPod] = (),
    description: NodeDescription | None = None,
    gone: Iterable[str] = (),
) -> SimulatedNode | Explanation:
    """A kubelet started on state files; ``running``, ``gone``: pods that it knows, and that left (rule 3)."""
    node = boot(machine, config, Files(dict(texts)), version=version)
    if isinstance(node, Refusal):
        return explain_refusal(node, machine, config, Files(dict(texts)), version)
    node.write_files = False
    node.plugins_registered(machine.plugins)
    node.describe(description)
    node.run_already(running, gone)
    return node


def _other_node(folder: str, version: Version) -> tuple[str, SimulatedNode]:
    """Another node that a pod could go to, with its name."""
    source = read_node(folder_spec(folder, NodeSpec()))
    node = (
        start_node(source)
        if source.exact
        else started_node(
            source.machine,
            source.config,
            source.texts,
            version,
            source.running,
            source.description,
            source.holders.gone,
        )
    )
    if isinstance(node, Explanation):
        raise InputError(f"the kubelet there would not start: {node.message}", file=folder)
    return source.bundle.name if source.bundle is not None else Path(folder).resolve().name, node


# --------------------------------------------------------------------------------------------------
# Hints pasted on the command line, explained without a machine.


OPTION = "--hints"


def explain_pasted(
    policy: str, texts: Sequence[str], count: int | None = None, version: Version = REFERENCE
) -> Explanation:
    """Explain ``cpu=1! 0-1`` and the like; without a ``count`` the NUMA nodes are those that are named."""
    hints: dict[str, Family | None] = {}
    for text in texts:
        resource, equals, listed = text.partition("=")
        if not equals or not resource.strip():
            raise InputError(
                f"{quoted(text)} names no resource", field=OPTION, advice="write it like cpu='1! 0-1'"
            )
        resource = resource.strip()
        if resource in hints:
            raise InputError(f"{resource} is given twice", field=OPTION, advice="give each resource once")
        try:
            hints[resource] = parse_hints(listed)
        except ValueError as problem:
            raise InputError(f"{resource}: {problem}", field=OPTION) from None
    named = 0
    for family in hints.values():
        named |= family.reach if family is not None else 0
    if count is not None and named.bit_length() > count:
        raise InputError(
            f"there are hints for NUMA {named.bit_length() - 1}",
            field="--numa",
            advice=f"give at least {named.bit_length()}",
        )
    numas = range(count or max(1, named.bit_length()))
    found = explain_hints(policy, hints, numas, version=version)
    return replace(found, walk=rounds_walk(found))
