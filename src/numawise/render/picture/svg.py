"""A picture of a machine as SVG: one self-contained file, in light and dark.

Rules kept here:

1. Text stays text, in fonts that every system has; widths are estimated on the wide side.
2. Colours are CSS classes, with a second set for ``prefers-color-scheme: dark``; what a colour says is
   also written.  There are no scripts, no links and nothing is fetched.
3. Title and description carry the picture in words; every box carries its details as a tooltip.
"""

from functools import lru_cache
from html import escape

from numawise.render.picture.arrange import arrange
from numawise.render.picture.boxes import (
    EMPTY,
    ENTRY,
    FABRIC,
    L3,
    LEGEND,
    MACHINE,
    MARKS,
    MEMORY,
    MIXED,
    NUMA,
    ROW,
    SOCKET,
    SWITCH,
    TABLE,
    UNPLACED,
    Cell,
    Picture,
)
from numawise.render.picture.placed import Connector, Frame, Label, Metrics, PlacedBox
from numawise.render.picture.tables import link_shade

WIDEST = 1240
MARGIN = 24
SIZES = {"name": 22, "title": 14, "note": 13, "line": 13, "small": 12, "cell": 12, "label": 12, "word": 12}
BOLD = ("name", "title", "word")
NARROW, WIDE = "iljtfrI.,:;|!'()[] -", "mwMW@%&…"
CHIP = Frame(10, 6, 10, 6)
FRAMES = {
    "": CHIP,
    MACHINE: Frame(0, 0, 0, 0, drawn=False),
    SOCKET: Frame(14, 12, 14, 14),
    NUMA: Frame(14, 12, 14, 14),
    ROW: Frame(10, 8, 10, 8),
    MEMORY: Frame(12, 10, 12, 10),
    UNPLACED: Frame(12, 10, 12, 12),
    FABRIC: Frame(14, 6, 14, 6),
    EMPTY: Frame(12, 6, 12, 6),
    L3: Frame(8, 6, 8, 6),
    SWITCH: Frame(8, 6, 8, 8),
    TABLE: Frame(0, 18, 0, 0, drawn=False),
    LEGEND: Frame(0, 18, 0, 0, drawn=False),
    ENTRY: Frame(0, 2, 0, 2, drawn=False),
}
LINE = 18
FONTS = "ui-sans-serif,system-ui,'Segoe UI',Roboto,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif"
LIGHT = {
    "page": "#ffffff",
    "ink": "#1b1f24",
    "quiet": "#57606a",
    "socket": "#f3f5f7",
    "socket-edge": "#c3cad2",
    "numa": "#ffffff",
    "numa-edge": "#7a8794",
    "l3": "#f6f8fa",
    "l3-edge": "#d5dbe1",
    "switch-edge": "#8c959f",
    "core": "#c9d6e4",
    "core-edge": "#9db2c8",
    "gpu": "#cdeedd",
    "gpu-edge": "#1a7f5a",
    "nic": "#d5e6fa",
    "nic-edge": "#1f6fbf",
    "disk": "#fbe9c4",
    "disk-edge": "#a86b00",
    "other": "#efdcf0",
    "other-edge": "#8a4a8c",
    "memory": "#eef3fb",
    "fast": "#a6e3c5",
    "near": "#d3f0e0",
    "middle": "#fdf0c2",
    "far": "#fbd5cb",
    "none": "#f0f2f4",
}
DARK = {
    "page": "#0f1419",
    "ink": "#e6e9ed",
    "quiet": "#a6b1bc",
    "socket": "#171d24",
    "socket-edge": "#3b4651",
    "numa": "#1d242c",
    "numa-edge": "#6b7884",
    "l3": "#222b34",
    "l3-edge": "#3a4550",
    "switch-edge": "#7d8894",
    "core": "#3d536b",
    "core-edge": "#58738f",
    "gpu": "#12492f",
    "gpu-edge": "#3fbf8a",
    "nic": "#123a63",
    "nic-edge": "#62a8ee",
    "disk": "#513806",
    "disk-edge": "#e0a63a",
    "other": "#46284a",
    "other-edge": "#cf8ad2",
    "memory": "#1a2433",
    "fast": "#176b45",
    "near": "#14472f",
    "middle": "#54470f",
    "far": "#642b1e",
    "none": "#222b34",
}
HOLDS_LIGHT = ("#56b4e9", "#e69f00", "#009e73", "#f0e442", "#cc79a7", "#d55e00")
HOLDS_DARK = ("#3a9bd4", "#c98a00", "#0a8f69", "#b8ad2a", "#b4628f", "#c2560a")
ON_HOLDS = "#000000"
"""Text on the colours of holders: of both themes, since these are of middle brightness in both."""
SHADES = ("fast", "near", "middle", "far", "none")


