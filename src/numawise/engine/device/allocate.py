"""Choose devices for a container.

Counterpart: ``devicesToAllocate`` and ``filterByAffinity`` of pkg/kubelet/cm/devicemanager/manager.go.

Rules kept here:

1. What init containers had is taken first, whatever its NUMA node or health.
2. Then devices on the wanted NUMA nodes, then others; the plugin is asked for its preference only
   where there is a choice to make.
3. Where the kubelet leaves the choice to the order of a Go map, the lowest ids are taken, and a step
   says that the choice was free.
"""

from collections.abc import Mapping, Sequence

from numawise.engine.device.hints import nodes_of
from numawise.engine.draft import DeviceDraft
from numawise.engine.failure import Failure
from numawise.engine.provider import Admission, Pick
from numawise.engine.state import DeviceGrant, Plugin
from numawise.engine.trace import DevicesChosen, Note, ignore
from numawise.machine.preference import PreferenceAnswer
from numawise.request.model import ContainerRequest

NOWHERE_NUMA = -1
"""Where devices without NUMA node are recorded."""


def choose(
    admission: Admission, container: ContainerRequest, resource: str, count: int, affinity: int | None
) -> frozenset[str] | Failure:
    """The devices to give a container in addition to those it has, of one resource."""
    rules, draft, pod, note = admission.rules, admission.draft, admission.pod, admission.note
    devices = draft.devices
    recorded = (devices.get(pod.uid, container.name) or {}).get(resource)
    needed = count
    if recorded is not None:
        needed -= len(recorded.ids)
        if needed:
            return Failure(
                f'pod "{pod.uid}" container "{container.name}" changed request for resource "{resource}" '
                f"from {len(recorded.ids)} to {count}"
            )
    if rules.behaviour.checks_recorded_devices:
        if not draft.ready and (pod.uid, container.name) in draft.running:
            return frozenset()
        if failure := _health_failure(devices.plugins.rows, resource, recorded):
            return failure
    if not needed:
        return frozenset()
    if resource not in devices.plugins.rows:
        return Failure(f"can't allocate unregistered device {resource}")

    plugin = devices.plugins.rows[resource]
    allocated = devices.allocated.rows.get(resource, frozenset())
    taking = _Taking(container.name, resource, needed, admission.pick)
    if taking.take(devices.reusable.get(pod.uid, {}).get(resource, frozenset())):
        return taking.report(note, aligned=False)
    available = plugin.healthy - allocated - taking.taken
    missing = taking.needed
    if len(available) < missing:
        taking.leak(devices, allocated)
        return Failure(
            f"requested number of devices unavailable for {resource}. Requested: {missing}, "
            f"Available: {len(available)}"
        )
    divide = split if rules.behaviour.any_wanted_node_counts else split_by_one_node
    near, far, anywhere = divide(plugin, available, affinity)
    if missing < len(near):
        answer = _preferred(plugin, near | taking.taken, taking.taken, count)
        if answer.error:
            return taking.not_preferred(devices, allocated, answer)
        if not taking.take(answer.ids & near, open_to=answer.open_to & near):
            taking.take(near)
        return taking.report(note, aligned=True)
    if taking.take(near):
        return taking.report(note, aligned=True)
    answer = _preferred(plugin, available | taking.taken, taking.taken, count)
    if answer.error:
        return taking.not_preferred(devices, allocated, answer)
    if taking.take(answer.ids & available, open_to=answer.open_to & available):
        return taking.report(note, aligned=False)
    for candidates in (far, anywhere):
        if taking.take(candidates):
            return taking.report(note, aligned=False)
    return Failure(
        f"unexpectedly allocated less resources than required. Requested: {count}, "
        f"Got: {count - taking.needed}"
    )


