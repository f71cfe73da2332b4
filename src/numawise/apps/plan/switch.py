"""From one kubelet configuration to another: which state files must go, and who will not come back.

Rules kept here:

1. A state file goes only when the kubelet would not start on it with the new configuration; this is asked of
   the simulated kubelet, file by file.  Without the machine, policies and checksums alone are compared.
2. Where a file goes, the kubelet forgets who has what: the node is drained before.  It is drained as well
   when a pod that runs would be refused by the restart, or when it is not known whether one would.
3. Two things are asked about the pods that were given: whether the restart admits them again, and whether the
   empty node does, where they arrive again and in their order.
"""

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from numawise.apps.plan.kubelet import GOVERNED, laid_over
from numawise.apps.plan.platforms import (
    AUTO,
    EDITED,
    NodePlatform,
    platform_named,
    platform_object,
    platform_plan,
    unreserved,
)
from numawise.codec.bundle.archive import is_bundle
from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.checkpoint.look import look
from numawise.codec.infile import read_raw
from numawise.codec.kubelet.config import decode_kubelet_config
from numawise.codec.output import comment_lines, manifest_yaml, to_yaml
from numawise.compare.releases import Case, Facts, Run, run
from numawise.errors import InputError
from numawise.inputs.config import ConfigInput, read_config
from numawise.inputs.pods import PodsInput
from numawise.inputs.spec import NodeInput
from numawise.machine.model import Machine
from numawise.node.node import Files, SimulatedNode, boot
from numawise.node.state.folder import Against, StateFile, StateFolder, recorded_uids
from numawise.node.state.lint import start_message
from numawise.quantity import Quantity
from numawise.request.defaults import RawPod
from numawise.results.plan import (
    KUBELET_DIRECTORY,
    FieldChange,
    KubeletPlace,
    PodVerdict,
    StateFileVerdict,
    SwitchPlan,
)
from numawise.rules.behaviour import behaviour_of
from numawise.rules.check import Refusal
from numawise.rules.gates import resolve_gates
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import DEFAULT, Version, shown
from numawise.values import dataclass, replace

