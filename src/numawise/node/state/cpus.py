"""What is wrong with the CPUs in a state file: given away twice, nobody's, or not there any more.

CPUs and devices may be recorded twice inside one pod: what an init container had, later ones may use.
"""

from collections.abc import Iterator, Sequence

from numawise.codec.checkpoint import CPU_FILE
from numawise.codec.checkpoint.look import V1
from numawise.machine.model import Machine
from numawise.node.node import Files, boot
from numawise.node.state.finding import ERROR, NOTE, WARNING, Against, Finding, cpus_word
from numawise.node.state.folder import Holder, Live, StateFolder, holders, label
from numawise.request.model import Role
from numawise.rules.check import Refusal


def known_cpus(folder: StateFolder) -> int:
    """CPUs that are in the shared pool or somebody's."""
    cpus = folder.cpu.shared
    for holder in holders(folder):
        cpus |= holder.cpus
    return cpus


def cpu_findings(folder: StateFolder, against: Against) -> Iterator[Finding]:
    """CPUs that two have, that nobody has, or that are gone."""
    file = folder.file(CPU_FILE)
    if file is None or file.look.cpu is None or file.look.policy != "static":
        return
    shared, some = folder.cpu.shared, [one for one in holders(folder) if one.cpus]
    for one in some:
        if one.cpus & shared:
            both = cpus_word(one.cpus & shared)
            text = f"{label(one, against.live)} has {both}, and so has the shared pool"
            yield Finding("overlap", ERROR, CPU_FILE, text, "drop the pod: numawise state repair --drop-pod")
    yield from _shared_cpus(some, against.live)
    if not shared and some:
        text = "the shared pool is empty: with every CPU given away, the kubelet does not come up again"
        yield Finding("pool", ERROR, CPU_FILE, text, "remove a pod that has CPUs of its own")
    if file.look.format == V1 and file.look.by_id:
        text = f"knows {len(file.look.by_id)} containers by their ids alone"
        fix = "the kubelet looks them up when it starts; numawise state convert --pods does so now"
        yield Finding("container-ids", WARNING, CPU_FILE, text, fix)
    if against.machine is not None and shared:
        yield from _cpu_drift(folder, against, against.machine)


def _shared_cpus(some: Sequence[Holder], live: Live | None) -> Iterator[Finding]:
    for at, one in enumerate(some):
        for other in some[at + 1 :]:
            both = one.cpus & other.cpus
            if both and apart(one, other, live):
                text = f"{label(one, live)} and {label(other, live)} both have {cpus_word(both)}"
                fix = "the kubelet does not notice; drop one of them: numawise state repair --drop-pod"
                yield Finding("overlap", ERROR, CPU_FILE, text, fix)


def apart(one: Holder, other: Holder, live: Live | None) -> bool:
    """True when two holders may not have the same thing (rule 4)."""
    if one.uid != other.uid or not one.uid:
        return True
    if not one.container or not other.container or live is None or one.uid not in live:
        return False
    roles = {container.name: container.role for container in live[one.uid].raw.containers}
    pod_level = live[one.uid].raw.requests is not None or live[one.uid].raw.limits is not None
    return not pod_level and roles.get(one.container) == roles.get(other.container) == Role.APP


def _cpu_drift(folder: StateFolder, against: Against, machine: Machine) -> Iterator[Finding]:
    known, online = known_cpus(folder), machine.layout.all
    gone, new = known & ~online, online & ~known
    for one in holders(folder):
        if one.cpus & gone:
            text = f"not online any more: {cpus_word(one.cpus & gone)} of {label(one, against.live)}"
            fix = (
                "bring them online, or remove the pod and adapt the rest: numawise state repair --adapt-cpus"
            )
            yield Finding("cpus-gone", ERROR, CPU_FILE, text, fix)
    if gone & folder.cpu.shared:
        text = f"not online any more: {cpus_word(gone & folder.cpu.shared)} of the shared pool"
        fix = "bring them online, or: numawise state repair --adapt-cpus"
        yield Finding("cpus-gone", ERROR, CPU_FILE, text, fix)
    if new:
        strict = strictly_reserved(against)
        if strict is None:
            text = f"nobody has {cpus_word(new)}: reserved strictly, or new since"
            yield Finding("cpus-new", NOTE, CPU_FILE, text, "give --kubelet-config to tell which")
        elif new & ~strict:
            text = f"online, and neither in the shared pool nor anybody's: {cpus_word(new & ~strict)}"
            fix = "numawise state repair --adapt-cpus adds them to the pool"
            yield Finding("cpus-new", ERROR, CPU_FILE, text, fix)


def strictly_reserved(against: Against) -> int | None:
    """CPUs that the configuration keeps out of the pool; None when that is not known."""
    if against.machine is None or against.config is None:
        return None
    node = boot(against.machine, against.config, Files(), version=against.version)
    if isinstance(node, Refusal):
        return None
    return node.rules.reserved_cpus if node.rules.cpu_options.strict_reservation else 0
