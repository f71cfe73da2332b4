"""``nvidia-smi topo -m`` and ``-mp``: how GPUs and NICs reach each other.

Rules kept here:

1. A matrix is a header that names its columns and rows that begin with a name.  What stands before, behind
   or between does not matter; neither does how it was quoted, coloured, wrapped or drawn as a table.
2. A row counts when its links fill the columns and ``X`` stands in its own.  Links of a shorter row count as
   far as their places identify the columns; a row that fits nowhere is left out with a remark.  No link is
   made up: what the text does not say for a pair is not in the result, not even from the other direction.
3. Strings stay as printed.  CPUs and NUMA nodes of a GPU are those that parse; a list that the driver may
   have cut short gives no CPUs.
4. A table of peer-to-peer capabilities is refused.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from numawise.codec.hardware import pasted
from numawise.codec.hardware.matrix.affinity import CPU, NUMA, OWN
from numawise.codec.hardware.matrix.links import NOT_AVAILABLE, id_list, vocabulary
from numawise.codec.hardware.matrix.rows import read_rows
from numawise.codec.hardware.matrix.table import ANY_LINK, GPU_NAME, GPU_ROW, Grid, read_table, some
from numawise.errors import InputError
from numawise.machine.hardware import NVIDIA, ODD, UNKNOWN, Gpu, Hardware, Matrix, Remark
from numawise.sets import ids_of

SOURCE = "nvidia-topo"
ADVICE = "give what nvidia-smi topo -m prints"
FLAT_ROW = re.compile(rf"(?<=[ \t])(?=(?:GPU[0-9]+|NIC[0-9]+|\w+_\w+)[ \t]+(?:{ANY_LINK})(?:[ \t]|$))")
NIC_NAME = re.compile(r"\b(NIC[0-9]+)[ \t]*:[ \t]*([A-Za-z][\w.:-]*)")


def read(text: str, file: str = "") -> Hardware:
    """Read the first matrix of a text."""
    lines = [part for line in pasted.lines(text) for part in _unfolded(line)]
    words = vocabulary(text)
    found: list[Grid] = []
    refused: list[Grid] = []
    at = 0
    while at < len(lines):
        if not GPU_ROW.search(lines[at]):
            at += 1
            continue
        grid = read_table(lines, at, words) if "|" in lines[at] else None
        grid = grid or read_rows(lines, at, words)
        if grid is None:
            at += 1
            continue
        at = max(grid.last, at) + 1
        (found if _is_matrix(grid, lines) else refused).append(grid)
    if found:
        return _hardware(found, lines)
    if any(grid.peer for grid in refused):
        message = "is a table of peer-to-peer capabilities (nvidia-smi topo -p2p), not the matrix of links"
        raise InputError(message, file=file, line=refused[0].first + 1, advice=ADVICE)
    if refused:
        message = "has a matrix whose rows do not fit under its header"
        raise InputError(message, file=file, line=refused[0].first + 1, advice=ADVICE)
    raise InputError("has no matrix of GPU links with a header and rows", file=file, advice=ADVICE)


def _unfolded(line: str) -> list[str]:
    """A line, or the rows of a matrix whose line ends were lost."""
    if "|" in line or len(GPU_ROW.findall(line)) < 2:
        found = GPU_ROW.search(line)
        before = line[: found.start()] if found else ""
        if not found or "|" in line or not GPU_NAME.search(before):
            return [line]
    return FLAT_ROW.split(line)


def _is_matrix(grid: Grid, lines: Sequence[str]) -> bool:
    if not grid.links or (grid.peer and not any(_is_far(row) for row in grid.links.values())):
        return False
    if len(grid.names) > 1:
        return any(_is_far(row) for row in grid.links.values())
    behind = "\n".join(lines[grid.last + 1 : grid.last + 12])
    grid.peer = "Status Ok" in behind and "Connection" not in behind
    return not grid.peer


def _is_far(row: Mapping[str, str]) -> bool:
    return any(link != "X" for link in row.values())


def _hardware(grids: Sequence[Grid], lines: Sequence[str]) -> Hardware:
    grid = grids[0]
    end = grids[1].first if len(grids) > 1 else len(lines)
    behind = "\n".join(lines[grid.last + 1 : end])
    gpus = tuple(name for name in grid.names if GPU_NAME.fullmatch(name))
    others = [name for name in [*grid.names, *grid.links] if not GPU_NAME.fullmatch(name)]
    nics = tuple(dict.fromkeys(others))
    names = {nic: name for nic, name in NIC_NAME.findall(behind) if nic in nics}
    remarks = [*grid.remarks, *_doubts(grid, (*gpus, *nics))]
    if len(grids) > 1:
        remarks.append(Remark(ODD, "text", f"it holds {len(grids)} matrices; the first one is read"))
    affinities = {c: {g: grid.values[g][c] for g in gpus if g in grid.values} for c in grid.columns}
    matrix = Matrix(
        gpus=gpus,
        nics=nics,
        links=grid.links,
        cpu_affinity=affinities.get(CPU, {}),
        numa_affinity=affinities.get(NUMA, {}),
        gpu_numa_id=affinities.get(OWN, {}),
        nic_names=names,
    )
    found = tuple(_gpu(name, matrix, remarks) for name in gpus)
    return Hardware(gpus=found, matrix=matrix, sources=(SOURCE,), remarks=tuple(remarks))


def _gpu(name: str, matrix: Matrix, remarks: list[Remark]) -> Gpu:
    cpus = matrix.cpu_affinity.get(name)
    near = id_list(matrix.numa_affinity.get(name))
    own = matrix.gpu_numa_id.get(name)
    if cpus and _may_be_cut(cpus):
        text = f"nvidia-smi cuts long lists short, so there may be more than {cpus}"
        remarks.append(Remark(UNKNOWN, f"{name} {CPU}", text))
        cpus = None
    return Gpu(
        name,
        cpus=id_list(cpus),
        numa=None if near is None else tuple(ids_of(near)),
        own_numa=int(own) if own and own.isdecimal() and len(own) < 6 else None,
        maker=NVIDIA,
    )


def _may_be_cut(cpus: str) -> bool:
    """Whether a list may be the beginning of a longer one: newer drivers print no more than 15 characters."""
    return cpus.count(",") >= 2 and 12 <= len(cpus) <= 15


def _doubts(grid: Grid, names: Sequence[str]) -> Iterator[Remark]:
    """What is missing or contradicts itself."""
    missing = [name for name in names if name not in grid.links]
    if missing:
        yield Remark(UNKNOWN, "rows", f"there is no row for {some(missing)}")
    lacking = {row: [name for name in grid.names if name not in links] for row, links in grid.links.items()}
    for row, without in lacking.items():
        if without and not any(remark.place.split()[0] == row for remark in grid.remarks):
            yield Remark(UNKNOWN, row, f"the row has no links to {some(without)}")
    uneven = [
        f"{one}-{two}: {there} / {grid.links[two][one]}"
        for one, row in grid.links.items()
        for two, there in row.items()
        if one < two and grid.links.get(two, {}).get(one, there) != there
    ]
    if uneven:
        yield Remark(ODD, "links", f"the two directions differ for {some(uneven)}")
    lists: dict[str, dict[str, str]] = {}
    for name, values in grid.values.items():
        numa, cpus = values.get(NUMA), values.get(CPU)
        if numa and cpus and numa != NOT_AVAILABLE:
            lists.setdefault(numa, {})[cpus] = name
    for numa, found in lists.items():
        if len(found) > 1:
            text = f"GPUs on NUMA {numa} have different CPUs: {some(list(found))}"
            yield Remark(ODD, CPU, text)
