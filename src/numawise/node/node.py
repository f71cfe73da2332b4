"""A simulated kubelet on one node: its rules, its state, and the state files it would have written."""

from collections.abc import Iterable, Mapping

from numawise.codec.checkpoint import (
    CPU_FILE,
    DEVICE_FILE,
    MEMORY_FILE,
    decode_cpu,
    decode_devices,
    decode_memory,
    encode_cpu,
    encode_devices,
    encode_memory,
)
from numawise.engine.admit import Admitted, Crashed, Decision, Rejected, admit
from numawise.engine.lifecycle import (
    Started,
    devices_changed,
    plugins_spoke,
    reconcile,
    remove,
    start_containers,
)
from numawise.engine.matching import not_judged
from numawise.engine.predicates import Sums, add, allocatable, asked, used, whole_node
from numawise.engine.provider import Pick, lowest
from numawise.engine.resize import (
    UNCHANGED,
    ResizeResult,
    allocated_part,
    asked_again,
    forgotten,
    found_again,
    noticed,
    reported,
    retried,
    returning,
    same_size,
)
from numawise.engine.start import Records, build, start
from numawise.engine.state import NodeState
from numawise.engine.trace import Defect, Note, Step, ignore
from numawise.errors import KubeletRefused
from numawise.machine.description import NodeDescription
from numawise.machine.model import Device, DevicePlugin, Machine
from numawise.node.ruled import Tune, ruled_by
from numawise.node.unknown import doubt_about
from numawise.patience import look, looking
from numawise.request.defaults import RawPod, defaulted
from numawise.request.model import PodRequest, Role
from numawise.results.alignment import NodeFacts
from numawise.results.claims import claim_outcomes
from numawise.results.simulation import Doubt, Simulated
from numawise.rules.check import Refusal, Settings, check
from numawise.rules.model import KubeletConfig, Rules
from numawise.rules.versions import DEFAULT, Version
from numawise.sets import CpuSet
from numawise.values import dataclass, field, replace

MANY_CONTAINERS = 20
"""A decision takes the square of their number."""


@dataclass(slots=True)
class Files:
    """The texts of the state files, written when the state they come from changed."""

    texts: dict[str, str] = field(default_factory=dict)
    forgotten: str = ""
    """Why the Device Manager's file was passed over; the kubelet goes on without it."""
    _cpu: object = None
    _memory: object = None
    _devices: object = None

    def read(self, rules: Rules) -> Records | Refusal:
        """What a kubelet with these rules makes of the files."""
        cpu = memory = devices = None
        if CPU_FILE in self.texts and rules.cpu_manager:
            decoded = decode_cpu(self.texts[CPU_FILE], rules)
            if isinstance(decoded, Refusal):
                return decoded
            cpu = decoded
        if MEMORY_FILE in self.texts and rules.memory_manager:
            memory = decode_memory(self.texts[MEMORY_FILE], rules)
        if DEVICE_FILE in self.texts and rules.device_manager:
            found = decode_devices(self.texts[DEVICE_FILE], rules)
            if isinstance(found, str):
                self.forgotten = (
                    f"{DEVICE_FILE}: {found}; the kubelet goes on as if no devices were allocated"
                )
            else:
                devices = found
        self._cpu, self._memory, self._devices = cpu, memory, devices
        return Records(cpu, memory, devices)

    def write(self, rules: Rules, state: NodeState) -> None:
        """Bring the files up to date."""
        pods, data = rules.pod_level_managers, rules.behaviour.files_carry_data
        if rules.cpu_manager and state.cpu is not self._cpu:
            self._cpu = state.cpu
            policy = "static" if rules.cpu_static else "none"
            self.texts[CPU_FILE] = encode_cpu(policy, state.cpu, pods=pods, data=data)
        if rules.memory_manager and state.memory is not self._memory:
            self._memory = state.memory
            policy = "Static" if rules.memory_static else "None"
            self.texts[MEMORY_FILE] = encode_memory(policy, state.memory, pods=pods, data=data)
        if state.devices.saved is not None and state.devices.saved is not self._devices:
            self._devices = state.devices.saved
            self.texts[DEVICE_FILE] = encode_devices(state.devices.saved)


