"""A bundle opened: the machine, the configuration, the state files and the pods of a node, as values.

Rules kept here:

1. What a command needs and the bundle has not is an ``InputError`` that says why it is not inside.
2. Names in errors lead into the bundle: ``node.tar.gz/kubelet.yaml:3``.
3. The kubelet's release is the bundle's own, unless somebody names another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from numawise.codec.bundle import manifest as parts
from numawise.codec.bundle.archive import MANIFEST, is_bundle, read_members
from numawise.codec.bundle.manifest import Manifest, read_manifest
from numawise.codec.bundle.pods import is_refusal
from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.document import Document, Part, read_documents
from numawise.codec.hardware import encode
from numawise.codec.kubelet.flags import Flag, read_flags
from numawise.codec.machine import decode_machine
from numawise.codec.pod import decode_pods, pods_in, unique_uids
from numawise.errors import InputError
from numawise.inputs.files import ConfigFile, config_of, load_pods, load_profile
from numawise.inputs.machine import MachineInput
from numawise.machine.hardware import Hardware, hardware_of
from numawise.machine.model import Machine
from numawise.node.node import Files
from numawise.request.defaults import RawPod
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import DEFAULT, Profile, Version

__all__ = ["Bundle", "is_bundle", "open_bundle"]
STATE_FILES = (CPU_FILE, MEMORY_FILE, DEVICE_FILE)
FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Bundle:
    """What somebody collected on a node."""

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

    def profile(self, kube: str | None = None) -> Profile:
        """The kubelet's release (rule 3)."""
        if kube is not None:
            return load_profile(kube)
        if self.kube:
            return load_profile(self.kube, f"{self.path}/{MANIFEST}: versions.kubelet")
        return Profile(DEFAULT, f"{self.path} does not tell the kubelet's version; --kube names one")

    def machine(self) -> Machine:
        """The machine as the kubelet sees it."""
        return decode_machine(self._document(parts.MACHINE), devices_anywhere=True)

    def hardware(self) -> Hardware:
        """All that is known about the hardware."""
        if parts.HARDWARE in self.members:
            return encode.hardware_from(self._document(parts.HARDWARE).value, self.place(parts.HARDWARE))
        return hardware_of(self.machine(), self.name)

    def machine_input(self) -> MachineInput:
        """The machine, as any other that is named."""
        return MachineInput(self.hardware(), self.place(parts.MACHINE), self.machine(), self.node)

    @property
    def node(self) -> str:
        """The node's name in the cluster; '' when names were replaced."""
        return "" if self.manifest.key else self.manifest.node

    def config_file(self) -> ConfigFile:
        """The kubelet's configuration, all parts together, not yet read by any release."""
        document = self._document(parts.CONFIG)
        if not isinstance(document.value, Mapping):
            raise document.error((), "must be a KubeletConfiguration, that is, a mapping")
        return ConfigFile(self.place(parts.CONFIG), document, cast("Mapping[str, object]", document.value))

    def config(self, version: Version) -> KubeletConfig:
        """The configuration as one release reads it."""
        return config_of(self.config_file(), version)

    def layers(self) -> tuple[Document | None, tuple[Document, ...], tuple[Flag, ...]]:
        """The parts of the configuration: its file, its drop-ins and its flags."""
        base = self._document(parts.BASE) if parts.BASE in self.members else None
        names = sorted(name for name in self.members if name.startswith(f"{parts.DROP_INS}/"))
        flags = self.members.get(parts.FLAGS, b"").decode(errors="replace")
        return base, tuple(self._document(name) for name in names), read_flags(flags) if flags else ()

    @property
    def texts(self) -> dict[str, str]:
        """State file → text, of those that are there."""
        return {
            name: self.members[f"{parts.STATE}/{name}"].decode("utf-8", errors="replace")
            for name in STATE_FILES
            if f"{parts.STATE}/{name}" in self.members
        }

    def files(self) -> Files:
        """The state files as a kubelet finds them when it starts."""
        return Files(self.texts)

    def pods(self) -> tuple[RawPod, ...]:
        """The pods of the node."""
        if parts.PODS not in self.members:
            return ()
        return unique_uids(decode_pods(self._document(parts.PODS)))

    def refused(self) -> tuple[RawPod, ...]:
        """The pods that the kubelet did not let in, and that are still listed."""
        return tuple(pod for part in self._items() if _is_refused(part) for pod in pods_in(part, "Pod"))

    def pods_meant(self, words: Sequence[str]) -> tuple[RawPod, ...]:
        """Pods by what somebody wrote: files, or names of the bundle; the refused ones when nothing was."""
        if not words:
            if refused := self.refused():
                return refused
            why = self.manifest.why_not("pods")
            what = f"lists no pods: {why}" if why else "lists no pod that the kubelet refused"
            raise InputError(what, file=self.path, advice=f"name pods: files, or names out of {parts.PODS}")
        found: list[RawPod] = []
        for word in words:
            own = [raw for raw in self.pods() if word in (raw.name, f"{raw.namespace}/{raw.name}", raw.uid)]
            found += own if own and not Path(word).exists() else load_pods([word])
        return unique_uids(found)

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
                (told for one in known if (told := self.manifest.why_not(one))), "it was not collected"
            )
            raise InputError(f"has no {name}: {why}", file=self.path, advice=ADVICE.get(name, ""))
        documents = read_documents(raw, self.place(name))
        if len(documents) != 1:
            raise documents[1].error((), f"holds {len(documents)} documents, and one is wanted")
        return documents[0]


MISSING_AS = {parts.MACHINE: ("machine",), parts.CONFIG: ("configuration",)}
ADVICE = {
    parts.MACHINE: "give --machine as well",
    parts.CONFIG: "give --kubelet-config as well, or collect it again with --kubelet-config or --configz",
}


def open_bundle(path: str) -> Bundle:
    """Open a bundle, packed or unpacked; what is wrong with it is told with the member's name."""
    members = read_members(path)
    manifest = read_manifest(members, path, sealed=not Path(path).is_dir())
    return Bundle(path, manifest, members)


def _is_refused(part: Part) -> bool:
    status: Any = part.at("status").value
    return (
        isinstance(status, Mapping)
        and status.get("phase") == FAILED
        and is_refusal(str(status.get("reason") or ""))
    )
