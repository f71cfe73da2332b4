"""One reading of a kubelet: state files, PodResources and what the API server knows, as one simulated node.

Rules kept here:

1. The node is made by the functions that open a bundle: ``inputs.devices``, ``inputs.podresources`` and
   ``start_node``.  There is no second way.
2. Files first, then PodResources, then the files' stamps once more: what was read while a file changed is
   read again.
3. A state file that cannot be read keeps what it said when it could be.  What PodResources says is held is
   held in addition, so that a device never counts as free because a file lags behind.
4. A kubelet that starts answers for a second or two as if it had neither pods nor devices.  So a pod that
   runs by its status counts although PodResources does not list it, and all is read again soon.
5. What is missing is a problem: a code, and a sentence that says what to do.  The rest is read all the same.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numawise.apps.agent.sight_settings import Configz, KubeletSettings, SettingsReader
from numawise.apps.agent.sight_values import (
    NO_DEVICE_NODES,
    NO_MACHINE,
    NO_POD_RESOURCES,
    NO_PODS,
    NO_POLICY,
    NO_STATE,
    NOT_STARTED,
    UNSETTLED,
    ApiView,
    KubeletSight,
    OwnPlugins,
    SightProblem,
)
from numawise.codec.checkpoint import CPU_FILE, PLACES
from numawise.codec.checkpoint.look import Look, look
from numawise.codec.checkpoint.reading import ALLOCATED_FILE, AllottedPod, allocated_pods
from numawise.codec.document import Document, mapping
from numawise.codec.node import node_from
from numawise.codec.objects import kubelet_uid
from numawise.codec.pod_phase import has_ended
from numawise.codec.podresources import PodResources, pod_resources_of
from numawise.codec.workload import decode_pods
from numawise.engine.state import DeviceFile
from numawise.errors import ClusterError, InputError, NumawiseError
from numawise.host.files import Stamp, stamp
from numawise.host.kubelet import read_whole
from numawise.inputs.devices import seen_machine
from numawise.inputs.gathered import NodeSources, Notes
from numawise.inputs.machine import MachineInput
from numawise.inputs.podresources import held_besides
from numawise.inputs.spec import NodeInput, NodePods, NodeSpec, start_node
from numawise.kube.podresources import SOCKET, PodResourcesSocket
from numawise.machine.description import NodeDescription
from numawise.machine.model import Machine
from numawise.node.node import SimulatedNode
from numawise.node.state.folder import StateFile, StateFolder
from numawise.request.defaults import RawPod
from numawise.values import dataclass, replace

PATIENCE = 3.0
"""Seconds for an answer of the kubelet."""
ATTEMPTS = 3
"""So often is read again what changed meanwhile; after that, what was read last counts."""


_NOTHING = (None, None, None, None)


@dataclass(frozen=True, slots=True)
class _Remembered:
    """The last good text of a state file."""

    text: str
    look: Look


class SightReader:
    """Reads a kubelet; blocks while it does."""

    def __init__(
        self,
        sources: NodeSources,
        name: str,
        *,
        configz: Configz | None = None,
        own_plugins: OwnPlugins = dict,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.sources, self.name, self.clock = sources, name, clock
        self.folder = Path(sources.kubelet_dir)
        self.settings = SettingsReader(sources, configz)
        self.own_plugins = own_plugins
        self._socket = PodResourcesSocket(str(self.folder / SOCKET), PATIENCE)
        self.stamps_read: tuple[Stamp, ...] = ()
        """The files' stamps at the last reading."""
        self._located: PodResources | None = None
        """Where devices were when the kubelet was last asked."""
        self._machine: Machine | None = None
        self._seen: tuple[object, object, object, Machine | None] = _NOTHING
        """What the machine was last made of, and the machine."""
        self._good: dict[str, _Remembered] = {}
        self._record: tuple[Stamp, Mapping[str, AllottedPod] | None] = (None, None)
        self._pods: dict[str, tuple[object, RawPod | None]] = {}
        self._description: tuple[object, NodeDescription | SightProblem | None] = (None, None)

    # --- one reading ----------------------------------------------------------------------------

    def read(self, view: ApiView) -> KubeletSight:
        """The kubelet as it is now; ``view``: what the API server says of it."""
        problems: list[SightProblem] = []
        info = mapping(mapping(mapping(view.node).get("status")).get("nodeInfo"))
        settings = self.settings.read(str(info.get("kubeletVersion") or ""))
        stable = False
        for _ in range(ATTEMPTS):
            self.stamps_read = self.stamps()
            texts = self._texts()
            answers, why_not = self._answers()
            stable = self.stamps() == self.stamps_read
            if stable:
                break
        problems += settings.problems
        if why_not is not None:
            problems.append(why_not)
        folder = self._state_folder(texts, problems)
        if view.pods is None and folder.allocated is None:
            text = "what the pods of the node asked for is not known; let the agent list and watch pods"
            problems.append(SightProblem(NO_PODS, text))
        node, unsettled = self._node(settings, folder, answers, view, problems)
        if unsettled:
            problems.append(unsettled)
        if node is not None:
            problems += _shortcomings(node)
        return KubeletSight(
            node=node,
            hardware=settings.hardware,
            texts=folder.texts,
            answers=answers,
            pods=view.pods,
            problems=tuple(one.text for one in problems),
            at=self.clock(),
            reasons=tuple(one.reason for one in problems),
            name=self.name,
            kubelet=settings.version,
            configuration=settings.raw,
            settled=stable and unsettled is None and why_not is None,
            object=view.node,
            machine=self._machine,
        )

    # --- state files (rules 2 and 3) -----------------------------------------------------------

    def stamps(self) -> tuple[Stamp, ...]:
        """What tells the kubelet's files from those of another moment."""
        names = [place for places in PLACES.values() for place in places]
        return tuple(stamp(self.folder / name) for name in (*names, ALLOCATED_FILE, SOCKET))

    def _texts(self) -> dict[str, str | SightProblem]:
        """State file → its text, or why there is none; one that does not exist is left out."""
        found: dict[str, str | SightProblem] = {}
        for name, places in PLACES.items():
            for place in places:
                path = self.folder / place
                file = read_whole(path, follow=False)
                if not file.problem:
                    found[name] = file.data.decode("utf-8", errors="replace")
                    break
                if stamp(path) is not None:
                    found[name] = SightProblem(NO_STATE, f"{path} {file.problem}")
        if not found and not self.folder.is_dir():
            text = f"{self.folder} is not there or may not be read; mount the kubelet's directory, or name it"
            found[CPU_FILE] = SightProblem(NO_STATE, f"{text} with --kubelet-dir")
        return found

    def _state_folder(
        self, texts: Mapping[str, str | SightProblem], problems: list[SightProblem]
    ) -> StateFolder:
        files = []
        for name in PLACES:
            text = texts.get(name)
            if isinstance(text, str):
                known = self._good.get(name)
                if known is None or known.text != text:
                    seen = look(name, text)
                    if _broken(seen):
                        why = seen.problem or "its checksum is wrong"
                        text = SightProblem(NO_STATE, f"{self.folder / PLACES[name][0]} is damaged: {why}")
                    else:
                        self._good[name] = _Remembered(text, seen)
            if isinstance(text, SightProblem):
                stands = "; what it said before counts" if name in self._good else ""
                problems.append(replace(text, text=text.text + stands))
            elif text is None:
                self._good.pop(name, None)
            if name in self._good:
                good = self._good[name]
                files.append(
                    StateFile(name, self.folder / name, good.text.encode(errors="replace"), good.look)
                )
        return StateFolder(self.folder, tuple(files), self._allocated())

    def _allocated(self) -> Mapping[str, AllottedPod] | None:
        path = self.folder / ALLOCATED_FILE
        now = stamp(path)
        if now is None:
            self._record = (None, None)
        elif now != self._record[0]:
            file = read_whole(path, follow=False)
            try:
                record = None if file.problem else allocated_pods(file.data.decode("utf-8", errors="replace"))
                self._record = (now, record)
            except ValueError:
                self._record = (None, self._record[1])  # half written: what it said before
        return self._record[1]

    def _answers(self) -> tuple[PodResources | None, SightProblem | None]:
        path = self._socket.path
        try:
            raw, problems = self._socket.ask()
        except ClusterError as problem:
            advice = "see that the kubelet runs, and mount the folder of this socket"
            return None, SightProblem(NO_POD_RESOURCES, f"{problem.message}; {advice}")
        try:
            answers = pod_resources_of([Document(raw, path)])
        except InputError as problem:
            return None, SightProblem(NO_POD_RESOURCES, str(problem))
        if answers.allocatable is None and self._located is not None:
            answers = replace(answers, allocatable=self._located.allocatable)
        self._located = replace(answers, pods=None)
        missing = SightProblem(NO_POD_RESOURCES, f"{path}: {problems[0]}") if problems else None
        return answers, missing

    # --- the node (rule 1) ----------------------------------------------------------------------

    def _node(
        self,
        settings: KubeletSettings,
        folder: StateFolder,
        answers: PodResources | None,
        view: ApiView,
        problems: list[SightProblem],
    ) -> tuple[SimulatedNode | None, SightProblem | None]:
        machine = self._machine_now(settings, folder.devices, answers or self._located, problems)
        if machine is None or settings.configuration is None:
            return None, None
        unlisted = _unlisted(view, answers)
        counted = replace(answers, pods=None) if answers is not None and unlisted else answers
        given = NodeInput(
            NodeSpec(machine=("this",), node_name=self.name),
            settings.profile,
            MachineInput(settings.hardware, "this machine", machine),
            settings.configuration,
            folder,
            description=self._described(view.node, problems),
            answers=counted,
            listed=self._listed(view, counted),
        )
        try:
            node = start_node(given)
        except NumawiseError as problem:
            problems.append(SightProblem(NOT_STARTED, str(problem)))
            return None, None
        node.write_files = False
        names = {pod.uid: (pod.namespace, pod.name) for pod in given.listed.running} if given.listed else {}
        besides = held_besides(node, answers, names) if answers is not None else ""
        besides = besides or unlisted
        return node, SightProblem(UNSETTLED, besides) if besides else None

    def _machine_now(
        self,
        settings: KubeletSettings,
        record: DeviceFile,
        answers: PodResources | None,
        problems: list[SightProblem],
    ) -> Machine | None:
        notes = Notes()
        located = (answers.allocatable, answers.held) if answers is not None else None
        if self._seen[0] is settings and self._seen[2] is record and self._seen[1] == located:
            machine = self._seen[3]  # nothing that it is made of has changed
        else:
            machine = seen_machine(settings.hardware, record, settings.uuids, answers, notes)
            self._seen = (settings, located, record, machine) if machine is not None else _NOTHING
        if machine is None:
            why = "; ".join(note.said for _, note in notes.absent)
            advice = "mount the host's /sys and /proc, and name their root with --root"
            problems.append(SightProblem(NO_MACHINE, f"the machine is not known: {why}; {advice}"))
        else:
            machine = self._answering(machine)
        if machine is not None and machine == self._machine:
            machine = self._machine  # the same value, so that what hangs on it need not be made again
        self._machine = machine
        return machine

    def _answering(self, machine: Machine) -> Machine:
        """The machine with what is known of the plugin that is our own."""
        own = self.own_plugins()
        plugins = tuple(
            replace(plugin, preference=mine.preference, refuses_several=mine.refuses_several)
            if (mine := own.get(plugin.resource)) is not None
            else plugin
            for plugin in machine.plugins
        )
        return replace(machine, plugins=plugins) if own else machine

    def _described(
        self, value: Mapping[str, Any] | None, problems: list[SightProblem]
    ) -> NodeDescription | None:
        if value is None:
            return None
        if self._description[0] is not value:
            try:
                self._description = (value, node_from(value))
            except InputError as problem:
                text = f"the Node object cannot be read: {problem}"
                self._description = (value, SightProblem(NO_MACHINE, text))
        found = self._description[1]
        if isinstance(found, SightProblem):
            problems.append(found)
            return None
        return found

    def _listed(self, view: ApiView, answers: PodResources | None) -> NodePods | None:
        """The pods of the API server; PodResources alone says which of them the kubelet has."""
        if view.pods is None:
            return None
        kept: dict[str, tuple[object, RawPod | None]] = {}
        for value in view.pods:
            if has_ended(value):
                continue
            uid = kubelet_uid(value)
            known = self._pods.get(uid)
            kept[uid] = known if known is not None and known[0] is value else (value, _raw_pod(value, uid))
        self._pods = kept
        asked = answers is not None and answers.pods is not None
        pods = tuple(pod for _, pod in kept.values() if pod is not None)
        return NodePods(pods, complete=view.synced and not asked)


