"""What numawise promises from Python.

Rules kept here:

1. What ``numawise`` itself exports is promised: names, arguments and fields stay within a major version.
   Everything else in the package may change at any time.
2. An argument takes what the command line takes (a path, a name, a description, ``this``), or a value.
3. A "no" is a value: a ``PodDecision`` that is not admitted, an ``Explanation``, findings.  A kubelet that
   would not start raises ``KubeletRefused``; input that cannot be read raises ``InputError``.
4. The release is the one that is named, that of the bundle, or the default of all commands.
5. A node lives in memory alone: nothing that is done to it touches a file or a cluster.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from numawise.apps.check.lint import lint
from numawise.apps.simulate.scenario import MOST_COPIES, fill
from numawise.codec.allocated import quantity
from numawise.codec.hardware.encode import hardware_data
from numawise.codec.output import to_json as json_text
from numawise.codec.pod import unique_uids
from numawise.errors import InputError, KubeletRefused, quoted
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.inputs.config import ConfigInput, read_config
from numawise.inputs.machine import MachineInput, Named, read_machine
from numawise.inputs.pods import PodNamed, PodsInput, names_of
from numawise.inputs.recognise import recognised
from numawise.inputs.spec import NodeSpec, read_node, read_release, start_node
from numawise.node.node import restart as restart_node
from numawise.node.node import simulate as admit_pods
from numawise.node.resizing import resize, settle
from numawise.render.alignment import alignment_text
from numawise.render.simulation import filled_data
from numawise.request.defaults import RawPod
from numawise.request.model import CPU, MEMORY
from numawise.request.resize import ResizeRequest, SizeChange
from numawise.results.decision import PodDecision, PodResize, decision_of, resize_of
from numawise.results.explanation import Explanation, explanations_data
from numawise.results.finding import CheckReport
from numawise.results.plain import API_VERSION, document, plain
from numawise.results.simulation import Filled
from numawise.results.state import Unmatched
from numawise.rules.check import Refusal
from numawise.values import replace

Config = str | Path | Mapping[str, object] | ConfigInput
Size = str | int | float
Pods = PodNamed | Sequence[PodNamed]
"""Files, folders, manifests as mappings, or pods that were read already."""


def machine(*named: Named, node: str = "") -> MachineInput:
    """A machine: a name of the catalogue, a description, a file, a folder, a bundle, prints, or ``this``.

    ``node``: which one, where a file describes several nodes.
    """
    return read_machine(named[0] if len(named) == 1 else [str(word) for word in named], node=node)


def kubelet_config(config: Config | None = None, *, drop_ins: str = "", flags: str = "") -> ConfigInput:
    """A kubelet's configuration, in any form that ``check`` reads, with drop-ins and flags laid over it."""
    return read_config(str(config) if isinstance(config, Path) else config, drop_ins, flags)


