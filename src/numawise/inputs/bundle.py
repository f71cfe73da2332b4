"""A bundle opened: the machine, the configuration, the state files and the pods of a node, as values.

Rules kept here:

1. What a command needs and the bundle has not is an ``InputError`` that says why it is not inside.
2. Names in errors lead into the bundle: ``node.tar.gz/kubelet.yaml:3``.
3. The kubelet's release is the bundle's own, unless another is named.
"""

from collections.abc import Mapping
from pathlib import Path

from numawise.codec.bundle import manifest as parts
from numawise.codec.bundle.archive import MANIFEST, read_members
from numawise.codec.bundle.manifest import Manifest, read_manifest
from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.checkpoint.look import look
from numawise.codec.document import Document, Part, read_documents
from numawise.codec.hardware import encode
from numawise.codec.infile import is_folder
from numawise.codec.kubelet.flags import read_flags
from numawise.codec.kubelet.forms import Found
from numawise.codec.machine import decode_machine
from numawise.codec.node import node_object
from numawise.codec.pod import unique_uids
from numawise.codec.pod_phase import has_ended, refusal_of
from numawise.codec.podresources import PodResources, pod_resources_of
from numawise.codec.workload import decode_pods, pods_in
from numawise.engine.state import DeviceFile
from numawise.errors import InputError
from numawise.inputs.config import ConfigInput
from numawise.inputs.machine import MachineInput
from numawise.machine.description import NodeDescription
from numawise.machine.hardware import Hardware, hardware_of
from numawise.machine.model import Machine
from numawise.node.state.folder import Live, LivePod, StateFile, StateFolder
from numawise.request.defaults import RawPod
from numawise.rules.versions import DEFAULT, Profile, profile_of
from numawise.values import dataclass, replace