@dataclass(slots=True)
class SimulatedNode:
    """One kubelet and what it remembers; ``boot`` makes one."""

    machine: Machine
    config: KubeletConfig
    settings: Settings
    rules: Rules
    state: NodeState
    files: Files
    version: Version = DEFAULT
    write_files: bool = True
    predicates: bool = True
    """Sums, labels, taints … are judged, too (``OutOfcpu`` …); False: the managers alone decide."""
    description: NodeDescription | None = None
    """What its Node object says; None: that is not known, and not judged."""
    doubt: Doubt = Doubt()
    """What is not known of the last pod whose place is not known."""
    _counted: tuple[object, dict[str, int]] = (None, {})
    """Live pods as they were counted last, and what they ask for together."""
    _limits: tuple[object, dict[str, int]] = (None, {})
    """Plugins as they were last, and what was allocatable with them."""

    def allocatable(self) -> Mapping[str, int]:
        """What all pods together may ask for."""
        plugins = self.state.devices.plugins
        if self._limits[0] is not plugins:
            described = self.description.allocatable if self.description is not None else None
            limits = allocatable(self.machine, self.settings.reservation, self.config, self.state, described)
            self._limits = (plugins, limits)
        return self._limits[1]

    @property
    def facts(self) -> NodeFacts:
        """What the alignment of a pod is judged by."""
        listed = self.description.allocatable if self.description is not None else {}
        return NodeFacts(self.machine, self.rules, listed)

    def used(self, uid: str = "") -> dict[str, int]:
        """What all live pods together ask for, without the one of the uid."""
        state = self.state
        if uid in state.active:
            return used(state, uid)
        if self._counted[0] is not state.active:
            self._counted = (state.active, used(state))
        return self._counted[1]

    def requested(self, raw: RawPod) -> PodRequest:
        """What this kubelet counts of a pod: what it is allocated, where it asks for another size by now."""
        wanted = self.wanted(raw)
        if raw.allocated is None or not self.rules.resize.enabled:
            return wanted
        return allocated_part(self.rules, wanted, self.wanted(raw.as_allocated))

    def wanted(self, raw: RawPod) -> PodRequest:
        """What reaches this kubelet of a pod: with defaults, and without what the release does not know."""
        rules = self.rules
        return defaulted(
            raw, pod_level=rules.pod_level_resources, sidecars=rules.sidecars, claimed=self.claimed(raw)
        )

    def claimed(self, raw: RawPod) -> frozenset[str]:
        """The extended resources of a pod that the scheduler would give by claim here."""
        backed = frozenset(name for one in raw.containers for name in one.backed - one.claimed)
        if not backed or not self.rules.claims_back_resources:
            return frozenset()
        limits = self.allocatable()
        return frozenset(name for name in backed if not limits.get(name))

    def ask(self, pod: PodRequest, note: Note = ignore, pick: Pick = lowest) -> Decision:
        """What the kubelet would decide on a pod; nothing is kept."""
        sums = self.sums(self.used(pod.uid))
        return admit(self.machine, self.rules, self.state, pod, _hurried(note, pod), pick, sums)

    def sums(self, requested: Mapping[str, int]) -> Sums | None:
        """What the predicates compare and look at beside what live pods requested; None: none of it."""
        return Sums(self.allocatable(), requested, self.description) if self.predicates else None

    def admit(self, pod: PodRequest, note: Note = ignore, pick: Pick = lowest) -> Decision:
        """Admit one pod, and keep what came of it."""
        known = pod.uid in self.state.active
        decision = self.ask(pod, note, pick)
        if isinstance(decision, Admitted | Rejected):
            counted = self._counted[0] is self.state.active
            state = decision.state
            for uid in decision.preempted:
                state = forgotten(state, uid)
            self.keep(state)
            if counted and not known and isinstance(decision, Admitted) and not decision.preempted:
                sums = dict(self._counted[1])
                add(sums, asked(pod))
                self._counted = (self.state.active, sums)
        return decision

    def start(
        self, pod: PodRequest, admitted: Admitted, note: Note = ignore, pick: Pick = lowest
    ) -> tuple[Started, ...]:
        """Start the containers of an admitted pod."""
        state, started = start_containers(
            self.machine, self.rules, self.state, pod, admitted.affinity, note, pick
        )
        self.keep(state)
        return started

    def would_run(self, pod: PodRequest) -> bool:
        """True when the pod would be admitted and all its containers would start; nothing is kept."""
        decision = self.ask(pod)
        if not isinstance(decision, Admitted):
            return False
        if not any(container.devices for container in pod.containers):
            return True
        _, started = start_containers(self.machine, self.rules, decision.state, pod, decision.affinity)
        return not any(container.error for container in started)

    def remove(self, uid: str, note: Note = ignore) -> tuple[ResizeResult, ...]:
        """A pod has ended; resizes that waited for room are tried, in releases that queue them."""
        self.keep(forgotten(remove(self.state, uid), uid))
        return self.retry(note) if self.rules.behaviour.resizes_wait_in_a_queue else ()

    def resize(self, pod: PodRequest, note: Note = ignore) -> tuple[ResizeResult, ...]:
        """The spec of a running pod asks for another size; everything that waits is tried."""
        before = self.desired(pod.uid)
        if before is None or same_size(before, pod):
            return ()
        state, waits = asked_again(self.rules, self.state, pod)
        self.keep(state)
        if not waits:
            seen = self.rules.resize.enabled and noticed(self.rules, before, pod)
            return (ResizeResult(pod.uid, UNCHANGED),) if seen else ()
        return self.retry(note)

    def retry(self, note: Note = ignore) -> tuple[ResizeResult, ...]:
        """Try the resizes that wait, as the kubelet does from time to time."""
        if not self.state.resizes.queue:
            return ()

        def attempt(state: NodeState, pod: PodRequest) -> Decision:
            sums = self.sums(used(state, pod.uid))
            return admit(self.machine, self.rules, state, pod, _hurried(note, pod), sums=sums, resize=True)

        state, results = retried(self.rules, self.state, self._resize_capacity(), attempt)
        self.keep(state)
        return results

    def sizes_reported(self) -> None:
        """Containers have the sizes they are allocated, and the status of their pods says so."""
        self.keep(reported(self.rules, self.state))

    def _resize_capacity(self) -> Mapping[str, int]:
        """What the whole node has for a pod that is resized."""
        if not self.rules.behaviour.resize_capacity_ignores_eviction:
            return self.allocatable()
        settings = self.settings
        return whole_node(self.machine, settings.kube_reserved, settings.system_reserved)

    def desired(self, uid: str) -> PodRequest | None:
        """A live pod as its spec asks for it; None: there is none, or nothing is known of it."""
        return self.state.resizes.desired.get(uid) or self.state.active.get(uid)

    def reconcile(self) -> tuple[Started, ...]:
        """One pass of the CPU Manager's loop."""
        state, pushes = reconcile(self.rules, self.state)
        self.keep(state)
        return pushes

    def devices_changed(self, resource: str, devices: Iterable[Device]) -> None:
        """A device plugin sent a new list."""
        if not self.rules.device_manager:
            return
        if self.description is not None:
            self.describe(self.description.without(resource))
        self.keep(devices_changed(self.state, resource, devices))

    def plugins_registered(self, plugins: Iterable[DevicePlugin]) -> None:
        """Device plugins registered, each with its list."""
        if not self.rules.device_manager:
            return
        self.keep(plugins_spoke(self.state, plugins))

    def configured(self, config: KubeletConfig) -> "SimulatedNode | Refusal":
        """This kubelet under another configuration, as if nothing had to restart."""
        settings = check(config, CpuSet(self.machine.layout.all), self.machine.capacity, self.version)
        if isinstance(settings, Refusal):
            return settings
        rules = build(self.machine, config, settings, self.version, self.rules.behaviour)
        if isinstance(rules, Refusal):
            return rules
        node = replace(self, config=config, settings=settings, rules=rules, _limits=(None, {}))
        node.settle(self)
        return node

    def describe(self, description: NodeDescription | None) -> None:
        """Take over what a Node object says."""
        self.description = description
        self._limits = (None, {})

    def settle(self, before: "SimulatedNode") -> None:
        """Go on with what is known of a node whose kubelet was another one before."""
        self.write_files, self.predicates = before.write_files, before.predicates
        described = before.description
        changed = described is not None and self.config != before.config
        self.describe(described.reconfigured() if described is not None and changed else described)

    def run_already(self, pods: Iterable[RawPod], gone: Iterable[str] = ()) -> None:
        """Pods that are known to run here, whose requests count; ``gone``: recorded, and no longer there."""
        pods = tuple(pods)
        known = {pod.uid: self.requested(pod) for pod in pods}
        state = self.state
        for uid in gone:
            state = remove(state, uid)
        running = state.running | lasting_containers(known.values())
        active, departed = {**state.active, **known}, state.departed.difference(known)
        self.keep(replace(state, active=active, departed=departed, running=running))
        for pod in pods:
            self.await_size(pod)

    def await_size(self, raw: RawPod) -> None:
        """A pod that runs waits for the size that it asks for, where it has another one."""
        if raw.allocated is not None or raw.uid in self.state.resizes.desired:
            self.keep(asked_again(self.rules, self.state, self.wanted(raw))[0])

    def sources_ready(self) -> None:
        """All pods are known again after a restart; collecting may begin, and resizes wait as before."""
        self.keep(replace(found_again(self.rules, self.state), ready=True))

    def keep(self, state: NodeState) -> None:
        """Take over a new state, and write the files that changed."""
        self.state = state
        if self.write_files:
            self.files.write(self.rules, state)


