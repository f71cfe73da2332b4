"""The one linter of state files: what is wrong with them, alone and beside machine, configuration and pods.

``numawise state verify``, ``numawise check --state`` and ``numawise plan switch`` all ask here.

Rules kept here:

1. Every file is judged by itself, so that a refusal of one does not hide those of the others, and whatever
   can be read of a file is judged, also behind a wrong checksum.
2. Whether the kubelet starts is asked of the simulated kubelet: with its configuration where that is given,
   else with one that has the policies and reservations that the files speak of.  Without a machine one is
   made up that the files cannot object to; what only a machine can refuse is not reported then.
3. An error is what stops the kubelet, makes it forget who has what, or has two pods on one CPU or device.
4. CPUs and devices may be recorded twice inside one pod: what an init container had, later ones may use.
"""

from collections.abc import Iterator, Sequence

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE, decode_cpu, decode_memory
from numawise.codec.checkpoint.look import V1
from numawise.engine.start import CPU_START, MEMORY_START, Records, start
from numawise.machine.model import DevicePlugin, Machine
from numawise.node.node import Files, SimulatedNode, boot
from numawise.node.refusal_codes import code_of
from numawise.node.state import repair_request as repairs
from numawise.node.state.assumed import assumed_machine
from numawise.node.state.folder import (
    Against,
    Holder,
    Live,
    LivePod,
    StateFile,
    StateFolder,
    cpus_word,
    holders,
    known_cpus,
    label,
)
from numawise.node.state.matching import unmatched_entries, unmatched_findings
from numawise.node.state.memory_tables import (
    amount,
    contradiction,
    drift,
    drift_text,
    recorded_reservation,
)
from numawise.node.state.readers import informed, problem_of, readings, rules_for
from numawise.request.defaults import defaulted
from numawise.request.model import Role
from numawise.results.finding import RANK, Finding, Place, Severity, found
from numawise.rules.behaviour import behaviour_of
from numawise.rules.check import Refusal
from numawise.rules.model import CpuOptions, Rules
from numawise.rules.versions import DEFAULT, Version, shown
from numawise.values import replace

POLICIES = {CPU_FILE: "cpuManagerPolicy", MEMORY_FILE: "memoryManagerPolicy"}
STAGES = {CPU_FILE: CPU_START, MEMORY_FILE: MEMORY_START}
EXPLAINED_BY = {
    "NW302": ("NW302", "NW303"),
    "NW303": ("NW303", "NW302"),
    "NW310": ("NW318", "NW310", "NW311"),
    "NW311": ("NW311", "NW310"),
}
"""Code of the kubelet's refusal → codes of findings that explain it, where it is not that code alone."""
NEEDS_MACHINE = ("NW305", "NW311")


def verify(folder: StateFolder, against: Against) -> tuple[Finding, ...]:
    """Everything that is wrong with the files, and with the configuration given for them; errors first."""
    found_all = (*_configuration(against), *state_findings(folder, against))
    return tuple(sorted(found_all, key=lambda finding: RANK[finding.severity]))


def state_findings(folder: StateFolder, against: Against) -> tuple[Finding, ...]:
    """Everything that is wrong with the files."""
    against = informed(folder, against)
    found_all = [
        *(finding for file in folder.files for finding in _file(file, against)),
        *_cpus(folder, against),
        *_memory(folder, against),
        *_devices(folder, against),
        *_pods(folder, against),
    ]
    codes = {finding.code for finding in found_all}
    found_all += unmatched_findings(folder, against.machine, codes)
    for file in folder.files:
        found_all = _with_message(found_all, folder, file, against)
    return tuple(found_all)


def _configuration(against: Against) -> Iterator[Finding]:
    if against.machine is None or against.config is None:
        return
    node = boot(against.machine, against.config, Files(), version=against.version)
    if isinstance(node, Refusal):
        message = "the kubelet does not start with this configuration, whatever its state files say"
        fix = "numawise check shows the place of every such mistake"
        code = code_of(node.stage, node.message)
        yield found(code, Place(), message, fix=fix, kubelet=node.message, stage=node.stage)


# --- whether the kubelet starts (rule 2) ----------------------------------------------------


