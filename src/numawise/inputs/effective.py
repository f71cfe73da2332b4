"""What a kubelet's configuration amounts to, all parts together.

Rules kept here:

1. What the running kubelet says (``configz``) is believed before the files, which may have changed since.
2. Fields that the release does not know are dropped: the kubelet passes them over.
3. Where files and the running kubelet differ in what decides, that is told field by field.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from numawise.apps.bundle.model import KubeletParts
from numawise.codec.document import Document
from numawise.codec.kubelet.config import API_VERSION, KIND, decode_kubelet_config, unknown_fields
from numawise.codec.kubelet.fields import configuration_of
from numawise.codec.kubelet.forms import Found
from numawise.inputs.config import configured
from numawise.rules.check import Refusal
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import DEFAULT, Version, profile_of

EVICTION = "evictionHard"
"""Left out of the answer when there are no thresholds; in a file that would mean the default ones."""
COMPARED = tuple(
    one.name
    for one in fields(KubeletConfig)
    if one.name not in ("other", "given", "eviction_hard", "feature_gates")
)


def version_of(text: str) -> Version:
    """The release that a version such as ``v1.36.4`` is of; the newest one when it is not known."""
    try:
        return profile_of(text).version if text else DEFAULT
    except ValueError:
        return DEFAULT


def by_files(parts: KubeletParts, version: Version) -> dict[str, Any] | None:
    """What file, drop-ins and flags amount to; None when there are none, or the file is missing."""
    if parts.broken or (parts.base is None and not parts.drop_ins and not parts.flags):
        return None
    base = Found(parts.base.root) if parts.base is not None else None
    return known_fields(configured(base, parts.drop_ins, parts.flags, "flags", version).raw, version)


def by_kubelet(configz: Mapping[str, Any] | None, version: Version) -> dict[str, Any] | None:
    """What the running kubelet told; None when it was not asked."""
    if configz is None:
        return None
    return known_fields({EVICTION: {}, **configz, "apiVersion": API_VERSION, "kind": KIND}, version)


def configz_of(document: Document) -> Mapping[str, Any] | None:
    """The configuration inside the answer of ``configz``; None when it is something else."""
    value = document.value
    if not isinstance(value, Mapping):
        return None
    inner = value.get("kubeletconfig", value if value.get("kind") == KIND else None)
    return inner if isinstance(inner, Mapping) else None


def known_fields(raw: Mapping[str, Any], version: Version) -> dict[str, Any]:
    """A configuration without what the release passes over (rule 2)."""
    known = configuration_of(version).fields
    found: dict[str, Any] = {"apiVersion": API_VERSION, "kind": KIND}
    found |= {name: value for name, value in raw.items() if name in known and name not in found}
    for told in unknown_fields(found, version):
        top = told.removeprefix('unknown field "').split(".")[0].split("[")[0].rstrip('"')
        if top not in ("apiVersion", "kind"):
            found.pop(top, None)
    return found


def differences(told: Mapping[str, Any], written: Mapping[str, Any], version: Version) -> list[str]:
    """Fields in which the running kubelet is not what its files say (rule 3)."""
    now, then = decode_kubelet_config(told, version), decode_kubelet_config(written, version)
    if isinstance(now, Refusal) or isinstance(then, Refusal):
        return []
    return [name for name in COMPARED if getattr(now, name) != getattr(then, name)]