def svg(picture: Picture, width: int = WIDEST, *, style: bool = True) -> str:
    """The picture as SVG text; without ``style`` for a page that brings the same style itself."""
    placed, lines = arrange(picture.box, METRICS, max(width, 320) - 2 * MARGIN)
    wide, high = placed.width + 2 * MARGIN, placed.height + 2 * MARGIN
    size = f'viewBox="0 0 {wide} {high}" width="{wide}" height="{high}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title description" {size}>',
        f'<title id="title">{escape(picture.name)}: {escape(picture.summary)}</title>',
        f'<desc id="description">{escape(picture.description)}</desc>',
    ]
    if style:
        parts.append(f"<style>{stylesheet()}</style>")
    parts.append(f'<rect class="page" width="{wide}" height="{high}"/>')
    parts.append(f'<g transform="translate({MARGIN} {MARGIN})">')
    parts += [line_element(line) for line in lines]
    _draw(placed, picture, parts)
    parts += ["</g>", "</svg>"]
    return ascii_markup("\n".join(parts) + "\n")


def ascii_markup(text: str) -> str:
    """Markup that survives any encoding: characters beyond ASCII as references."""
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii")


def stylesheet() -> str:
    """The style of a picture: light, and dark where the reader prefers that."""
    dark = _colours(DARK, HOLDS_DARK)
    return f"{_shapes()}{_colours(LIGHT, HOLDS_LIGHT)}@media (prefers-color-scheme:dark){{{dark}}}"


def page_stylesheet() -> str:
    """The same for pictures inside a page, whose ``color-scheme`` says whether it is light or dark.

    Colours are also there as custom properties of the page, for tables and legends beside the picture.
    """
    colours = [(name, LIGHT[name], DARK[name]) for name in LIGHT]
    colours += [(f"hold-{i}", *pair) for i, pair in enumerate(zip(HOLDS_LIGHT, HOLDS_DARK, strict=True))]
    named = ";".join(f"--map-{name}:light-dark({light},{dark})" for name, light, dark in colours)
    return f":root{{{named}}}.picture{{{_shapes()}.t-mark{{font-size:11px;font-weight:700}}{_inside()}}}"


def _inside() -> str:
    """The rules of the colours with custom properties in the place of values."""
    names = {name: f"var(--map-{name})" for name in LIGHT}
    holds = tuple(f"var(--map-hold-{i})" for i in range(len(HOLDS_LIGHT)))
    devices = "".join(
        f".device-held.hold-{i}>rect{{stroke:{one};stroke-width:3}}" for i, one in enumerate(holds)
    )
    shares = "".join(f"rect.memory-share.hold-{i}{{fill:{one};stroke:none}}" for i, one in enumerate(holds))
    system = f".core.system>rect{{fill:{names['quiet']};stroke:{names['ink']}}}"
    system += f"rect.memory-share.system{{fill:{names['quiet']};stroke:none}}"
    over = f".core.system>text{{fill:{names['page']}}}"
    over += f".device-held>.t-note{{font-weight:700;fill:{names['ink']}}}"
    bar = f".memory-bar{{fill:{names['none']};stroke:none}}"
    return f"{_colours(names, holds)}{devices}{shares}{system}{over}{bar}"


def _shapes() -> str:
    return (
        f"text{{font-family:{FONTS}}}"
        + "".join(f".t-{name}{{font-size:{size}px}}" for name, size in SIZES.items())
        + ".t-name,.t-title,.t-word{font-weight:600}"
        + ".t-cell,.t-label{font-variant-numeric:tabular-nums}"
        + ".switch>rect{stroke-dasharray:4 3}rect{stroke-width:1}.numa>rect,.socket>rect{stroke-width:1.25}"
        + ".part>rect{fill-opacity:.45}.interconnect,.fabric-line{stroke-width:3}"
    )


def _colours(of: dict[str, str], holds: tuple[str, ...]) -> str:
    def rule(selector: str, fill: str, edge: str = "") -> str:
        stroke = f";stroke:{of[edge]}" if edge else ""
        return f"{selector}{{fill:{of[fill] if fill else 'none'}{stroke}}}"

    rules = [
        rule(".page", "page"),
        rule("text", "ink"),
        rule(".t-note,.t-label,.t-small,.summary", "quiet"),
        rule(".socket>rect", "socket", "socket-edge"),
        rule(".numa>rect,.row>rect,.unplaced>rect", "numa", "numa-edge"),
        rule(".memory>rect,.empty>rect", "memory", "numa-edge"),
        rule(".l3>rect", "l3", "l3-edge"),
        rule(".switch>rect", "", "switch-edge"),
        rule(".core>rect", "core", "core-edge"),
        rule(".gpu>rect", "gpu", "gpu-edge"),
        rule(".nic>rect", "nic", "nic-edge"),
        rule(".nvme>rect,.storage>rect", "disk", "disk-edge"),
        rule(".accelerator>rect", "other", "other-edge"),
        rule(".fabric>rect", "near", "gpu-edge"),
        f".interconnect{{stroke:{of['numa-edge']}}}",
        f".fabric-line{{stroke:{of['gpu-edge']}}}",
    ]
    rules += [rule(f".{name}>rect,rect.{name}", name, "page") for name in SHADES]
    for i, colour in enumerate(holds):
        rules.append(f".core.hold-{i}>rect,rect.hold-{i}{{fill:{colour};stroke:{of['ink']}}}")
        rules.append(f".core.hold-{i}>text,.{ENTRY}>rect.hold-{i}+text{{fill:{ON_HOLDS}}}")
    rules.append(f".core.part>text{{fill:{of['ink']}}}")  # the colour is thinned over what is below
    rules.append(f".core.hold-mixed>rect{{fill:{of['quiet']}}}.core.hold-mixed>text{{fill:{of['page']}}}")
    return "".join(rules)