class Node:
    """A simulated kubelet on a machine: pods are admitted, explained and removed one after the other."""

    def __init__(
        self,
        machine: Named = (),
        config: Config | None = None,
        *,
        drop_ins: str = "",
        flags: str = "",
        state: str | Path | Sequence[str] = (),
        bundle: str | Path = "",
        release: str = "",
        node_object: str | Path | Mapping[str, object] = "",
        pod_resources: str | Path = "",
        device_plugin: str | Path | Mapping[str, object] = "",
        match_devices: bool = False,
    ) -> None:
        """Start the kubelet; ``KubeletRefused`` when it would not.

        ``node_object``: the Node object, as a file or a mapping; without it labels, taints, conditions and
        ephemeral storage are not judged.  ``pod_resources``: a file with what the kubelet's PodResources
        socket answers.  ``device_plugin``: the configuration of NVIDIA's device plugin, as a file, a mapping,
        or ``off`` for a plugin that prefers no devices.  ``match_devices``: map devices of the state files
        that the machine names otherwise by number; without it an ``InputError`` names them.
        """
        self._input = read_node(
            _spec(
                machine,
                config,
                drop_ins=drop_ins,
                flags=flags,
                state=state,
                bundle=bundle,
                release=release,
                node_object=node_object,
                pod_resources=pod_resources,
                device_plugin=device_plugin,
                match_devices=match_devices,
            )
        )
        self._node = start_node(self._input)
        self._came: list[RawPod] = []

    @property
    def release(self) -> str:
        """The kubelet's release, such as ``1.36``."""
        return ".".join(map(str, self._node.version))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was assumed about the node."""
        return self._input.remarks

    @property
    def unmatched(self) -> tuple[Unmatched, ...]:
        """What is recorded of the node and is not on its machine, or is of pods that run no more."""
        return self._input.unmatched

    def admit(self, pod: PodNamed) -> PodDecision:
        """Admit one pod and start its containers; what it receives stays until it is removed.

        The same manifest once more is another pod, as it is to ``simulate``; its uid gets a number.
        """
        (decision,) = self.admit_all([self._only(pod)])
        return decision

    def admit_all(self, pods: Pods) -> tuple[PodDecision, ...]:
        """Admit pods in order; a crash of the kubelet ends it."""
        before, read = len(self._came), self._read(pods)
        for uid in read.gone:
            self._node.remove(uid)
        self._came = list(unique_uids([*self._came, *read.pods]))
        came = self._came[before:]
        outcomes = admit_pods(self._node, [self._node.requested(raw) for raw in came])
        for raw in came:
            if raw.uid in self._node.state.active:
                self._node.await_size(raw)
        return tuple(decision_of(outcome, alignment_text) for outcome in outcomes)

    def explain(self, pod: PodNamed) -> Explanation:
        """What would become of a pod now, why, and what would change that; nothing is kept."""
        return explain(case_of(self._node, self._only(pod)), walk=True)

    def fill(self, pod: PodNamed, most: int = MOST_COPIES) -> Filled:
        """How many copies of a pod would still be admitted, and what stops the next; nothing is kept."""
        filled = Filled(self._only(pod), self._node.machine)
        fill(replace(self._node, write_files=False), filled, most)
        return filled

    def resize(
        self, pod: str, *, container: str = "", cpu: Size | None = None, memory: Size | None = None
    ) -> tuple[PodResize, ...]:
        """Change the size of a live pod in place: what became of it, and of others that waited.

        ``cpu``, ``memory``: what a container requests; a limit that was the same, or is below, goes along.
        ``container`` may be left out where there is one.
        """
        uid, sizes = self._uid(pod), {}
        for name, size in ((CPU, cpu), (MEMORY, memory)):
            if size is not None:
                try:
                    sizes[name] = quantity(size)
                except ValueError as problem:
                    advice = "write it like 500m, 2 or 8Gi"
                    raise InputError(f"{quoted(str(size))}: {problem}", field=name, advice=advice) from None
        change = ResizeRequest({container: SizeChange(sizes=sizes)})
        try:
            return tuple(map(resize_of, resize(self._node, uid, change, self._names())))
        except ValueError as problem:
            raise InputError(str(problem), advice="name the container") from None

    def retry_resizes(self) -> tuple[PodResize, ...]:
        """Try the resizes that wait, as the kubelet does from time to time."""
        return tuple(map(resize_of, settle(self._node, self._node.retry(), self._names())))

    def _names(self) -> dict[str, str]:
        active = self._node.state.active
        return {uid: f"{pod.namespace}/{pod.name}" if pod else uid for uid, pod in active.items()}

    def remove(self, pod: str) -> None:
        """A pod has ended, named by its uid, its name, or namespace/name; ``InputError`` when none has it.

        Resizes that waited for room are tried.
        """
        uid, names = self._uid(pod), self._names()
        settle(self._node, self._node.remove(uid), names)

    def _uid(self, pod: str) -> str:
        active = self._node.state.active
        uids = [
            uid for uid, request in active.items() if pod == uid or (request and pod in names_of(request))
        ]
        if len(uids) != 1:
            problem = "matches several pods" if uids else "is not a pod of this node"
            raise InputError(
                f"{quoted(pod)} {problem}", advice=f"give a uid, such as {', '.join(list(active)[:3])}"
            )
        return uids[0]

    def restart(self, config: Config | None = None, delete: Iterable[str] = ()) -> tuple[PodDecision, ...]:
        """Restart the kubelet, perhaps with another configuration: every live pod is admitted again.

        ``delete``: state files that are deleted while it is down.  ``KubeletRefused`` when it would not
        start; the node is then as it was before.
        """
        settled = self._node.config
        if config is not None:
            settled = kubelet_config(config).config(self._node.version)
        restarted = restart_node(self._node, settled, delete=delete)
        if isinstance(restarted, Refusal):
            raise KubeletRefused(restarted.stage, restarted.message)
        self._node, outcomes = restarted
        return tuple(decision_of(outcome, alignment_text) for outcome in outcomes)

    def state_files(self) -> dict[str, str]:
        """The state files that the kubelet would have written, by name."""
        self._node.files.write(self._node.rules, self._node.state)
        return dict(self._node.files.texts)

    def _read(self, pods: Pods) -> PodsInput:
        words = pods if isinstance(pods, Sequence) and not isinstance(pods, str) else [pods]
        return self._input.pods(words)

    def _only(self, pod: PodNamed) -> RawPod:
        raws = self._read([pod]).pods
        if len(raws) != 1:
            advice = "use admit_all for several"
            raise InputError(f"holds {len(raws)} pods; expected one", file=str(pod), advice=advice)
        return raws[0]


def simulate(
    pods: Pods,
    machine: Named = (),
    config: Config | None = None,
    **node: Any,  # noqa: ANN401 - as Node takes it
) -> tuple[PodDecision, ...]:
    """Admit pods in order on a new node; further arguments as ``Node`` takes them."""
    return Node(machine, config, **node).admit_all(pods)


def check(
    pods: Iterable[str | Path] = (),
    machine: Named = (),
    config: Config | None = None,
    *,
    drop_ins: str = "",
    flags: str = "",
    state: str | Path | Sequence[str] = (),
    bundle: str | Path = "",
    release: str = "",
    node_object: str | Path | Mapping[str, object] = "",
    match_devices: bool = False,
    ignore: Iterable[str] = (),
    select: Iterable[str] = (),
) -> CheckReport:
    """Lint configurations, machines, state files and pods, together and against a release.

    ``pods`` may name files of any of these kinds, as ``numawise check FILE…`` does.
    """
    spec = _spec(
        machine,
        config,
        drop_ins=drop_ins,
        flags=flags,
        state=state,
        bundle=bundle,
        release=release,
        node_object=node_object,
        match_devices=match_devices,
    )
    given = recognised(spec, map(str, pods))
    version = read_node(given.spec).version if given.spec.bundle else read_release(release).version
    report = lint(given.spec, given.objects, version, ignore=ignore, select=select)
    return replace(report, remarks=(*given.remarks, *report.remarks))


def to_json(value: object) -> str:
    """A result of this API as a JSON document, in the form that ``-o json`` gives where there is one."""
    match value:
        case MachineInput():
            return json_text(hardware_data(value.hardware))
        case Filled():
            return json_text(document("Filled", filled_data(value)))
        case Explanation():
            return json_text(explanations_data([value]))
        case CheckReport():
            return json_text(document("Check", value))
        case PodDecision() | PodResize():
            return json_text(document(type(value).__name__, value))
        case tuple() | list():
            return json_text({"apiVersion": API_VERSION, "kind": "List", "items": plain(value)})
    return json_text(document(type(value).__name__, value))


def _spec(
    machine: Named,
    config: Config | None,
    *,
    drop_ins: str,
    flags: str,
    state: str | Path | Sequence[str],
    bundle: str | Path,
    release: str,
    node_object: str | Path | Mapping[str, object] = "",
    pod_resources: str | Path = "",
    device_plugin: str | Path | Mapping[str, object] = "",
    match_devices: bool = False,
) -> NodeSpec:
    named: tuple[str, ...] | Mapping[str, object] | ConfigInput = ()
    if config is not None:
        named = (str(config),) if isinstance(config, str | Path) else config
    return NodeSpec(
        machine=str(machine) if isinstance(machine, Path) else machine,
        kubelet_config=named,
        config_dir=drop_ins,
        kubelet_flags=flags,
        state=_words(state),
        bundle=str(bundle),
        kube=release,
        node_object=str(node_object) if isinstance(node_object, Path) else node_object,
        pod_resources=str(pod_resources),
        device_plugin_config=str(device_plugin) if isinstance(device_plugin, Path) else device_plugin,
        match_devices=match_devices,
    )


def _words(given: str | Path | Sequence[str]) -> tuple[str, ...]:
    return (str(given),) if isinstance(given, str | Path) else tuple(map(str, given))
