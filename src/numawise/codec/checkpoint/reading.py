"""What the readers of state files share: Go's print of values, members in any case, wrong types."""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from numawise.codec import gojson
from numawise.strconv import parse_int
from numawise.values import dataclass

ENDS = (" PodEntries:(", " Checksum:(")
"""Where prints of one content in several formats begin to differ."""


def fnv1a(data: str) -> int:
    """FNV-1a of 32 bits; what prints have in common is gone through once."""
    cut = next((at for at in map(data.rfind, ENDS) if at > 0), 0)
    return _fnv1a_from(_fnv1a(data[:cut]), data[cut:]) if cut else _fnv1a(data)


@lru_cache(maxsize=8)
def _fnv1a(data: str) -> int:
    return _fnv1a_from(2166136261, data)


def _fnv1a_from(value: int, data: str) -> int:
    for byte in data.encode():
        value = (value ^ byte) * 16777619 & 0xFFFFFFFF
    return value


def map_print(entries: Iterable[str] | None) -> str:
    """A map of printed entries; None is not a map."""
    return "<nil>" if entries is None else f"map[{' '.join(entries)}]"


def ids_print(ids: Iterable[object]) -> str:
    """A list."""
    return f"[{' '.join(map(str, ids))}]"


def by_bytes(mapping: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """The items of a map by the bytes of their keys."""
    return sorted(mapping.items(), key=lambda item: item[0].encode())


def nested_print(entries: Mapping[str, Any] | None) -> str:
    """``map[pod:map[container:cpus …] …]``, or flat where the values are texts."""
    if entries is None:
        return "<nil>"
    return map_print(
        f"{key}:{value if isinstance(value, str) else nested_print(value)}"
        for key, value in by_bytes(entries)
    )


# --------------------------------------------------------------------------------------------------
# What the readers of state files share: members in any case, and Go's words for a wrong type.


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


def whole_key(key: str, struct: str, name: str, go_type: str) -> int:
    """A number that is the key of a map."""
    try:
        return parse_int(key)
    except ValueError:
        raise ValueError(
            f"json: cannot unmarshal number {key} into Go struct field {struct}.{name} of type {go_type}"
        ) from None


def with_data(old: str, content: str) -> str:
    """A file that holds its content twice: in the old form, and as text with a checksum of its own."""
    return f'{old[:-1]},"data":{gojson.text(content)},"dataChecksum":{fnv1a(f"(string){content}")}}}'


def without_checksum(text: str) -> str:
    """A file's text without its last member, the checksum."""
    return text[: text.rindex(',"checksum":')] + "}"


@dataclass(frozen=True, slots=True)
class CarriedData:
    """How a file that carries its content as text is read, and in which words that fails (1.37 and later)."""

    manager: str
    version: str
    struct: str
    """The whole file."""
    old: str
    """The form of older releases, which lies in the same file."""

    @property
    def content(self) -> str:
        """The struct of the content."""
        return f"{self.struct}Data"

    def members(self, raw: Mapping[str, Any], check_old: Callable[[str], object]) -> dict[str, Any] | None:
        """The members of the content; None: the file carries none, so older forms are tried.

        ``check_old`` reads the old form, given how its fields are named, and raises ``ValueError``.
        """
        data, stored = raw.get("data"), raw.get("datachecksum")
        if not (isinstance(data, str) and data) and not (_is_count(stored) and stored):
            return None
        try:
            check_old(f"{self.struct}.{self.old}")
            text = typed(raw, "data", str, self.struct, "string") or ""
            if stored is not None and not _is_count(stored):
                raise mismatch(stored, self.struct, "dataChecksum", "checksum.Checksum")
        except ValueError as error:
            raise self.failed(f"failed to deserialize {self.manager} manager checkpoint: {error}") from None
        try:
            members = members_of(gojson.decode(text), self.content)
        except ValueError as error:
            raise self.not_content(error) from None
        if (stored or 0) != fnv1a(f"(string){text}"):
            raise self.failed(CORRUPTED)
        return members

    def failed(self, why: str) -> ValueError:
        """The whole file cannot be loaded; older forms are not tried then."""
        return ValueError(f"could not load {self.version} checkpoint: {why}")

    def not_content(self, error: ValueError) -> ValueError:
        """The content cannot be read."""
        return self.failed(f"failed to deserialize {self.manager} manager checkpoint data: {error}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def checksum_of(raw: Mapping[str, Any], struct: str) -> int:
    """The checksum; 0 when there is none."""
    checksum = raw.get("checksum") or 0
    if not _is_count(checksum):
        raise mismatch(checksum, struct, "checksum", "checksum.Checksum")
    assert isinstance(checksum, int)
    return checksum


# --------------------------------------------------------------------------------------------------
# ``allocated_pods_state`` (1.33 and later): the resources that the containers of every pod were allotted.
#
# The kubelet keeps it for resizing pods in place.  It has neither names of pods nor roles of containers, but
# it is there when nobody can ask the API server.


ALLOCATED_FILE = "allocated_pods_state"

Resources = Mapping[str, Any]


class AllottedPod(dict[str, Resources]):
    """Container → what it was allotted."""

    whole: Resources | None = None
    """What the pod was allotted as a whole; None: nothing."""


def allocated_pods(text: str) -> dict[str, AllottedPod]:
    """Uid → container → its resources; raise ``ValueError`` when the file is none of these."""
    data = members_of(gojson.decode(text), "Checkpoint").get("data")
    if not isinstance(data, str):
        raise ValueError("it has no string named data")  # noqa: TRY004 - bad JSON like any other
    entries = members_of(gojson.decode(data), "PodResourceCheckpointInfo").get("entries") or {}
    if not isinstance(entries, dict):
        raise ValueError("its entries are not a map")  # noqa: TRY004
    found: dict[str, AllottedPod] = {}
    for uid, entry in entries.items():
        members = members_of(entry, "PodResourceInfo")
        containers, whole = members.get("containerresources") or {}, members.get("podlevelresources")
        if isinstance(containers, dict):
            found[uid] = AllottedPod(
                {name: resources for name, resources in containers.items() if isinstance(resources, dict)}
            )
            found[uid].whole = whole if isinstance(whole, dict) else None
    return found


def allocated_manifest(uid: str, containers: AllottedPod, namespace: str, name: str) -> dict[str, Any]:
    """The pod of a uid as far as the file knows it."""
    whole = {"resources": dict(containers.whole)} if containers.whole else {}
    rows = [{"name": each, "resources": dict(own)} for each, own in containers.items()]
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": uid},
        "spec": {"containers": rows, **whole},
    }


# --------------------------------------------------------------------------------------------------
# ``dra_manager_state``: the claims whose devices the kubelet prepared for pods.
#
# Up to 1.31 the claims stand in the file itself, from 1.32 on in text inside it.


CLAIMS_FILE = "dra_manager_state"


def recorded_claims(text: str) -> tuple[str, ...]:
    """Namespace and name of every claim; raise ``ValueError`` when the file is none of these."""
    raw = members_of(gojson.decode(text), "Checkpoint")
    data = raw.get("data")
    inner = members_of(gojson.decode(data), "CheckpointData") if isinstance(data, str) else raw
    entries = inner.get("claiminfostatelist", inner.get("entries")) or ()
    if not isinstance(entries, list | tuple):
        raise ValueError("its claims are not a list")  # noqa: TRY004
    claims = (members_of(entry, "ClaimInfoState") for entry in entries)
    return tuple(f"{one.get('namespace') or 'default'}/{one.get('claimname') or '?'}" for one in claims)
