"""The architecture page: drawn from the imports, and true about the files that it names."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
NAMED = re.compile(r"`((?:[a-z_]+/)+[\w.-]*)`|`([a-z_]+\.(?:py|md))`")


def drawn() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_architecture", ROOT / "docs" / "make_architecture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_rooms_are_drawn_as_they_import_each_other() -> None:
    text = PAGE.read_text()
    assert drawn().page(text) == text, "run docs/make_architecture.py"


def test_every_room_is_described() -> None:
    described = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]*)\|", PAGE.read_text(), re.MULTILINE)))
    rooms = [room for layer in drawn().layers() for room in layer]
    assert sorted(described) == sorted(rooms)


def test_files_that_the_page_names_exist() -> None:
    names = [first or second for first, second in NAMED.findall(PAGE.read_text())]
    assert len(names) > 20
    missing = [
        name
        for name in names
        if not any((folder / name).exists() for folder in (ROOT, ROOT / "src", ROOT / "src" / "numawise"))
        and not list((ROOT / "src" / "numawise").rglob(name))
    ]
    assert not missing
