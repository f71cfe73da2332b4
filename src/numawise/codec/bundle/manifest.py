"""``manifest.json`` of a bundle: what is inside, of which versions, and what was left out.

Rules kept here:

1. Every other member stands in it with its SHA-256; a member that does not, or that was changed, is refused.
   A folder may have been changed by hand, so that only names are looked at there.
2. Members that a newer version put in are passed over; a manifest of another ``apiVersion`` is refused.
"""

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from numawise.codec.bundle.archive import MAKE_ONE, MANIFEST, Members
from numawise.codec.document import read_documents
from numawise.codec.output import to_json
from numawise.errors import InputError
from numawise.results.bundle import AbsentPart, BundleManifest, BundleMember
from numawise.results.plain import API_VERSION, READ_VERSIONS
from numawise.results.plain import document as document_of
from numawise.values import dataclass, field

KIND = "Bundle"
README = "README.md"
HARDWARE, MACHINE, CONFIG, PODS = "hardware.json", "machine.yaml", "kubelet.yaml", "pods.json"
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
    if version not in READ_VERSIONS:
        raise document.error(
            ("apiVersion",), f"is {version!r}, and {API_VERSION} is known", "upgrade numawise"
        )
    try:
        wire = msgspec.convert(value, WireManifest)
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
    return InputError(f"the member {name[:120]!r} {what}", file=file, advice=advice)
