"""What a machine's topology means for those who run jobs on it, in words.

Rules kept here:

1. Every sentence follows from the hardware; where something is unknown, that is said.
2. GPUs are grouped by the NUMA node they are near to.  The best partners have the most NVLinks, then
   PIX, PXB, PHB, NODE, SYS; among equals those of one NUMA node, then the lowest.
3. A GPU's fair share are the cores of its NUMA node, divided among the GPUs there in order, whole cores
   with all their threads.
4. Command lines are suggestions to copy: the same flags for docker, podman and nerdctl.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

from numawise.machine.hardware import NIC, Gpu, Hardware
from numawise.machine.locality import (
    DIRECT,
    Links,
    cores_in,
    cpus_by_numa,
    first_cpus,
    gpu_numa,
    guessed_cores,
    link_rank,
    whole_gpus,
)
from numawise.render.picture.devices import items_of
from numawise.render.picture.tables import MEANINGS, names_text
from numawise.render.words import bytes_text, counted, cpus_text, wrap
from numawise.sets import format_ids
from numawise.values import dataclass

MOST_PAIRS = 8
MOST_COUNTS = 16
COMMAND = "docker run"
CROSSING = {
    "SYS": "over the CPU interconnect (SYS), the slowest path",
    "SOC": "over the CPU interconnect (SOC), the slowest path",
}


@dataclass(frozen=True, slots=True)
class Advice:
    """One heading and what is said below it."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GpuSet:
    """GPUs near to the same NUMA nodes; no nodes: unknown."""

    numa: tuple[int, ...]
    gpus: tuple[Gpu, ...]
    cpus: int

    @property
    def names(self) -> tuple[str, ...]:
        """The GPUs' names."""
        return tuple(gpu.name for gpu in self.gpus)


def advice(hardware: Hardware) -> tuple[Advice, ...]:
    """All advice about a machine."""
    groups = gpu_groups(hardware)
    if not groups:
        return (Advice("What fits a NUMA node", tuple(_without_gpus(hardware))),)
    found = [
        Advice("GPUs by NUMA node", tuple(_group_line(hardware, group) for group in groups)),
        Advice("How many GPUs", tuple(_counts(hardware, groups))),
        Advice("What crossing costs", tuple(_crossing(hardware, groups))),
        Advice("CPUs for each GPU", tuple(_shares(hardware, groups))),
        Advice("Nearest NICs", tuple(_nics(hardware))),
        Advice("To run it", tuple(_commands(hardware, groups))),
    ]
    return tuple(one for one in found if one.lines)


def advice_text(found: Sequence[Advice], width: int = 0) -> str:
    """Advice as plain text; sentences are broken at the width, commands never."""
    parts = []
    for one in found:
        lines = [one.title]
        for line in one.lines:
            broken = bool(width) and not line.startswith(COMMAND)
            first, *rest = wrap(line, max(width - 4, 20), len) if broken else [line]
            lines += [f"  {first}", *(f"    {part}" for part in rest)]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def gpu_groups(hardware: Hardware) -> tuple[GpuSet, ...]:
    """GPUs by NUMA node (rule 2)."""
    by_numa: dict[tuple[int, ...], list[Gpu]] = {}
    for gpu in whole_gpus(hardware):
        by_numa.setdefault(gpu_numa(hardware, gpu), []).append(gpu)
    nodes = cpus_by_numa(hardware)
    groups = []
    for numa, gpus in by_numa.items():
        cpus = 0
        for node in numa:
            cpus |= nodes.get(node, 0)
        groups.append(GpuSet(numa, tuple(gpus), cpus))
    return tuple(sorted(groups, key=lambda group: (not group.numa, group.numa)))


