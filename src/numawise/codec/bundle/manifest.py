"""``manifest.json`` of a bundle, and names that say nothing: only the key maps them back.

Rules kept here:

1. A word is an HMAC-SHA256 under the key, with the kind of name in it: ``pod-3f9a02c41b``.
2. What has a form keeps it: a UUID becomes a UUID, 32 hexadecimal digits stay as many, a path stays a path.
3. Devices keep their order, because it decides which is taken: UUIDs and ids of no usual form are counted.
4. The key comes from the machine's id, as the node object shows it to those who may see it.  So two bundles
   of one node speak of the same pods by the same words, and who can read the node can map them back.  What
   is not an id (``uninitialized``, zeros) is shared by many machines: then the key is for this time alone.
5. Without a key names stay what they are.
"""

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping

import msgspec

from numawise.codec.bundle.allowed import SUFFIX, is_device_id, is_path_part, is_resource
from numawise.codec.bundle.archive import MAKE_ONE, MANIFEST, Members
from numawise.codec.document import read_documents
from numawise.codec.forms import converted
from numawise.codec.output import to_json
from numawise.errors import InputError, quoted
from numawise.results.bundle import AbsentPart, BundleManifest, BundleMember
from numawise.results.plain import API_VERSION, READ_VERSIONS
from numawise.results.plain import document as document_of
from numawise.values import dataclass, field

PURPOSE = b"numawise bundle names, first kind"
COMMON = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
"""Namespaces that every cluster has."""
UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
DIGITS = re.compile(r"[0-9a-f]{16,64}", re.ASCII)
MACHINE_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)
LEAST_DIGITS = 4
"""Different digits that an id has which was drawn by chance."""
SHORT = 10
ONCE = "once:"
"""Begins the fingerprint of a key that was made up for one bundle alone."""


def key_of(machine_id: str) -> bytes:
    """The key of a machine, or one for this time alone where a machine has no id."""
    text = machine_id.strip().lower().replace("-", "")
    if not MACHINE_ID.fullmatch(text) or len(set(text)) < LEAST_DIGITS:
        return ONCE.encode() + secrets.token_bytes(32)
    return hmac.digest(text.encode(), PURPOSE, hashlib.sha256)


@dataclass(frozen=True, slots=True)
class Names:
    """Replaces names."""

    key: bytes | None = None
    devices: Mapping[str, str] = field(default_factory=dict)
    """UUID of a device, in lower case, or id of no usual form → its stand-in."""

    @property
    def fingerprint(self) -> str:
        """Distinguishes one key from another, and nothing else."""
        if self.key is None:
            return ""
        mark = ONCE if self.key.startswith(ONCE.encode()) else ""
        return f"{mark}{self._digest('fingerprint', '')[:16]}"

    def with_devices(self, groups: Iterable[Iterable[str]]) -> "Names":
        """Likewise, for devices by their ids, those of one resource together (rule 3)."""
        if self.key is None:
            return self
        ids = [sorted(group) for group in groups]
        odd = {one for group in ids if not all(map(_usual, group)) for one in group}
        uuids = {
            uuid.lower() for group in ids for one in group if one not in odd for uuid in UUID.findall(one)
        }
        stand_ins = {
            one: f"device-{rank:08x}-{self._digest('device', one)[:SHORT]}"
            for rank, one in enumerate(sorted(odd))
        }
        for rank, uuid in enumerate(sorted(uuids)):
            stand_ins[uuid] = self._uuid("device", uuid, f"{rank:08x}")
        return Names(self.key, stand_ins)

    def name(self, kind: str, name: str) -> str:
        """The word for a name of a kind."""
        if self.key is None or not name or (kind == "namespace" and name in COMMON):
            return name
        return f"{kind}-{self._digest(kind, name)[:SHORT]}"

    def uid(self, uid: str) -> str:
        """The stand-in for the uid of a pod, in the same form (rule 2)."""
        if self.key is None or not uid:
            return uid
        digest = self._digest("uid", uid)
        if UUID.fullmatch(uid):
            return self._uuid("uid", uid, "")
        return digest[: len(uid)] if DIGITS.fullmatch(uid) else f"uid-{digest[:SHORT]}"

    def device(self, text: str) -> str:
        """The stand-in for the id of a device; one of a usual form without UUIDs stays."""
        if self.key is None:
            return text
        if stand_in := self.devices.get(text):
            return stand_in
        return self.uuids(text) if _usual(text) else f"device-ffffffff-{self._digest('device', text)[:SHORT]}"

    def uuids(self, text: str) -> str:
        """A text with every UUID in it replaced."""
        if self.key is None:
            return text
        return UUID.sub(
            lambda found: (
                self.devices.get(found[0].lower()) or self._uuid("device", found[0].lower(), "f" * 8)
            ),
            text,
        )

    def resource(self, name: str) -> str:
        """The name of a resource stays; a word for what cannot be one."""
        return name if is_resource(name) else self.name("resource", name)

    def path(self, path: str) -> str:
        """A path, with words for those of its parts that are neither the system's nor an installer's."""
        place, colon, line = path.rpartition(":")
        if line.isdigit():
            return f"{self.path(place)}{colon}{line}"
        return "/".join(part if is_path_part(part) else self._part(part) for part in path.split("/"))

    def _part(self, part: str) -> str:
        found = SUFFIX.fullmatch(part)
        return f"{self.name('path', found[1])}{found[2] or ''}" if found else self.name("path", part)

    def _uuid(self, kind: str, text: str, first: str) -> str:
        """A UUID in the place of another; ``first``: its first group, if it is to be a certain one."""
        digest = self._digest(kind, text)
        if first:
            digest = first + digest
        return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:32]}"

    def _digest(self, kind: str, name: str) -> str:
        assert self.key is not None
        return hmac.digest(self.key, f"{kind}\0{name}".encode(errors="replace"), hashlib.sha256).hex()


