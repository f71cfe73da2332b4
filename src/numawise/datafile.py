"""Tables that lie as files in a folder ``data`` beside the module that reads them.

Rules kept here:

1. A table of lines has its explanation at its head, behind ``#``; blank lines and such lines are left out.
2. Only our own files are read so; what comes from outside goes through ``codec``.
"""


def data_text(module: str, name: str) -> str:
    """The text of a data file; ``module``: the ``__file__`` of the module beside its folder."""
    folder = module.rpartition("/")[0]
    with open(f"{folder}/data/{name}", encoding="utf-8") as file:  # noqa: PTH123 - pathlib costs time here
        return file.read()


def data_lines(module: str, name: str) -> tuple[str, ...]:
    """The lines of a table (rule 1)."""
    return tuple(line for line in data_text(module, name).split("\n") if line and not line.startswith("#"))