def _health_failure(
    plugins: Mapping[str, Plugin], resource: str, recorded: DeviceGrant | None
) -> Failure | None:
    plugin = plugins.get(resource)
    if plugin is None:
        return Failure(f"cannot allocate unregistered device {resource}")
    if not plugin.healthy:
        return Failure(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
    if recorded is not None and not recorded.ids <= plugin.healthy:
        return Failure(
            "previously allocated devices are no longer healthy; "
            f"cannot allocate unhealthy devices {resource}"
        )
    return None


class _Taking:
    """Devices taken so far, and how many are still needed."""

    def __init__(self, container: str, resource: str, needed: int, pick: Pick) -> None:
        self.container = container
        self.resource = resource
        self.needed = needed
        self.pick = pick
        self.taken: frozenset[str] = frozenset()
        self.open_to: frozenset[str] = frozenset()
        self.fixed: frozenset[str] = frozenset()
        self.tied = False

    def take(self, candidates: frozenset[str], *, open_to: frozenset[str] | None = None) -> bool:
        """Take what is needed from the candidates; True when that was enough.

        ``open_to``: the candidates are a plugin's answer, which another time may have others of these.
        """
        candidates -= self.taken
        if len(candidates) <= self.needed:
            chosen = candidates
            self.fixed |= chosen - (open_to or frozenset())
            self.open_to |= open_to or frozenset()
            self.tied = bool(open_to)
        else:
            given = self.pick(self.container, self.resource, candidates, self.needed)
            wanted = sorted(candidates.intersection(given or ())) or sorted(candidates)
            chosen = frozenset(wanted[: self.needed])
            if open_to is not None:
                self.fixed |= chosen
            else:
                self.open_to, self.tied = candidates, False
        self.taken |= chosen
        self.needed -= len(chosen)
        return self.needed == 0

    def leak(self, devices: DeviceDraft, allocated: frozenset[str]) -> None:
        """What was taken before a failure counts as taken from now on."""
        if self.taken:
            devices.allocated.put(self.resource, allocated | self.taken)

    def not_preferred(
        self, devices: DeviceDraft, allocated: frozenset[str], answer: PreferenceAnswer
    ) -> Failure:
        """The plugin's call failed, and with it the allocation."""
        self.leak(devices, allocated)
        return Failure(f"device plugin GetPreferredAllocation rpc failed with err: {answer.error}")

    def report(self, note: Note, *, aligned: bool) -> frozenset[str]:
        """The devices taken, after a step about them."""
        if note is not ignore:
            parts: list[Sequence[str]] = [sorted(self.taken), sorted(self.fixed), sorted(self.open_to)]
            chosen, fixed, open_to = map(tuple, parts)
            note(DevicesChosen(self.container, self.resource, chosen, fixed, open_to, aligned, self.tied))
        return self.taken


def split(
    plugin: Plugin, available: frozenset[str], affinity: int | None
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """Available devices on the wanted NUMA nodes, on other nodes, and on none."""
    if affinity is None:
        return frozenset(), frozenset(), available
    near: set[str] = set()
    far: set[str] = set()
    anywhere: set[str] = set()
    for name in available:
        device = plugin.devices[name]
        placed = any(numa != NOWHERE_NUMA for numa in device.numa or ())  # in a mask or not
        (near if nodes_of(device) & affinity else far if placed else anywhere).add(name)
    return frozenset(near), frozenset(far), frozenset(anywhere)


def split_by_one_node(
    plugin: Plugin, available: frozenset[str], affinity: int | None
) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """The same as kubelets up to 1.21 did it: only the first of a device's NUMA nodes in a list counts.

    That list comes out of a Go map and is sorted by the wrong sizes: positions are taken for node ids.  Its
    likeliest order is used here: that in which devices, and the nodes of each, are listed.
    """
    if affinity is None:
        return frozenset(), frozenset(), available
    sizes: dict[int, int] = {}
    for name, device in plugin.devices.items():
        for numa in (device.numa or (NOWHERE_NUMA,)) if name in available else ():
            sizes[numa] = sizes.get(numa, 0) + 1
    order = list(sizes)
    for end in range(1, len(order)):
        at = end
        while at and sizes.get(at, 0) < sizes.get(at - 1, 0):
            order[at - 1 : at + 1] = order[at], order[at - 1]
            at -= 1
    near: set[str] = set()
    far: set[str] = set()
    anywhere: set[str] = set()
    for name in available:
        nodes = plugin.devices[name].numa or (NOWHERE_NUMA,)
        numa = next(one for one in order if one in nodes)
        (anywhere if numa == NOWHERE_NUMA else near if affinity >> numa & 1 else far).add(name)
    return frozenset(near), frozenset(far), frozenset(anywhere)


def _preferred(
    plugin: Plugin, available: frozenset[str], must: frozenset[str], size: int
) -> PreferenceAnswer:
    """The plugin's answer to GetPreferredAllocation; nothing when it has no such call."""
    if plugin.preference is None:
        return PreferenceAnswer()
    return plugin.preference.answer(plugin.devices, available, must, size)


def record(admission: Admission, container: str, resource: str, chosen: frozenset[str]) -> None:
    """Record devices for a container, by NUMA node."""
    devices = admission.draft.devices
    plugin = devices.plugins.rows[resource]
    homeless = (NOWHERE_NUMA,) if admission.rules.behaviour.homeless_devices_apart else (0,)
    per_numa: dict[int, list[str]] = {}
    for name in sorted(chosen):
        device = plugin.devices.get(name)
        for numa in (device.numa if device else None) or homeless:
            per_numa.setdefault(numa, []).append(name)
    grant = DeviceGrant(tuple((numa, tuple(ids)) for numa, ids in sorted(per_numa.items())))
    devices.grant(admission.pod.uid, container, resource, grant)
