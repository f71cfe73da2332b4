"""A log beside the node it came from: machine, configuration, state files and the pod.

Rules kept here:

1. The log is what happened; where the engine comes to something else, the difference is reported, and the
   files are taken to be of another time or another node.  Pods are admitted in the order given; the one of
   the log is compared when its turn comes.
2. Amounts and suggestions are the engine's, and stand only where its hints are those of the log.
"""

from collections.abc import Iterator, Sequence

from numawise.apps.logs.explain import LogEvidence
from numawise.apps.logs.wording import NO_AMOUNTS, hint_text, owner_of
from numawise.engine.admit import Admitted, Crashed
from numawise.engine.hint import Family
from numawise.engine.topology.policy import judge
from numawise.engine.trace import HintsFound, Step
from numawise.errors import InputError
from numawise.explain.case import ExplainCase, case_of, decided
from numawise.explain.explain import explain
from numawise.explain.start import explain_refusal
from numawise.explain.words import numa_text
from numawise.inputs.spec import NodeInput
from numawise.machine.model import Machine
from numawise.node.node import Files, SimulatedNode, boot
from numawise.node.refusal_codes import code_of
from numawise.render.words import both
from numawise.request.defaults import RawPod
from numawise.results.explanation import Explanation
from numawise.results.log import ExplainedAdmission, ExplainedStart, LoggedAdmission, LoggedRound, LogReport
from numawise.rules.check import Refusal
from numawise.rules.model import NONE, KubeletConfig
from numawise.rules.versions import NEWEST, Version
from numawise.sets import format_ids
from numawise.values import dataclass, replace

ENUMERABLE = 12
"""Hints over more NUMA nodes are not compared one by one."""
MOST = 6


@dataclass(frozen=True, slots=True)
class LogNode:
    """What is known of the node beside its log."""

    machine: Machine | None = None
    config: KubeletConfig | None = None
    files: Files | None = None
    pods: tuple[RawPod, ...] = ()
    version: Version = NEWEST
    version_given: bool = False

    def given(self, policy: str | None, count: int | None) -> LogEvidence:
        """What explaining the log can take from it."""
        numas = (1 << count) - 1 if count else 0
        if self.machine is not None:
            numas |= self.machine.numa_bits
        chosen = policy or (self.config.topology_manager_policy if self.config is not None else "")
        return LogEvidence(
            chosen if chosen != NONE else "", self.version if self.version_given else None, numas
        )


def load_log_node(node: NodeInput, pods: Sequence[str]) -> LogNode:
    """What is known of the node."""
    if pods or node.state is not None:
        missing = {"--machine": node.machine_input, "--kubelet-config": node.config_input}
        for name, value in missing.items():
            if value is None:
                raise InputError("is missing", field=name, advice="state files and pods need it")
    known = bool(node.spec.kube) or (node.bundle is not None and bool(node.bundle.kube))
    return LogNode(
        node.machine if node.machine_input is not None else None,
        node.config if node.config_input is not None else None,
        Files(node.texts) if node.state is not None else None,
        node.pods(pods).pods if pods else (),
        node.version,
        known,
    )


def checked(report: LogReport, beside: LogNode) -> LogReport:
    """The report with what the node's files say to it."""
    if beside.machine is None or beside.config is None:
        return report
    node = boot(beside.machine, beside.config, beside.files or Files(), version=beside.version)
    report = replace(report, starts=tuple(_start(one, node, beside) for one in report.starts))
    if isinstance(node, Refusal):
        text = f"With these files the kubelet would not start: {node.message}"
        return replace(report, findings=tuple(_with_remarks(one, [text]) for one in report.findings))
    node.write_files = False
    node.plugins_registered(beside.machine.plugins)
    cases = []
    for raw in beside.pods:
        case = case_of(node, raw)
        cases.append(case)
        decision = node.admit(case.pod)
        if isinstance(decision, Admitted):
            node.start(case.pod, decision)
        if isinstance(decision, Crashed):
            break
    return replace(report, findings=tuple(_checked(one, node, cases) for one in report.findings))


def _start(start: ExplainedStart, node: SimulatedNode | Refusal, beside: LogNode) -> ExplainedStart:
    """A failed start with what the engine says to the node's files: changes that help, where it fails so."""
    failure, found = start.failure, start.explanation
    assert beside.machine is not None
    assert beside.config is not None
    if not isinstance(node, Refusal):
        text = "With these files the kubelet would start: they are not those of that time, or of that node"
        return replace(start, explanation=replace(found, remarks=(*found.remarks, text)))
    if node.stage != failure.stage or code_of(node.stage, node.message) != failure.code:
        text = f"With these files the kubelet would fail otherwise: {node.message}"
        return replace(start, explanation=replace(found, remarks=(*found.remarks, text)))
    ours = explain_refusal(node, beside.machine, beside.config, beside.files or Files(), beside.version)
    remarks = (*found.remarks, *ours.remarks)
    if node.message == failure.message:
        remarks = (*remarks, "With these files the engine fails with the same words")
    ours = replace(ours, answer=found.answer, message=found.message, remarks=remarks)
    return replace(start, explanation=ours)


