"""What is wrong with a kubelet's state files, by themselves and beside the machine, configuration and pods.

Rules kept here:

1. Every file is judged by itself, so that a refusal of one does not hide those of the others.
2. Whether the kubelet starts is asked of the simulated kubelet: with its configuration where that is given,
   else with one that has the policies and reservations that the files speak of.
3. An error is what stops the kubelet, makes it forget who has what, or has two pods on one CPU or device.
   A warning is what will surprise.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE, decode_cpu, decode_memory
from numawise.engine.start import Records, start
from numawise.node.node import Files, boot
from numawise.node.state.cpus import cpu_findings, known_cpus
from numawise.node.state.finding import DRAIN, ERROR, NOTE, WARNING, Against, Finding, short_name
from numawise.node.state.folder import StateFile, StateFolder
from numawise.node.state.memory import memory_findings
from numawise.node.state.memory_tables import recorded_reservation
from numawise.node.state.owners import device_findings, pod_findings
from numawise.node.state.readers import informed, problem_of, readings, rules_for
from numawise.rules.check import Refusal
from numawise.rules.model import CpuOptions, Rules
from numawise.rules.versions import Version, behaviour_of, shown

POLICIES = {CPU_FILE: "cpuManagerPolicy", MEMORY_FILE: "memoryManagerPolicy"}


def verify(folder: StateFolder, against: Against) -> tuple[Finding, ...]:
    """Everything that is wrong, errors first."""
    against = informed(folder, against)
    messages = {file.name: start_message(folder, file, against) for file in folder.files}
    found = [
        *_configuration(against),
        *(one for file in folder.files for one in _file(file, against)),
        *cpu_findings(folder, against),
        *memory_findings(folder, against),
        *device_findings(folder, against),
        *pod_findings(folder, against),
    ]
    found = list(_with_messages(found, messages, against.version))
    order = {ERROR: 0, WARNING: 1, NOTE: 2}
    return tuple(sorted(found, key=lambda one: order[one.severity]))


def start_message(folder: StateFolder, file: StateFile, against: Against) -> str:
    """What the kubelet says when it starts on this file alone; '' when nothing (rule 2)."""
    if file.name == DEVICE_FILE:
        return problem_of(file.name, file.text, Rules(behaviour=behaviour_of(against.version)))
    if against.machine is not None and against.config is not None:
        node = boot(against.machine, against.config, Files({file.name: file.text}), version=against.version)
        return node.message if isinstance(node, Refusal) and node.stage.endswith("-start") else ""
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


def _rules(folder: StateFolder, file: StateFile, against: Against) -> Rules:
    """The rules of the kubelet as far as they can be told."""
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


def _with_messages(
    found: Sequence[Finding], messages: Mapping[str, str], version: Version
) -> Iterator[Finding]:
    """Say the kubelet's words once, with the finding that explains them; alone where none does."""
    said: set[str] = set()
    for one in found:
        message = messages.get(one.file, "")
        if message and one.severity == ERROR and one.file not in said and not one.message:
            said.add(one.file)
            yield replace(one, message=message)
        else:
            yield one
    for name, message in messages.items():
        if message and name not in said:
            text = f"a kubelet {shown(version)} does not start on it"
            fix = f"{DRAIN}, then remove it: numawise state repair --reset {short_name(name)}"
            yield Finding("start", ERROR, name, text, fix, message)


# --- each file by itself --------------------------------------------------------------------


def _configuration(against: Against) -> Iterator[Finding]:
    if against.machine is None or against.config is None:
        return
    node = boot(against.machine, against.config, Files(), version=against.version)
    if isinstance(node, Refusal):
        text = f"the kubelet does not start with this configuration, whatever its files say ({node.stage})"
        yield Finding("configuration", ERROR, "", text, "see numawise why or numawise check", node.message)


def _file(file: StateFile, against: Against) -> Iterator[Finding]:
    found = file.look
    problem = problem_of(file.name, file.text, rules_for(found, against.version, gate=against.pod_level))
    if not found.format:
        text = f"cannot be read: {found.problem}"
        fix = f"{DRAIN}, then remove it: numawise state repair --reset {short_name(file.name)}"
        yield Finding("unreadable", ERROR, file.name, text, fix)
        return
    if found.problem:
        yield Finding("unreadable", ERROR, file.name, found.problem)
    for one in found.sums:
        if one.fits:
            continue
        says = "there is no checksum" if one.stored is None else f"the {one.member} is {one.stored}"
        taken = [reading for reading in readings(file) if not reading.problem]
        others = "" if problem or not taken else f"; {shown(against.version)} takes the file all the same"
        fix = "if the content is right: numawise state repair --recompute-checksum"
        severity = ERROR if problem else WARNING
        text = f"{says}, but should be {one.right} ({found.format}){others}"
        yield Finding("checksum", severity, file.name, text, fix)
    if found.fits and problem and not found.problem:
        text = f"is in a form ({found.format}) that {shown(against.version)} does not read"
        yield Finding(
            "format", ERROR, file.name, text, f"numawise state convert --to {shown(against.version)}"
        )
    for remark in found.remarks:
        yield Finding("format", WARNING, file.name, remark)
    if file.name in POLICIES and against.config is not None:
        config = against.config
        wanted = config.cpu_manager_policy if file.name == CPU_FILE else config.memory_manager_policy
        if found.policy != wanted:
            now = f"the configuration has {POLICIES[file.name]}: {wanted}"
            text = f"was written under policy {found.policy}; {now}"
            fix = f"{DRAIN}, then remove it: numawise plan switch shows all steps"
            yield Finding("policy", ERROR, file.name, text, fix)
