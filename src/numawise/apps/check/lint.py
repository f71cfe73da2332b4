"""The whole check: read, judge each kubelet with what belongs to it, leave out what is not wanted."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

from numawise.apps.check.configuration import configuration_findings
from numawise.apps.check.context import Context
from numawise.apps.check.environment import environment_findings
from numawise.apps.check.fit import Fitting, gpu_findings, machine_findings, willing
from numawise.apps.check.pods import pod_findings
from numawise.apps.check.refusals import MOST, Start, started
from numawise.apps.check.sources import Sources, sources
from numawise.apps.check.state_corrections import repairable
from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE
from numawise.codec.checkpoint.look import look
from numawise.codec.hardware.nrt_config import fitted_fields
from numawise.codec.kubelet.effective import Configuration
from numawise.codec.pod_phase import has_ended
from numawise.compare.upgrade import (
    FIELD_UNKNOWN,
    GATE_DEFAULT,
    GATE_LOCKED,
    GATE_NEEDS,
    GATE_UNKNOWN,
    RESTART,
    STATE_FILE,
    upgrade,
)
from numawise.errors import meant
from numawise.inputs.pods import PodSource
from numawise.inputs.spec import NodeSpec
from numawise.node.state.assumed import assumed_machine
from numawise.node.state.folder import Against, LivePod, StateFile, StateFolder, live_pod
from numawise.node.state.lint import state_findings
from numawise.node.state.memory_tables import recorded_reservation
from numawise.render.progress import progress_bar
from numawise.request.model import MEMORY
from numawise.results.comparison import STOPPED, ReleaseChange, UpgradeEffect
from numawise.results.correction import Correction, TextEdit
from numawise.results.finding import CheckReport, Finding, LookedAt, Place, codes, found, ordered
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import DEFAULT, Version, shown
from numawise.sets import ids_of
from numawise.values import dataclass, field

Upgrade = tuple[Version, Version]


def lint(
    spec: NodeSpec,
    pods: Sequence[str] = (),
    version: Version = DEFAULT,
    *,
    ignore: Iterable[str] = (),
    select: Iterable[str] = (),
    upgrade: Upgrade | None = None,
    terminal: IO[str] | None = None,
) -> CheckReport:
    """Check everything that was named; ``terminal``: where bars are drawn while that takes long."""
    read = sources(spec, tuple(pods), version, terminal)
    comments = {file: ignored_in(text) for file, text in read.texts.items()}
    files = tuple(dict.fromkeys([*_order(spec), *read.texts, *read.paths.values()]))
    found_all = ordered(
        [*_findings(read, upgrade, terminal), *_comment_findings(comments, read.texts)], files
    )
    wanted, unwanted = tuple(select), tuple(ignore)
    kept = [
        one
        for one in found_all
        if not comments.get(one.file, Ignored()).covers(one)
        and not (unwanted and one.code.startswith(unwanted))
        and (not wanted or one.code.startswith(wanted))
    ]
    looked_at = LookedAt(
        len(read.configurations),
        max(int(read.hardware is not None), len(read.topologies)),
        len(read.files),
        len(read.pods),
        len(read.plugin.source.entries) if read.plugin is not None else 0,
    )
    return CheckReport(tuple(kept), len(found_all) - len(kept), looked_at, files, tuple(read.remarks))


def _order(spec: NodeSpec) -> Iterator[str]:
    """Files as they were named: configurations first, pods last."""
    for words in (spec.kubelet_config, (spec.config_dir, spec.kubelet_flags), spec.machine):
        yield from (word for word in words if isinstance(word, str)) if isinstance(words, tuple) else ()


def _comment_findings(comments: "dict[str, Ignored]", texts: Mapping[str, str]) -> Iterator[Finding]:
    for file, ignored in comments.items():
        yield from unknown_findings(file, ignored, texts[file])


def _findings(read: Sources, upgrade: Upgrade | None, terminal: IO[str] | None) -> Iterator[Finding]:
    yield from read.findings
    contexts = [context_of(read, one) for one in read.configurations]
    for context in contexts:
        yield from configuration_findings(context)
        yield from machine_findings(context)
        yield from state_of(read, context.config)
        if upgrade is not None:
            yield from upgrade_findings(context, read.pods, *upgrade)
    if not contexts and (read.files or read.machine is not None):
        context = _without_configuration(read)
        yield from machine_findings(context)
        yield from state_of(read, None)
    if read.plugin is not None:
        yield from read.plugin.beside(contexts)
        yield from read.plugin.under(read.pods)
    kubelets: Sequence[Context | None] = contexts or [None]
    able = contexts or ([_alone(read)] if read.machine is not None else [])
    fittings = [Fitting(context) for context in able]
    with progress_bar(terminal, "pods", len(read.pods)) as done:
        for number, pod in enumerate(read.pods):
            done(number)
            for kubelet in kubelets:
                yield from pod_findings(pod, kubelet, read.claims)
                yield from environment_findings(pod, kubelet)
            for fitting in fittings:
                yield from fitting.findings(pod)
            if not fittings:
                yield from gpu_findings(pod, None)


def context_of(read: Sources, configuration: Configuration) -> Context:
    """A kubelet with everything that was given beside its configuration."""
    machine = read.machine or assumed_machine(configuration.raw, read.files)
    raw = configuration.raw
    if read.published is not None:  # it has no CPU ids
        raw = fitted_fields(raw, read.published)
    start = started(raw, machine, read.files, read.version)
    if start.more:
        read.remarks.append(
            f"{configuration.name}: a kubelet would refuse more of it than the {MOST} parts reported "
            "here; correct these, and check again"
        )
    return Context(
        configuration=configuration,
        version=read.version,
        machine=machine,
        start=start,
        known=read.machine is not None,
        machine_file=read.machine_file,
        hardware=read.hardware,
        files=read.files,
        paths=read.paths,
        description=read.description,
    )


def _without_configuration(read: Sources) -> Context:
    """State files or a machine alone: under a configuration that fits them."""
    raw = _inferred(_folder(read))
    return context_of(read, Configuration(read.paths.get(CPU_FILE, ""), raw))


def _inferred(folder: StateFolder) -> dict[str, object]:
    """A configuration that fits state files."""
    raw: dict[str, object] = {"evictionHard": {}}
    file = folder.file(CPU_FILE)
    if file is not None and file.look.policy == "static":
        reserved = str(next(ids_of(folder.cpu.shared), 0))
        raw |= {"cpuManagerPolicy": "static", "reservedSystemCPUs": reserved}
    kept = {numa: kinds.get(MEMORY, 0) for numa, kinds in recorded_reservation(folder.memory).items()}
    total = sum(kept.values())
    if total:
        limits = [{"numaNode": numa, "limits": {MEMORY: str(size)}} for numa, size in kept.items() if size]
        raw |= {
            "memoryManagerPolicy": "Static",
            "kubeReserved": {MEMORY: str(total)},
            "reservedMemory": limits,
        }
    return raw


# --- state files ----------------------------------------------------------------------------


def state_of(read: Sources, config: KubeletConfig | None) -> Sequence[Finding]:
    """What the linter of state files says to those that were given."""
    live = dict(_live(read)) if read.known_pods else None
    folder, against = _folder(read), Against(read.machine, config, live, read.version)
    return repairable(state_findings(folder, against), folder, against)


def _live(read: Sources) -> Iterator[tuple[str, LivePod]]:
    """The pods of the node that have not ended, by every uid that the kubelet may know them by."""
    for source in read.pods:
        value: Any = source.spec.document.value
        for step in source.spec.steps[:-1]:
            value = value[step]
        if source.uid in read.known_pods and source.raw is not None and not has_ended(value):
            pod = live_pod(value, source.raw)
            yield from dict.fromkeys(pod.uids, pod).items()


def _folder(read: Sources) -> StateFolder:
    files = tuple(
        StateFile(name, Path(read.paths.get(name, name)), text.encode(errors="replace"), look(name, text))
        for name, text in read.files.items()
    )
    return StateFolder(Path(), files, claims=read.prepared)


def _alone(read: Sources) -> Context:
    """A machine and pods alone: under the machine's own configuration, where that is published."""
    exact = context_of(read, read.exact) if read.exact is not None else None
    return exact if exact is not None and exact.start.first is None else _willing(read)


