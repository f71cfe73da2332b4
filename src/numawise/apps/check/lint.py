"""The whole check: read, judge each kubelet with what belongs to it, leave out what is not wanted."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from numawise.apps.check.configuration import configuration_findings
from numawise.apps.check.context import Context
from numawise.apps.check.environment import environment_findings
from numawise.apps.check.fit import fit_findings, gpu_findings, willing
from numawise.apps.check.ignore import Ignored, ignored_in, unknown_findings
from numawise.apps.check.machine import machine_findings
from numawise.apps.check.pods import pod_findings
from numawise.apps.check.refusals import Start, started
from numawise.apps.check.sources import Sources, sources
from numawise.apps.check.upgrade import upgrade_findings
from numawise.codec.checkpoint import CPU_FILE
from numawise.codec.checkpoint.look import look
from numawise.codec.kubelet.effective import Configuration
from numawise.inputs.spec import NodeSpec
from numawise.node.state.assumed import assumed_machine
from numawise.node.state.folder import Against, LivePod, StateFile, StateFolder, has_ended, live_pod
from numawise.node.state.lint import state_findings
from numawise.node.state.memory_tables import recorded_reservation
from numawise.request.model import MEMORY
from numawise.results.finding import CheckReport, Finding, ordered
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import DEFAULT, Version
from numawise.sets import ids_of

Upgrade = tuple[Version, Version]


def lint(
    spec: NodeSpec,
    pods: Sequence[str] = (),
    version: Version = DEFAULT,
    *,
    ignore: Iterable[str] = (),
    select: Iterable[str] = (),
    upgrade: Upgrade | None = None,
) -> CheckReport:
    """Check everything that was named."""
    read = sources(spec, tuple(pods), version)
    comments = {file: ignored_in(text) for file, text in read.texts.items()}
    files = tuple(dict.fromkeys([*_order(spec), *read.texts, *read.paths.values()]))
    found_all = ordered([*_findings(read, upgrade), *_comment_findings(comments)], files)
    wanted, unwanted = tuple(select), tuple(ignore)
    kept = [
        one
        for one in found_all
        if not comments.get(one.file, Ignored()).covers(one)
        and not (unwanted and one.code.startswith(unwanted))
        and (not wanted or one.code.startswith(wanted))
    ]
    return CheckReport(tuple(kept), len(found_all) - len(kept), files, tuple(read.remarks))


def _order(spec: NodeSpec) -> Iterator[str]:
    """Files as they were named: configurations first, pods last."""
    for words in (spec.kubelet_config, (spec.config_dir, spec.kubelet_flags), spec.machine):
        yield from (word for word in words if isinstance(word, str)) if isinstance(words, tuple) else ()


def _comment_findings(comments: dict[str, Ignored]) -> Iterator[Finding]:
    for file, ignored in comments.items():
        yield from unknown_findings(file, ignored)


def _findings(read: Sources, upgrade: Upgrade | None) -> Iterator[Finding]:
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
    return state_findings(_folder(read), Against(read.machine, config, live, read.version))


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
    return StateFolder(Path(), files)


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
