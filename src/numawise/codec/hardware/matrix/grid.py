"""A matrix as far as it could be read, whatever it looked like, and the names in it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from numawise.codec.hardware.matrix.links import NVLINK, WORDS
from numawise.machine.hardware import Remark

GPU_NAME = re.compile(r"GPU[0-9]+")
ANY_NAME = re.compile(r"(?:GPU|NIC)[0-9]+")
NAME = re.compile(r"[A-Za-z][\w.-]*")
ANY_LINK = "|".join([NVLINK, *sorted(WORDS)])
GPU_ROW = re.compile(rf"(?<![\w/-])GPU[0-9]+[*`]*[ \t]*(?:[ \t]|\|)[ \t*`]*(?:{ANY_LINK})+(?![A-Za-z(=:])")
RULE = re.compile(r"[\s|+:=_*`.\u2500-\u257f-]*")
HEADER_LINES = 14  # a header may be wrapped, and ruled lines may stand below it


@dataclass(slots=True)
class Grid:
    """A matrix as far as it could be read."""

    names: tuple[str, ...]
    columns: tuple[str, ...]
    links: dict[str, dict[str, str]] = field(default_factory=dict)
    values: dict[str, dict[str, str | None]] = field(default_factory=dict)
    remarks: list[Remark] = field(default_factory=list)
    first: int = 0
    last: int = 0
    peer: bool = False


def some(names: Sequence[str]) -> str:
    """The first few names, for a remark."""
    shown = ", ".join(names[:6])
    return shown if len(names) <= 6 else f"{shown} and {len(names) - 6} more"


def doubtful_names(names: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Names that look like damaged ones: no row has them, and they are not like the other NICs' names."""
    nics = [name for name in names if not GPU_NAME.fullmatch(name)]
    if not any(ANY_NAME.fullmatch(nic) for nic in nics):
        return []
    return [nic for nic in nics if not ANY_NAME.fullmatch(nic) and nic not in labels]