def _usual(device: str) -> bool:
    return is_device_id(UUID.sub("U", device))


# --------------------------------------------------------------------------------------------------
# ``manifest.json`` of a bundle: what is inside, of which versions, and what was left out.
#
# Rules kept here:
#
# 1. Every other member stands in it with its SHA-256; a member that does not, or that was changed, is
#    refused. A folder may have been changed by hand, so that only names are looked at there.
# 2. Members that a newer version put in are passed over; a manifest of another ``apiVersion`` is refused.


KIND = "Bundle"
README = "README.md"
HARDWARE, MACHINE, CONFIG, PODS = "hardware.json", "machine.yaml", "kubelet.yaml", "pods.json"
NODE, POD_RESOURCES = "node.json", "podresources.json"
API_SERVER = "the API server"
STATE, SOURCES = "state", "kubelet"
"""Folders: the state files by their own names, and the parts that ``kubelet.yaml`` was put together from."""
BASE, FLAGS, CONFIGZ, DROP_INS = "kubelet/config.yaml", "kubelet/flags", "kubelet/configz.json", "kubelet/d"


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a bundle says about itself."""

    collected: str = ""
    """When, as ``2026-11-15T08:00:00Z``."""
    by: str = ""
    """The version of numawise that made it."""
    node: str = ""
    """Name of the node, as it is called in this bundle."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """``kubelet``, ``kernel``, ``os``, ``runtime``; those that are known."""
    key: str = ""
    """Fingerprint of the key that names were replaced by; '' when names were kept."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Part → where it was read."""
    absent: tuple[AbsentPart, ...] = ()
    remarks: tuple[str, ...] = ()
    """What else there is to know, a sentence each."""
    removed: tuple[str, ...] = ()
    """What was taken out or replaced on purpose, a line each."""
    members: Mapping[str, str] = field(default_factory=dict)
    """Member → SHA-256."""
    all_pods: bool = False
    """The list of pods has every pod of the node."""

    @property
    def anonymised(self) -> bool:
        """True when names were replaced."""
        return bool(self.key)

    @property
    def kubelet(self) -> str:
        """The kubelet's version, such as ``v1.36.4``; '' when it is not known."""
        return self.versions.get("kubelet", "")

    def why_not(self, what: str) -> str:
        """Why something is not in the bundle; '' when unknown."""
        return next((one.why for one in self.absent if one.what == what), "")


