"""Which program printed or saved a text, and where one print ends and the next begins.

Rules kept here:

1. A format is known by lines that no other program prints; a name or an extension does not matter.
2. People paste several prints into one file: a part goes on until a line of another format, or until the same
   print begins again.  What stands between prints belongs to the one before it, and readers pass over it.
3. To name a format is cheap and never fails; whether the text is whole is found out by its reader.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any, cast

from numawise.codec.hardware import lscpu, lspci, numactl, nvidia_list, nvidia_topo, pasted, rocm_topo
from numawise.codec.hardware.matrix.table import GPU_ROW
from numawise.machine.hardware import Hardware

NVIDIA_TOPO, NVIDIA_LIST, ROCM_TOPO = "nvidia-topo", "nvidia-list", "rocm-topo"
NUMACTL, LSPCI = "numactl", "lspci"
LSCPU, LSCPU_TABLE, LSCPU_JSON = "lscpu", "lscpu-table", "lscpu-json"
HWLOC_XML, NCCL_XML, CADVISOR_JSON, MACHINE_FILE = "hwloc-xml", "nccl-xml", "cadvisor-json", "machine-file"

Reader = Callable[[str, str], Hardware]

MACHINES = "x86_64|i[3-6]86|aarch64|armv[5-8]\\w*|ppc64(?:le)?|s390x|riscv64|loongarch64|ia64|sparc64|mips64"
# The lines of each format: first those with which a print begins, then the others.
MARKS: tuple[tuple[str, re.Pattern[str], re.Pattern[str]], ...] = (
    (
        ROCM_TOPO,
        re.compile(r"^(?>.*?={3}).*ROCm System Management"),
        re.compile(r"^(?>.*?={3}).*(?:(?:Weight|Hops|Link Type) between|Numa Nodes)|\(Topology\) Numa"),
    ),
    (
        NVIDIA_TOPO,
        re.compile(r"^(?=.*GPU[0-9]).*CPU\s?Affinity"),
        re.compile(rf"(?:{GPU_ROW.pattern})|^\s*NIC[0-9]+: \w|= Connection traversing"),
    ),
    (
        NVIDIA_LIST,
        re.compile(r"GPU models and configuration|^\s*GPU 0: .*\(UUID"),
        re.compile(
            r"GPU [0-9]+: .{0,120}\(UUID: |MIG \S+\s+Device\s+[0-9]+: |^\s*GPU [0-9,]+: (?:NVIDIA|Tesla)"
        ),
    ),
    (
        NUMACTL,
        re.compile(r"\bavailable: [0-9]+ nodes? \(|^\s*policy: (?:default|bind|interleave|preferred|local)"),
        re.compile(r"\bnode [0-9]+ (?:cpus|size|free): ?|\bnode distances:|^\s*physcpubind: "),
    ),
    (
        LSCPU_TABLE,
        re.compile(
            r"^\s*CPU\s(?>(?:.*\s)?(?:NODE|SOCKET|CORE|ONLINE)\b)[A-Z0-9%: di]*$"
            r"|^\s*CPU,(?:Core|Socket|Node)\b"
        ),
        re.compile(r"^\s*[0-9]+,[0-9]*,[0-9]*,[0-9]*,,(?:[0-9]*,)*[0-9]*$"),
    ),
    (
        LSCPU,
        re.compile(rf"^[^:]{{1,40}}:\s+(?:{MACHINES})\s*$|\bArchitecture:\s+(?:{MACHINES})\b"),
        re.compile(
            r"\b(?:On|Off)-line CPU\(s\) (?:list|mask):|\bThread\(s\) per core:|\bCore\(s\) per socket:"
            r"|\bNUMA node(?:\(s\):\s+[0-9]|[0-9]+ CPU\(s\):)|^\s*CPU(?:\(s\))?\s*:\s*[0-9]+\s*$"
            r"|^[^:]{0,40}NUMA[^:]{0,20}[0-9][^:]{0,20}:\s*[0-9][0-9,-]*\s*$"
        ),
    ),
    (
        LSPCI,
        re.compile(r"(?!)"),
        re.compile(
            rf"^\s*{lspci.ADDRESS} (?:[A-Z0-9][^:]*(?: \[[0-9a-f]{{4}}\])?: \S|[0-9a-f]{{4}}: [0-9a-f]{{4}}:)"
            r"|^\s*Slot:\s+[0-9a-f:.]+\s*$"
        ),
    ),
)
HINTS = re.compile(
    r"GPU|NUMA|node|CPU|Slot:|policy|physcpubind|={3}|[0-9a-f]{2}:[0-9a-f]{2}\.[0-7] |[0-9],"
    r"|_64|aarch|ppc|s390|arm|riscv"
)
XML = re.compile(r"<(topology|system)\b[^<>]*>")
XML_FORMATS = {"topology": HWLOC_XML, "system": NCCL_XML}
JSON = re.compile(
    r"\{\s*\"(?:lscpu|cpus|num_cores|timestamp|numa|devices|memory_capacity|machine_id|\w{1,40})\"\s*:"
)
MOST_DOCUMENTS = 50
YAML_MACHINE = tuple((key, re.compile(f"^{key}", re.MULTILINE)) for key in ("cpus:", "numa:"))


def recognise(text: str) -> str | None:
    """The format of a text, or of its first print; None if none is known."""
    return next((name for name, _ in _parts(text)), None)


def split(text: str) -> list[tuple[str, str]]:
    """The prints of a text, each with its format."""
    return list(_parts(text))


def _parts(text: str) -> Iterator[tuple[str, str]]:
    if all(key in text and line.search(text) for key, line in YAML_MACHINE):
        yield MACHINE_FILE, text
        return
    at = 0
    for start, end, name in _documents(text):
        yield from _prints(text[at:start])
        yield name, text[start:end]
        at = end
    yield from _prints(text[at:])


def _prints(text: str) -> Iterator[tuple[str, str]]:
    """The prints in lines."""
    lines = [line[: pasted.LONGEST] for line in pasted.plain(text).split("\n")]
    current, first, began = "", 0, False
    for at, line in enumerate(lines):
        name, begins = _mark(line)
        if not name:
            continue
        if name == current and not (begins and began):
            began = began or begins
            continue
        if current:
            yield current, "\n".join(lines[first:at])
            first = at
        current, began = name, begins
    if current:
        yield current, "\n".join(lines[first:])


def _mark(line: str) -> tuple[str, bool]:
    """The format that prints such a line, and whether a print begins with it."""
    if not HINTS.search(line):
        return "", False
    line = pasted.unquoted(line)
    for name, first, other in MARKS:
        if first.search(line):
            return name, True
        if other.search(line):
            return name, False
    return "", False


def _documents(text: str) -> Iterator[tuple[int, int, str]]:
    """XML and JSON documents, with whatever stands around them."""
    at = 0
    for _ in range(MOST_DOCUMENTS):
        xml, obj = XML.search(text, at), JSON.search(text, at)
        if xml and (not obj or xml.start() < obj.start()):
            closing = f"</{xml[1]}>"
            end = text.find(closing, xml.end())
            end = len(text) if end < 0 else end + len(closing)
            begin = text.rfind("<?xml", at, xml.start())
            yield (begin if begin >= 0 else xml.start()), end, XML_FORMATS[xml[1]]
            at = end
        elif obj:
            document, end = _decoded(text, obj.start())
            name = _json_format(document)
            if name:
                yield obj.start(), end, name
            at = end if name else obj.end()
        else:
            return


def _decoded(text: str, start: int) -> tuple[Any, int]:
    try:
        return json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return None, start


def _json_format(document: Any) -> str:  # noqa: ANN401 - JSON can be anything
    if not isinstance(document, dict):
        return ""
    cpus = document.get("cpus")
    if isinstance(document.get("lscpu"), list):
        return LSCPU_JSON
    if "numa" in document and isinstance(cpus, list):
        return MACHINE_FILE
    if isinstance(cpus, list) and cpus and isinstance(cpus[0], dict) and "cpu" in cpus[0]:
        return LSCPU_JSON
    return CADVISOR_JSON if "num_cores" in document and "topology" in document else ""


def _later(module: str) -> Reader:
    """A reader whose module is imported when it is needed."""

    def read(text: str, file: str = "") -> Hardware:
        return cast("Reader", import_module(f"numawise.codec.hardware.{module}").read)(text, file)

    return read


READERS: Mapping[str, Reader] = {
    NVIDIA_TOPO: nvidia_topo.read,
    NVIDIA_LIST: nvidia_list.read,
    ROCM_TOPO: rocm_topo.read,
    NUMACTL: numactl.read,
    LSCPU: lscpu.read,
    LSCPU_TABLE: lscpu.read,
    LSCPU_JSON: lscpu.read,
    LSPCI: lspci.read,
    HWLOC_XML: _later("hwloc"),
    NCCL_XML: _later("nccl"),
    CADVISOR_JSON: _later("cadvisor"),
}
"""Who reads a format; a machine file is read by ``codec.machine``."""
