"""Draw the rooms in docs/architecture.md from the imports: ``python docs/make_architecture.py``."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "numawise"
PAGE = Path(__file__).parent / "architecture.md"
BEGIN, END = "<!-- rooms -->", "<!-- end of rooms -->"


def layers() -> list[list[str]]:
    """The rooms by layer, highest first, as import-linter checks them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    lines = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.strip().removeprefix("numawise.") for name in line.split("|")] for line in lines]


def room_of(module: str) -> str:
    """The room that a module belongs to."""
    return module.removeprefix("numawise.").partition(".")[0]


def imports_of(path: Path) -> Iterator[str]:
    """The rooms that a file imports, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "numawise":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("numawise."):
            yield room_of(node.module or "")


def graph() -> dict[str, set[str]]:
    """Room → the rooms it imports."""
    rooms = [room for layer in layers() for room in layer]
    edges: dict[str, set[str]] = {room: set() for room in rooms}
    for path in SOURCES.rglob("*.py"):
        room = path.relative_to(SOURCES).parts[0].removesuffix(".py")
        if room in edges:
            edges[room] |= {other for other in imports_of(path) if other in edges and other != room}
    return edges


def drawing() -> str:
    """One line a layer, and under each room what it imports."""
    edges = graph()
    order = [room for layer in layers() for room in layer]
    width = max(map(len, order))
    lines = []
    for layer in layers():
        for room in layer:
            below = " ".join(sorted(edges[room], key=order.index))
            bracket = " " if len(layer) == 1 else "┌" if room == layer[0] else "│"
            lines.append(f"{bracket} {room:<{width}} → {below}".rstrip(" →"))
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with its drawing replaced."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n```\n{drawing()}\n```\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
