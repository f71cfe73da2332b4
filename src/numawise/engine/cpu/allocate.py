"""Give a container its exclusive CPUs, and take them back.

Counterpart: ``Allocate`` and ``RemoveContainer`` of pkg/kubelet/cm/cpumanager/policy_static.go, and
``removeStaleState`` of cpu_manager.go.

Rules kept here:

1. An affinity is a preference: what its NUMA nodes cannot give is taken from elsewhere.
2. CPUs of an init container stay its own, and may be used again by later containers of the pod; this is
   forgotten when another pod is given exclusive CPUs, not when the pod goes.
3. ``full-pcpus-only`` is checked first, even for a container that has its CPUs already.
"""

from numawise.engine.cpu.distribute import take_distributed
from numawise.engine.cpu.early import take_early
from numawise.engine.cpu.hints import exclusive_cpus
from numawise.engine.cpu.subsets import NeverReturns
from numawise.engine.cpu.take import NotEnough, Style, take
from numawise.engine.draft import CpuDraft, Draft
from numawise.engine.failure import SMT_ALIGNMENT, Crash, Failure
from numawise.engine.provider import Admission, hands_on
from numawise.engine.trace import CpusGranted, Defect, Note, StaleRemoved, ignore
from numawise.machine.model import CpuLayout
from numawise.request.model import ContainerRequest
from numawise.rules.model import Rules


def choose(
    layout: CpuLayout, rules: Rules, available: int, count: int, note: Note = ignore
) -> int | NotEnough:
    """Take CPUs the way the policy options say."""
    options, behaviour = rules.cpu_options, rules.behaviour
    style = Style(
        options.by_uncore,
        options.across_cores,
        behaviour.says_how_many_cpus,
        behaviour.cpus_by_numa,
        behaviour.odd_requests_fit_uncore,
    )
    if not behaviour.cpus_in_settled_order:
        return take_early(layout, available, count, style, note)
    if options.across_numa:
        group = layout.threads_per_core if options.full_cores else 1
        try:
            newer = behaviour.distribution_minds_sockets
            by_socket = newer and options.by_socket
            return take_distributed(
                layout, available, count, group, style, note, by_socket=by_socket, capped=newer
            )
        except NeverReturns as loop:
            note(Defect("never-returns", str(loop)))
            raise Crash(f"the kubelet never returns: {loop}") from loop
    return take(layout, available, count, style, note)


def allocate(admission: Admission, container: ContainerRequest, affinity: int | None) -> Failure | None:
    """Allocate the CPUs of one container."""
    rules, pod, note, cpu = admission.rules, admission.pod, admission.note, admission.draft.cpu
    layout = admission.machine.layout
    if not rules.cpu_static:
        return None
    collect(admission.draft, note)
    count = 0 if admission.skipped else exclusive_cpus(rules, pod, container)
    if not count:
        return None
    held = cpu.get(pod.uid, container.name)
    if (held is None or rules.behaviour.smt_check_before_record) and rules.cpu_options.full_cores:
        failure = smt_failure(layout, rules, cpu.shared, count)
        if failure:
            if held is not None:
                note(Defect("running-pod-refused-for-free-cores", container.name))
            return failure
    again = cpu.reusable.get(pod.uid, 0)
    if held is None:
        free = cpu.shared & ~rules.reserved_cpus | again
        cpus = aligned_choice(layout, rules, free, count, affinity, container.name, note)
        if isinstance(cpus, NotEnough):
            return Failure(cpus.message)
        cpu.shared &= ~cpus
        cpu.assign(pod.uid, container.name, cpus)
        held = cpus
    cpu.reusable = {pod.uid: again | held if hands_on(rules, container) else again & ~held}
    return None


def aligned_choice(
    layout: CpuLayout,
    rules: Rules,
    free: int,
    count: int,
    affinity: int | None,
    container: str | None,
    note: Note,
) -> int | NotEnough:
    """Take what the affinity's nodes (or their sockets) can give, and the rest from anywhere."""
    aligned = 0
    if affinity is not None:
        near = free & _near(layout, rules, affinity)
        found = choose(layout, rules, near, min(count, near.bit_count()), note)
        if isinstance(found, NotEnough):
            return found
        aligned = found
    rest = choose(layout, rules, free & ~aligned, count - aligned.bit_count(), note)
    if isinstance(rest, NotEnough):
        return rest
    cpus = aligned | rest
    if note is not ignore:
        note(CpusGranted(container, cpus, aligned))
        if cpus & ~free:
            note(Defect("cpus-not-free", f"{(cpus & ~free).bit_count()} CPUs were not free"))
        if cpus.bit_count() < count:
            note(Defect("cpus-counted-twice", f"{cpus.bit_count()} CPUs instead of {count}"))
        if rules.cpu_options.full_cores and layout.cores_touching(cpus) != cpus:
            note(Defect("split-core", container or ""))
    return cpus


def _near(layout: CpuLayout, rules: Rules, affinity: int) -> int:
    near = 0
    for numa, cpus in layout.numas.items():
        if affinity >> numa & 1:
            near |= cpus
    if not rules.cpu_options.by_socket:
        return near
    sockets = [cpus for cpus in layout.sockets.values() if cpus & near]
    near = 0
    for cpus in sockets:
        near |= cpus
    return near


def smt_failure(layout: CpuLayout, rules: Rules, shared: int, count: int) -> Failure | None:
    """What ``full-pcpus-only`` has against so many CPUs."""
    threads = layout.threads_per_core
    odd = f"SMT Alignment Error: requested {count} cpus not multiple cpus per core = {threads}"
    if count % threads:
        return Failure(odd, SMT_ALIGNMENT)
    available = (shared & ~rules.reserved_cores).bit_count()
    if rules.behaviour.counts_free_cores and count > available:
        if not available and not rules.behaviour.tells_missing_cores:
            return Failure(odd, SMT_ALIGNMENT)
        return Failure(
            f"SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {available}, "
            f"requested CPUs = {count}, CPUs per core = {threads}",
            SMT_ALIGNMENT,
        )
    return None


def collect(draft: Draft, note: Note = ignore, spared: str = "") -> None:
    """Take back the CPUs of pods that are gone, and of containers that a pod no longer has."""
    if not draft.ready:
        return
    for uid, containers in draft.stale(draft.cpu, spared):
        note(StaleRemoved("cpu", uid))
        for container in containers:
            release(draft.cpu, uid, container)
    for uid, containers in draft.stale(draft.cpu.pushed, spared):
        for container in containers:
            draft.cpu.pushed.release(uid, container)


def release(cpu: CpuDraft, uid: str, container: str) -> None:
    """Take back the CPUs of one container, but for those that others of its pod use too."""
    cpus = cpu.release(uid, container)
    rest = cpu.rows.get(uid, {})
    if uid in cpu.pods.rows:
        if rest:
            return
        cpus = cpu.pods.rows[uid]
        cpu.pods.drop(uid)
    for others in rest.values():
        cpus &= ~others
    cpu.shared |= cpus