def _willing(read: Sources) -> Context:
    """A machine and pods alone: under the configuration that aligns all it can."""
    assert read.machine is not None
    start = Start(config=willing(read.machine), written=KubeletConfig())
    return Context(
        configuration=Configuration("", {}),
        version=read.version,
        machine=read.machine,
        start=start,
        known=True,
        machine_file=read.machine_file,
        hardware=read.hardware,
        description=read.description,
    )


# --------------------------------------------------------------------------------------------------
# Findings that a file asks to be left out: ``# numawise: ignore NW221``.
#
# Rules kept here:
#
# 1. The comment counts for its own line; on a line of its own, for the next line that is not a comment as
#    well; among the first comments of a file, before anything else, for the whole file.
# 2. It names one or several codes.  A code that does not exist is reported.


COMMENT = re.compile(r"(?:^|\s)#\s*numawise:\s*ignore\b[:\s]*(.*)$", re.IGNORECASE)
WORD = re.compile(r"[^\s,]+")
CODE = re.compile(r"NW\d+", re.IGNORECASE)
MOST_UNKNOWN = 100
"""How many codes that do not exist are reported of one file."""


@dataclass(frozen=True, slots=True)
class Ignored:
    """The codes that a file asks to leave out."""

    everywhere: frozenset[str] = frozenset()
    lines: Mapping[int, frozenset[str]] = field(default_factory=dict)
    unknown: tuple[tuple[int, str], ...] = ()
    """Line and word of codes that do not exist."""

    def covers(self, finding: Finding) -> bool:
        """True when a finding is to be left out."""
        own = self.lines.get(finding.line or 0, frozenset())
        return finding.code in self.everywhere or finding.code in own


