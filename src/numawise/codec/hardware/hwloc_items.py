"""Objects of an hwloc topology, of any version: each with its place, and its type as hwloc 2 calls it."""

from collections.abc import Iterator

from numawise.codec.hardware.xmltree import Element, number, words
from numawise.values import dataclass

TYPES = {
    "system": "Machine", "node": "NUMANode", "numanode": "NUMANode", "numa": "NUMANode",
    "socket": "Package", "proc": "PU", "pu": "PU",
}  # fmt: skip
DIE_GROUP = "104"


@dataclass(frozen=True, slots=True, eq=False)
class HwlocItem:
    """An object of the topology, with those around it."""

    element: Element
    type: str
    above: tuple["HwlocItem", ...] = ()
    """From the root down to its parent."""

    @property
    def index(self) -> int | None:
        return number(self.element.attributes.get("os_index"))

    @property
    def cpus(self) -> int:
        """CPUs of it, or of the nearest object around it that has any said."""
        for item in (self, *reversed(self.above)):
            found = words(item.element.attributes.get("cpuset"))
            if found is not None:
                return found
        return 0

    @property
    def infos(self) -> dict[str, str]:
        return {e.attributes.get("name", ""): e.attributes.get("value", "") for e in self.element.all("info")}

    @property
    def subtype(self) -> str:
        return self.element.attributes.get("subtype") or self.infos.get("Type", "")

    def nearest(self, kind: str) -> "HwlocItem | None":
        """The closest object around it of one type."""
        return next((item for item in reversed(self.above) if item.type == kind), None)


def kibibytes(text: str | None) -> int | None:
    """Bytes of a size in KiB, with or without its unit."""
    amount = number((text or "").removesuffix("KiB").removesuffix("kB").strip())
    return None if amount is None else amount << 10


def items_of(top: Element) -> Iterator[HwlocItem]:
    """All objects, each after the one around it, in the order of the file."""
    waiting = [HwlocItem(top, type_of(top))]
    while waiting:
        item = waiting.pop()
        yield item
        above = (*item.above, item)
        inner = [HwlocItem(e, type_of(e), above) for e in item.element.all("object")]
        waiting += reversed(inner)


def type_of(element: Element) -> str:
    """Its type, as hwloc 2 calls it."""
    given = element.attributes.get("type", "")
    if given == "Cache":
        kind = "i" if element.attributes.get("cache_type") == "2" else ""
        return f"L{element.attributes.get('depth', '?')}{kind}Cache"
    if given == "Group" and (
        element.attributes.get("kind") == DIE_GROUP or element.attributes.get("subtype") == "Die"
    ):
        return "Die"
    return TYPES.get(given.lower(), given)
