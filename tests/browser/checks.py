"""What holds of every view: nothing serious for axe-core, nothing crooked, one heading, at each width and in both themes."""

from collections.abc import Iterable

from tests.browser.chromium import DRIVER, WIDTHS, crooked, resize, serious

if DRIVER:
    from playwright.sync_api import Page

THEMES = ("light", "dark")


def is_sound(
    page: "Page", widths: Iterable[int] = tuple(WIDTHS), *, axe_at: Iterable[int] = (390, 1280)
) -> None:
    """Look at what the page shows now at several widths; axe-core sees the first in dark, the others in light."""
    faults: list[str] = []
    tried = set(axe_at)
    for width in widths:
        resize(page, width)
        faults += [f"at {width}: {line}" for line in crooked(page)]
        if width in tried:
            page.emulate_media(color_scheme="dark" if width == 390 else "light")
            faults += [f"at {width}: {line}" for line in serious(page)]
    page.emulate_media(color_scheme="light")
    headings = page.locator("h1:visible").count()
    if headings != 1:
        faults.append(f"{headings} headings of the first rank")
    assert not faults, "\n".join(faults)
