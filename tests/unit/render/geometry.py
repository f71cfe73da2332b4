"""Machines of every shape, and what a picture of one may not do: overlap, or leave its frame."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from numawise.machine.catalog import CATALOG, machine_named
from numawise.machine.hardware import Gpu, Hardware, Matrix, MemoryNode, PciDevice, Remark, Thread
from numawise.machine.synthetic import synthetic
from numawise.render.picture.placed import Label, PlacedBox

LONG = "a name that is longer than any device has ever been called, and then some"
WORDS = (
    "1c",
    "2c 2t",
    "2s 4n 64c 2t 8gpu nvlink",
    "2s 2n 192c 2t 8gpu 16nic l3=8c 512g",
    "2s 1n 8c",
    "1s 4n 16c 2t adjacent l3=2c 3gpu pairs 5nic 4nvme hugepages",
    "4s 8n 64c 2t interleaved memonly=9",
    "16s 64n 256c 2t",
    "64s 64n 64c memonly=3",
    "8n 64c 2t 32gpu pairs 64nic",
)


def odd() -> Iterator[tuple[str, Hardware]]:
    """Machines that no description in words can make."""
    yield "nothing", Hardware()
    yield "cpus alone", Hardware(threads=(Thread(0), Thread(3)))
    yield "sockets alone", Hardware(threads=(Thread(0, socket=0), Thread(1, socket=5_000_000)))
    yield "a node without cpus alone", Hardware(numa=(MemoryNode(255, memory=1 << 34, note="GPU"),))
    vm = machine_named("small-vm")
    yield (
        "long names",
        replace(
            vm,
            name=LONG,
            gpus=(Gpu(LONG, model=LONG), Gpu("GPU1", model="other", parent=LONG)),
            pci=tuple(
                PciDevice(f"0000:{i:02x}:00.0", kind="nic", numa=0, names=(f"{LONG} {i}",)) for i in range(20)
            ),
            remarks=(Remark("odd", "/" + "x" * 300, LONG),) * 12,
        ),
    )
    names = tuple(f"GPU{i}" for i in range(3))
    links = {one: {other: "X" if one == other else "PIX" for other in names} for one in names}
    yield (
        "a matrix alone",
        Hardware(gpus=tuple(Gpu(name, numa=(0, 1)) for name in names), matrix=Matrix(names, links=links)),
    )
    yield "escapes", replace(vm, name="\x1b[31mred\n<b>&amp;", remarks=(Remark("odd", "a\tb", "\x07\x9b2J"),))


MACHINES = [
    *(pytest.param(machine_named(name), id=name) for name in CATALOG),
    *(pytest.param(synthetic(words), id=words) for words in WORDS),
    *(pytest.param(hardware, id=name) for name, hardware in odd()),
]


def faults(placed: PlacedBox, line: int) -> list[str]:
    """Texts that overlap, and texts or boxes that leave the box they are in."""
    found = []
    labels = sorted(
        (label for box in placed.every() for label in box.labels if label.text), key=lambda at: at.y
    )
    for i, one in enumerate(labels):
        for other in labels[i + 1 :]:
            if other.y >= one.y + line:
                break
            if one.x < other.x + other.width and other.x < one.x + one.width:
                found.append(f"{one.text!r} overlaps {other.text!r}")
    for box in placed.every():
        found += [
            f"{label.text!r} leaves {box.kind}" for label in box.labels if not _inside(label, box, line)
        ]
        found += [f"{inner.kind} leaves {box.kind}" for inner in box.boxes if not _within(inner, box)]
    return found


def _inside(label: Label, box: PlacedBox, line: int) -> bool:
    across = box.x <= label.x and label.x + label.width <= box.x + box.width
    return across and box.y <= label.y and label.y + line <= box.y + box.height


def _within(inner: PlacedBox, outer: PlacedBox) -> bool:
    across = outer.x <= inner.x and inner.x + inner.width <= outer.x + outer.width
    return across and outer.y <= inner.y and inner.y + inner.height <= outer.y + outer.height
