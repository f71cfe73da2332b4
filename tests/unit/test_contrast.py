"""Text can be read on every colour that it stands on, in both themes: at least 4.5 to 1, as WCAG 2 counts it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from numawise.render.picture.svg import DARK, HOLDS_DARK, HOLDS_LIGHT, LIGHT, page_stylesheet, stylesheet

ENOUGH = 4.5
Drawn = tuple[dict[str, str], dict[str, str], tuple[str, ...]]
"""The fills of selectors, the colours by name, and those of holders."""
STYLE = Path(__file__).parents[2] / "src/numawise/web/page/style/base.css"
FILLS = ("page", "socket", "numa", "l3", "gpu", "nic", "disk", "other", "memory", "near")
"""What notes stand on; names stand on the others as well."""
SHADES = ("core", "fast", "middle", "far", "none")
PAIRS = (
    *(
        (ink, ground)
        for ink in ("ink", "quiet", "accent")
        for ground in ("page", "surface", "raised", "sunken")
    ),
    *((ink, "accent-soft") for ink in ("ink", "quiet", "accent")),
    *((kind, f"{kind}-soft") for kind in ("yes", "no", "warn")),
    *((ink, f"{kind}-soft") for ink in ("ink", "quiet") for kind in ("yes", "no", "warn")),
    *((kind, ground) for kind in ("yes", "no", "warn") for ground in ("page", "surface", "sunken")),
    ("accent-ink", "accent"),
)


def brightness(colour: str) -> float:
    """Relative luminance of ``#rrggbb``."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((brightness(one), brightness(other)))
    return (high + 0.05) / (low + 0.05)


def thinned(colour: str, below: str, share: float) -> str:
    pairs = [(int(colour[at : at + 2], 16), int(below[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(over * share + under * (1 - share)):02x}" for over, under in pairs)


def fills(css: str) -> dict[str, str]:
    """The fill of every selector; what comes later wins."""
    return {
        selector: colour
        for selectors, colour in re.findall(r"([^{}]+)\{fill:([^;}]+)", css)
        for selector in selectors.split(",")
    }


def drawn(theme: str) -> Drawn:
    """The fills of a picture as ``show -o svg`` writes it, and the colours, in a theme."""
    light, dark = stylesheet().split("@media (prefers-color-scheme:dark)")
    if theme == "light":
        return fills(light), LIGHT, HOLDS_LIGHT
    return fills(dark), DARK, HOLDS_DARK


def drawn_in_page(theme: str) -> Drawn:
    """The same of a picture in the page."""
    colours, holds = (LIGHT, HOLDS_LIGHT) if theme == "light" else (DARK, HOLDS_DARK)
    css = re.sub(r"var\(--map-hold-(\d)\)", lambda name: holds[int(name[1])], page_stylesheet())
    css = re.sub(r"var\(--map-([\w-]+)\)", lambda name: colours[name[1]], css)
    return fills(css), colours, holds


def test_contrast_is_counted_as_the_standard_does() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("where", [drawn, drawn_in_page])
def test_marks_of_holders_are_readable(where: Callable[[str], Drawn], theme: str) -> None:
    css, colours, holds = where(theme)
    thin = float(re.search(r"\.part>rect\{fill-opacity:([.\d]+)", stylesheet())[1])  # type: ignore[index]
    low = {}
    for number, colour in enumerate(holds):
        assert css[f".core.hold-{number}>rect"] == css[f"rect.hold-{number}"] == colour
        for text in (f".core.hold-{number}>text", f".entry>rect.hold-{number}+text"):
            low[text] = contrast(css[text], colour)
        for below in ("l3", "numa"):
            low[f"part {number} on {below}"] = contrast(
                css[".core.part>text"], thinned(colour, colours[below], thin)
            )
    beside = [name for name in css if name.endswith("+text")]
    assert all(
        name.startswith(".entry>") for name in beside
    )  # a bar of memory has the name of its NUMA node beside it
    low["mixed"] = contrast(css[".core.hold-mixed>text"], css[".core.hold-mixed>rect"])
    if where is drawn_in_page:
        low["system"] = contrast(css[".core.system>text"], css[".core.system>rect"])
    assert {name: value for name, value in low.items() if value < ENOUGH} == {}


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_names_and_notes_of_a_picture_are_readable(colours: dict[str, str]) -> None:
    ink = {name: contrast(colours["ink"], colours[name]) for name in (*FILLS, *SHADES)}
    notes = {f"{name}, a note": contrast(colours["quiet"], colours[name]) for name in FILLS}
    assert {name: value for name, value in {**ink, **notes}.items() if value < ENOUGH} == {}


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_words_of_the_page_are_readable(theme: int) -> None:
    given = re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", STYLE.read_text(encoding="utf-8"))
    tokens = {name: pair[theme] for name, *pair in given}
    low = {pair: contrast(tokens[pair[0]], tokens[pair[1]]) for pair in PAIRS}
    assert {pair: value for pair, value in low.items() if value < ENOUGH} == {}
    for ground in ("page", "surface", "sunken", "accent-soft"):
        assert contrast(tokens["focus"], tokens[ground]) >= 3  # a ring, not a text