def start_message(folder: StateFolder, file: StateFile, against: Against) -> str:
    """What the kubelet says when it starts on this file alone; '' when nothing."""
    if file.name == DEVICE_FILE:
        return problem_of(file.name, file.text, Rules(behaviour=behaviour_of(against.version)))
    if against.config is not None:
        node = boot(
            _machine(folder, against), against.config, Files({file.name: file.text}), version=against.version
        )
        if isinstance(node, SimulatedNode):
            return ""
        if node.stage == STAGES[file.name]:
            unknowable = against.machine is None and code_of(node.stage, node.message) in NEEDS_MACHINE
            return "" if unknowable else node.message
    rules = _rules(folder, file, against)
    problem = problem_of(file.name, file.text, rules)
    if problem or against.machine is None or against.config is not None:
        return problem
    if file.name == CPU_FILE:
        cpu = decode_cpu(file.text, rules)
        records = Records(cpu=None if isinstance(cpu, Refusal) else cpu)
        state = start(against.machine, replace(rules, memory_static=False), records)
    else:
        memory = decode_memory(file.text, rules)
        state = start(against.machine, replace(rules, cpu_static=False), Records(memory=memory))
    return state.message if isinstance(state, Refusal) else ""


def _machine(folder: StateFolder, against: Against) -> Machine:
    if against.machine is not None:
        return against.machine
    config = against.config
    assert config is not None
    nodes = [{"numaNode": entry.numa} for entry in config.reserved_memory]
    raw = {"reservedSystemCPUs": config.reserved_system_cpus, "reservedMemory": nodes}
    return assumed_machine(raw, folder.texts)


def _rules(folder: StateFolder, file: StateFile, against: Against) -> Rules:
    """The rules of the kubelet as far as they are known."""
    rules = rules_for(file.look, against.version, gate=against.pod_level)
    if against.config is not None:
        config = against.config
        return replace(
            rules,
            cpu_static=config.cpu_manager_policy == "static",
            memory_static=config.memory_manager_policy == "Static",
        )
    rules = replace(rules, reserved_memory=recorded_reservation(folder.memory))
    if file.name == CPU_FILE and against.machine is not None:
        left = against.machine.layout.all & ~known_cpus(folder)  # perhaps reserved strictly
        options = CpuOptions(strict_reservation=bool(left))
        rules = replace(rules, reserved_cpus=left, cpu_options=options)
    return rules


def _with_message(
    findings: Sequence[Finding], folder: StateFolder, file: StateFile, against: Against
) -> list[Finding]:
    """Add the kubelet's words to the finding that explains them; as a finding of its own where none does."""
    message = start_message(folder, file, against)
    if not message:
        return list(findings)
    stage = STAGES.get(file.name, "")
    code = code_of(stage, message) if stage else "NW304"
    names = EXPLAINED_BY.get(code, (code,))
    place = file.place()
    for at, finding in enumerate(findings):
        own = finding.file == place.file and finding.severity is Severity.ERROR
        if own and finding.code in names:
            said = replace(finding, kubelet=message, stage=stage)
            return [*findings[:at], said, *findings[at + 1 :]]
    text = f"a kubelet {shown(against.version)} does not start on it"
    fix = f"{repairs.DRAIN}, then remove it: {repairs.RepairRequest(reset=(file.name,)).command}"
    if code == "NW306":
        text = _reservation(folder, against) or text
    return [*findings, found(code, place, text, fix=fix, kubelet=message, stage=stage)]


def _reservation(folder: StateFolder, against: Against) -> str:
    if against.config is None:
        return ""
    node = boot(_machine(folder, against), against.config, Files(), version=against.version)
    if isinstance(node, Refusal):
        return ""
    strict = "with" if node.rules.cpu_options.strict_reservation else "without"
    reserved = cpus_word(node.rules.reserved_cpus)
    verb = "is" if node.rules.reserved_cpus.bit_count() == 1 else "are"
    return f"{reserved} {verb} reserved now, {strict} strict-cpu-reservation; the file was written otherwise"


def _configured(against: Against) -> SimulatedNode | None:
    """The kubelet of the configuration, on the machine and without files; None when there is none."""
    if against.machine is None or against.config is None:
        return None
    node = boot(against.machine, against.config, Files(), version=against.version)
    return None if isinstance(node, Refusal) else node


# --- each file by itself (rule 1) -----------------------------------------------------------