def _with_remarks(finding: ExplainedAdmission, remarks: Sequence[str]) -> ExplainedAdmission:
    found = finding.explanation
    return replace(finding, explanation=replace(found, remarks=(*found.remarks, *remarks)))


def _checked(
    finding: ExplainedAdmission, node: SimulatedNode, cases: Sequence[ExplainCase]
) -> ExplainedAdmission:
    remarks = list(_elsewhere(finding, node))
    if not remarks:
        remarks = list(_merge(finding, node))
    case = _case_of(finding.admission, cases)
    if case is None:
        return _with_remarks(finding, remarks)
    found = finding.explanation
    kept = tuple(text for text in found.remarks if text != NO_AMOUNTS)
    finding = replace(finding, explanation=replace(found, remarks=kept))
    steps: list[Step] = []
    decided(case, steps.append)
    one = finding.admission.decisive
    differing = list(_differing(one, steps)) if one is not None else []
    if differing:
        remarks.append(
            f"With these files the engine finds other hints for {both(differing)}: the state was "
            "recorded at a different time than the log, or the pod is a different one"
        )
        return _with_remarks(finding, remarks)
    ours = explain(case, walk=True)
    if ours.admitted == finding.admission.rejected:
        verb = "admits" if ours.admitted else "rejects"
        remarks.append(f"With these files the engine {verb} the pod")
        return _with_remarks(finding, remarks)
    remarks.append("With these files the engine finds the same hints and the same answer")
    return _with_remarks(replace(finding, explanation=_amounts(finding.explanation, ours)), remarks)


def _amounts(found: Explanation, ours: Explanation) -> Explanation:
    """The engine's answer, which knows amounts, with what the log adds to it."""
    remarks = tuple(dict.fromkeys([*found.remarks, *ours.remarks]))
    if found.said and found.reason == ours.reason:
        ours = replace(ours, message=found.message, said=True)
    return replace(ours, name=found.name, namespace=found.namespace, uid=found.uid, remarks=remarks)


def _elsewhere(finding: ExplainedAdmission, node: SimulatedNode) -> Iterator[str]:
    """Signs that the log and the files are not of one node."""
    kubelet = finding.kubelet
    strange = kubelet.numas & ~node.machine.numa_bits
    if strange:
        yield f"The log has hints for {numa_text(strange)}, which this machine does not have"
    policy = node.rules.topology_policy
    if kubelet.policies and policy not in kubelet.policies:
        policies = both(kubelet.policies, "or")
        yield f"The configuration has policy {policy}, and the log was written under {policies}"


def _merge(finding: ExplainedAdmission, node: SimulatedNode) -> Iterator[str]:
    """The log's hints, merged by the engine with this machine and these rules."""
    one = finding.admission.decisive
    if one is None or one.best is None or not one.hints or node.rules.topology_policy == NONE:
        return
    families = [family for family in one.hints.values() if family is not None]
    best, _ = judge(node.machine, node.rules, families)
    if best == one.best:
        yield "The engine merges the hints of the log to the same answer"
    else:
        yield f"The engine merges these hints to {hint_text(best)}, the log has {hint_text(one.best)}"


def _case_of(admission: LoggedAdmission, cases: Sequence[ExplainCase]) -> ExplainCase | None:
    """The pod of an admission: the one of its name, or else one of the same owner."""
    owner = owner_of(admission.pod.name).name
    alike = None
    for case in cases:
        name, namespace = case.raw.name, case.raw.namespace
        if admission.pod.namespace and namespace != admission.pod.namespace:
            continue
        if name == admission.pod.name:
            return case
        if alike is None and owner in (name, owner_of(name).name):
            alike = case
    return alike


def _differing(one: LoggedRound, steps: Sequence[Step]) -> Iterator[str]:
    """Resources whose hints are not those of the log."""
    ours: dict[str, Family | None] = {}
    for step in steps:
        if isinstance(step, HintsFound) and step.container == one.container:
            ours.update(step.hints or {})
    for name in sorted(set(ours) | set(one.hints)):
        logged, found = one.hints.get(name), ours.get(name)
        if not _same(logged, found):
            yield f"{name} ({_shown(found)} instead of {_shown(logged)})"


def _same(one: Family | None, other: Family | None) -> bool:
    if one is None or other is None:
        return one is None and other is None
    if max(one.reach.bit_length(), other.reach.bit_length()) > ENUMERABLE:
        return one.reach == other.reach and one.narrowest == other.narrowest
    return dict(one) == dict(other)


def _shown(family: Family | None) -> str:
    if family is None:
        return "no preference"
    if not family.reach:
        return "none"
    if family.reach.bit_length() > ENUMERABLE:
        return f"{numa_text(family.reach)}"
    shown = [f"{format_ids(mask)}{'!' if liked else ''}" for mask, liked in family]
    return " ".join(shown[:MOST]) + (" …" if len(shown) > MOST else "")