class WireAbsent(msgspec.Struct):
    """An entry of ``absent``."""

    what: str
    why: str


class WireMember(msgspec.Struct):
    """An entry of ``members``."""

    name: str
    sha256: str
    size: int = 0


class WireManifest(msgspec.Struct):
    """The whole file."""

    collected: str = ""
    numawise: str = ""
    node: str = ""
    versions: dict[str, str] = {}
    key: str = ""
    sources: dict[str, str] = {}
    absent: list[WireAbsent] = []
    remarks: list[str] = []
    removed: list[str] = []
    members: list[WireMember] = []
    all_pods: bool | None = msgspec.field(default=None, name="allPods")


def manifest_text(manifest: Manifest, members: Members) -> str:
    """The text of the manifest for these members."""
    return to_json(document_of(KIND, manifest_document(manifest, members)))


def manifest_document(manifest: Manifest, members: Members) -> BundleManifest:
    """The manifest of a bundle with these members."""
    return BundleManifest(
        collected=manifest.collected,
        numawise=manifest.by,
        node=manifest.node,
        versions=manifest.versions,
        key=manifest.key,
        sources=manifest.sources,
        absent=manifest.absent,
        remarks=manifest.remarks,
        removed=manifest.removed,
        all_pods=manifest.all_pods,
        members=tuple(
            BundleMember(name, len(content), sha256(content))
            for name, content in sorted(members.items())
            if name != MANIFEST
        ),
    )


def read_manifest(members: Members, file: str, *, sealed: bool) -> Manifest:
    """Read the manifest of a bundle and compare it with what is there (rule 1); ``sealed``: content too."""
    raw = members.get(MANIFEST)
    if raw is None:
        raise InputError(f"is not a bundle: it has no {MANIFEST}", file=file, advice=MAKE_ONE)
    place = f"{file}/{MANIFEST}"
    document = read_documents(raw, place)[0]
    value = document.value
    if not isinstance(value, Mapping) or value.get("kind") != KIND:
        raise document.error((), f"is not the manifest of a {KIND}", MAKE_ONE)
    version = value.get("apiVersion")
    if not isinstance(version, str) or version not in READ_VERSIONS:
        raise document.error(
            ("apiVersion",), f"is {quoted(version)}, and {API_VERSION} is known", "upgrade numawise"
        )
    try:
        wire = converted(value, WireManifest)
    except msgspec.ValidationError as problem:
        raise document.error((), f"is not the manifest of a bundle: {problem}", MAKE_ONE) from None
    listed = {one.name: one.sha256 for one in wire.members}
    _compare(members, listed, file, sealed=sealed)
    return Manifest(
        collected=wire.collected,
        by=wire.numawise,
        node=wire.node,
        versions=wire.versions,
        key=wire.key,
        sources=wire.sources,
        absent=tuple(AbsentPart(one.what, one.why) for one in wire.absent),
        remarks=tuple(wire.remarks),
        removed=tuple(wire.removed),
        members=listed,
        all_pods=API_SERVER in wire.sources.get("pods", "") if wire.all_pods is None else wire.all_pods,
    )


def sha256(content: bytes) -> str:
    """The SHA-256 of a member, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def _compare(members: Members, listed: Mapping[str, str], file: str, *, sealed: bool) -> None:
    for name, content in members.items():
        if name == MANIFEST:
            continue
        if sealed and name not in listed:
            raise _bad(file, name, "is not in the manifest")
        if sealed and sha256(content) != listed[name]:
            raise _bad(
                file, name, "was changed after it was packed", "unpack it, and give the folder instead"
            )
    for name in _missing(members, listed) if sealed else ():
        raise _bad(file, name, "is missing", "copy the bundle again")


def _missing(members: Members, listed: Mapping[str, str]) -> Iterable[str]:
    return (name for name in listed if name not in members)


def _bad(file: str, name: str, what: str, advice: str = MAKE_ONE) -> InputError:
    return InputError(f"the member {quoted(name)} {what}", file=file, advice=advice)
