"""What holds of every view: nothing serious for axe-core, nothing crooked, one heading, at each width and in both themes."""

from collections.abc import Iterable

from tests.browser.chromium import DRIVER, WIDTHS, crooked, resize, serious

if DRIVER:
    from playwright.sync_api import Page

BOTH = ("dark", "light")
SEEN_AT = {"dark": (390,), "light": (1280, 2560)}
"""The widths at which axe-core looks, which takes it a second: the narrowest page in dark, the others in light."""


def said(page: "Page") -> str:
    """What was last said to screen readers."""
    return page.locator("#announce").inner_text()


def is_sound(
    page: "Page", widths: Iterable[int] = tuple(WIDTHS), *, themes: Iterable[str] = ("dark",)
) -> None:
    """Look at what the page shows now at several widths, and with axe-core in each theme.

    A view as it opens is looked at in both themes; what it shows after that is made of the same colours, in dark.
    """
    faults: list[str] = []
    for width in widths:
        resize(page, width)
        faults += [f"at {width}: {line}" for line in crooked(page)]
    for theme in themes:
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        for width in SEEN_AT[theme]:
            resize(page, width)
            faults += [f"in {theme} at {width}: {line}" for line in serious(page)]
    page.emulate_media(color_scheme="light")
    resize(page, 1280)
    headings = page.locator("h1:visible").count()
    if headings != 1:
        faults.append(f"{headings} headings of the first rank")
    assert not faults, "\n".join(faults)
