"""A bar appears on a terminal, after a moment, and leaves."""

import io

import pytest

from numawise.render.progress import progress_bar
from numawise.render.terminal import CLEAR_LINE


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("file", "shown", "after", "drawn"), [
    pytest.param(Terminal,     True,  0.0,    True,  id="a terminal"),
    pytest.param(Terminal,     True,  1000.0, False, id="too soon"),
    pytest.param(Terminal,     False, 0.0,    False, id="quiet"),
    pytest.param(io.StringIO,  True,  0.0,    False, id="a pipe"),
])  # fmt: skip
def test_when_it_is_shown(
    *, file: type[io.StringIO], shown: bool, after: float, drawn: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out = file()
    with progress_bar(out, "pods", 40, shown=shown, after=after) as tell:
        tell(10)
        before = out.getvalue()
    assert ("10/40" in before) is drawn
    assert (before == "") is not drawn
    assert out.getvalue().endswith(CLEAR_LINE) is drawn  # the line is empty again
