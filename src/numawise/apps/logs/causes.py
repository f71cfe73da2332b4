"""What the kubelet's own words for a failed allocation mean."""

import re
from collections.abc import Callable, Sequence

from numawise.explain.words import number
from numawise.render.words import bytes_text, counted
from numawise.request.model import CPU, MEMORY
from numawise.results.log import Trouble

WRAPPED = re.compile(r"Allocate failed due to (.*), which is unexpected", re.DOTALL)
Telling = Callable[[re.Match[str]], tuple[str, str]]


def unwrapped(message: str) -> str:
    """The error inside a pod's message."""
    found = WRAPPED.fullmatch(message)
    return found[1] if found else message


def cause_of(message: str, troubles: Sequence[Trouble] = ()) -> tuple[str, str]:
    """The resource that decided ('' when the words name none), and a sentence without its full stop."""
    for text in [unwrapped(message), *(trouble.error for trouble in reversed(troubles))]:
        for pattern, telling in KNOWN:
            found = pattern.search(text)
            if found:
                return telling(found)
    text = unwrapped(message) or (troubles[-1].error if troubles else "")
    provider = troubles[-1].provider if troubles else ""
    return (provider if provider in (CPU, MEMORY) else "", text.strip().rstrip("."))


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _free(count: int) -> str:
    return f"{count or 'none'} {'is' if count < 2 else 'are'} free"


def _cpus(found: re.Match[str]) -> tuple[str, str]:
    asked = int(found[1])
    return CPU, f"cpu: {counted(asked, 'CPU')} {_are(asked)} asked for and {_free(int(found[2]))}"


def _some_cpus(_found: re.Match[str]) -> tuple[str, str]:
    return CPU, "cpu: more CPUs are asked for than are free"


def _odd(found: re.Match[str]) -> tuple[str, str]:
    asked, threads = int(found[1]), int(found[2])
    return CPU, (
        f"cpu: {counted(asked, 'CPU')} {_are(asked)} asked for, which is not a multiple of the "
        f"{number(threads)} threads of a core, and full-pcpus-only hands out whole cores"
    )


def _cores(found: re.Match[str]) -> tuple[str, str]:
    free, asked = int(found[1]), int(found[2])
    return CPU, (
        f"cpu: {counted(asked, 'CPU')} {_are(asked)} asked for and {_free(free)} in whole cores, "
        "which full-pcpus-only demands"
    )


def _devices(found: re.Match[str]) -> tuple[str, str]:
    asked = int(found[2])
    return found[1], f"{found[1]}: {asked} {_are(asked)} asked for and {_free(int(found[3]))}"


def _unhealthy(found: re.Match[str]) -> tuple[str, str]:
    return found[1], f"{found[1]}: no device is healthy"


def _unregistered(found: re.Match[str]) -> tuple[str, str]:
    return found[1], f"{found[1]}: its device plugin has not registered"


def _memory(_found: re.Match[str]) -> tuple[str, str]:
    return MEMORY, "memory: no set of NUMA nodes has enough free memory"


def _no_extension(_found: re.Match[str]) -> tuple[str, str]:
    return MEMORY, (
        "memory: the NUMA nodes chosen for the other resources have too little free memory, "
        "and no larger set has enough"
    )


def _grouped(_found: re.Match[str]) -> tuple[str, str]:
    return MEMORY, ("memory: the NUMA nodes chosen for the other resources are in different memory groups")


def _capacity(found: re.Match[str]) -> tuple[str, str]:
    resource, asked, used, capacity = found[1], int(found[2]), int(found[3]), int(found[4])
    shown: Callable[[int], str] = str
    if resource == CPU:
        shown = _milli
    elif resource == MEMORY or resource.startswith(("hugepages", "ephemeral")):
        shown = bytes_text
    return resource, (
        f"{resource}: {shown(asked)} {'is' if shown is bytes_text else 'are'} asked for, {shown(used)} of "
        f"{shown(capacity)} are taken"
    )


def _milli(amount: int) -> str:
    return f"{amount / 1000:g} CPUs" if amount != 1000 else "1 CPU"


KNOWN: tuple[tuple[re.Pattern[str], Telling], ...] = tuple(
    (re.compile(pattern), telling)
    for pattern, telling in (
        (r"not enough cpus available to satisfy request: requested=(\d+), available=(\d+)", _cpus),
        (r"not enough cpus available to satisfy request", _some_cpus),
        (r"requested (\d+) cpus not multiple cpus per core = (\d+)", _odd),
        (r"available physical CPUs = (\d+), requested CPUs = (\d+)", _cores),
        (r"number of devices unavailable for (\S+)\. Requested: (\d+), Available: (\d+)", _devices),
        (r"cannot allocate unhealthy devices (\S+)", _unhealthy),
        (r"cannot allocate unregistered device (\S+)", _unregistered),
        (r"failed to get the default NUMA affinity, no NUMA nodes with enough memory", _memory),
        (r"failed to find NUMA nodes to extend the current topology hint", _no_extension),
        (r"preferred hint violates NUMA node allocation", _grouped),
        (r"enough resource: ([^\s,]+), requested: (\d+), used: (\d+), capacity: (\d+)", _capacity),
    )
)
"""Words of the kubelet, and what they mean; the first that fits."""
