"""What a job asks for: in words for people, and as data in the row of a waiter or hold that others read back.

Rules kept here:

1. Written and read in one place, with every field of a request; what has its default is left out, so that a
   row without a later field means the default.
2. A field that is not known is passed over, as in the whole ledger.  A value of the wrong kind or beyond its
   bounds makes the request unreadable: whoever wrote that waits for nothing that could be kept free for it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from numawise.apps.launch.decide import cpus_text, gpus_text
from numawise.apps.launch.request import EVERY_GPU, POLICIES, Exclusive, JobRequest
from numawise.render.words import bytes_text, gpu_ranges, ranges
from numawise.results.allotment import Allotment, read_allotment
from numawise.results.placement import MEMORY_POLICIES
from numawise.sets import LARGEST_ID, CpuSet, IdSet, NumaSet, parse_ids
from numawise.values import replace

MOST, LARGEST = 1000, (1 << 63) - 1
"""Of devices; of bytes."""
LONGEST, LONGEST_LIST = 256, 4096
LONGEST_NAMES = 40
ASKED_LABEL = "asked"
"""Of a hold: what it asked for, so that another job can ask for the same."""


def asks_of(request: JobRequest) -> str:
    """A request as the text of a JSON object (rule 1)."""
    plain = JobRequest()
    if request.within is not None and not request.within.limits:
        request = replace(request, within=None)  # it was looked for, and there is none
    given = {
        name: FIELDS[name][0](getattr(request, name))
        for name in JobRequest.__match_args__
        if getattr(request, name) != getattr(plain, name)
    }
    return json.dumps(given)


def asked_label(request: JobRequest) -> tuple[tuple[str, str], ...]:
    """The label of a hold with what it asked for; none where that is too long for a row."""
    text = asks_of(replace(request, name="", within=None))
    return ((ASKED_LABEL, text),) if len(text) <= LONGEST_LIST else ()


def request_in(asks: str) -> JobRequest | None:
    """The request in such a row; None when it cannot be read (rule 2)."""
    if not asks:
        return None
    try:
        data = json.loads(asks)
        return JobRequest(**{name: FIELDS[name][1](value) for name, value in data.items() if name in FIELDS})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def request_text(request: JobRequest) -> str:
    """What is asked for, in a few words."""
    gpus = gpus_text(request.gpus) if request.gpus else _named_gpus(request.gpu_ids)
    named = f"CPUs {ranges(request.cpu_ids.bits)}" if request.cpu_ids is not None else ""
    whole = {Exclusive.NUMA: "NUMA nodes as a whole", Exclusive.MACHINE: "the whole machine"}
    parts = [
        named or (cpus_text(request.cpus) if request.cpus else ""),
        bytes_text(request.memory) if request.memory else "",
        gpus,
        f"{request.nics} NICs" if request.nics else "",
        *(f"{count} {resource}" for resource, count in request.devices),
        whole[request.exclusive] if request.exclusive else "",
    ]
    where = f" on NUMA {request.numa}" if request.numa is not None else ""
    return (", ".join(part for part in parts if part) or "a place in the shared pool") + where


def _named_gpus(ids: Sequence[str]) -> str:
    if not ids:
        return ""
    if ids == (EVERY_GPU,):
        return "all GPUs"
    text = gpu_ranges(f"GPU{name}" if name.isdecimal() else name for name in ids)
    return text if len(text) <= LONGEST_NAMES else f"{len(ids)} named GPUs"


# --- each field, written and read -----------------------------------------------------------------


def _number(most: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if type(value) is not int or not 0 <= value <= most:
            raise ValueError(value)
        return value

    return read


def _flag(value: object) -> bool:
    if value is not True and value is not False:
        raise ValueError(value)
    return value is True


def _text(value: object) -> str:
    if not isinstance(value, str) or len(value) > LONGEST or not value.isprintable():
        raise ValueError(value)
    return value


def _policy(value: object) -> str:
    if value not in POLICIES:
        raise ValueError(value)
    return str(value)


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MOST:
        raise ValueError(value)
    return tuple(map(_text, value))


def _counts(value: object) -> tuple[tuple[str, int], ...]:
    if not isinstance(value, list) or len(value) > MOST:
        raise ValueError(value)
    return tuple((_text(name), _number(MOST)(count)) for name, count in value)


def _ids(kind: type[IdSet]) -> Callable[[object], IdSet]:
    def read(value: object) -> IdSet:
        bits = parse_ids(value) if isinstance(value, str) and len(value) <= LONGEST_LIST else 0
        if not bits:
            raise ValueError(value)
        return kind(bits)

    return read


def _memory_policy(value: object) -> str:
    if value not in MEMORY_POLICIES:
        raise ValueError(value)
    return str(value)


def _within(value: object) -> Allotment:
    if not isinstance(value, str):
        raise TypeError(value)
    return read_allotment(value)


def _as_it_is(value: Any) -> Any:  # noqa: ANN401 - numbers, words and flags are JSON already
    return value


FIELDS: Mapping[str, tuple[Callable[[Any], Any], Callable[[object], Any]]] = {
    "cpus": (_as_it_is, _number(LARGEST_ID * 1000)),
    "memory": (_as_it_is, _number(LARGEST)),
    "gpus": (_as_it_is, _number(MOST)),
    "gpu_ids": (list, _texts),
    "devices": (lambda devices: [list(device) for device in devices], _counts),
    "nics": (_as_it_is, _number(MOST)),
    "policy": (_as_it_is, _policy),
    "full_cores": (_as_it_is, _flag),
    "name": (_as_it_is, _text),
    "numa": (str, _ids(NumaSet)),
    "cpu_ids": (str, _ids(CpuSet)),
    "exclusive": (attrgetter("value"), Exclusive),
    "memory_policy": (_as_it_is, _memory_policy),
    "within": (attrgetter("label"), _within),
}
"""Each field of a request: how it is written and how it is read.  A test keeps it complete."""
