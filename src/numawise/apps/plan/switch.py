"""From one kubelet configuration to another: which state files must go, and who will not come back.

Rules kept here:

1. A state file goes only when the kubelet would not start on it with the new configuration; this is asked of
   the simulated kubelet, file by file.  Without the machine, policies and checksums alone are compared.
2. Where a file goes, the kubelet forgets who has what: the node is drained before.  It is drained as well
   when a pod that runs would be refused by the restart, or when it is not known whether one would.
3. Two things are asked about the pods that were given: whether the restart admits them again, and whether the
   empty node does, where they come anew and in their order.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.checkpoint.look import look
from numawise.codec.kubelet.config import decode_kubelet_config
from numawise.compare.releases import Case, Facts, Run, run
from numawise.machine.model import Machine
from numawise.node.node import Files, Node, boot
from numawise.node.state.finding import Against
from numawise.node.state.folder import StateFile, StateFolder, recorded_uids
from numawise.node.state.verify import start_message
from numawise.request.defaults import RawPod
from numawise.rules.check import Refusal
from numawise.rules.gates import resolve_gates
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import DEFAULT, Version, behaviour_of

Raw = Mapping[str, object]
DIRECTORY = "/var/lib/kubelet"
KINDS = {CPU_FILE: "CPU", MEMORY_FILE: "memory"}
DAEMON = "DaemonSet "


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


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the configuration that changes; None: it is not set."""

    name: str
    old: object
    new: object


@dataclass(frozen=True, slots=True)
class StateVerdict:
    """What happens to one state file."""

    name: str
    remove: bool
    why: str
    """For a file that goes, what the kubelet would say."""


@dataclass(frozen=True, slots=True)
class PodVerdict:
    """What becomes of a pod."""

    name: str
    restart: str
    """When the kubelet just restarts; '' when that is not known, or not what happens."""
    anew: str
    """When it is created anew on the empty node; '' when that is not known."""
    words: str = ""
    """The kubelet's reason when it is refused."""

    @property
    def refused(self) -> bool:
        """True when it will not run after the switch, or not again once it ends."""
        return any(verdict not in ("", "admitted") for verdict in (self.restart, self.anew))


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch, thought out."""

    request: Request
    fields: tuple[Field, ...]
    files: tuple[StateVerdict, ...]
    drain: str
    """Why the node is drained; '' when it need not be."""
    pods: tuple[PodVerdict, ...]
    policies: tuple[tuple[str, str], ...]
    """State file → the policy that it names after the switch."""
    old_policies: tuple[tuple[str, str], ...]
    refusal: str = ""
    """Why the kubelet does not start with the new configuration at all."""
    remarks: tuple[str, ...] = ()

    @property
    def removed(self) -> tuple[str, ...]:
        """The state files that go."""
        return tuple(file.name for file in self.files if file.remove)


def plan_switch(request: Request) -> Switch:
    """Think the switch out."""
    config = decode_kubelet_config(request.new, request.version)
    old = decode_kubelet_config(request.old, request.version)
    refusal = config.message if isinstance(config, Refusal) else _refused(request)
    fields = tuple(_fields(request.old, request.new))
    if refusal or isinstance(config, Refusal):
        return Switch(request, fields, (), "", (), (), (), refusal)
    folder = request.state or _left_behind(request)
    files = tuple(_files(request, folder, config)) if folder else ()
    files += tuple(_not_given(request, folder, old, config))
    removed = [file.name for file in files if file.remove]
    restart, after = _runs(request, removed)
    drain = _drain(request, removed, restart)
    remarks = tuple(_remarks(request, folder, drain))
    return Switch(
        request,
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
    folder = Path(DIRECTORY)
    texts = node.files.texts
    return StateFolder(
        folder,
        tuple(
            StateFile(name, folder / name, text.encode(), look(name, text)) for name, text in texts.items()
        ),
    )


def _fields(old: Raw, new: Raw) -> Iterator[Field]:
    for name in sorted({*old, *new}):
        before, now = old.get(name), new.get(name)
        if before != now:
            yield Field(name, before, now)


def _files(request: Request, folder: StateFolder, config: KubeletConfig) -> Iterator[StateVerdict]:
    against = Against(request.machine, config, None, request.version)
    for file in folder.files:
        message = start_message(folder, file, against)
        if file.name == DEVICE_FILE:
            why = "damaged: the kubelet passes it over" if message else "the Device Manager has no policy"
            yield StateVerdict(file.name, remove=False, why=why)
        elif message:
            yield StateVerdict(file.name, remove=True, why=message)
        else:
            yield StateVerdict(file.name, remove=False, why="the kubelet starts on it")


def _not_given(
    request: Request, folder: StateFolder | None, old: KubeletConfig | Refusal, new: KubeletConfig
) -> Iterator[StateVerdict]:
    """Files that the old kubelet writes and nobody gave: judged by their policy."""
    if isinstance(old, Refusal):
        return
    now = dict(_policies(new, request.version))
    for name, before in _policies(old, request.version):
        if folder is not None and folder.file(name) is not None:
            continue
        if name in now and before != now[name]:
            where = "is not among the files; " if folder is not None else ""
            why = f"{where}the old configuration has it written under policy {before}, the new {now[name]}"
            yield StateVerdict(name, remove=True, why=why)
        elif folder is None:
            yield StateVerdict(name, remove=False, why=f"policy {before} as before")


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
        return "containers that run keep the CPUs and memory they were created with, whatever is decided anew"
    if request.state is not None and recorded_uids(request.state):
        given = {pod.uid for pod in request.pods}
        unknown = [uid for uid in recorded_uids(request.state) if uid not in given]
        if unknown:
            return (
                f"pod {unknown[0]} is recorded, and whether the restart would refuse it is not known; give "
                "its manifest to tell"
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
        if not isinstance(node, Node):
            yield f"The kubelet does not start with the old configuration either: {node.message}"
    if request.state is None and request.machine is not None:
        yield "Without --state, the files were taken as a kubelet with the old configuration leaves them."
    staying = [pod.name for pod in request.pods if pod.owner.startswith(DAEMON)]
    if drain and staying:
        yield (
            f"Pods of DaemonSets stay on a drained node ({', '.join(staying)}): they run on through the "
            "switch, and are placed anew when the kubelet starts."
        )