def fair_shares(hardware: Hardware, group: GpuSet) -> Mapping[str, tuple[int, ...]]:
    """The cores of each GPU of a group (rule 3); all of them for each where they are too few to divide."""
    cores = _cores(hardware, group.cpus)
    count = len(group.gpus)
    if len(cores) < count:
        return dict.fromkeys(group.names, cores)
    return {
        gpu.name: cores[len(cores) * i // count : len(cores) * (i + 1) // count]
        for i, gpu in enumerate(group.gpus)
    }


def _cores(hardware: Hardware, cpus: int) -> tuple[int, ...]:
    return cores_in(hardware, cpus) if hardware.threads else guessed_cores(cpus)


def best_pairs(hardware: Hardware) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The best link between two GPUs, and the pairs that have it; of equals those on one NUMA node."""
    links = Links.of(hardware)
    places = {gpu.name: gpu_numa(hardware, gpu) for gpu in whole_gpus(hardware)}
    pairs = [(one, other) for one, other in combinations(places, 2) if links.between(one, other)]
    if not pairs:
        return "", ()

    def rank(pair: tuple[str, str]) -> tuple[tuple[int, int], bool]:
        near = bool(places[pair[0]]) and places[pair[0]] == places[pair[1]]
        return link_rank(links.between(*pair)), not near

    best = min(map(rank, pairs))
    found = tuple(pair for pair in pairs if rank(pair) == best)
    return links.between(*found[0]), found


def _group_line(hardware: Hardware, group: GpuSet) -> str:
    order = [gpu.name for gpu in whole_gpus(hardware)]
    names = names_text(group.names, order)
    if not group.numa:
        return f"{names}: no NUMA node is reported; the kubelet treats such devices as having no topology"
    memory = sum(node.memory or 0 for node in hardware.numa if node.id in group.numa)
    numa = _numa_text(group.numa)
    cpus = cpus_text(hardware, group.cpus) if group.cpus else "its CPUs are not known"
    text = f"{numa}: {names}; {cpus}"
    return f"{text}; {bytes_text(memory)}" if memory else text


def _counts(hardware: Hardware, groups: Sequence[GpuSet]) -> list[str]:
    """What asking for so many GPUs means."""
    total = sum(len(group.gpus) for group in groups)
    placed = [group for group in groups if group.numa]
    largest = max((len(group.gpus) for group in placed), default=0)
    lines = ["1 GPU: any; keep to the CPUs and the memory of its NUMA node"] if largest else []
    if total >= 2:
        lines.append(_pair_line(hardware))
    for count in range(3, min(total, MOST_COUNTS) + 1):
        fitting = [group for group in placed if len(group.gpus) >= count]
        if fitting:
            order = [gpu.name for gpu in whole_gpus(hardware)]
            choices = [
                ("" if len(group.gpus) == count else f"{count} of ") + names_text(group.names, order)
                for group in fitting
            ]
            lines.append(f"{count} GPUs: fit one NUMA node: {_or(choices)}")
        elif largest:
            lines.append(_crossing_line(placed, count, total))
    return lines


def _pair_line(hardware: Hardware) -> str:
    link, pairs = best_pairs(hardware)
    if not pairs:
        return "2 GPUs: how they are linked is unknown"
    order = [gpu.name for gpu in whole_gpus(hardware)]
    if len(pairs) <= MOST_PAIRS:
        shown = _or([f"{one}+{other}" for one, other in pairs])
    else:
        places = {gpu.name: gpu_numa(hardware, gpu) for gpu in whole_gpus(hardware)}
        same = all(places[one] and places[one] == places[other] for one, other in pairs)
        members = sorted({name for pair in pairs for name in pair}, key=order.index)
        shown = f"any two of {names_text(members, order)}" + (" on the same NUMA node" if same else "")
    near = [gpu_numa(hardware, gpu) for gpu in whole_gpus(hardware) if gpu.name in pairs[0]]
    apart = "" if near[0] == near[1] else ", on different NUMA nodes"
    return f"2 GPUs: best {shown}{apart} ({link}: {meaning(link)})"


def _crossing_line(placed: Sequence[GpuSet], count: int, total: int) -> str:
    """A count that no NUMA node holds: how it divides, and what would be better."""
    largest = max(len(group.gpus) for group in placed)
    left, sizes = count, []
    for size in sorted((len(group.gpus) for group in placed), reverse=True):
        if left:
            sizes.append(min(left, size))
            left -= sizes[-1]
    if left:
        return f"{count} GPUs: more than have a known NUMA node"
    parts = " + ".join(map(str, sizes))
    if len(set(sizes)) == 1:
        return f"{count} GPUs: cross NUMA nodes, {parts}: balanced"
    better = _or(_better(largest, count, total))
    return f"{count} GPUs: cross NUMA nodes, {parts}: uneven, {better} would be better"


def _crossing(hardware: Hardware, groups: Sequence[GpuSet]) -> list[str]:
    """What it costs to cross NUMA nodes; nothing to say where no count of GPUs needs to."""
    placed = [group for group in groups if group.numa]
    if len(placed) < 2:
        return []
    first = max(len(group.gpus) for group in placed) + 1
    links = Links.of(hardware)
    words = {
        links.between(one, other)
        for here, there in combinations(placed, 2)
        for one in here.names
        for other in there.names
    }
    lines = []
    if all(word.startswith(DIRECT) for word in words):
        family = _family(min(words))
        lines.append(f"GPUs still reach each other over {family}; host memory and NICs are remote for some")
    elif far := words & set(CROSSING):
        lines.append(f"between the groups data goes {CROSSING[min(far)]}")
    lines.append(
        f"a pod with {first} or more: single-numa-node rejects it; restricted admits it only if everything"
        " else it asks for needs as many NUMA nodes; best-effort admits it"
    )
    return lines


def _better(largest: int, count: int, total: int) -> list[str]:
    higher = next((n for n in range(count + 1, total + 1) if n % largest == 0), 0)
    return [str(largest), *([str(higher)] if higher else [])]


def _shares(hardware: Hardware, groups: Sequence[GpuSet]) -> list[str]:
    lines: dict[str, str] = {}
    for group in groups:
        for name, cores in fair_shares(hardware, group).items() if group.cpus else ():
            shared = len(_cores(hardware, group.cpus)) < len(group.gpus)
            lines[name] = f"{name}: {_cores_text(cores)}" + (
                ", shared with the other GPUs there" if shared else ""
            )
    shown = [lines[gpu.name] for gpu in whole_gpus(hardware) if gpu.name in lines]
    if shown and not hardware.threads and any("hyper-threads" in line for line in shown):
        shown.append(
            "which CPUs are threads of one core is guessed from the two equal ranges: add lscpu -e to know"
        )
    return shown


def _cores_text(cores: Sequence[int]) -> str:
    firsts = first_cpus(tuple(cores))
    every = 0
    for core in cores:
        every |= core
    rest = every & ~firsts
    word = "core" if len(cores) == 1 else "cores"
    return (
        f"{word} {format_ids(firsts)}, their hyper-threads {format_ids(rest)}"
        if rest
        else f"{word} {format_ids(firsts)}"
    )


def _nics(hardware: Hardware) -> list[str]:
    """The NICs with the best link to each GPU, of equals those on its NUMA node."""
    links = Links.of(hardware)
    places = {item.name: item.numa for item in items_of(hardware) if item.kind == NIC}
    lines = []
    for gpu in whole_gpus(hardware):
        numa = gpu_numa(hardware, gpu)
        ranked: dict[tuple[tuple[int, int], bool], list[str]] = {}
        for nic in links.labels or places:
            text = links.between(gpu.name, nic)
            if text:
                far = not numa or places.get(nic, ()) != numa
                ranked.setdefault((link_rank(text), far), []).append(nic)
        if ranked:
            near = ranked[min(ranked)]
            text = links.between(gpu.name, near[0])
            shown = ", ".join(near[:4]) + (f" and {len(near) - 4} more" if len(near) > 4 else "")
            same = ", on its NUMA node" if text in CROSSING and not min(ranked)[1] else ""
            lines.append(f"{gpu.name}: {shown} ({text}{same})")
    return lines


def _commands(hardware: Hardware, groups: Sequence[GpuSet]) -> list[str]:
    """A line for one GPU with its fair share, and one for all GPUs of a NUMA node."""
    lines = []
    order = [gpu.name for gpu in whole_gpus(hardware)]
    for group in groups:
        if not group.cpus:
            continue
        first = group.gpus[0]
        shares = fair_shares(hardware, group)
        every = 0
        for core in shares[first.name]:
            every |= core
        if every and len(group.gpus) > 1:
            lines.append(_docker(hardware, group, (first,), every, order))
        lines.append(_docker(hardware, group, group.gpus, group.cpus, order))
    return lines


def _docker(hardware: Hardware, group: GpuSet, gpus: Sequence[Gpu], cpus: int, order: Sequence[str]) -> str:
    memory = [node.id for node in hardware.numa if node.id in group.numa and node.memory != 0]
    memory += [gpu.own_numa for gpu in gpus if gpu.own_numa is not None]
    numbers = ",".join(str(order.index(gpu.name)) for gpu in gpus)
    mems = ",".join(map(str, memory or group.numa))
    if any("AMD" in gpu.model or "Instinct" in gpu.model for gpu in gpus):
        device = f"--device=/dev/kfd --device=/dev/dri -e ROCR_VISIBLE_DEVICES={numbers}"
    else:
        device = f"""--gpus '"device={numbers}"'"""
    return f"{COMMAND} {device} --cpuset-cpus={format_ids(cpus)} --cpuset-mems={mems} IMAGE"


def _without_gpus(hardware: Hardware) -> list[str]:
    lines = []
    nodes = cpus_by_numa(hardware)
    memory = {node.id: node.memory for node in hardware.numa}
    for numa, cpus in nodes.items():
        amount = memory.get(numa)
        lines.append(
            f"NUMA {numa}: {cpus_text(hardware, cpus)}" + (f"; {bytes_text(amount)}" if amount else "")
        )
    if not nodes:
        return ["NUMA nodes are not known"]
    if len(nodes) == 1:
        return [*lines, "there is one NUMA node with CPUs: nothing can cross"]
    most = max(cpus.bit_count() for cpus in nodes.values())
    largest = max((memory.get(numa) or 0 for numa in nodes), default=0)
    room = counted(most, "CPU") + (f" and {bytes_text(largest)}" if largest else "")
    lines.append(f"a job of up to {room} can stay on one NUMA node; anything larger crosses")
    return lines


def meaning(link: str) -> str:
    """What a link means."""
    if link.startswith("NV"):
        return MEANINGS["NV#"].replace("#", "".join(c for c in link if c.isdecimal()))
    return MEANINGS.get(link, "not explained")


def _family(link: str) -> str:
    return "xGMI" if link.startswith("XGMI") else "NVLink"


def _numa_text(numa: Sequence[int]) -> str:
    return f"NUMA {','.join(map(str, numa))}"


def _or(choices: Sequence[str]) -> str:
    return choices[0] if len(choices) == 1 else f"{', '.join(choices[:-1])} or {choices[-1]}"
