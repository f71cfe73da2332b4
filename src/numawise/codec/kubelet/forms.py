"""Where a kubelet configuration is found: in a file of its own, or inside what other tools keep it in.

Rules kept here:

1. A ``KubeletConfiguration`` is one by its kind; beside it in the same file may stand other kinds of kubeadm.
2. Anything else is looked into by ``codec.kubelet.objects``, which few need.
"""

import re
from collections.abc import Mapping, Sequence

from numawise.codec.document import Document, Part
from numawise.codec.kubelet.config import GROUP
from numawise.codec.kubelet.config import KIND as CONFIGURATION
from numawise.codec.kubelet.flags import Flag
from numawise.values import dataclass, field

PLAIN = re.compile(r"(?:[ \t]*+(?:#(?!!)[^\n]*+|---[^\n]*+)?\r?\n)*+[ \t]*+(?:\{|(?:apiVersion|kind):)")
"""How an object begins, in YAML or JSON."""


@dataclass(frozen=True, slots=True)
class Found:
    """A kubelet configuration, or flags, inside a document."""

    part: Part | None
    """The mapping with the fields; None: there are only flags."""
    flags: tuple[Flag, ...] = ()
    inside: str = ""
    """The kind of object it was found in; '' when it stands alone."""
    fragment: bool = False
    """Only some fields, among things that are none (``codec.kubelet.objects``)."""
    misplaced: str = ""
    """Where the fields belong in such an object, when they are not there."""
    platform: str = ""
    """The platform whose form it is; '' when any node may have it."""
    over: tuple[Document, ...] = ()
    """Configurations that are laid over it: drop-ins and patches of the same node."""
    title: str = field(default="", compare=False)
    """What to call it among others of the same file."""


def kubelet_configurations(document: Document) -> tuple[Found, ...]:
    """The configurations in a document, in order; none at all when it has nothing to do with a kubelet."""
    if not isinstance(document.value, Mapping):
        return ()
    kind, version = document.value.get("kind"), document.value.get("apiVersion")
    if kind == CONFIGURATION or (isinstance(version, str) and version.startswith(f"{GROUP}/")):
        return (Found(document.root),)
    from numawise.codec.kubelet.objects import configurations_inside  # noqa: PLC0415 - few need it

    return configurations_inside(document.root, kind)


def configurations_in_text(text: str, file: str) -> tuple[Found, ...] | None:
    """The configurations in user data, a script or TOML; None: the text is YAML or JSON, or should be."""
    if PLAIN.match(text):
        return None
    from numawise.codec.kubelet.objects import configurations_in_user_data  # noqa: PLC0415 - few need it

    return configurations_in_user_data(text, file)


def joined_apart(found: Sequence[Found]) -> list[Found]:
    """The first node of a cluster and those that join it: one, unless their flags differ."""
    by_flags = {tuple((flag.name, flag.value) for flag in one.flags): one for one in reversed(found)}
    flagged = [one for flags, one in by_flags.items() if flags]
    return list(reversed(flagged)) or list(found[:1])
