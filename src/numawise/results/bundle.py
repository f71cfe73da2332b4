"""A bundle as a document: whose it is, where its parts come from, and what is inside."""

from collections.abc import Mapping

from numawise.results.plain import hidden
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class AbsentPart:
    """Something that a bundle could hold, and why it does not."""

    what: str
    why: str


@dataclass(frozen=True, slots=True)
class BundleMember:
    """A file in a bundle."""

    name: str
    size: int
    """Bytes."""
    sha256: str
    about: str = hidden("")
    """What it is, in words."""


@dataclass(frozen=True, slots=True)
class BundledState:
    """A state file in a bundle."""

    policy: str
    format: str
    """'' when nothing could be read."""
    checksum: bool
    """Whether it is right."""
    problem: str = hidden("")


@dataclass(frozen=True, slots=True)
class BundleManifest:
    """What a bundle says about itself (``manifest.json``)."""

    collected: str
    """When, as ``2026-11-15T08:00:00Z``."""
    numawise: str
    """The version that made it."""
    node: str
    versions: Mapping[str, str]
    """``kubelet``, ``kernel``, ``os``, ``runtime``; those that are known."""
    key: str
    """Fingerprint of the key that names were replaced by; '' when names were kept."""
    sources: Mapping[str, str]
    """Part → where it was read."""
    absent: tuple[AbsentPart, ...]
    remarks: tuple[str, ...]
    removed: tuple[str, ...]
    """What was taken out or replaced on purpose, a line each."""
    members: tuple[BundleMember, ...]
    all_pods: bool
    """The list of pods has every pod of the node: what is recorded for another one is nobody's."""


@dataclass(frozen=True, slots=True)
class BundleSummary(BundleManifest):
    """A node in one file (``bundle show``)."""

    pods: int
    refused: tuple[str, ...]
    """Pods that the kubelet refused."""
    state: Mapping[str, BundledState]
