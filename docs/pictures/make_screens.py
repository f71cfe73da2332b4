"""Take pictures of what commands print on a terminal: ``python docs/pictures/make_screens.py``."""

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[2]
WIDTH = 100
NODE = "examples/incident-server"
SCREENS = {
    "why": f"why --machine {NODE}/machine.yaml --kubelet-config {NODE}/kubelet.yaml "
    + " ".join(sorted(str(p.relative_to(ROOT)) for p in ROOT.glob(f"{NODE}/pods/*.yaml"))),
    "check": "check --kubelet-config examples/8gpu-server/kubelet-refused.yaml --machine 8gpu-server",
    "simulate": "simulate --machine 8gpu-server --kubelet-config examples/8gpu-server/kubelet.yaml --map "
    + " ".join(sorted(str(p.relative_to(ROOT)) for p in ROOT.glob("examples/8gpu-server/pods/*.yaml"))),
}
THEME = TerminalTheme(
    (250, 250, 250),
    (40, 44, 52),
    [
        (40, 44, 52),
        (180, 40, 40),
        (30, 120, 60),
        (150, 100, 0),
        (40, 80, 170),
        (130, 50, 140),
        (0, 115, 125),
        (90, 90, 90),
    ],
    [
        (90, 90, 90),
        (200, 50, 50),
        (40, 140, 70),
        (170, 120, 10),
        (60, 100, 190),
        (150, 70, 160),
        (10, 135, 145),
        (60, 60, 60),
    ],
)
FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
font-size: {char_height}px; line-height: {line_height}px; white-space: pre; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
<rect width="100%" height="100%" fill="#fafafa" rx="6"/>
<g transform="translate({terminal_x}, 12)" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def printed(words: str) -> str:
    """What a command prints on a terminal, colours included."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(WIDTH), "TERM": "xterm-256color", "FORCE_COLOR": "1"}
    with subprocess.Popen(  # noqa: S603 - the words stand above
        [sys.executable, "-m", "numawise", *words.split()],
        cwd=ROOT,
        env=environment,
        stdout=theirs,
        stderr=theirs,
    ):
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:
                break
            if not part:
                break
            parts.append(part)
    return b"".join(parts).decode().replace("\r\n", "\n")


def main() -> None:
    """Take all pictures."""
    for name, words in SCREENS.items():
        console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
        console.print(Text.from_ansi(printed(words)))
        svg = console.export_svg(title="", theme=THEME, code_format=FORMAT, unique_id=f"screen-{name}")
        path = Path(__file__).parent / f"{name}.svg"
        path.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