STATE_FILES = (CPU_FILE, MEMORY_FILE, DEVICE_FILE)


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was collected on a node."""

    path: str
    manifest: Manifest
    members: Mapping[str, bytes]

    @property
    def name(self) -> str:
        """What to call the node: its own name, or the file's."""
        return self.manifest.node or Path(self.path).name

    @property
    def kube(self) -> str:
        """The kubelet's version as text; '' when it is not known."""
        return self.manifest.kubelet

    def profile(self) -> Profile:
        """The kubelet's own release (rule 3)."""
        if self.kube:
            try:
                return profile_of(self.kube)
            except ValueError as error:
                raise InputError(str(error), field=f"{self.path}/{MANIFEST}: versions.kubelet") from None
        return Profile(DEFAULT, f"{self.path} does not contain the kubelet's version; --kube names one")

    def machine(self) -> Machine:
        """The machine as the kubelet sees it.

        Without PodResources, nobody knows where a device is that has no NUMA node and that nobody holds.
        """
        machine = decode_machine(self._document(parts.MACHINE), devices_anywhere=True)
        if parts.POD_RESOURCES in self.members or DEVICE_FILE not in self.texts:
            return machine
        record = look(DEVICE_FILE, self.texts[DEVICE_FILE]).devices or DeviceFile()
        held = {
            (resource, one)
            for containers in record.grants.values()
            for resources in containers.values()
            for resource, grant in resources.items()
            for one in grant.ids
        }
        plugins = tuple(
            replace(
                plugin,
                devices=tuple(
                    replace(one, numa_unknown=True)
                    if one.numa is None and (plugin.resource, one.id) not in held
                    else one
                    for one in plugin.devices
                ),
            )
            for plugin in machine.plugins
        )
        return replace(machine, plugins=plugins)

    def hardware(self) -> Hardware:
        """All that is known about the hardware."""
        if parts.HARDWARE not in self.members:
            return hardware_of(self.machine(), self.name)
        hardware = encode.hardware_from(self._document(parts.HARDWARE))
        return hardware if hardware.name else replace(hardware, name=self.name)

    def machine_input(self) -> MachineInput:
        """The machine, as any other that is named."""
        return MachineInput(self.hardware(), self.place(parts.MACHINE), self.machine(), self.node)

    @property
    def node(self) -> str:
        """The node's name in the cluster; '' when names were replaced."""
        return "" if self.manifest.key else self.manifest.node

    @property
    def has_machine(self) -> bool:
        """Whether the machine was collected."""
        return parts.MACHINE in self.members

    @property
    def has_config(self) -> bool:
        """Whether the configuration was collected."""
        return parts.CONFIG in self.members

    def config_document(self) -> Document:
        """The kubelet's configuration, all parts together."""
        document = self._document(parts.CONFIG)
        if not isinstance(document.value, Mapping):
            raise document.error((), "must be a KubeletConfiguration, that is, a mapping")
        return document

    def config_input(self) -> ConfigInput:
        """Likewise, as any other that is named; what its own kubelet passed over is passed over."""
        return ConfigInput(self.place(parts.CONFIG), Found(self.config_document().root), tolerant=True)

    def layered_config(self) -> ConfigInput | None:
        """The configuration in its parts, where they were collected; None when there is none at all."""
        base = self._document(parts.BASE) if parts.BASE in self.members else None
        names = sorted(name for name in self.members if name.startswith(f"{parts.DROP_INS}/"))
        text = self.members.get(parts.FLAGS, b"").decode(errors="replace")
        flags = read_flags(text) if text else ()
        if base is None and not names and not flags:
            if not self.has_config:
                return None
            base = self.config_document()
        return ConfigInput(
            self.path,
            Found(base.root) if base is not None else None,
            tuple(self._document(name) for name in names),
            flags,
            self.place(parts.FLAGS),
            texts=self.all_texts,
            tolerant=True,
        )

    @property
    def all_texts(self) -> dict[str, str]:
        """Place → text of every member."""
        return {self.place(name): raw.decode("utf-8", errors="replace") for name, raw in self.members.items()}

    @property
    def texts(self) -> dict[str, str]:
        """State file → text, of those that are there."""
        return {
            name: self.members[f"{parts.STATE}/{name}"].decode("utf-8", errors="replace")
            for name in STATE_FILES
            if f"{parts.STATE}/{name}" in self.members
        }

    def state(self) -> StateFolder:
        """The state files."""
        if not self.texts:
            why = self.manifest.why_not("state") or "they were not collected"
            raise InputError(f"has no state files: {why}", file=self.path)
        place = Path(self.path)
        files = tuple(
            StateFile(name, place / parts.STATE / name, text.encode(), look(name, text))
            for name, text in self.texts.items()
        )
        return StateFolder(place, files)

    def pod_resources(self) -> PodResources | None:
        """What the kubelet's PodResources socket answered; None: it was not asked."""
        if parts.POD_RESOURCES not in self.members:
            return None
        return pod_resources_of([self._document(parts.POD_RESOURCES)])

    def description(self) -> NodeDescription | None:
        """What the Node object says; None: it was not collected."""
        return node_object(self._document(parts.NODE).root) if parts.NODE in self.members else None

    def pods(self) -> tuple[RawPod, ...]:
        """The pods of the node."""
        if parts.PODS not in self.members:
            return ()
        return unique_uids(decode_pods(self._document(parts.PODS)))

    def refused(self) -> tuple[RawPod, ...]:
        """The pods that the kubelet did not let in, and that are still listed."""
        refusals = self.refusals()
        return tuple(pod for pod in self.pods() if pod.uid in refusals)

    def refusals(self) -> dict[str, tuple[str, str]]:
        """Uid → reason and message with which the kubelet refused a pod."""
        return {
            pod.uid: refusal
            for part in self._items()
            if (refusal := refusal_of(part.value)) is not None
            for pod in pods_in(part, "Pod")
        }

    def running(self) -> tuple[RawPod, ...]:
        """The pods that have not ended."""
        kept = [part for part in self._items() if not has_ended(part.value)]
        return unique_uids(pod for part in kept for pod in pods_in(part, "Pod"))

    def live(self) -> Live:
        """The pods that have not ended, by uid."""
        return {pod.uid: LivePod(pod, (pod.uid,), running=True) for pod in self.running()}

    def pods_named(self, word: str) -> tuple[RawPod, ...]:
        """Pods by name, namespace and name, or uid."""
        return tuple(pod for pod in self.pods() if word in (pod.name, f"{pod.namespace}/{pod.name}", pod.uid))

    def refused_or_error(self) -> tuple[RawPod, ...]:
        """The pods that the kubelet did not let in; an error when there are none."""
        if refused := self.refused():
            return refused
        why = self.manifest.why_not("pods")
        what = f"lists no pods: {why}" if why else "lists no pod that the kubelet refused"
        raise InputError(what, file=self.path, advice=f"name pods: files, or names from {parts.PODS}")

    def pod_document(self) -> Document | None:
        """The list of pods as it is written; None when there is none."""
        return self._document(parts.PODS) if parts.PODS in self.members else None

    def place(self, member: str) -> str:
        """What to call a member in messages (rule 2)."""
        return f"{self.path}/{member}"

    def _items(self) -> list[Part]:
        document = self.pod_document()
        return document.root.at("items").items() if document is not None else []

    def _document(self, name: str) -> Document:
        raw = self.members.get(name)
        if raw is None:
            known = (name, *MISSING_AS.get(name, ()))
            why = next(
                (reason for one in known if (reason := self.manifest.why_not(one))), "it was not collected"
            )
            raise InputError(f"has no {name}: {why}", file=self.path, advice=ADVICE.get(name, ""))
        documents = read_documents(raw, self.place(name))
        if len(documents) != 1:
            raise documents[1].error((), f"holds {len(documents)} documents; expected one")
        return replace(documents[0], text="")  # what was collected stays as it is


MISSING_AS = {parts.MACHINE: ("machine",), parts.CONFIG: ("configuration",)}
ADVICE = {
    parts.MACHINE: "give --machine as well",
    parts.CONFIG: (
        "give --kubelet-config as well, or collect it again with 'numawise bundle --kubelet-config FILE' "
        "or 'numawise bundle --configz URL'"
    ),
}


def open_bundle(path: str) -> Bundle:
    """Open a bundle, packed or unpacked; errors name the member."""
    members = read_members(path)
    manifest = read_manifest(members, path, sealed=not is_folder(path))
    return Bundle(path, manifest, members)