@lru_cache(maxsize=4096)
def measure(text: str, style: str) -> int:
    """Width of a text in pixels, estimated on the wide side."""
    size = SIZES.get(style, SIZES["line"])
    units = 0
    for c in text:
        if c in NARROW:
            units += 40
        elif c in WIDE:
            units += 98
        elif ord(c) > 0x2E80:
            units += 105
        else:
            units += 70 if c.isupper() else 65
    return -(-units * size * (108 if style in BOLD else 100) // 10000)


def _cell_size(cell: Cell) -> tuple[int, int]:
    return (measure(cell.text, "cell") + 10, 22) if cell.text else (14, 14)


METRICS = Metrics(
    measure=measure,
    line=LINE,
    gap=(12, 12),
    frames=FRAMES,
    cell=_cell_size,
    cell_gap=4,
    table_cell=(16, 6),
    indent=64,
    table_gap=48,
)


def _draw(placed: PlacedBox, picture: Picture, parts: list[str]) -> None:
    """Draw a box and all inside it."""
    classes = [placed.kind]
    tip = placed.box.tip if placed.kind == placed.box.kind else ""
    if placed.cell:
        tip = placed.cell.tip
        classes += hold_classes(placed.cell, picture)
    if placed.shade:
        classes.append(placed.shade)
    parts.append(f'<g class="{" ".join(classes)}">')
    if tip:
        parts.append(f"<title>{escape(tip)}</title>")
    frame = METRICS.frame(placed.kind)
    if frame.drawn:
        radius = {SOCKET: 12, NUMA: 10, "core": 3, "word": 3}.get(placed.kind, 6)
        size = f'width="{placed.width}" height="{placed.height}"'
        parts.append(f'<rect x="{placed.x}" y="{placed.y}" {size} rx="{radius}"/>')
    for label in placed.labels:
        if placed.kind == ENTRY and label.style == "word":
            parts.append(_swatch(label, picture))
        parts.append(text_element(label, placed))
    for box in placed.boxes:
        _draw(box, picture, parts)
    parts.append("</g>")


def hold_classes(cell: Cell, picture: Picture) -> list[str]:
    """The classes that say who holds a core."""
    if not cell.hold:
        return []
    if cell.hold == MIXED:
        return ["hold-mixed"]
    return [f"hold-{picture.holds.index(cell.hold) % len(HOLDS_LIGHT)}", *(["part"] if cell.part else ())]


def _swatch(label: Label, picture: Picture) -> str:
    """The colour that a word of the legend stands for, behind the word."""
    if len(label.text) == 1 and label.text in MARKS and picture.holds:
        name = f"hold-{MARKS.index(label.text) % len(HOLDS_LIGHT)}"
    else:
        name = link_shade(label.text)
        if name == "none":
            return ""
    return f'<rect class="{name}" x="{label.x - 4}" y="{label.y}" width="52" height="{LINE}" rx="3"/>'


def text_element(label: Label, placed: PlacedBox) -> str:
    """A label."""
    style, _, end = label.style.partition(" ")
    size = SIZES[style]
    base = label.y + (LINE + size * 7 // 10) // 2 if style != "name" else label.y + size
    extra = " summary" if placed.kind == MACHINE and style == "line" else ""
    x, anchor = label.x, ""
    if end:  # where text is narrower than estimated, it keeps to its side
        x, anchor = label.x + label.width, ' text-anchor="end"'
    elif placed.kind in ("core", "word"):
        x, anchor = placed.x + placed.width // 2, ' text-anchor="middle"'
    return f'<text class="t-{style}{extra}" x="{x}" y="{base}"{anchor}>{escape(label.text)}</text>'


def line_element(line: Connector) -> str:
    """A line between two boxes."""
    name = "fabric-line" if line.kind == FABRIC else line.kind
    return f'<line class="{name}" x1="{line.x1}" y1="{line.y1}" x2="{line.x2}" y2="{line.y2}"/>'
