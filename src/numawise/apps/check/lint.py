"""The whole check: read, judge each kubelet with what belongs to it, leave out what is not wanted."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from numawise.apps.check.configuration import configuration_findings
from numawise.apps.check.context import Context, assumed_machine
from numawise.apps.check.environment import environment_findings
from numawise.apps.check.fit import fit_findings, gpu_findings, willing
from numawise.apps.check.ignore import Ignored, ignored_in, unknown_findings
from numawise.apps.check.machine import machine_findings
from numawise.apps.check.pods import pod_findings
from numawise.apps.check.refusals import Start, started
from numawise.apps.check.sources import Given, Sources, sources
from numawise.apps.check.state import inferred, state_findings
from numawise.apps.check.upgrade import upgrade_findings
from numawise.codec.checkpoint import CPU_FILE
from numawise.inputs.config import Configuration
from numawise.results.finding import Finding, Severity, ordered
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import Version

Upgrade = tuple[Version, Version]


@dataclass(frozen=True, slots=True)
class Report:
    """What was found, and what was left out."""

    findings: tuple[Finding, ...]
    ignored: int = 0
    """Findings that comments or options asked to leave out."""
    files: tuple[str, ...] = ()

    def count(self, severity: Severity) -> int:
        """How many findings have a severity."""
        return sum(one.severity is severity for one in self.findings)

    def failed(self, *, strict: bool = False) -> bool:
        """True when something is wrong; ``strict``: warnings count as well."""
        return bool(self.count(Severity.ERROR) or (strict and self.count(Severity.WARNING)))


def lint(
    given: Given,
    *,
    ignore: Iterable[str] = (),
    select: Iterable[str] = (),
    upgrade: Upgrade | None = None,
) -> Report:
    """Check everything that was given."""
    read = sources(given)
    comments = {file: ignored_in(text) for file, text in read.texts.items()}
    files = tuple(dict.fromkeys([*_order(given), *read.texts, *read.paths.values()]))
    found_all = ordered([*_findings(read, upgrade), *_comment_findings(comments)], files)
    wanted, unwanted = tuple(select), tuple(ignore)
    kept = [
        one
        for one in found_all
        if not comments.get(one.file, Ignored()).covers(one)
        and not (unwanted and one.code.startswith(unwanted))
        and (not wanted or one.code.startswith(wanted))
    ]
    return Report(tuple(kept), len(found_all) - len(kept), files)


def _order(given: Given) -> Iterator[str]:
    """Files as they were given: configurations first, pods last."""
    yield from given.configs
    yield from filter(None, (given.config_dir, given.flags))
    yield from given.machines


def _comment_findings(comments: dict[str, Ignored]) -> Iterator[Finding]:
    for file, ignored in comments.items():
        yield from unknown_findings(file, ignored)


def _findings(read: Sources, upgrade: Upgrade | None) -> Iterator[Finding]:
    yield from read.findings
    contexts = [context_of(read, one) for one in read.configurations]
    for context in contexts:
        yield from configuration_findings(context)
        yield from machine_findings(context)
        yield from state_findings(context, read.known_pods)
        if upgrade is not None:
            yield from upgrade_findings(context, read.pods, *upgrade)
    if not contexts and (read.files or read.machine is not None):
        context = _without_configuration(read)
        yield from machine_findings(context)
        yield from state_findings(context, read.known_pods)
    kubelets: Sequence[Context | None] = contexts or [None]
    fitting = contexts or ([_willing(read)] if read.machine is not None else [])
    for pod in read.pods:
        for kubelet in kubelets:
            yield from pod_findings(pod, kubelet)
            yield from environment_findings(pod, kubelet)
        for context in fitting:
            yield from fit_findings(pod, context)
        if not fitting:
            yield from gpu_findings(pod, None)


def context_of(read: Sources, configuration: Configuration) -> Context:
    """A kubelet with everything that was given beside its configuration."""
    machine = read.machine or assumed_machine(configuration.raw, read.files)
    start = started(configuration.raw, machine, read.files, read.version)
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
    )


def _without_configuration(read: Sources) -> Context:
    """State files or a machine alone: under a configuration that fits them."""
    raw = inferred(read.files, read.version)
    return context_of(read, Configuration(read.paths.get(CPU_FILE, ""), raw))


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
    )
