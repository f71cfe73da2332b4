"""A change of state files, carried out.

Rules kept here:

1. A change is a value (``node.state.change``); no file is touched until ``carry_out``.
2. While a kubelet works on the directory, it would write over the change or act on half of it; so this is
   refused, unless the user insists.
"""

from collections.abc import Sequence
from pathlib import Path

from numawise.codec.checkpoint import PLACES
from numawise.codec.outfile import write_whole
from numawise.errors import HostError
from numawise.host.exchange import Exchange, exchange
from numawise.host.kubelet import kubelet_on
from numawise.node.state.change import Change, FileChange, folder_after
from numawise.node.state.folder import StateFolder


def carry_out(
    folder: StateFolder, files: Sequence[FileChange], *, even_if_running: bool = False
) -> Path | None:
    """Change the files; where the old ones are kept."""
    if not even_if_running:
        evidence = kubelet_on(folder.directory)
        if evidence:
            advice = "stop it first (systemctl stop kubelet), or use --even-if-running"
            raise HostError(f"a kubelet is using {folder.directory}: {evidence}", advice)
    steps = [
        Exchange(one.file.path, one.file.raw, None if one.text is None else one.text.encode())
        for one in files
        if one.changes
    ]
    return exchange(steps, folder.directory)


def write_copies(folder: StateFolder, change: Change, out: Path) -> tuple[Path, ...]:
    """Write all files as they will be below another folder."""
    after = folder_after(folder, change)
    paths = []
    for file in after.files:
        path = out / PLACES[file.name][0]
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise HostError(f"{path.parent} cannot be made ({problem.strerror})") from problem
        write_whole(path, file.text)
        paths.append(path)
    return tuple(paths)
