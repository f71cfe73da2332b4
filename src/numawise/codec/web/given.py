"""What a request names of a node: the one that is served, or a machine, a configuration and dropped files."""

import binascii
from base64 import b64decode
from typing import Annotated

import msgspec

from numawise.codec.web.body import WebBody
from numawise.errors import InputError

MOST_FILES, LONGEST_NAME, LONGEST_TEXT = 64, 255, 16 << 20

FileName = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_NAME)]
Words = Annotated[str, msgspec.Meta(max_length=2000)]
Text = Annotated[str, msgspec.Meta(max_length=LONGEST_TEXT)]
Release = Annotated[str, msgspec.Meta(max_length=40)]
"""A Kubernetes release such as 1.36; '': the default."""


class FileGiven(WebBody, frozen=True):
    """A file as it was dropped: its name and its content, as text or, for archives, in base64."""

    name: FileName
    text: Text | None = None
    base64: Text | None = None

    def content(self, field: str) -> bytes:
        """Its bytes."""
        if (self.text is None) == (self.base64 is None):
            raise InputError("needs either text or base64", field=field, advice="give one of the two")
        if self.text is not None:
            return self.text.encode("utf-8", "surrogatepass")
        try:
            return b64decode(self.base64 or "", validate=True)
        except (binascii.Error, ValueError):
            raise InputError("is not base64", field=f"{field}.base64", advice="encode the bytes") from None


Files = Annotated[tuple[FileGiven, ...], msgspec.Meta(max_length=MOST_FILES)]


class NodeGiven(WebBody, frozen=True):
    """Which node is meant."""

    served: bool = False
    """The node that the server was started for; everything else is laid over it."""
    machine: Words = ""
    """A name of the catalogue, or a description such as ``2s 4n 64c 8gpu``; never a path."""
    config: Text = ""
    """A kubelet configuration, as YAML or JSON text."""
    release: Release = ""
    files: Files = ()
    """Machine, configuration, state files, bundle or Node object, each known by its content."""
    match_devices: bool = False
    """Devices of the state files that the machine names otherwise are mapped by number."""