def damage(file: StateFile, version: Version = DEFAULT) -> tuple[Finding, ...]:
    """Why a kubelet of a release does not take a file, whatever else is known of the node."""
    every = _file(file, Against(version=version))
    return tuple(finding for finding in every if finding.severity is Severity.ERROR)


def _file(file: StateFile, against: Against) -> Iterator[Finding]:
    look = file.look
    devices = file.name == DEVICE_FILE
    reset = f"{repairs.DRAIN}, then remove it: {repairs.RepairRequest(reset=(file.name,)).command}"
    problem = problem_of(file.name, file.text, rules_for(look, against.version, gate=against.pod_level))
    if not look.format:
        message = f"cannot be read: {look.problem}"
        yield found("NW304" if devices else "NW303", file.place(), message, fix=reset)
        return
    if look.problem:
        yield found("NW304" if devices else "NW303", file.place(), look.problem, fix=reset)
    yield from _checksums(file, against, problem)
    if look.fits and problem and not look.problem:
        message = f"is in a form ({look.format}) that {shown(against.version)} does not read"
        fix = f"numawise state convert --to {shown(against.version)}"
        yield found("NW304" if devices else "NW303", file.place(), message, fix=fix)
    for remark in look.remarks:
        yield found("NW315", file.place(), remark)
    if file.name in POLICIES and against.config is not None:
        config = against.config
        policy = config.cpu_manager_policy if file.name == CPU_FILE else config.memory_manager_policy
        if look.policy != policy:
            now = f"the configuration has {POLICIES[file.name]}: {policy}"
            message = f"was written under policy {look.policy}; {now}"
            back = f"set {POLICIES[file.name]} back to {look.policy}"
            fix = f"{back}, or {repairs.DRAIN}, then remove it: numawise plan switch shows all steps"
            yield found("NW301", file.place(), message, fix=fix)


def _checksums(file: StateFile, against: Against, problem: str) -> Iterator[Finding]:
    for checksum in file.look.sums:
        if checksum.fits:
            continue
        missing = checksum.stored is None
        says = "there is no checksum" if missing else f"the {checksum.member} is {checksum.stored}"
        message = f"{says}, but should be {checksum.right} ({file.look.format})"
        fix = f"{repairs.IF_RIGHT}: {repairs.CHECKSUM.command}"
        place = file.place(checksum.member)
        if problem and not (missing and file.look.problem):
            yield found("NW304" if file.name == DEVICE_FILE else "NW302", place, message, fix=fix)
            continue
        taken = any(not reading.problem for reading in readings(file))
        message += f"; {shown(against.version)} accepts the file anyway" if taken else ""
        if missing:
            yield found("NW314", place, message)
        else:
            yield found("NW302", place, message, fix=fix, severity=Severity.WARNING)


# --- CPUs -----------------------------------------------------------------------------------


def _cpus(folder: StateFolder, against: Against) -> Iterator[Finding]:
    """CPUs that two have, that none has, or that are gone."""
    file = folder.file(CPU_FILE)
    if file is None or file.look.cpu is None or file.look.policy != "static":
        return
    place = file.place("entries")
    shared, owners = folder.cpu.shared, [holder for holder in holders(folder) if holder.cpus]
    for holder in owners:
        if holder.cpus & shared:
            both = cpus_word(holder.cpus & shared)
            message = f"{label(holder, against.live)} has {both}, and so has the shared pool"
            yield found("NW307", place, message, fix="drop the pod: numawise state repair --drop-pod")
    for at, holder in enumerate(owners):
        for other in owners[at + 1 :]:
            common = holder.cpus & other.cpus
            if common and apart(holder, other, against.live):
                names = f"{label(holder, against.live)} and {label(other, against.live)}"
                yield found("NW308", place, f"{names} both have {cpus_word(common)}")
    if not shared and owners:
        online = against.machine.layout.all if against.machine is not None else 0
        left = online & ~known_cpus(folder) & ~(strictly_reserved(against) or 0)
        why = f"; nobody has {cpus_word(left)}" if left else ": every CPU is given away"
        fix = f"{repairs.ADAPT_CPUS.command}; {repairs.KEEPS}" if left else ""
        yield found("NW309", file.place("defaultCpuSet"), f"the shared pool is empty{why}", fix=fix)
    if file.look.format == V1 and file.look.by_id:
        yield found("NW316", place, f"knows {len(file.look.by_id)} containers by their ids alone")
    if against.machine is not None and shared:
        yield from _cpu_drift(folder, file, against, against.machine)


