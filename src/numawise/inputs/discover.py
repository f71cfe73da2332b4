"""What a machine is made of: read live, from a copy of its files, or from prints that people pass on."""

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from numawise.codec.document import read_documents
from numawise.codec.hardware import cadvisor, encode, hwloc, nccl
from numawise.codec.hardware.combine import combine
from numawise.codec.machine import decode_machine, encode_machine
from numawise.errors import InputError
from numawise.machine.hardware import GPU, NIC, Hardware, PciDevice, Remark, hardware_of
from numawise.machine.kubelet_view import kubelet_view
from numawise.machine.locality import gpu_numa, whole_gpus
from numawise.quantity import Quantity
from numawise.sets import format_ids

STDIN, LARGEST = "<stdin>", 64 << 20
LIVE = Path("/")
SNIFFED = 1 << 16
XML_ROOT = re.compile(r"<(topology|root|system)[\s>/]")
KIND = re.compile(r"apiVersion:\s*numawise|kind:\s*Hardware")
DOCUMENT = re.compile(
    r'"topology"\s*:\s*\[|^kind:\s*Hardware|"kind"\s*:\s*"Hardware"|^numa:|"numa"\s*:\s*\[', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Summary:
    """A machine in a few lines."""

    counts: str
    rows: tuple[tuple[str, ...], ...]
    """NUMA id, CPUs, memory, huge pages, GPUs, NICs, note."""
    remarks: tuple[str, ...]


def discover(root: Path | None = None, files: Sequence[str] = (), *, assume: bool = False) -> Hardware:
    """Read this machine, a copy of its files below ``root``, or the given prints; several become one."""
    parts: list[Hardware] = []
    if root is not None or not files:
        parts += _host(root or LIVE)
    for file in files:
        parts += _readings(file)
    return combine(parts, assume=assume)


def machine_data(hardware: Hardware) -> dict[str, object]:
    """The machine file that ``simulate`` takes: what the kubelet would be told."""
    seen = kubelet_view(hardware)
    if isinstance(seen, tuple):
        missing = "; ".join(remark.text for remark in seen)
        advice = "add a reading that tells more, as lscpu -e or lstopo --of xml; --assume fills what it can"
        raise InputError(f"no machine file can be made of this: {missing}", advice=advice)
    return encode_machine(seen)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as stream:
            temporary = Path(stream.name)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        try:
            temporary.chmod(_mode(path))
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise InputError(f"cannot be written: {reason}", file=str(path), advice="check the folder") from None


def summary(hardware: Hardware) -> Summary:
    """Sockets, cores, NUMA nodes, GPUs and NICs, counted and by NUMA node."""
    sockets = {thread.socket for thread in hardware.threads if thread.socket is not None}
    cores = {thread.siblings for thread in hardware.threads if thread.siblings}
    nics = [device for device in hardware.pci if device.kind == NIC]
    gpus: dict[str, tuple[int, ...]] = {gpu.name: gpu_numa(hardware, gpu) for gpu in whole_gpus(hardware)}
    if not gpus:
        cards = [device for device in hardware.pci if device.kind == GPU]
        gpus = {device.address: _near(device) for device in cards}
    counts = [
        _count(len(sockets), "socket"),
        _count(len(cores), "core"),
        _count(len(hardware.threads), "thread"),
        _count(len(hardware.numa), "NUMA node"),
        _count(len(gpus), "GPU"),
        _count(len(nics) or len(hardware.matrix.nics if hardware.matrix else ()), "NIC"),
    ]
    rows = [
        (
            str(node.id),
            format_ids(node.cpus) or "-",
            _size(node.memory),
            " ".join(f"{pages}x{size}" for size, pages in node.hugepages if pages) or "-",
            " ".join(name for name, near in gpus.items() if node.id in near) or "-",
            " ".join(_name(nic) for nic in nics if node.id in _near(nic)) or "-",
            node.note or "-",
        )
        for node in hardware.numa
    ]
    unplaced = (
        " ".join(name for name, near in gpus.items() if not near) or "-",
        " ".join(_name(nic) for nic in nics if not _near(nic)) or "-",
    )
    if unplaced != ("-", "-"):
        rows.append(("?", "-", "-", "-", *unplaced, "-"))
    title = f"{hardware.name}: " if hardware.name else ""
    source = f" (from {', '.join(hardware.sources)})" if hardware.sources else ""
    remarks = tuple(remark_line(remark) for remark in hardware.remarks)
    shown = tuple(tuple(printable(cell) for cell in row) for row in rows)
    return Summary(printable(f"{title}{', '.join(counts)}{source}"), shown, remarks)


def remark_line(remark: Remark) -> str:
    """A remark in one line."""
    return printable(f"{remark.kind}: {remark.place}: {remark.text}")


def printable(text: str) -> str:
    """Text without what could steer a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _host(root: Path) -> Iterator[Hardware]:
    from numawise.host.discover import read_live  # noqa: PLC0415 - only this needs it

    if not root.is_dir():
        what = "is not a folder" if root.exists() else "does not exist"
        raise InputError(what, file=str(root), advice="give the folder that stands for /")
    yield read_live(None if root == LIVE else root)


def _readings(file: str) -> Iterator[Hardware]:
    """All that a file tells: a file with a format of its own, one print, or several in a row."""
    name = STDIN if file == "-" else file
    text = _text(file, name)
    structured = _structured(text, name)
    if structured is not None:
        yield structured
        return
    from numawise.codec.hardware.recognise import READERS, split  # noqa: PLC0415 - many readers

    found = False
    for kind, part in split(text):
        reading = READERS[kind](part, name) if kind in READERS else _structured(part, name)
        if reading is not None:
            found = True
            yield reading
    if not found:
        advice = "give prints of lscpu, numactl -H, nvidia-smi topo -m, lstopo --of xml or numawise discover"
        raise InputError("is nothing that tells about hardware", file=name, advice=advice)


def _structured(text: str, name: str) -> Hardware | None:
    """What a file in a format of its own tells; None for prints."""
    body = text.lstrip("\ufeff \t\r\n")
    if body.startswith("<"):
        root = XML_ROOT.search(body[:SNIFFED])
        reader = {"topology": hwloc.read, "root": hwloc.read, "system": nccl.read}.get(
            root[1] if root else ""
        )
        return reader(text, name) if reader else None
    if not DOCUMENT.search(body):
        return None
    try:
        document = read_documents(text, name)[0]
    except InputError:
        if body.startswith("{") or KIND.match(body):
            raise
        return None
    if encode.is_hardware(document.value):
        return encode.read(text, name)
    if not isinstance(document.value, Mapping):
        return None
    if {"cpus", "numa"} <= set(document.value):
        return hardware_of(decode_machine(document, devices_anywhere=True))
    return cadvisor.read(text, name) if "topology" in document.value else None


def _text(file: str, name: str) -> str:
    try:
        if file == "-":
            raw = sys.stdin.buffer.read(LARGEST + 1)
        else:
            with Path(file).open("rb") as stream:
                raw = stream.read(LARGEST + 1)
    except IsADirectoryError:
        raise InputError("is a folder", file=name, advice="pass a copy of /sys and /proc as --root") from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise InputError(f"cannot be read: {reason}", file=name, advice="check the path") from None
    if len(raw) > LARGEST:
        raise InputError(f"is larger than {LARGEST >> 20} MiB", file=name, advice="give one machine's prints")
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):  # what PowerShell redirects
        return raw.decode("utf-16", errors="replace")
    return raw.decode("utf-8-sig", errors="replace")


def _mode(path: Path) -> int:
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _count(number: int, what: str) -> str:
    if number:
        return f"{number} {what}{'' if number == 1 else 's'}"
    return f"no {what}s" if what in ("GPU", "NIC") else f"? {what}s"


def _size(memory: int | None) -> str:
    if memory is None:
        return "?"
    for unit, shift in (("Ti", 40), ("Gi", 30), ("Mi", 20)):
        if memory >= 1 << shift:
            return f"{memory / (1 << shift):.1f}".removesuffix(".0") + unit
    return str(Quantity.of(memory))


def _name(device: PciDevice) -> str:
    return device.names[0] if device.names else device.address


def _near(device: PciDevice) -> tuple[int, ...]:
    return () if device.numa is None or device.numa < 0 else (device.numa,)