def _hurried(note: Note, pod: PodRequest) -> Note:
    """Look whether there is time for a decision; on a pod with many containers also in the middle of it."""
    look()
    return looking(note) if len(pod.containers) > MANY_CONTAINERS else note


def lasting_containers(pods: Iterable[PodRequest]) -> frozenset[tuple[str, str]]:
    """Uid and name of the containers that go on running once a pod is up."""
    return frozenset(
        (pod.uid, container.name)
        for pod in pods
        for container in pod.containers
        if container.role is not Role.INIT
    )


def started(
    machine: Machine,
    kubelet: Mapping[str, object] | KubeletConfig,
    version: Version = DEFAULT,
    texts: Mapping[str, str] | None = None,
    *,
    file: str = "",
    state_file: str = "",
    field: str = "",
) -> SimulatedNode:
    """A kubelet that has started, its device plugins registered; ``KubeletRefused`` when it would not.

    ``file``, ``state_file``: where the configuration and the state files ``texts`` are, for the message.
    """
    node = boot(machine, kubelet, Files(dict(texts or {})), version=version)
    if isinstance(node, Refusal):
        from numawise.node.refusal_codes import refusal_advice  # noqa: PLC0415 - a refusal is rare

        at_state = state_file and node.stage.endswith("-start")
        advice = refusal_advice(node, len(machine.numa), version)
        place = state_file if at_state else file
        raise KubeletRefused(node.stage, node.message, file=place, field=field, advice=advice)
    node.plugins_registered(machine.plugins)
    return node


