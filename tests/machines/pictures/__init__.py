"""Pictures kept beside the machines they show: ``python -m tests.machines.pictures`` draws them anew."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from numawise.machine.catalog import machine_named
from numawise.machine.hardware import Hardware
from numawise.machine.synthetic import synthetic
from numawise.render.picture.layout import picture
from numawise.render.picture.svg import svg
from numawise.render.picture.text import text

HERE = Path(__file__).parent
DOCS = HERE.parents[2] / "docs" / "pictures"
WIDTH = 100


def machines() -> Mapping[str, Hardware]:
    """The machines that have a picture here, from the smallest to the largest."""
    return {
        "small-vm": machine_named("small-vm"),
        "8gpu-server": machine_named("8gpu-server"),
        "dgx-h100": machine_named("dgx-h100"),
        "64-nodes": replace(synthetic("16s 64n 256c 2t 64g/n"), name="64-nodes"),
    }


def drawn() -> Mapping[Path, str]:
    """Every kept picture and what it should say."""
    found: dict[Path, str] = {}
    for name, hardware in machines().items():
        shown = picture(hardware)
        found[HERE / f"{name}.txt"] = text(shown, WIDTH)
        found[HERE / f"{name}.svg"] = found[DOCS / f"{name}.svg"] = svg(shown)
    return found
