"""What the readers of state files share: members in any case, and Go's words for a wrong type."""

from collections.abc import Mapping
from typing import Any

from numawise.codec import gojson
from numawise.codec.checkpoint.goprint import fnv1a

ROOT = "/var/lib/kubelet/"
CORRUPTED = "checkpoint is corrupted"


def members_of(value: object, struct: str) -> dict[str, Any]:
    """The members of an object by lower-case name."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(  # noqa: TRY004 - to the callers it is bad JSON like any other
            f"json: cannot unmarshal {gojson.kind_of(value)} into Go value of type state.{struct}"
        )
    return {name.lower(): found for name, found in value.items()}


def typed(members: Mapping[str, Any], name: str, kind: type, struct: str, go_type: str) -> Any:  # noqa: ANN401
    """A member of the wanted kind; the empty one when absent, None for a null map."""
    if name.lower() not in members:
        return kind()
    value = members[name.lower()]
    if value is not None and not isinstance(value, kind):
        raise mismatch(value, struct, name, go_type)
    return value


def mismatch(value: object, struct: str, name: str, go_type: str) -> ValueError:
    """A member has a value of the wrong type."""
    kind = gojson.kind_of(value)
    return ValueError(f"json: cannot unmarshal {kind} into Go struct field {struct}.{name} of type {go_type}")


def with_data(old: str, content: str) -> str:
    """A file that holds its content twice: in the old form, and as text with a checksum of its own."""
    return f'{old[:-1]},"data":{gojson.text(content)},"dataChecksum":{fnv1a(f"(string){content}")}}}'


def without_checksum(text: str) -> str:
    """A file's text without its last member, the checksum."""
    return text[: text.rindex(',"checksum":')] + "}"


def content_of(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    """The members of the content that is kept as text; None when there is none."""
    data = raw.get("data")
    if not data:
        return None
    if not isinstance(data, str) or raw.get("datachecksum") != fnv1a(f"(string){data}"):
        raise ValueError(CORRUPTED)
    return members_of(gojson.decode(data), "data")


def checksum_of(raw: Mapping[str, Any], struct: str) -> int:
    """The checksum; 0 when there is none."""
    checksum = raw.get("checksum") or 0
    if isinstance(checksum, bool) or not isinstance(checksum, int) or checksum < 0:
        raise mismatch(checksum, struct, "checksum", "checksum.Checksum")
    return checksum
