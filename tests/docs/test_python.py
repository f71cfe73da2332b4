"""The Python tutorial: its blocks are a file that is type-checked, and print what they say they print."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import numawise

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial" / "python.md"
TOUR = ROOT / "examples" / "python" / "tour.py"
BLOCK = re.compile(r"(?<!process -->\n)```python\n(.*?)```", re.DOTALL)


def test_the_tour_is_the_tutorial() -> None:
    blocks = BLOCK.findall(PAGE.read_text())
    assert len(blocks) >= 6
    assert TOUR.read_text().split('"""\n\n', 1)[1] == "\n".join(blocks)


def test_the_tour_is_type_checked() -> None:
    assert '"examples"' in next(
        line for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith("files = ")
    )


def test_the_tour_prints_what_it_says() -> None:
    done = subprocess.run([sys.executable, TOUR], cwd=ROOT, capture_output=True, text=True, check=True)
    printed = done.stdout.splitlines()
    said = re.findall(r"^ *# (.*)$", TOUR.read_text(), re.MULTILINE)
    assert len(said) >= 5
    assert [line for line in said if line not in printed] == []


def test_everything_exported_is_there_and_documented() -> None:
    for name in numawise.__all__:
        value = getattr(numawise, name)
        assert name == "__version__" or value.__doc__, name


def test_exports_are_typed_as_they_are_found() -> None:
    tree = ast.parse((ROOT / "src" / "numawise" / "__init__.py").read_text())
    typed = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    homes = {name: f"numawise.{home}" for home, names in numawise._HOME.items() for name in names.split()}
    assert typed == homes
    assert sorted({*homes, "__version__"}) == sorted(numawise.__all__)
