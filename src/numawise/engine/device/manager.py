"""The Device Manager: devices of each container, whatever the scope.

Counterpart: ``Allocate``, ``allocateContainerResources`` and ``UpdateAllocatedDevices`` of
pkg/kubelet/cm/devicemanager/manager.go.

Rules kept here:

1. What the init containers of other pods had is forgotten as soon as a pod reaches the allocation.
2. The file is written when a container was given devices, not when they are collected.
3. A pod that is allocated for as a whole gets no devices; its containers get theirs when they start.
4. A plugin may refuse to hand out what was chosen; nothing of it counts as taken then.
5. Of an extended resource that a claim backs nothing is given: its devices come with the claim.
"""

from collections.abc import Iterable, Mapping

from numawise.engine.device.allocate import choose, record
from numawise.engine.device.hints import container_hints, is_device_resource, pod_hints
from numawise.engine.draft import Column, Draft
from numawise.engine.failure import Failure
from numawise.engine.hint import Answer, Hint
from numawise.engine.provider import Admission, hands_on
from numawise.engine.state import DeviceGrant
from numawise.engine.trace import Note, StaleRemoved, ignore
from numawise.machine.preference import SEVERAL_REFUSED
from numawise.request.model import ContainerRequest
from numawise.rules.model import Rules


class DeviceManager:
    """Devices of plugins."""

    name = "device"

    def present(self, rules: Rules) -> bool:
        """True when the kubelet has a Device Manager."""
        return rules.device_manager

    def collect(self, admission: Admission) -> None:
        """Forget the devices of pods that are gone."""
        collect(admission.draft, admission.note)

    def hints(self, admission: Admission, container: ContainerRequest | None) -> Answer:
        """Hints for a container or the pod."""
        return pod_hints(admission) if container is None else container_hints(admission, container)

    def allocate(self, admission: Admission, container: ContainerRequest, affinity: Hint) -> Failure | None:
        """Give a container its devices."""
        return allocate(admission, container, affinity.mask)

    def allocate_pod(self, _admission: Admission, _affinity: Hint) -> Failure | None:
        """Give nothing (rule 3)."""
        return None


def allocate(admission: Admission, container: ContainerRequest, affinity: int | None) -> Failure | None:
    """Allocate the devices of one container."""
    rules, uid, devices = admission.rules, admission.pod.uid, admission.draft.devices
    if admission.skipped:
        return None
    if devices.reusable.keys() != {uid}:
        devices.reusable = {uid: devices.reusable.get(uid, {})}
    failure = _allocate_resources(admission, container, affinity)
    if failure:
        return failure
    granted = devices.get(uid, container.name)
    if granted:
        again = dict(devices.reusable[uid])
        for resource, grant in granted.items():
            before = again.get(resource, frozenset())
            again[resource] = before | grant.ids if hands_on(rules, container) else before - grant.ids
        devices.reusable = {uid: again}
    return None


def _allocate_resources(
    admission: Admission, container: ContainerRequest, affinity: int | None
) -> Failure | None:
    """Allocate what is missing of each device resource, and write the file if anything was.

    The kubelet takes the resources in chance order; here those of which none is wanted come first.
    """
    draft, devices, rules = admission.draft, admission.draft.devices, admission.rules
    skipped = rules.claims_back_resources and rules.behaviour.claimed_resources_not_allocated
    claimed = container.claimed if skipped else ()
    collected = changed = False
    for resource, count in sorted(container.devices, key=lambda wanted: (wanted[1] > 0, wanted[0])):
        if resource in claimed or not is_device_resource(draft, resource):
            continue
        if not collected:
            collect(draft, admission.note)
            collected = True
        chosen = choose(admission, container, resource, count, affinity)
        plugin = devices.plugins.rows.get(resource)
        if plugin and plugin.refuses_several and isinstance(chosen, frozenset) and len(chosen) > 1:
            devices.allocated = Column(allocated_by(devices.rows.values()))
            chosen = Failure(SEVERAL_REFUSED.format(resource=resource, count=len(chosen)))
        if isinstance(chosen, Failure):
            competing = sum(
                size > 0 and name in devices.plugins.rows and name not in claimed
                for name, size in container.devices
            )
            return Failure(chosen.error, by_chance=competing > 1)
        if chosen:
            changed = True
            record(admission, container.name, resource, chosen)
    if changed:
        devices.save()
    return None


def collect(draft: Draft, note: Note = ignore) -> None:
    """Forget the devices of pods that are gone; the file is not written."""
    if not draft.ready:
        return
    devices = draft.devices
    gone = [uid for uid in sorted(draft.departed) if uid in devices.rows]
    for uid in gone:
        note(StaleRemoved("device", uid))
        devices.drop(uid)
    if gone:
        devices.allocated = Column(allocated_by(devices.rows.values()))


def allocated_by(pods: Iterable[Mapping[str, Mapping[str, DeviceGrant]]]) -> dict[str, frozenset[str]]:
    """Devices in use by resource, out of the grants of all pods."""
    found: dict[str, set[str]] = {}
    for containers in pods:
        for resources in containers.values():
            for resource, grant in resources.items():
                found.setdefault(resource, set()).update(grant.ids)
    return {resource: frozenset(ids) for resource, ids in found.items()}
