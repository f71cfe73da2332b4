"""Repair state files: drop pods, recompute checksums and memory tables, follow the machine, start over.

Rules kept here:

1. Only what was asked for is changed, and every change is said.  The format of a file is kept.
2. CPUs of a pod that is dropped go back to the shared pool, unless another one has them, too; its memory goes
   out of the tables, which are counted from the blocks that stay, as the kubelet does when it starts.
3. Following the machine must not take anything from a pod: where that is not possible it is refused.
4. Removing a file makes the kubelet forget who has what, so its pods must be gone by then.
"""

from collections.abc import Iterator, Sequence

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.checkpoint.look import FLAT, V1, Look
from numawise.engine.state import CpuState, DeviceFile, MemoryState
from numawise.errors import InputError, quoted
from numawise.node.node import Files, boot
from numawise.node.state.change import Change, FileChange, proved, rewritten
from numawise.node.state.folder import (
    Against,
    StateFile,
    StateFolder,
    cpus_word,
    holders,
    known_cpus,
    label,
    recorded_uids,
    short_name,
)
from numawise.node.state.lint import strictly_reserved
from numawise.node.state.memory_tables import (
    charged,
    contradiction,
    drift,
    drift_text,
    machine_tables,
    own_tables,
    recorded_reservation,
)
from numawise.node.state.repair_request import RepairRequest
from numawise.rules.check import Refusal
from numawise.values import replace

FORGETS = "the kubelet forgets who has what: its pods must be gone from the node by then"


def repair(folder: StateFolder, asked: RepairRequest, against: Against) -> Change:
    """What becomes of the files; not carried out."""
    _check(asked, against)
    work = _Repair(folder, asked, against)
    files = tuple(change for file in folder.files for change in work.file(file))
    return proved(folder, Change(files, tuple(work.refused)), against)


def _check(asked: RepairRequest, against: Against) -> None:
    if not asked.something:
        raise InputError(
            "nothing to repair was named",
            advice="see numawise state verify for what is wrong and which option repairs it",
        )
    if asked.remove_stale and against.live is None:
        raise InputError(
            "which pods are alive is not known",
            field="--remove-stale",
            advice="give them with --pods: kubectl get pods -A -o json",
        )
    for flag, wanted in (("--adapt-memory", asked.adapt_memory), ("--adapt-cpus", asked.adapt_cpus)):
        if wanted and against.machine is None:
            raise InputError(
                "the machine is not known", field=flag, advice="give it with --machine; 'this' is this one"
            )