def ignored_in(text: str) -> Ignored:
    """Read the comments of a file."""
    if "numawise:" not in text.lower():
        return Ignored()
    everywhere: set[str] = set()
    lines: dict[int, frozenset[str]] = {}
    shared: dict[frozenset[str], frozenset[str]] = {}
    unknown: list[tuple[int, str]] = []
    waiting: set[str] = set()
    head = True
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        alone = bare.startswith("#")
        head = head and (alone or not bare or bare.startswith(("---", "%")))
        codes, strangers = _codes(line)
        if len(unknown) < MOST_UNKNOWN:
            unknown += [(number, word) for word in strangers]
        if alone and head:
            everywhere |= codes
        elif alone:
            waiting |= codes
        elif bare:
            if codes or waiting:
                own = frozenset(codes | waiting)
                lines[number] = shared.setdefault(own, own)
            waiting = set()
    return Ignored(frozenset(everywhere), lines, tuple(unknown[:MOST_UNKNOWN]))


def _codes(line: str) -> tuple[set[str], list[str]]:
    found_comment = COMMENT.search(line)
    if not found_comment:
        return set(), []
    known: set[str] = set()
    strangers: list[str] = []
    for match in islice(WORD.finditer(found_comment[1]), MOST_UNKNOWN):
        word = match[0]
        if word.upper() in codes():
            known.add(word.upper())
        elif CODE.fullmatch(word) or not (known or strangers):
            strangers.append(word)
        else:
            break  # words behind the codes say why
    return known, strangers


def unknown_findings(file: str, ignored: Ignored, text: str) -> Iterator[Finding]:
    """Codes in comments that do not exist (rule 2)."""
    for line, word in ignored.unknown:
        near = meant(word.upper(), tuple(codes()))
        fix = f"did you mean {near}?" if near else ""
        ways = [_recoded(file, text, line, word, near)] if near else []
        yield found("NW001", Place(file, line), f"there is no code {word}", fix=fix, corrections=ways)


def _recoded(file: str, text: str, line: int, word: str, near: str) -> Correction | None:
    """The code that is meant in a comment."""
    rows = text.split("\n")
    written = rows[line - 1] if line <= len(rows) else ""
    comment = COMMENT.search(written)
    at = written.find(word, comment.start(1)) + 1 if comment else 0
    if not at:
        return None
    edit = TextEdit(file, line, at, line, at + len(word), near)
    return Correction(f"write {near}", (edit,), certain=False)


# --------------------------------------------------------------------------------------------------
# What an upgrade of the kubelet would do to the node that is checked.


GATES = (GATE_UNKNOWN, GATE_LOCKED, GATE_NEEDS)


def upgrade_findings(
    context: Context, pods: Sequence[PodSource], old: Version, new: Version
) -> Iterator[Finding]:
    """What changes between two releases; pods are only tried on a machine that was given."""
    tried = [pod for pod in pods if pod.raw is not None] if context.known else []
    raws = tuple(pod.raw for pod in tried if pod.raw is not None)
    report = upgrade(context.configuration.raw, context.machine, context.files, raws, old, new)
    way = f"{shown(old)} to {shown(new)}"
    for effect in report.findings:
        if effect.kind != FIELD_UNKNOWN:
            yield _finding(context, effect, way)
    stops = any(effect.stops for effect in report.findings)
    for change in report.changes:
        if change.kind == STOPPED:
            if not stops:
                message = f"{way}: {change.after}"
                yield found("NW601", context.configuration.place(), message, stage="upgrade")
        else:
            yield _changed(context, tried, change, way)


def _finding(context: Context, effect: UpgradeEffect, way: str) -> Finding:
    place = context.configuration.place
    message = f"{way}: {effect.name} {effect.text}"
    if effect.kind == STATE_FILE:
        where = Place(context.paths.get(effect.name, effect.name), 1)
        return found("NW603" if effect.name != DEVICE_FILE else "NW602", where, message)
    if effect.kind == RESTART:
        return found("NW605", place(), message)
    if effect.stops:
        return found("NW601", place("featureGates", effect.name), message, stage="upgrade")
    if effect.kind in (*GATES, GATE_DEFAULT):
        return found("NW602", place("featureGates", effect.name), message)
    return found("NW602", place(effect.name.split(".")[0].split("[")[0]), message)


def _changed(context: Context, pods: Sequence[PodSource], change: ReleaseChange, way: str) -> Finding:
    """A pod that fares otherwise, or a kubelet that does."""
    why = "; ".join(reason.text for reason in change.reasons)
    who = f"{change.pod}: " if change.pod else ""
    message = f"{way}: {who}{change.kind}: {change.before} before, {change.after} after"
    source = next((pod for pod in pods if pod.raw is not None and pod.raw.uid == change.uid), None)
    place = source.place(source.spec) if source is not None else context.configuration.place()
    code = "NW606" if change.minor else "NW604" if change.pod else "NW602"
    return found(code, place, message, why=why)