def boot(
    machine: Machine,
    kubelet: Mapping[str, object] | KubeletConfig,
    files: Files,
    before: NodeState | None = None,
    *,
    version: Version = DEFAULT,
    tune: Tune | None = None,
) -> SimulatedNode | Refusal:
    """Start a kubelet on a machine, with a configuration and the files an earlier one left.

    ``before``: the state in which an earlier kubelet went down while its pods ran on; ``tune``: what is to be
    otherwise than in the release.  ``ValueError``: the release is not known.
    """
    ruled = ruled_by(machine, kubelet, version, tune)
    if isinstance(ruled, Refusal):
        return ruled
    config, settings, rules = ruled
    records = files.read(rules)
    if isinstance(records, Refusal):
        return records
    state = start(machine, rules, records, before)
    if isinstance(state, Refusal):
        return state
    node = SimulatedNode(machine, config, settings, rules, state, files, version)
    node.keep(state)
    return node


# --------------------------------------------------------------------------------------------------
# Admit pods one after the other on a simulated kubelet.


def simulate(node: SimulatedNode, pods: Iterable[PodRequest], *, start: bool = True) -> tuple[Simulated, ...]:
    """Admit and start the pods in order; a crash of the kubelet ends it.

    ``start``: False for pods that run already, and are only admitted again.
    """
    outcomes = []
    for pod in pods:
        steps: list[Step] = []
        doubt = doubt_about(node, pod)
        node.doubt = doubt if doubt.resources else node.doubt
        decision = node.admit(pod, steps.append)
        granted = node.state
        started: tuple[Started, ...] = ()
        if isinstance(decision, Admitted) and start:
            started = node.start(pod, decision, steps.append)
            if any(container.devices for container in pod.containers):
                granted = with_devices(granted, node.state)
        admitted = isinstance(decision, Admitted)
        if admitted and any(isinstance(step, Defect) and step.name in BREAKING for step in steps):
            steps += _doomed(node)
        claims = claim_outcomes(pod, granted, node.machine, admitted=admitted) if pod.claims else ()
        left = not_judged(node.description, pod, node.allocatable()) if node.predicates else ()
        facts = node.facts
        outcomes.append(Simulated(pod, decision, tuple(steps), started, granted, facts, claims, left, doubt))
        if isinstance(decision, Crashed):
            break
    return tuple(outcomes)