def _unlisted(view: ApiView, answers: PodResources | None) -> str:
    """A sentence on a pod that runs by its status and is not in PodResources; '' for none (rule 4)."""
    if answers is None or answers.pods is None:
        return ""
    listed = {(pod.namespace, pod.name) for pod in answers.pods}
    for value in view.pods or ():
        metadata, phase = mapping(value.get("metadata")), mapping(value.get("status")).get("phase")
        name = str(metadata.get("namespace") or "default"), str(metadata.get("name"))
        if phase == "Running" and not metadata.get("deletionTimestamp") and name not in listed:
            what = f"PodResources does not list {'/'.join(name)}, which runs by its status"
            return f"{what}: the kubelet is starting, or the pod has just ended; until then it counts"
    return ""


def _raw_pod(value: Mapping[str, Any], uid: str) -> RawPod | None:
    try:
        pods = decode_pods(Document({"kind": "Pod", **value}, "the API server"))
    except InputError:
        return None
    return replace(pods[0], uid=uid) if pods else None


def _broken(seen: Look) -> bool:
    return bool(seen.problem) or not seen.readable or (bool(seen.sums) and not seen.fits)


def _shortcomings(node: SimulatedNode) -> list[SightProblem]:
    """What a scheduler cannot rely on, though everything is known."""
    if len(node.machine.numa) < 2:
        return []
    found = []
    if node.config.topology_manager_policy in ("", "none"):
        text = "the kubelet's topologyManagerPolicy is none, so it aligns nothing"
        found.append(SightProblem(NO_POLICY, f"{text}; 'numawise plan kubelet' makes one that does"))
    for plugin in node.machine.plugins:
        lost = [device.id for device in plugin.devices if not (device.numa or device.numa_unknown)]
        if lost and _is_gpu(plugin.resource):
            text = (
                f"{plugin.resource}: {len(lost)} of {len(plugin.devices)} devices have no NUMA node; let the "
                "firmware or the virtual machine say it, or give it in the device plugin's configuration"
            )
            found.append(SightProblem(NO_DEVICE_NODES, text))
    return found


def _is_gpu(resource: str) -> bool:
    name = resource.rpartition("/")[2]
    return "gpu" in resource or name.startswith("mig-")