Raw = Mapping[str, object]
KINDS = {CPU_FILE: "CPU", MEMORY_FILE: "memory"}
DAEMON = "DaemonSet "
SEEN = frozenset(
    {
        *GOVERNED,
        *(name for names in GOVERNED.values() for name in names),
        "reservedSystemCPUs",
        "kubeReserved",
        "systemReserved",
        "evictionHard",
        "featureGates",
    }
)
"""Fields that decide about placement; ``configz`` writes them as the file does."""


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be switched."""

    old: Raw
    new: Raw
    version: Version = DEFAULT
    machine: Machine | None = None
    state: StateFolder | None = None
    """None: as a kubelet with the old configuration would have left it."""
    pods: tuple[RawPod, ...] = ()


def plan_switch(request: Request) -> SwitchPlan:
    """Think the switch out."""
    config = decode_kubelet_config(request.new, request.version)
    old = decode_kubelet_config(request.old, request.version)
    refusal = config.message if isinstance(config, Refusal) else _refused(request)
    fields = tuple(_fields(request.old, request.new))
    if refusal or isinstance(config, Refusal):
        return SwitchPlan(request.version, fields, refusal=refusal)
    folder = request.state or _left_behind(request)
    files = tuple(_files(request, folder, config)) if folder else ()
    files += tuple(_not_given(request, folder, old, config))
    removed = [file.name for file in files if file.remove]
    restart, after = _runs(request, removed)
    drain = _drain(request, removed, restart)
    remarks = tuple(_remarks(request, folder, drain))
    return SwitchPlan(
        request.version,
        fields,
        files,
        drain,
        tuple(_pods(request, restart, after)),
        tuple(_policies(config, request.version)),
        () if isinstance(old, Refusal) else tuple(_policies(old, request.version)),
        remarks=remarks,
    )


def _refused(request: Request) -> str:
    if request.machine is None:
        return ""
    node = boot(request.machine, request.new, Files(), version=request.version)
    return node.message if isinstance(node, Refusal) else ""


def _left_behind(request: Request) -> StateFolder | None:
    """The files that the old kubelet leaves when no pod runs."""
    if request.machine is None:
        return None
    node = boot(request.machine, request.old, Files(), version=request.version)
    if isinstance(node, Refusal):
        return None
    folder = Path(KUBELET_DIRECTORY)
    texts = node.files.texts
    return StateFolder(
        folder,
        tuple(
            StateFile(name, folder / name, text.encode(), look(name, text)) for name, text in texts.items()
        ),
    )


def _fields(old: Raw, new: Raw) -> Iterator[FieldChange]:
    for name in sorted({*old, *new}):
        before, now = old.get(name), new.get(name)
        if before != now:
            yield FieldChange(name, before, now)


def _files(request: Request, folder: StateFolder, config: KubeletConfig) -> Iterator[StateFileVerdict]:
    against = Against(request.machine, config, None, request.version)
    for file in folder.files:
        message = start_message(folder, file, against)
        if file.name == DEVICE_FILE:
            why = "damaged: the kubelet ignores it" if message else "the Device Manager has no policy"
            yield StateFileVerdict(file.name, remove=False, why=why)
        elif message:
            yield StateFileVerdict(file.name, remove=True, why=message)
        else:
            yield StateFileVerdict(file.name, remove=False, why="the kubelet starts on it")


def _not_given(
    request: Request, folder: StateFolder | None, old: KubeletConfig | Refusal, new: KubeletConfig
) -> Iterator[StateFileVerdict]:
    """Files that the old kubelet writes and that were not given: judged by their policy."""
    if isinstance(old, Refusal):
        return
    now = dict(_policies(new, request.version))
    for name, before in _policies(old, request.version):
        if folder is not None and folder.file(name) is not None:
            continue
        if name in now and before != now[name]:
            where = "is not among the files; " if folder is not None else ""
            why = f"{where}the old configuration has it written under policy {before}, the new {now[name]}"
            yield StateFileVerdict(name, remove=True, why=why)
        elif folder is None:
            yield StateFileVerdict(name, remove=False, why=f"policy {before} as before")


def _runs(request: Request, removed: Sequence[str]) -> tuple[Run | None, Run | None]:
    """What a restart does to the pods, and what a drained node does."""
    if request.machine is None:
        return None, None
    restart = None
    if request.state is not None and not removed:
        case = Case(request.machine, request.state.texts, request.pods, restart=True)
        restart = run(case, request.new, request.version)
    after = run(Case(request.machine, {}, request.pods), request.new, request.version)
    return restart, after


def _drain(request: Request, removed: Sequence[str], restart: Run | None) -> str:
    if removed:
        if request.state is not None and recorded_uids(request.state):
            kinds = " and ".join(KINDS[name] for name in removed)
            return f"the kubelet forgets who has which {kinds}, and gives it away again"
        return (
            "containers that run keep the CPUs and memory they were created with, whatever is decided later"
        )
    if request.state is not None and recorded_uids(request.state):
        given = {pod.uid for pod in request.pods}
        unknown = [uid for uid in recorded_uids(request.state) if uid not in given]
        if unknown:
            return (
                f"pod {unknown[0]} is recorded, and whether the restart would refuse it is not known; give "
                "its manifest to find out"
            )
    if restart is None:
        missing = "--machine" if request.machine is None else "--state"
        return f"whether the restart would refuse a pod is not known without {missing}"
    refused = [facts.pod for facts in restart.pods if facts.verdict != "admitted"]
    return f"the restart would refuse {refused[0]}" if refused else ""


def _pods(request: Request, restart: Run | None, after: Run | None) -> Iterator[PodVerdict]:
    for at, pod in enumerate(request.pods):
        name = pod.name if pod.namespace == "default" else f"{pod.namespace}/{pod.name}"
        again, new = _facts(restart, at), _facts(after, at)
        words = next((one.words for one in (again, new) if one and one.verdict != "admitted"), "")
        yield PodVerdict(name, again.verdict if again else "", new.verdict if new else "", words)


def _facts(found: Run | None, at: int) -> Facts | None:
    return found.pods[at] if found is not None and at < len(found.pods) else None


def _policies(config: KubeletConfig, version: Version) -> Iterator[tuple[str, str]]:
    gates = resolve_gates(config.feature_gates, version)
    if isinstance(gates, str):
        return
    if gates.get("CPUManager", True):
        yield CPU_FILE, config.cpu_manager_policy
    if behaviour_of(version).has_memory_manager and gates.get("MemoryManager", True):
        yield MEMORY_FILE, config.memory_manager_policy


def _remarks(request: Request, folder: StateFolder | None, drain: str) -> Iterator[str]:
    if request.machine is None:
        yield "Without --machine, policies and checksums alone were compared, and no pod was tried."
    elif request.state is not None and folder is not None:
        node = boot(
            request.machine,
            request.old,
            Files({file.name: file.text for file in folder.files}),
            version=request.version,
        )
        if not isinstance(node, SimulatedNode):
            yield f"The kubelet does not start with the old configuration either: {node.message}"
    if request.state is None and request.machine is not None:
        yield "Without --state, the files were taken as a kubelet with the old configuration leaves them."
    staying = [pod.name for pod in request.pods if pod.owner.startswith(DAEMON)]
    if drain and staying:
        yield (
            f"Pods of DaemonSets stay on a drained node ({', '.join(staying)}): they run on through the "
            "switch, and are placed again when the kubelet starts."
        )


# --------------------------------------------------------------------------------------------------
# A switch as a shell script that can be read, tried with ``--dry-run``, run, run again, and taken back.
#
# Rules kept here:
#
# 1. POSIX sh with ``set -eu``; every value that comes from outside is quoted.
# 2. Nothing is touched before the script knows that the configuration on the node is the one that was planned
#    with, by its sum.  On a node that is switched already it ends at once.
# 3. What was done is marked in one folder for each run, next to the old files; an interrupted run goes on,
#    and a finished one leaves nothing that a later run would mistake for its own.
# 4. Three parts: the cluster's (drain, uncordon) need kubectl alone, the node's needs none.  Who cordoned the
#    node stands in an annotation; one that somebody else had cordoned stays cordoned.
# 5. Where the kubelet does not come up, or lacks a field, nothing more is done, and the way back is shown.


MARK = "NUMAWISE_END_OF_CONFIGURATION"


def switch_script(switch: SwitchPlan, place: KubeletPlace, new_text: str, old_sum: str) -> str:
    """The script; ``new_text``: what is to stand in the file, ``old_sum``: SHA-256 of what stands there."""
    mark = MARK
    while mark in new_text:
        mark += "_"
    body = new_text if new_text.endswith("\n") else f"{new_text}\n"
    new_sum = hashlib.sha256(body.encode()).hexdigest()
    number = hashlib.sha256(f"{old_sum} {new_sum}".encode()).hexdigest()[:10]
    node = shlex.quote(place.node) if place.node else "$(hostname | tr '[:upper:]' '[:lower:]')"
    whose = f" of {_one_line(place.node)}" if place.node else ""
    head = [
        "#!/bin/sh",
        f"# Another configuration for the kubelet{whose} (Kubernetes {shown(switch.version)}).",
        "# Made by numawise plan switch. sh SCRIPT --help says how to run it; try it with --dry-run first.",
        "set -eu",
        "",
        f"NUMBER={number}",
        f"OLD_SUM={old_sum}",
        f"NEW_SUM={new_sum}",
        *_setting("NODE", node),
        *_setting("KUBELET_DIR", shlex.quote(place.directory)),
        *_setting("CONFIG", shlex.quote(place.config)),
        *_setting("SERVICE", shlex.quote(place.service)),
        "BACKUP=${BACKUP:-$KUBELET_DIR/numawise-switch-$NUMBER}",
        *_setting("DRAIN_TIMEOUT", shlex.quote(place.drain_timeout)),
        "TRIES=${TRIES:-60}",
        "PAUSE=${PAUSE:-2}",
        "SETTLE=${SETTLE:-10}",
        f"DRAIN={'yes' if switch.drain else 'no'}",
        f"STATE_FILES={shlex.quote(' '.join(name for name, _ in switch.policies))}",
        f"REMOVE={shlex.quote(' '.join(switch.removed))}",
        "",
        "new_configuration() {",
        f"    cat <<'{mark}'",
        f"{body}{mark}",
        "}",
        "",
        *_policy_tests("new_policies", switch.policies),
        "",
        *_policy_tests("old_policies", switch.old_policies),
        "",
        "new_fields() {",
        "    :",
        *(f"    field {name} {shlex.quote(text)}" for name, text in _running_fields(switch)),
        "}",
    ]
    functions = files("numawise.apps.plan").joinpath("data/switch.sh").read_text(encoding="utf-8")
    return "\n".join(head) + "\n\n" + functions


def _running_fields(switch: SwitchPlan) -> Iterator[tuple[str, str]]:
    """Each new field of the managers as ``configz`` writes it."""
    for change in switch.fields:
        if change.new and change.name in SEEN:
            value = _canonical(change.new) if change.name == "reservedMemory" else change.new
            text = json.dumps(value, separators=(",", ":"), sort_keys=isinstance(value, Mapping))
            yield change.name, f'"{change.name}":{text}'


def _canonical(reserved: object) -> list[dict[str, object]]:
    assert isinstance(reserved, list)
    return [
        {
            "numaNode": one["numaNode"],
            "limits": {kind: str(Quantity.parse(str(size))) for kind, size in sorted(one["limits"].items())},
        }
        for one in reserved
    ]


def _policy_tests(function: str, policies: Sequence[tuple[str, str]]) -> list[str]:
    tests = [
        f"    names_policy {shlex.quote(name)} {shlex.quote(policy)} || return 1" for name, policy in policies
    ]
    return [f"{function}() {{", *(tests or ["    :"]), "}"]


def _setting(name: str, value: str) -> tuple[str, str]:
    """A variable that the environment may set otherwise; ``value``: quoted."""
    return f"default={value}", f"{name}=${{{name}:-$default}}"


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)


# --------------------------------------------------------------------------------------------------
# A switch out of files: two configurations, state files, a machine and pods.


@dataclass(frozen=True, slots=True)
class LoadedSwitch:
    """A switch, and what the script needs of the two configurations."""

    switch: SwitchPlan
    old_sum: str
    """SHA-256 of the old configuration's file; '' where it is not the node's own file."""
    new_text: str
    remarks: tuple[str, ...] = ()
    """What was left out of a list of pods, and which fields of the old configuration stay."""
    bundle: str = ""
    """The bundle that the old configuration came from, which does not have all of it."""

    def check_whole(self) -> None:
        """Raise ``InputError`` where the configuration that the node gets is not known whole."""
        if self.bundle:
            raise InputError(
                "a bundle does not have all of the node's configuration, so what must stay is not known",
                file=self.bundle,
                advice="give the node's own configuration file as OLD (and the bundle with --bundle), or a "
                "whole one as NEW with --replace",
            )

    def check_editable(self) -> None:
        """Raise ``InputError`` where a script that edits the node's file would be undone."""
        platform = self.switch.platform
        if platform is not None and platform.steps:
            raise InputError(
                f"{platform.title}: {platform.regenerates}, so a script that edits it would be undone",
                field="--script",
                advice="follow the steps without --script; --platform none where the node is none of these",
            )