BREAKING = frozenset({"reuse-outlives-pod", "single-node-in-group"})
"""Defects after which the kubelet may refuse its next start."""


def next_start(node: SimulatedNode) -> Refusal | None:
    """How the kubelet would refuse to start again as it is now; None: it would not."""
    state = node.state
    again = start(node.machine, node.rules, Records(state.cpu, state.memory, state.devices.saved), state)
    return again if isinstance(again, Refusal) else None


def _doomed(node: SimulatedNode) -> tuple[Step, ...]:
    refusal = next_start(node)
    return (Defect("next-start-refused", refusal.message),) if refusal is not None else ()


def with_devices(granted: NodeState, started: NodeState) -> NodeState:
    """What was granted, devices that were only chosen at the start included."""
    return NodeState(granted.cpu, granted.memory, started.devices)


def restart(
    node: SimulatedNode,
    config: KubeletConfig,
    plugins: Iterable[DevicePlugin] | None = None,
    *,
    late: bool = False,
    delete: Iterable[str] = (),
) -> tuple[SimulatedNode, tuple[Simulated, ...]] | Refusal:
    """A new kubelet where one went down while its pods ran on: every live pod is admitted again.

    ``late``: device plugins register only after that; ``delete``: state files that are gone by then.  A crash
    on a pod ends it.
    """
    node.files.write(node.rules, node.state)
    gone = set(delete)
    files = Files({name: text for name, text in node.files.texts.items() if name not in gone})
    again = boot(node.machine, config, files, node.state, version=node.version)
    if isinstance(again, Refusal):
        return again
    again.settle(node)
    every = plugins if plugins is not None else node.machine.plugins
    if not late:
        again.plugins_registered(every)
    outcomes = simulate(again, returning(again.rules, again.state), start=False)
    if not outcomes or not isinstance(outcomes[-1].decision, Crashed):
        if late:
            again.plugins_registered(every)
        again.sources_ready()
    return again, outcomes
