"""What reaches a stream: text cannot steer it, our own styles can, and what goes wrong is one sentence."""

import gc
import io
import os
import sys
from pathlib import Path

import pytest

from numawise.errors import NumawiseError
from numawise.render.terminal import BOLD, Printer, cleaned, printing, styled
from tests import needs


# fmt: off
@pytest.mark.parametrize(("text", "seen"), [
    pytest.param("a\nb",                      "a\nb",                        id="lines stay"),
    pytest.param("é…日本",                     "é…日本",                       id="letters stay"),
    pytest.param("\x1b[31mx",                 r"\x1b[31mx",                  id="a colour"),
    pytest.param("\x1b]0;title\x07",          r"\x1b]0;title\x07",           id="a title"),
    pytest.param("a\rb\tc\x08\x7f\x00",       r"a\rb\tc\x08\x7f\x00",        id="C0 and delete"),
    pytest.param("\x9b2J\x85",                r"\x9b2J\x85",                 id="C1"),
    pytest.param("\u202eabc\u2066\u200f",     r"\u202eabc\u2066\u200f",      id="directions"),
    pytest.param("a\u2028b\ufeff",            r"a\u2028b\ufeff",             id="separators"),
    pytest.param("\ud800 \udcff",             r"\ud800 \xff",                id="half a character, and a byte"),
    pytest.param(styled("\x1b[2J", BOLD),     "\x1b[1m\\x1b[2J\x1b[0m",      id="a style of ours around one of theirs"),
])
def test_text_cannot_steer_a_terminal(text: str, seen: str) -> None:
    stream = io.StringIO()
    assert cleaned(stream, "it").write(text) == len(text)
    assert stream.getvalue() == seen


def test_what_an_encoding_lacks_is_escaped() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "ascii", write_through=True)
    cleaned(stream, "it").write("… é\n")
    assert raw.getvalue() == rb"\u2026 \xe9" + b"\n"


class Full(io.StringIO):
    """A disk without room."""

    def flush(self) -> None:
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("stream", [Full(), None])
def test_output_that_cannot_be_written(stream: io.StringIO | None) -> None:
    out = Printer(stream, "standard output", needed=True)
    with pytest.raises(NumawiseError, match=r"cannot write to standard output: (No space|it is closed)"):  # noqa: PT012 - either may fail
        out.write("x")
        out.flush()
    unheard = Printer(stream, "standard error")
    assert unheard.write("x") == 1
    unheard.flush()


def test_a_printer_that_goes_after_its_stream_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    printer = Printer(stream, "it")
    stream.detach()
    printer.close()
    del printer
    gc.collect()
    assert capsys.readouterr() == ("", "")


def test_both_streams_are_replaced_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with printing():
        sys.stdout.write("\x1b[1m\n")
        sys.stderr.write("\x07\n")
    assert (out.getvalue(), err.getvalue()) == ("\\x1b[1m\n", "\\x07\n")
    assert (sys.stdout, sys.stderr) == (out, err)


@needs.PROC
def test_a_closed_stream_leaves_its_number_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    saved = os.dup(2)
    try:
        os.close(2)
        with printing():
            assert str(Path("/proc/self/fd/2").readlink()) == os.devnull
            assert not os.get_inheritable(2)
            with open(os.devnull) as stream:  # noqa: PTH123 - the number is the point
                assert stream.fileno() > 2
    finally:
        os.dup2(saved, 2)
        os.close(saved)
