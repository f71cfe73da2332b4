"""Recorded starts of a kubelet, and what the check says about each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from numawise.apps.check.configuration import configuration_findings
from numawise.apps.check.environment import environment_findings
from numawise.apps.check.fit import Fitting, machine_findings
from numawise.apps.check.lint import context_of, state_of
from numawise.apps.check.pods import pod_findings
from numawise.apps.check.sources import Sources
from numawise.codec.document import Document
from numawise.codec.kubelet.effective import configured
from numawise.codec.kubelet.forms import Found
from numawise.codec.machine import devices_from, machine_from
from numawise.codec.pod import pod_from
from numawise.engine.admit import Admitted, Crashed
from numawise.engine.state import NodeState
from numawise.inputs.pods import PodSource, read_manifest
from numawise.machine.hardware import hardware_of
from numawise.machine.model import DevicePlugin, Machine
from numawise.node.node import Files, SimulatedNode, boot
from numawise.request.defaults import defaulted
from numawise.results.finding import Finding, Severity
from numawise.rules.gates import listed
from numawise.rules.versions import REFERENCE, Version, parse_version
from numawise.values import replace

Data = Mapping[str, Any]
HEAD = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
UNNOTICED = ("NW304", "NW308")
"""Errors with which the kubelet starts: it forgets devices, and does not see what two pods hold."""
GATES = ("decode-config-panic", "feature-gates")


@dataclass(frozen=True, slots=True)
class Start:
    """A kubelet starts: on what, and what it said."""

    name: str
    config: Data
    machine: Machine
    version: Version
    files: Mapping[str, str] = field(default_factory=dict)
    error: Data | None = None
    """Stage and message of its refusal; None: it started."""


def starts(scenario: Data, result: Data) -> Iterator[Start]:
    """The starts of a recorded scenario: the first, and one for each restart."""
    machine = machine_from(scenario["machine"])
    config = scenario.get("kubelet") or {}
    version = parse_version(scenario["kubernetes"]) if "kubernetes" in scenario else REFERENCE
    yield Start(scenario["id"], config, machine, version, {}, result.get("error"))
    files = Files()
    plugins = {plugin.resource: plugin for plugin in machine.plugins}
    node = boot(machine, config, files, version=version)
    if not isinstance(node, SimulatedNode) or not any(
        "restart" in step for step in scenario.get("steps") or ()
    ):
        return
    node.plugins_registered(plugins.values())
    manifests: dict[str, Any] = {}
    for at, (step, recorded) in enumerate(zip(scenario["steps"], result["steps"], strict=False)):
        ((kind, argument),) = step.items()
        if kind == "add":
            manifests[pod_from(argument).uid] = argument
            if not _add(node, argument):
                return
        elif kind == "remove":
            node.remove(argument)
        elif kind == "reconcile":
            node.reconcile()
        elif kind == "devices":
            for resource, devices in argument.items():
                known = plugins.get(resource, DevicePlugin(resource, ()))
                plugins[resource] = replace(known, devices=devices_from(devices))
                node.devices_changed(resource, plugins[resource].devices)
        else:
            if "machine" in argument:
                machine = machine_from(argument["machine"])
                plugins = {plugin.resource: plugin for plugin in machine.plugins}
            config = argument.get("kubelet", config)
            name = f"{scenario['id']} step {at}"
            yield Start(name, config, machine, version, dict(files.texts), recorded.get("error"))
            again = _restart(node.state, machine, config, files, version, argument, plugins, manifests)
            if again is None:
                return
            node = again


def _add(node: SimulatedNode, manifest: Data) -> bool:
    rules = node.rules
    pod = defaulted(pod_from(manifest), pod_level=rules.pod_level_resources, sidecars=rules.sidecars)
    decision = node.admit(pod)
    if isinstance(decision, Admitted):
        node.start(pod, decision)
    return not isinstance(decision, Crashed)


def _restart(
    before: NodeState,
    machine: Machine,
    config: Data,
    files: Files,
    version: Version,
    argument: Data,
    plugins: Mapping[str, DevicePlugin],
    manifests: Mapping[str, Any],
) -> SimulatedNode | None:
    node = boot(machine, config, files, before, version=version)
    if not isinstance(node, SimulatedNode):
        return None
    late = argument.get("plugins") == "after-pods"
    if not late:
        node.plugins_registered(plugins.values())
    for uid in before.active:
        rules = node.rules
        raw = pod_from(manifests[uid])
        pod = defaulted(raw, pod_level=rules.pod_level_resources, sidecars=rules.sidecars)
        if isinstance(node.admit(pod), Crashed):
            return None
    if late:
        node.plugins_registered(plugins.values())
    node.sources_ready()
    return node


def findings_of(start: Start) -> tuple[Finding, ...]:
    """What the check says about a start."""
    read = Sources(
        start.version, machine=start.machine, hardware=hardware_of(start.machine), files=start.files
    )
    document = Document({**HEAD, **start.config}, "kubelet.yaml")
    configuration = configured(Found(document.root), (), (), "", start.version)
    context = context_of(read, configuration)
    return (*configuration_findings(context), *machine_findings(context), *state_of(read, context.config))


def first_pod(scenario: Data, result: Data) -> tuple[str, Data] | None:
    """What the check says about the first pod of a scenario, and what the kubelet did with it.

    ``never``, ``crash`` or ``fine``; None when no pod comes first, or the kubelet does not start.
    """
    steps = scenario.get("steps") or ()
    if "error" in result or not steps or "add" not in steps[0]:
        return None
    machine = machine_from(scenario["machine"])
    version = parse_version(scenario["kubernetes"]) if "kubernetes" in scenario else REFERENCE
    read = Sources(version, machine=machine, hardware=hardware_of(machine))
    document = Document({**HEAD, **(scenario.get("kubelet") or {})}, "kubelet.yaml")
    context = context_of(read, configured(Found(document.root), (), (), "", version))
    (pod,) = read_manifest(Document({"kind": "Pod", **steps[0]["add"]}, "pod.yaml"))
    assert isinstance(pod, PodSource)
    every = [
        *pod_findings(pod, context),
        *environment_findings(pod, context),
        *Fitting(context).findings(pod),
    ]
    codes = {finding.code for finding in every}
    if any(finding.code == "NW420" and "OutOf" in finding.message for finding in every):
        return None  # by the sums, and the managers alone were recorded
    said = "crash" if "NW428" in codes else "never" if "NW420" in codes else "fine"
    return said, result["steps"][0]


def pod_difference(scenario: Data, result: Data) -> str:
    """How the check and the kubelet differ about the first pod, on what is an empty node for both."""
    judged = first_pod(scenario, result)
    if judged is None:
        return ""
    said, step = judged
    did = "crash" if "panic" in step else "fine" if step["admitted"] else "never"
    return "" if said == did else f"{scenario['id']}: the first pod: the kubelet {did}, the check {said}"


def difference(start: Start) -> str:
    """How the check and the kubelet differ about a start; '' when they agree."""
    errors = [
        one for one in findings_of(start) if one.severity is Severity.ERROR and one.code not in UNNOTICED
    ]
    if start.error is None:
        told = "; ".join(f"{one.code} {one.message}" for one in errors)
        return f"{start.name}: the kubelet starts; the check says {told}" if told else ""
    wanted = (start.error["stage"], start.error["message"])
    first = next((one for one in errors if one.stage), None)
    said = (first.stage, first.kubelet or first.message) if first else ("", "nothing")
    if said == wanted:
        return ""
    if first is not None and first.stage == wanted[0] and _together(errors, first.stage) == wanted[1]:
        return ""
    return f"{start.name}: the kubelet says {wanted}; the check {said}"


def _together(errors: list[Finding], stage: str) -> str:
    """Problems of one stage as the kubelet lists them."""
    messages = [one.kubelet or one.message for one in errors if one.stage == stage]
    if stage not in GATES:
        return listed(messages)
    prefix = (
        messages[0].partition("error: ")[0] + "error: "
        if stage == GATES[0]
        else messages[0].split(": ")[0] + ": "
    )
    return prefix + listed([message.removeprefix(prefix) for message in messages])
