"""State files in the form of another release.

Rules kept here:

1. The content stays what it is; what the other form has no room for is reported as lost.
2. Without entries for whole pods, CPUs that only such an entry held go back to the shared pool, and memory is
   charged by container; where that does not fit, the pod must go first.
3. Containers that are known by id alone are looked up among the pods that are given.
4. Devices in the form of 1.19, without NUMA nodes, get those of the machine, else node 0 as in the kubelet.
"""

from collections.abc import Iterator, Mapping

from numawise.codec.checkpoint import (
    CPU_FILE,
    DEVICE_FILE,
    MEMORY_FILE,
    encode_cpu,
    encode_devices,
    encode_memory,
)
from numawise.codec.checkpoint.look import BY_NUMA, FLAT, V1, V2, V3, V4
from numawise.engine.state import CpuState, DeviceFile, DeviceGrant, MemoryState
from numawise.node.state.change import Change, FileChange, proved
from numawise.node.state.folder import Against, StateFile, StateFolder
from numawise.node.state.memory_tables import charged, own_tables
from numawise.rules.behaviour import behaviour_of
from numawise.rules.versions import Version, shown
from numawise.sets import format_ids
from numawise.values import replace

Grants = dict[str, dict[str, dict[str, DeviceGrant]]]


def target_format(name: str, version: Version, *, gate: bool = False) -> str:
    """The format in which a release writes a file; '' when it has no such file."""
    data = behaviour_of(version).files_carry_data
    if name == CPU_FILE:
        return V4 if data else V3 if gate else V2
    if name == MEMORY_FILE:
        if not behaviour_of(version).has_memory_manager:
            return ""
        return V3 if data else V2 if gate else V1
    return BY_NUMA


def convert(folder: StateFolder, against: Against, *, gate: bool = False) -> Change:
    """What becomes of the files for the release of ``against``; not carried out."""
    work = _Convert(against, gate=gate)
    files = tuple(change for file in folder.files for change in work.file(file))
    return proved(
        folder, Change(files, tuple(work.refused)), replace(against, machine=None, config=None, gate=gate)
    )


class _Convert:
    """One conversion; ``refused`` gathers what cannot be done."""

    def __init__(self, against: Against, *, gate: bool) -> None:
        self.against, self.gate = against, gate
        self.refused: list[str] = []

    def file(self, file: StateFile) -> Iterator[FileChange]:
        form = target_format(file.name, self.against.version, gate=self.gate)
        if not form:
            self.refused.append(f"{file.name}: {shown(self.against.version)} has no Memory Manager")
            return
        if not file.look.readable:
            self.refused.append(f"{file.name} cannot be read: {file.look.problem}")
            return
        if not file.look.fits:
            self.refused.append(
                f"{file.name} has a wrong checksum; if its content is right, first: numawise state repair "
                "--recompute-checksum"
            )
            return
        if file.look.format == form:
            return
        steps = {CPU_FILE: self.cpu, MEMORY_FILE: self.memory, DEVICE_FILE: self.devices}
        said = [f"{file.look.format} becomes {form}, as {shown(self.against.version)} writes it"]
        text = steps[file.name](file, form, said)
        if text is not None:
            yield FileChange(file, text, tuple(said))

    def cpu(self, file: StateFile, form: str, said: list[str]) -> str | None:
        state = file.look.cpu
        assert state is not None
        if file.look.by_id:
            found = self.looked_up(file.look.by_id)
            if found is None:
                return None
            state = CpuState(state.shared, found)
        if form == V2 and state.pods:
            for uid, cpus in sorted(state.pods.items()):
                rest = cpus
                for own in state.assignments.get(uid, {}).values():
                    rest &= ~own
                lost = f"; CPUs {format_ids(rest)} go back to the shared pool" if rest else ""
                said.append(f"lost: that pod {uid} has CPUs {format_ids(cpus)} as a whole{lost}")
                state = replace(state, shared=state.shared | rest)
            state = CpuState(state.shared, state.assignments)
        return encode_cpu(file.look.policy, state, pods=form == V3, data=form == V4)

    def looked_up(self, by_id: Mapping[str, int]) -> dict[str, dict[str, int]] | None:
        """Containers by pod and name (rule 3)."""
        owners = {
            number: (pod.uids[0], name)
            for pod in (self.against.live or {}).values()
            for number, name in pod.containers.items()
        }
        unknown = [number for number in by_id if number not in owners]
        if unknown:
            reason = f"{CPU_FILE} knows containers by id alone, and {unknown[0]} is in none of the pods"
            self.refused.append(f"{reason}; give them with --pods")
            return None
        found: dict[str, dict[str, int]] = {}
        for number, cpus in by_id.items():
            uid, name = owners[number]
            found.setdefault(uid, {})[name] = cpus
        return found

    def memory(self, file: StateFile, form: str, said: list[str]) -> str | None:
        state = file.look.memory
        assert state is not None
        if form == V1 and state.pods:
            for uid in sorted(state.pods):
                said.append(f"lost: what pod {uid} has as a whole; its containers are charged by themselves")
            by_container = charged(MemoryState(state.numa, state.assignments), own_tables(state))
            if isinstance(by_container, str):
                self.refused.append(f"{MEMORY_FILE}: without entries for whole pods, {by_container}")
                return None
            state = by_container
        return encode_memory(file.look.policy, state, pods=form == V2, data=form == V3)

    def devices(self, file: StateFile, form: str, said: list[str]) -> str | None:
        assert (file.look.format, form) == (FLAT, BY_NUMA)
        found = file.look.devices
        assert found is not None
        machine = self.against.machine
        places = {
            (plugin.resource, device.id): device.numa
            for plugin in (machine.plugins if machine else ())
            for device in plugin.devices
        }
        grants: Grants = {}
        guessed: list[str] = []
        for uid, containers in found.grants.items():
            for container, resources in containers.items():
                for resource, grant in resources.items():
                    by_numa: dict[int, list[str]] = {}
                    for _, ids in grant.per_numa:
                        for name in ids:
                            known = (resource, name) in places
                            numa = places.get((resource, name)) or (-1,) if known else (0,)
                            guessed += [] if known else [name]
                            for node in numa:
                                by_numa.setdefault(node, []).append(name)
                    per_numa = tuple((node, tuple(ids)) for node, ids in sorted(by_numa.items()))
                    inner = grants.setdefault(uid, {}).setdefault(container, {})
                    inner[resource] = DeviceGrant(per_numa, grant.response)
        if guessed:
            said.append(
                f"assumed: {', '.join(sorted(set(guessed)))} on NUMA 0, as the kubelet has it; "
                "give --machine to know where they are"
            )
        return encode_devices(DeviceFile(grants, found.registered))
