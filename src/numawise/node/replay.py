"""Run recorded scenarios through the engine and report the outcome in the recording's own form.

Only the ``scenario`` of a line is looked at, never its ``result``.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.decision import (
    Data,
    decision_data,
    resize_data,
    size_data,
    started_data,
    state_data,
)
from numawise.codec.machine import devices_from, machine_from
from numawise.codec.node import node_from
from numawise.codec.pod import pod_from, resize_from
from numawise.engine.admit import Admitted, Crashed
from numawise.engine.resize import ResizeResult, allocated_part, returning, same_size
from numawise.engine.trace import Step
from numawise.errors import InputError, quoted
from numawise.machine.description import NodeDescription
from numawise.machine.model import DevicePlugin
from numawise.node.node import Files, boot
from numawise.node.ruled import Tune
from numawise.request.defaults import defaulted
from numawise.request.model import PodRequest
from numawise.request.resize import resized
from numawise.rules.check import Refusal
from numawise.rules.versions import REFERENCE, Profile, Version, profile_of
from numawise.sets import format_ids
from numawise.values import replace

FILES = (CPU_FILE, MEMORY_FILE, DEVICE_FILE)


def replay(scenario: Mapping[str, Any], version: Version | None = None, tune: Tune | None = None) -> Data:
    """The result of one scenario; ``version``: in another release than it names, ``tune``: changed so."""
    return ScenarioReplay(scenario, version, tune).run()


def release_of(scenario: Mapping[str, Any]) -> Profile:
    """The profile for the release that a scenario names; without one, the reference."""
    release = scenario.get("kubernetes")
    try:
        return profile_of(release) if release else Profile(REFERENCE)
    except ValueError as error:
        raise InputError(str(error), field="kubernetes") from None


def node_of(value: Mapping[str, Any]) -> NodeDescription:
    """The node of a scenario: what its predicates saw."""
    true = [{"type": name, "status": "True"} for name in value.get("conditions") or ()]
    return node_from(
        {
            "metadata": {"name": "node", "labels": value.get("labels")},
            "spec": {"taints": value.get("taints"), "unschedulable": value.get("unschedulable")},
            "status": {"allocatable": value.get("allocatable"), "conditions": true},
        }
    )


class ScenarioReplay:
    """One scenario on its way through the engine."""

    def __init__(
        self, scenario: Mapping[str, Any], version: Version | None = None, tune: Tune | None = None
    ) -> None:
        self.machine = machine_from(scenario["machine"])
        self.kubelet = scenario.get("kubelet") or {}
        self.steps = scenario.get("steps") or ()
        self.files = Files()
        self.shown: dict[str, str] = {}
        self.plugins = {plugin.resource: plugin for plugin in self.machine.plugins}
        self.ended = False
        self.version = release_of(scenario).version if version is None else version
        self.tune = tune
        self.whole = scenario.get("admission") == "all"
        """All handlers of the kubelet decided; else the managers alone."""
        self.described = node_of(scenario.get("node") or {}) if self.whole else None
        self.added: dict[str, PodRequest] = {}
        """Pods as they came."""
        self.sizes: dict[str, PodRequest] = {}
        """Pods as they were last allocated; a refused one keeps it until it is removed."""

    def run(self) -> Data:
        """The result of the scenario."""
        node = boot(self.machine, self.kubelet, self.files, version=self.version, tune=self.tune)
        if isinstance(node, Refusal):
            return {"error": _refusal_data(node)}
        self.node = node
        node.predicates = self.whole
        node.describe(self.described)
        node.plugins_registered(self.plugins.values())
        rules = node.rules
        start = {
            "reserved_cpus": format_ids(rules.reserved_cpus),
            "allocatable_cpus": format_ids(self.machine.layout.all & ~rules.reserved_cpus)
            if rules.cpu_static
            else "",
            "node_allocatable_reservation": {n: str(a) for n, a in node.settings.reservation.items()},
            "state": self.state(),
        }
        results = []
        for step in self.steps:
            ((name, argument),) = step.items()
            self.node.sizes_reported()
            results.append(self.step(name, argument))
            if self.ended:
                break
        return {"start": start, "steps": results}

    def step(self, name: str, argument: Any) -> Data:  # noqa: ANN401 - as recorded
        """What comes of one step."""
        if name == "add":
            return self.add(argument)
        if name == "restart":
            return self.restart(argument)
        found: Data = {"op": name}
        if name == "remove":
            found["uid"] = argument
            self.added.pop(argument, None)
            self.sizes.pop(argument, None)
            self.resizes(found, self.node.remove(argument))
        elif name == "resize":
            uid = found["uid"] = argument["uid"]
            pod = self.node.desired(uid)
            if pod is not None:
                self.resizes(found, self.node.resize(resized(pod, resize_from(argument))))
        elif name == "retry":
            self.resizes(found, self.node.retry())
        elif name == "reconcile":
            pushes = self.node.reconcile()
            if pushes:
                found["runtime_updates"] = started_data(pushes)
        elif name == "devices":
            for resource, devices in argument.items():
                known = self.plugins.get(resource, DevicePlugin(resource, ()))
                plugin = replace(known, devices=devices_from(devices))
                self.plugins[resource] = plugin
                self.node.devices_changed(resource, plugin.devices)
        else:
            raise ValueError(f"unknown step {quoted(name)}")
        return {**found, "state": self.state()}

    def resizes(self, found: Data, results: Iterable[ResizeResult]) -> None:
        """Report what became of the resizes that were tried."""
        rows = tuple(results)
        if rows:
            found["resizes"] = [resize_data(result) for result in rows]
        ended = [uid for result in rows for uid in getattr(result.decision, "preempted", ())]
        if ended:
            found["preempted"] = ended

    def add(self, value: Mapping[str, Any]) -> Data:
        rules = self.node.rules
        pod = defaulted(pod_from(value), pod_level=rules.pod_level_resources, sidecars=rules.sidecars)
        self.added.setdefault(pod.uid, pod)
        found, admitted = self.admission("add", pod)
        if admitted is not None:
            before = self.node.state
            after_admit = self.state()
            started = self.node.start(pod, admitted)
            if _holds(self.node.state) != _holds(before):
                found["state_after_admit"] = after_admit
                found["runtime"] = started_data(started)
                found["state"] = self.state()
            else:
                found["runtime"] = started_data(started)
                found["state"] = after_admit
        elif not self.ended:
            found["state"] = self.state()
        return found

    def admission(self, op: str, pod: PodRequest) -> tuple[Data, Admitted | None]:
        steps: list[Step] = []
        decision = self.node.admit(pod, steps.append)
        self.ended = isinstance(decision, Crashed)
        found = {"op": op, "uid": pod.uid, "qos": pod.qos, **decision_data(decision, steps)}
        return found, decision if isinstance(decision, Admitted) else None

    def restart(self, argument: Mapping[str, Any]) -> Data:
        if "machine" in argument:
            self.machine = machine_from(argument["machine"])
            self.plugins = {plugin.resource: plugin for plugin in self.machine.plugins}
        self.kubelet = argument.get("kubelet", self.kubelet)
        before = self.node.state
        self.sizes = {uid: pod for uid, pod in self.sizes.items() if uid in before.active}
        node = boot(self.machine, self.kubelet, self.files, before, version=self.version, tune=self.tune)
        if isinstance(node, Refusal):
            self.ended = True
            return {"op": "restart", "error": _refusal_data(node)}
        self.node = node
        node.predicates = self.whole
        node.describe(self.described)
        late = argument.get("plugins") == "after-pods"
        if not late:
            node.plugins_registered(self.plugins.values())
        readmitted = []
        for pod in returning(node.rules, node.state):
            readmitted.append(self.admission("readmit", pod)[0])
            if self.ended:
                return {"op": "restart", "readmitted": readmitted}
        if late:
            node.plugins_registered(self.plugins.values())
        node.sources_ready()
        found: Data = {"op": "restart"}
        if readmitted:
            found["readmitted"] = readmitted
        return {**found, "state": self.state()}

    def state(self) -> Data:
        """The state, with the files whose content changed since they were last shown."""
        changed = {}
        for name in FILES:
            text = self.files.texts.get(name)
            if text is not None and _content(text) != self.shown.get(name):
                self.shown[name] = _content(text)
                changed[name] = text
        found = state_data(self.node.rules, self.node.state, changed)
        if allocated := self.allocated():
            found["allocated"] = allocated
        return found

    def allocated(self) -> Data:
        """Pods whose allocation differs from what they came with."""
        found: Data = {}
        rules = self.node.rules
        self.sizes |= {uid: pod for uid, pod in self.node.state.active.items() if pod is not None}
        for uid, came in self.added.items() if rules.resize.enabled else ():
            if uid not in self.sizes:
                continue
            now = allocated_part(rules, came, self.sizes[uid])
            if not same_size(now, came):
                found[uid] = size_data(came, now)
        return found


def _holds(state: Any) -> tuple[object, ...]:  # noqa: ANN401
    return (state.cpu, state.memory, state.devices.grants)


def _content(text: str) -> str:
    """A file's text without its checksum."""
    return text[: text.lower().rindex('"checksum"')]


def _refusal_data(refusal: Refusal) -> Data:
    return {"stage": refusal.stage, "message": refusal.message}