def apart(one: Holder, other: Holder, live: Live | None) -> bool:
    """True when two holders may not have the same thing (rule 4)."""
    if one.uid != other.uid or not one.uid:
        return True
    if not one.container or not other.container or live is None or one.uid not in live:
        return False
    roles = {container.name: container.role for container in live[one.uid].raw.containers}
    pod_level = live[one.uid].raw.requests is not None or live[one.uid].raw.limits is not None
    return not pod_level and roles.get(one.container) == roles.get(other.container) == Role.APP


def _cpu_drift(folder: StateFolder, file: StateFile, against: Against, machine: Machine) -> Iterator[Finding]:
    recorded, online = known_cpus(folder), machine.layout.all
    gone, new = recorded & ~online, online & ~recorded
    for holder in holders(folder):
        if holder.cpus & gone:
            who = label(holder, against.live)
            message = f"not online any more: {cpus_word(holder.cpus & gone)} of {who}"
            fix = f"bring them online, or drop the pod and adapt the rest: {repairs.ADAPT_CPUS.command}"
            yield found("NW305", file.place("entries"), message, fix=fix)
    if gone & folder.cpu.shared:
        message = f"not online any more: {cpus_word(gone & folder.cpu.shared)} of the shared pool"
        fix = f"bring them online, or: {repairs.ADAPT_CPUS.command}"
        yield found("NW305", file.place("defaultCpuSet"), message, fix=fix)
    if new:
        node = _configured(against)
        if node is None:
            yield found("NW317", file.place(), f"not recorded: {cpus_word(new)}; reserved strictly, or new")
        elif left := new & ~node.rules.reserved_cpus:  # about reserved ones the kubelet says more
            message = f"online, but neither in the shared pool nor assigned: {cpus_word(left)}"
            fix = f"{repairs.ADAPT_CPUS.command} adds them to the pool"
            yield found("NW305", file.place("defaultCpuSet"), message, fix=fix)


def strictly_reserved(against: Against) -> int | None:
    """CPUs that the configuration keeps out of the pool; None when that is not known."""
    node = _configured(against)
    if node is None:
        return None
    return node.rules.reserved_cpus if node.rules.cpu_options.strict_reservation else 0


# --- memory ---------------------------------------------------------------------------------


def _memory(folder: StateFolder, against: Against) -> Iterator[Finding]:
    """Tables that contradict themselves, and tables that are not those of the machine."""
    file = folder.file(MEMORY_FILE)
    if file is None or file.look.memory is None or file.look.policy != "Static":
        return
    state, place = file.look.memory, file.place()
    wrong = contradiction(state)
    if wrong:
        yield found("NW318", place, wrong)
    if not state.numa or (against.machine is None and against.config is None):
        return
    machine, reserved = against.machine, None
    if against.config is not None:
        machine = _machine(folder, against)
        node = boot(machine, against.config, Files(), version=against.version)
        if isinstance(node, SimulatedNode):
            if not node.rules.memory_static:
                return
            reserved = node.rules.reserved_memory
    assert machine is not None
    change = drift(state, machine, reserved)
    if not change.there:
        return
    safe = f"not safe to adapt: {change.obstacle}" if change.obstacle else "safe to adapt"
    fix = (
        f"{repairs.DRAIN}, then {repairs.RepairRequest(reset=(MEMORY_FILE,)).command}"
        if change.obstacle
        else f"{repairs.ADAPT_MEMORY.command}; {repairs.KEEPS}"
    )
    lost = any(one.held and one.source == MEMORY_FILE for one in unmatched_entries(folder, against.machine))
    code = "NW311" if lost else "NW310"
    yield found(code, place, f"{drift_text(change)}; {safe}", fix=fix)


# --- devices and pods -----------------------------------------------------------------------


