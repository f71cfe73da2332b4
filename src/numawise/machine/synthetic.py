"""A machine in one line: ``2s 4n 64c 2t 8gpu nvlink``.

Rules kept here:

1. Numbers count the whole machine: sockets, NUMA nodes, cores, GPUs; only threads are per core.
2. A word is known, stands once and fits the others, or the error names it, says what is allowed and
   gives an example.  Cores divide evenly into NUMA nodes, and NUMA nodes and sockets into each other.
3. What is not said is plain: one socket, a NUMA node per socket, one thread per core, 64 GiB per NUMA node,
   an L3 per socket, GPUs and NICs dealt out evenly, each with a PCIe port of its own.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from numawise.errors import InputError, quoted
from numawise.machine.build import ADJACENT, INTERLEAVED, SPLIT, MachinePlan, Slot, build
from numawise.machine.hardware import GPU, NIC, NVME, Hardware
from numawise.strconv import whole_number

EXAMPLE = "2s 4n 64c 2t 8gpu nvlink 512g"
WORDS: Mapping[str, str] = MappingProxyType(
    {
        "2s": "sockets",
        "4n": "NUMA nodes with CPUs, in all",
        "64c": "cores, in all",
        "2t": "threads per core",
        "512g": "memory of the machine (2tb: in TiB); 128g/n: of each NUMA node",
        "8gpu": "GPUs",
        "4nic": "network cards",
        "2nvme": "NVMe disks",
        "nvlink": "NVLink between all GPUs; nvlink=12: with so many links",
        "pairs": "a PCIe switch for every two GPUs",
        "l3=8c": "cores that share an L3",
        "adjacent": "threads of a core are numbered 0,1 (otherwise 0 and, after all cores, the second)",
        "interleaved": "CPUs are numbered round-robin over the NUMA nodes",
        "hugepages": "1024 pages of 2Mi on each NUMA node; hugepages=1Gi:16: others",
        "memonly=2": "further NUMA nodes with memory alone",
        "numa-distance=32": "distance between sockets",
    }
)
MOST = {"s": 128, "n": 256, "c": 8192, "t": 8, "gpu": 64, "nic": 128, "nvme": 128}
COUNTED = {
    "s": "sockets",
    "n": "NUMA nodes",
    "c": "cores",
    "t": "threads per core",
    "gpu": "GPUs",
    "nic": "NICs",
    "nvme": "disks",
}
COUNT = re.compile(r"([0-9]{1,9})(s|n|c|t|gpu|nic|nvme)s?", re.ASCII)
MEMORY = re.compile(r"([0-9]{1,9})(?:(g)(?:i|b|ib)?|(t)(?:i|b|ib))(/n)?", re.ASCII)  # 2t are threads
SETTING = re.compile(r"(l3|nvlink|hugepages|memonly|distance)=(.*)", re.ASCII)
PAGES = re.compile(r"(?:(2mi|1gi):)?([0-9]{1,9})", re.ASCII)
FLAGS = ("nvlink", "pairs", "adjacent", "interleaved", "hugepages")
GIB = 1 << 30
SIZES = {"g": GIB, "t": GIB << 10}
DEFAULT_MEMORY = 64 * GIB
NVLINKS = 18  # of a Hopper or Blackwell GPU
LOOKS_SYNTHETIC = re.compile(r"[0-9]+[a-z]+([ ,-].*)?", re.ASCII | re.IGNORECASE)


def synthetic(text: str) -> Hardware:
    """Build the machine that the words describe; raise ``InputError`` for a word that makes no sense."""
    return build(plan_of(text))


def is_synthetic(text: str) -> bool:
    """Whether a text means to be such a description: it begins with a number and a letter."""
    return bool(LOOKS_SYNTHETIC.fullmatch(text.strip()))


def plan_of(text: str) -> MachinePlan:
    """Read the words into a plan."""
    counts: dict[str, int] = {}
    settings: dict[str, str] = {}
    memory = ""
    words = _split(text)
    said: dict[str, str] = {}
    for word in words:
        key = word
        if found := COUNT.fullmatch(word):
            key = found[2]
            counts[key] = _counted(word, whole_number(found[1]), key)
        elif MEMORY.fullmatch(word):
            key, memory = "g", word
        elif found := SETTING.fullmatch(word):
            key, settings[found[1]] = found[1], found[2]
        elif word in FLAGS:
            settings[word] = ""
        else:
            raise _unknown(word)
        if key in said:
            raise InputError(
                f"{quoted(word)} comes after {quoted(said[key])}", field=text, advice="give each item once"
            )
        said[key] = word
    if "c" not in counts:
        raise InputError(
            "the number of cores is missing", field=text, advice=f"write it like {quoted(EXAMPLE)}"
        )
    if ADJACENT in settings and INTERLEAVED in settings:
        raise InputError(f"{quoted(ADJACENT)} and {quoted(INTERLEAVED)} exclude each other", field=text)
    return _plan(" ".join(words), counts, settings, memory, said)


def _plan(
    text: str, counts: Mapping[str, int], settings: Mapping[str, str], memory: str, said: Mapping[str, str]
) -> MachinePlan:
    sockets, cores = counts.get("s", 1), counts["c"]
    numa = counts.get("n", sockets)
    if max(sockets, numa) % min(sockets, numa):
        raise InputError(
            f"{numa} NUMA nodes and {sockets} sockets do not divide",
            field=text,
            advice="one must divide the other",
        )
    for count, key in ((sockets, "s"), (numa, "n")):
        if cores % count:
            near = max(count, cores // count * count)
            raise InputError(
                f"{quoted(said['c'])}: {cores} cores do not divide into {count} {COUNTED[key]}",
                field=text,
                advice=f"say {near}c or {near + count}c",
            )
    memory_only = _whole(settings, "memonly", 0, 64)
    numbering = next((flag for flag in (ADJACENT, INTERLEAVED) if flag in settings), SPLIT)
    return MachinePlan(
        cores=cores,
        sockets=sockets,
        numa=numa,
        threads=counts.get("t", 1),
        numbering=numbering,
        memory=(_memory(memory, numa + memory_only),),
        memory_only=memory_only,
        hugepages=_hugepages(settings),
        cores_per_l3=_l3(settings, cores // sockets),
        across=_whole(settings, "distance", 21, 254, lowest=11),
        slots=_slots(counts, numa, pairs="pairs" in settings),
        gpu_link=f"NV{_whole(settings, 'nvlink', NVLINKS, 64)}" if "nvlink" in settings else "",
        name=text,
        source="synthetic",
    )


def _split(text: str) -> list[str]:
    plain = text.strip().lower().replace(",", " ").replace("numa-distance", "distance")
    if " " not in plain:
        plain = plain.replace("-", " ")  # as in the names of test machines: 2s-4n-64c
    words = plain.split()
    if not words:
        raise InputError("a machine description is empty", advice=f"write it like {quoted(EXAMPLE)}")
    return words


def _unknown(word: str) -> InputError:
    kinds = [re.sub(r"^[0-9]+|=.*", "", known) for known in WORDS]
    bare = re.sub(r"^[0-9]+|=.*", "", word)
    close = get_close_matches(bare, kinds, n=1) if len(bare) > 1 else []
    meant = f"did you mean {quoted(list(WORDS)[kinds.index(close[0])])}? " if close else ""
    return InputError(
        f"{quoted(word)} is not a word of a machine description",
        advice=f"{meant}known are {', '.join(WORDS)}, as in {quoted(EXAMPLE)}",
    )


def _counted(word: str, count: int, key: str) -> int:
    lowest = 0 if key in ("gpu", "nic", "nvme") else 1
    if not lowest <= count <= MOST[key]:
        raise InputError(
            f"{quoted(word)}: {COUNTED[key]} go from {lowest} to {MOST[key]}",
            advice=f"write it like {quoted(EXAMPLE)}",
        )
    return count


def _whole(settings: Mapping[str, str], key: str, default: int, most: int, lowest: int = 0) -> int:
    value = settings.get(key, "")
    if not value and (key not in settings or key in FLAGS):
        return default
    if not (value.isascii() and value.isdecimal() and len(value) < 10 and lowest <= int(value) <= most):
        shown = key.replace("distance", "numa-distance")
        raise InputError(
            f"'{shown}={value}': it is a number from {lowest} to {most}",
            advice=f"say {shown}={max(lowest, 2)}",
        )
    return int(value)


def _memory(word: str, nodes: int) -> int:
    """Bytes of each NUMA node."""
    if not word:
        return DEFAULT_MEMORY
    found = MEMORY.fullmatch(word)
    assert found
    amount = whole_number(found[1]) * SIZES[found[2] or found[3]]
    if not amount or amount >= 1 << 62:
        raise InputError(
            f"{quoted(word)} is not a valid amount of memory for a machine", advice="write 512g or 128g/n"
        )
    return amount if found[4] else amount // nodes


def _hugepages(settings: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    if "hugepages" not in settings:
        return ()
    value = settings["hugepages"]
    if not value:
        return (("2Mi", 1024),)
    found = PAGES.fullmatch(value)
    if not found:
        raise InputError(
            f"'hugepages={value}' is not understood", advice="write hugepages=2Mi:1024 or 1Gi:16"
        )
    return (("1Gi" if found[1] == "1gi" else "2Mi", whole_number(found[2])),)


def _l3(settings: Mapping[str, str], per_socket: int) -> int | None:
    if "l3" not in settings:
        return None
    value = settings["l3"].removesuffix("c")
    number = int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else 0
    if not number or per_socket % number:
        fitting = next(size for size in (8, 4, 2, 1) if not per_socket % size)
        raise InputError(
            f"'l3={settings['l3']}': the {per_socket} cores of a socket divide into groups of that many",
            advice=f"say l3={fitting}c",
        )
    return number


def _slots(counts: Mapping[str, int], numa: int, *, pairs: bool) -> tuple[Slot, ...]:
    """Deal the devices out: GPUs in order over the NUMA nodes, NICs to the switches beside them."""
    gpus, nics, disks = (counts.get(key, 0) for key in ("gpu", "nic", "nvme"))

    def node(i: int, count: int) -> int:
        return i * numa // count

    slots = [Slot(f"GPU{i}", GPU, node(i, gpus), f"switch{i // 2 if pairs else i}") for i in range(gpus)]
    switches: dict[int, list[str]] = {}
    for slot in slots:
        if slot.switch not in switches.setdefault(slot.numa, []):
            switches[slot.numa].append(slot.switch)
    for i in range(nics):
        near = switches.get(node(i, nics), [])
        mates = [j for j in range(nics) if node(j, nics) == node(i, nics)]
        switch = near[mates.index(i) * len(near) // len(mates)] if near else ""
        slots.append(Slot(f"nic{i}", NIC, node(i, nics), switch))
    slots += [Slot(f"nvme{i}", NVME, node(i, disks)) for i in range(disks)]
    return tuple(slots)
