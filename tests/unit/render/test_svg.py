"""Pictures as SVG and HTML: well formed, self-contained, readable by everybody."""

import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from numawise.machine.catalog import machine_named
from numawise.machine.hardware import Hardware
from numawise.machine.synthetic import synthetic
from numawise.render.picture.html import html
from numawise.render.picture.layout import picture
from numawise.render.picture.svg import DARK, HOLDS_DARK, HOLDS_LIGHT, LIGHT, measure, svg
from tests.machines.pictures import drawn
from tests.unit.render.geometry import MACHINES

SVG = "{http://www.w3.org/2000/svg}"
FETCHES = re.compile(r"(?:href|src|url\(|@import|<script|<image|<use|\son\w+=)", re.IGNORECASE)


@pytest.mark.parametrize("hardware", MACHINES)
def test_well_formed_and_self_contained(hardware: Hardware) -> None:
    drawing = svg(picture(hardware))
    root = ET.fromstring(drawing)
    assert root.tag == f"{SVG}svg"
    assert drawing.isascii()
    assert not FETCHES.search(drawing)
    assert [child.tag for child in root][:2] == [f"{SVG}title", f"{SVG}desc"]
    assert all(child.text for child in list(root)[:2])


def test_every_device_and_cell_has_its_tooltip() -> None:
    root = ET.fromstring(svg(picture(machine_named("8gpu-server"))))
    groups = [group for group in root.iter(f"{SVG}g") if group.get("class") in ("core", "gpu", "numa")]
    assert len(groups) == 64 + 8 + 2
    assert all(group.find(f"{SVG}title") is not None for group in groups)


def test_text_is_text_and_colour_comes_by_class() -> None:
    drawing = svg(picture(machine_named("dgx-h100")))
    body = drawing.split("</style>")[1]
    assert "<path" not in body
    assert "fill=" not in body
    assert "style=" not in body
    words = [text.text for text in ET.fromstring(drawing).iter(f"{SVG}text")]
    assert {"NUMA 0 · socket 0", "GPU7", "mlx5_11", "NV18"} <= set(words)


def test_light_and_dark() -> None:
    style = re.findall(r"<style>(.*?)</style>", svg(picture(synthetic("1c"))))[0]
    light, dark = style.split("@media (prefers-color-scheme:dark)")
    assert LIGHT["page"] in light
    assert DARK["page"] in dark
    assert set(LIGHT) == set(DARK)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(
    "behind",
    [
        "page",
        "socket",
        "numa",
        "l3",
        "memory",
        "gpu",
        "nic",
        "disk",
        "other",
        "fast",
        "near",
        "middle",
        "far",
        "none",
    ],
)
def test_ink_can_be_read_on_every_colour(colours: dict[str, str], behind: str) -> None:
    high, low = sorted((_luminance(colours["ink"]), _luminance(colours[behind])), reverse=True)
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_widths_are_estimated_on_the_wide_side() -> None:
    # Advance widths of DejaVu Sans, one of the widest faces in use, in thousandths of the size.
    wide = {"NUMA 0": 3.48, "cores 0-31, threads 64-95": 13.87, "mlx5_11": 4.08, "512 GiB": 4.03}
    for text, ems in wide.items():
        assert measure(text, "line") >= ems * 13


def test_holds_are_classes_and_words() -> None:
    drawing = svg(picture(synthetic("4c 2t"), {0: "web", 4: "web", 1: "db"}))
    assert 'class="core hold-0"' in drawing
    assert 'class="core hold-1 part"' in drawing
    assert "held by web" in drawing


class Page(HTMLParser):
    """Tags that are open, and what was seen."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.policy = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        found = dict(attrs)
        assert not any(name.startswith("on") or name in ("style", "href", "src") for name in found)
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("hardware", MACHINES)
def test_page_is_whole_and_fetches_nothing(hardware: Hardware) -> None:
    shown = html(picture(hardware), [("Advice", ["<script>alert(1)</script>"])])
    page = Page()
    page.feed(shown)
    assert page.open == []
    assert "script" not in page.seen
    assert shown.isascii()
    style = re.findall(r"<style>(.*?)</style>", shown)
    assert len(style) == 1
    digest = base64.b64encode(hashlib.sha256(style[0].encode()).digest()).decode()
    assert (
        page.policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def test_page_has_the_tables_as_tables() -> None:
    shown = html(picture(machine_named("8gpu-server")))
    assert shown.count("<table>") == 2
    assert '<th scope="row">GPU0</th><td class="none">X</td><td class="near">PIX</td>' in shown
    assert "NUMA distances" not in shown.split("</svg>")[0]


def test_markup_from_outside_is_escaped() -> None:
    evil = replace(machine_named("small-vm"), name='<img src=x onerror="alert(1)">&')
    for drawing in (svg(picture(evil)), html(picture(evil))):
        assert "<img" not in drawing
    ET.fromstring(svg(picture(evil)))


@pytest.mark.parametrize("path", [path for path in drawn() if path.suffix == ".svg"], ids=str)
def test_kept_pictures(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == drawn()[path]


@pytest.mark.parametrize("colour", [*HOLDS_LIGHT, *HOLDS_DARK])
def test_marks_can_be_read_on_the_colours_of_holders(colour: str) -> None:
    assert (_luminance(colour) + 0.05) / 0.05 >= 4.5


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_marks_of_the_system_can_be_read(colours: dict[str, str]) -> None:
    page, quiet = sorted((_luminance(colours["page"]), _luminance(colours["quiet"])))
    assert (quiet + 0.05) / (page + 0.05) >= 4.5