def _devices(folder: StateFolder, against: Against) -> Iterator[Finding]:
    """Devices that two pods have, or that are not there."""
    file = folder.file(DEVICE_FILE)
    if file is None or file.look.devices is None:
        return
    place = file.place("PodDeviceEntries")
    owners: dict[tuple[str, str], Holder] = {}
    unmatched = unmatched_entries(folder, against.machine)
    lost = {one.kind: frozenset(one.names) for one in unmatched if one.source == DEVICE_FILE}
    unknown = {one.kind for one in unmatched if one.decides}
    registered = file.look.devices.registered
    plugins = {plugin.resource: plugin for plugin in (against.machine.plugins if against.machine else ())}
    for holder in holders(folder):
        who = label(holder, against.live)
        for resource, ids in holder.devices:
            for name in ids:
                owner = owners.setdefault((resource, name), holder)
                if owner is not holder and apart(owner, holder, against.live):
                    both = f"{label(owner, against.live)} and to {who}"
                    yield found("NW308", place, f"{resource} {name} belongs to {both}")
            if resource in unknown:
                continue  # nobody knows which they are
            missing = sorted(lost.get(resource, frozenset()).intersection(ids))
            if missing and resource in plugins:
                yield found("NW313", place, f"{resource} {', '.join(missing)} of {who} is not on the machine")
                continue
            unhealthy = sorted(
                {*ids} - registered.get(resource, frozenset()) | _unhealthy(ids, plugins.get(resource))
            )
            if unhealthy:
                yield found("NW313", place, f"{resource} {', '.join(unhealthy)} of {who} is not healthy")


def _unhealthy(ids: Sequence[str], plugin: DevicePlugin | None) -> set[str]:
    return (
        {device.id for device in plugin.devices if not device.healthy and device.id in ids}
        if plugin
        else set()
    )


def _pods(folder: StateFolder, against: Against) -> Iterator[Finding]:
    """Pods that are recorded and gone, or running and not recorded."""
    if against.live is None:
        return
    by_pod: dict[str, list[Holder]] = {}
    for holder in holders(folder):
        if holder.uid:
            by_pod.setdefault(holder.uid, []).append(holder)
    for uid, some in by_pod.items():
        pod = against.live.get(uid)
        if pod is None:
            fix = "the kubelet drops it when it next looks; numawise state repair --remove-stale does so now"
            message = f"pod {uid} is gone and still holds {_held(some)}"
            yield found("NW312", _record(folder, some), message, fix=fix)
            continue
        names = {container.name for container in pod.raw.containers}
        for holder in some:
            if holder.container and holder.container not in names:
                message = (
                    f"{pod.name} has no container {holder.container}, which still holds {_held([holder])}"
                )
                yield found("NW312", _record(folder, [holder]), message)
    file = folder.file(CPU_FILE)
    if file and folder.cpu.shared:
        yield from _unrecorded(folder, file, against.live)


def _record(folder: StateFolder, some: Sequence[Holder]) -> Place:
    """The first file that records one of the holders."""
    name = next(
        (
            name
            for name, has in (
                (CPU_FILE, any(holder.cpus for holder in some)),
                (MEMORY_FILE, any(holder.blocks for holder in some)),
            )
            if has
        ),
        DEVICE_FILE,
    )
    file = folder.file(name)
    return file.place() if file else Place()


def _held(some: Sequence[Holder]) -> str:
    parts = []
    cpus = 0
    for holder in some:
        cpus |= holder.cpus
    if cpus:
        parts.append(cpus_word(cpus))
    size = sum(block.size for holder in some for block in holder.blocks)
    if size:
        parts.append(f"{amount(size)} of memory")
    parts += [f"{resource} {', '.join(ids)}" for holder in some for resource, ids in holder.devices]
    return " and ".join(parts) or "nothing"


def _unrecorded(folder: StateFolder, file: StateFile, live: Live) -> Iterator[Finding]:
    """Running pods that should have CPUs of their own and have none."""
    for pod in {id(pod): pod for pod in live.values() if pod.running}.values():
        for name in _wanting(pod):
            if not any(name in folder.cpu.assignments.get(uid, {}) for uid in pod.uids):
                message = f"{pod.name}/{name} runs, asks for CPUs of its own, and has none recorded"
                yield found("NW319", file.place("entries"), message)


def _wanting(pod: LivePod) -> Iterator[str]:
    request = defaulted(pod.raw.as_allocated)
    if request.guaranteed and not request.pod_level:
        for container in request.containers:
            if container.whole_cpus and container.role is Role.APP:
                yield container.name