def load_switch(
    old: str,
    new: str,
    node: NodeInput,
    pods: Sequence[str],
    *,
    whole: bool = False,
    platform: str = AUTO,
    pool: str = "",
    place: KubeletPlace | None = None,
) -> LoadedSwitch:
    """Read all files, and think the switch out.

    ``whole``: nothing of the old stays; ``platform``: who writes the configuration; ``pool``: the node's.
    """
    if "-" in (old, new):
        raise InputError("the two configurations must be files", advice="save them first")
    if is_bundle(new):
        advice = "give the new configuration as a file"
        raise InputError("a bundle does not have all of a configuration", file=new, advice=advice)
    _ = node.start_texts if node.machine_input is not None else {}  # what cannot be matched is said first
    version = node.version
    configs = [read_config(path) for path in (old, new)]
    for config in configs:
        config.config(version)  # what the kubelet would refuse is refused here
    read = node.pods(pods) if pods else PodsInput(node.running)
    before, given = (config.raw(version) for config in configs)
    after = given if whole else laid_over(before, given)
    known = platform_named(platform, configs[0], node)
    written = None
    if known is not None:
        written = platform_object(known, before, after, given, old, node, pool)
        if known.platform.name != EDITED:
            given = {name: value for name, value in given.items() if name not in written.refused}
            after = given if whole else laid_over(before, given)
    request = Request(
        old=before,
        new=after,
        version=version,
        machine=node.machine if node.machine_input is not None else None,
        state=node.state,
        pods=read.pods,
    )
    remarks = [*read.remarks]
    if known is not None and _unreserved(known, request):
        request = replace(request, machine=None)
        remarks.append(f"{known.platform.reserves}; how much is not known here, so no pod was tried")
    kept = tuple(name for name in after if after[name] != given.get(name))
    switch = replace(plan_switch(request), kept=kept)
    if known is not None and written is not None and not switch.refusal:
        plan = platform_plan(known, written, switch, place or KubeletPlace(), pool)
        switch = replace(switch, platform=plan)
        if not plan.in_place:
            remarks_left = tuple(one for one in switch.remarks if "--state" not in one)
            switch = replace(switch, files=(), drain="", remarks=remarks_left)
        if plan.steps:
            return LoadedSwitch(switch, "", written.text, tuple(remarks))
    old_sum = hashlib.sha256(read_raw(old)[0]).hexdigest() if _is_whole(configs[0], old) else ""
    new_text = _text(configs[1], new, version)
    if kept:
        new_text = comment_lines([f"Kept from {Path(old).name}: {', '.join(kept)}."]) + manifest_yaml(after)
        remarks.append(f"{new} does not have {', '.join(kept)} of {old}: kept; --replace drops them")
    elif whole and (dropped := [name for name in before if name not in given]):
        remarks.append(f"{', '.join(dropped)} of {old} will be dropped, as --replace says")
    partial = old if is_bundle(old) and not whole else ""
    return LoadedSwitch(switch, old_sum, new_text, tuple(remarks), partial)


def _unreserved(known: NodePlatform, request: Request) -> bool:
    """Whether the kubelet would start only with what the platform reserves by itself."""
    if request.machine is None:
        return False
    node = boot(request.machine, request.new, Files(), version=request.version)
    return isinstance(node, Refusal) and unreserved(known, node)


def _is_whole(config: ConfigInput, path: str) -> bool:
    """Whether the file is a KubeletConfiguration as it stands on a node."""
    plain = config.base is not None and config.base.part is not None and not config.base.part.steps
    return plain and not is_bundle(path)


def _text(config: ConfigInput, path: str, version: Version) -> str:
    """The file as it is, when it is a KubeletConfiguration; else what it amounts to."""
    if _is_whole(config, path):
        return read_raw(path)[0].decode("utf-8-sig", errors="replace")
    return to_yaml(dict(config.raw(version)))
