"""The text of a published attribute: a version, the hash of what is inside, and that, compressed.

Rules kept here:

1. ``v1:<16 hex digits>:<base64 of zlib of compact JSON>``; the digits begin the SHA-256 of the JSON, so that
   they are the same whichever zlib wrote the rest.
2. Whoever may write the object may write anything: no text is longer than the API server takes, nothing
   expands beyond ``LARGEST_JSON``, and what does not have its hash is not read.
3. Another version is never guessed at, nor is a field that is not known.
"""

import binascii
import hashlib
import re
import zlib

from numawise.errors import InputError, quoted

VERSION = "v1"
LARGEST_TEXT = 1 << 20
"""Characters; an object of more than 1.5 MB is not stored."""
LARGEST_JSON = 1 << 22
HASH_DIGITS = 16
FORM = re.compile(r"(v[0-9]{1,4}):([0-9a-f]{16}):([A-Za-z0-9+/]*={0,2})", re.ASCII)
LEVEL = 6
"""One twentieth larger than with 9, in a third of the time."""
BROKEN = "let the node's agent publish it again; without the attribute the object is read as any exporter's"
NEWER = "use a numawise that is as new as the agent of that node"


def hash_of(data: bytes) -> str:
    """The digits that name a part."""
    return hashlib.sha256(data).hexdigest()[:HASH_DIGITS]


def sealed(data: bytes) -> str:
    """JSON as the text of an attribute."""
    packed = binascii.b2a_base64(zlib.compress(data, LEVEL), newline=False).decode("ascii")
    return f"{VERSION}:{hash_of(data)}:{packed}"


def unsealed(name: str, text: str) -> tuple[bytes, str]:
    """The JSON of the attribute ``name``, and its hash."""
    if len(text) > LARGEST_TEXT:
        raise broken(name, f"has {len(text):,} characters, more than {LARGEST_TEXT:,}")
    form = FORM.fullmatch(text)
    if form is None:
        raise broken(name, f"{quoted(text[:40])} is not a version, a hash and data")
    version, digits, packed = form.groups()
    if version != VERSION:
        what = f"is of form {version}, and this numawise reads {VERSION}"
        raise InputError(what, field=name, advice=NEWER)
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(binascii.a2b_base64(packed, strict_mode=True), LARGEST_JSON)
    except (binascii.Error, zlib.error) as problem:
        raise broken(name, f"cannot be unpacked: {problem}") from None
    if inflate.unconsumed_tail:
        raise broken(name, f"is more than {LARGEST_JSON:,} bytes unpacked")
    if not inflate.eof or inflate.unused_data:
        raise broken(name, "is cut off or has something behind its end")
    if hash_of(data) != digits:
        raise broken(name, f"is damaged: its hash is {hash_of(data)}, not {digits}")
    return data, digits


def broken(name: str, what: str) -> InputError:
    """An attribute that cannot be read as what it says it is."""
    return InputError(what, field=name, advice=BROKEN)


def misread(name: str, what: str, problem: Exception) -> InputError:
    """JSON that is not ``what``; a field that is not known is of a newer agent (rule 3)."""
    if "unknown field" in str(problem):
        return InputError(
            f"has a field that this numawise does not know: {problem}", field=name, advice=NEWER
        )
    return broken(name, f"is not {what}: {problem}")