class _Repair:
    """One repair; ``refused`` gathers what cannot be done."""

    def __init__(self, folder: StateFolder, asked: RepairRequest, against: Against) -> None:
        self.folder, self.asked, self.against = folder, asked, against
        self.refused: list[str] = []
        self.drop = self.pods_to_drop()

    def pods_to_drop(self) -> dict[str, str]:
        """Uid → why."""
        known = recorded_uids(self.folder)
        live = self.against.live
        found: dict[str, str] = {}
        for text in self.asked.drop:
            uids = [uid for uid in known if uid == text] or [uid for uid in known if uid.startswith(text)]
            if not uids:
                uids = [uid for uid in known if live and uid in live and live[uid].name == text]
            if len(uids) != 1:
                what = "no pod in the state files" if not uids else f"{len(uids)} pods in the state files"
                advice = "numawise state show lists them with their uids"
                raise InputError(f"{quoted(text)} is {what}", field="--drop-pod", advice=advice)
            found[uids[0]] = "dropped"
        if self.asked.remove_stale and live is not None:
            found |= {uid: "gone" for uid in known if uid not in live and uid not in found}
        return found

    def file(self, file: StateFile) -> Iterator[FileChange]:
        if file.name in self.asked.reset:
            yield FileChange(file, None, (f"is removed; {FORGETS}",))
            return
        if not file.look.readable:
            if self.asked.recompute_checksum:
                self.refused.append(f"{file.name} cannot be read, so nothing can be kept of it")
            return
        said: list[str] = []
        steps = {CPU_FILE: self.cpu, MEMORY_FILE: self.memory, DEVICE_FILE: self.devices}
        new = steps[file.name](file.look, said)
        if self.asked.recompute_checksum and not file.look.fits:
            for one in file.look.sums:
                if not one.fits:
                    was = "none" if one.stored is None else one.stored
                    said.append(f"{one.member} {was} becomes the right one for its content")
        if not said:
            return
        if file.look.format == V1 and file.look.by_id:
            self.refused.append(
                f"{file.name} knows containers by id alone; convert it first: numawise state convert"
            )
            return
        if file.look.format == FLAT:
            said.append("its lists of devices become lists by NUMA node, as 1.20 and later write them")
        yield rewritten(file, new, said)

    # --- CPUs -----------------------------------------------------------------------------

    def cpu(self, found: Look, said: list[str]) -> Look:
        assert found.cpu is not None
        state = found.cpu
        for uid, why in self.drop.items():
            if uid in state.assignments or uid in state.pods:
                state, freed = without_pod(state, uid)
                back = f"the shared pool gets {cpus_word(freed)}" if freed else "no CPU is freed"
                said.append(f"pod {uid} is {why}: {back}")
        if self.asked.adapt_cpus and found.policy == "static":
            state = self.adapted(state, said)
        return replace(found, cpu=state)

    def adapted(self, state: CpuState, said: list[str]) -> CpuState:
        """The shared pool as the machine has CPUs now."""
        assert self.against.machine is not None
        online = self.against.machine.layout.all
        owned = 0
        for one in holders(self.folder):
            if one.uid in self.drop or not one.cpus:
                continue
            owned |= one.cpus
            if one.cpus & ~online:
                self.refused.append(
                    f"{label(one, self.against.live)} has {cpus_word(one.cpus & ~online)}, not online any "
                    "more; remove the pod, or drop it with --drop-pod"
                )
                return state
        strict = strictly_reserved(self.against)
        pool = state.shared & online
        new = online & ~known_cpus(self.folder)
        if strict is not None:
            pool = online & ~owned & ~strict
        elif new:
            self.refused.append(
                f"whether the shared pool gets {cpus_word(new)} depends on the configuration; give "
                "--kubelet-config"
            )
        if state.shared & ~pool:
            said.append(f"the shared pool loses {cpus_word(state.shared & ~pool)}")
        if pool & ~state.shared:
            said.append(f"the shared pool gets {cpus_word(pool & ~state.shared)}")
        return replace(state, shared=pool)

    # --- memory ---------------------------------------------------------------------------

    def memory(self, found: Look, said: list[str]) -> Look:
        assert found.memory is not None
        state = found.memory
        recount = False
        for uid, why in self.drop.items():
            if uid in state.assignments or uid in state.pods:
                state = MemoryState(
                    state.numa,
                    {other: inner for other, inner in state.assignments.items() if other != uid},
                    {other: blocks for other, blocks in state.pods.items() if other != uid},
                )
                recount = True
                said.append(f"pod {uid} is {why}: its memory becomes free")
        if found.policy != "Static":
            return replace(found, memory=state)
        if self.asked.adapt_memory:
            return replace(found, memory=self.followed(state, said, recount=recount))
        wrong = contradiction(found.memory) if self.asked.recompute_tables else ""
        if wrong:
            said.append(f"the memory tables are counted again: {wrong}")
        if recount or wrong:
            state = self.recharged(state, said)
        return replace(found, memory=state)

    def followed(self, state: MemoryState, said: list[str], *, recount: bool) -> MemoryState:
        """The tables as the machine has memory now."""
        against = self.against
        assert against.machine is not None
        reserved = recorded_reservation(state)
        if against.config is not None:
            node = boot(against.machine, against.config, Files(), version=against.version)
            if isinstance(node, Refusal):
                self.refused.append(f"the configuration does not start: {node.message}")
                return state
            reserved = dict(node.rules.reserved_memory)
        found = drift(state, against.machine, reserved)
        if not found.there:
            return self.recharged(state, said) if recount else state
        if found.obstacle:
            self.refused.append(
                f"the memory of {MEMORY_FILE} cannot follow the machine: {found.obstacle}; drain the node "
                "and use --reset memory"
            )
            return state
        new = charged(state, machine_tables(against.machine, reserved))
        assert isinstance(new, MemoryState)
        said.append(f"the memory tables follow the machine: {drift_text(found)}")
        return new

    def recharged(self, state: MemoryState, said: list[str]) -> MemoryState:
        new = charged(state, own_tables(state))
        if isinstance(new, str):
            self.refused.append(f"the tables of {MEMORY_FILE} cannot be counted again: {new}")
            said.clear()
            return state
        return new

    # --- devices --------------------------------------------------------------------------

    def devices(self, found: Look, said: list[str]) -> Look:
        assert found.devices is not None
        grants = found.devices.grants
        for uid, why in self.drop.items():
            if uid in grants:
                names = sorted(i for inner in grants[uid].values() for one in inner.values() for i in one.ids)
                said.append(f"pod {uid} is {why}: free again: {', '.join(names)}")
                grants = {other: inner for other, inner in grants.items() if other != uid}
        return replace(found, devices=DeviceFile(grants, found.devices.registered))


def without_pod(state: CpuState, uid: str) -> tuple[CpuState, int]:
    """The state without a pod, and the CPUs that become free (rule 2)."""
    had = state.pods.get(uid, 0)
    for cpus in state.assignments.get(uid, {}).values():
        had |= cpus
    assignments = {other: inner for other, inner in state.assignments.items() if other != uid}
    pods = {other: cpus for other, cpus in state.pods.items() if other != uid}
    others = 0
    for inner in assignments.values():
        for cpus in inner.values():
            others |= cpus
    for cpus in pods.values():
        others |= cpus
    freed = had & ~others
    return CpuState(state.shared | freed, assignments, pods), freed & ~state.shared


def reset_names(words: Sequence[str]) -> tuple[str, ...]:
    """The files that are meant by ``cpu``, ``memory``, ``devices`` or ``all``."""
    names = {short_name(name): name for name in (CPU_FILE, MEMORY_FILE, DEVICE_FILE)}
    if "all" in words:
        return tuple(names.values())
    return tuple(names[word] for word in words)
