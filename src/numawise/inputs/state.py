"""The kubelet's state files: a directory, the files themselves, or a bundle.

Rules kept here:

1. A directory is one as ``/var/lib/kubelet``; a file is known by its name, or else by its content.
2. A file that cannot be read as text or as JSON is still a file: what is wrong with it is reported.
"""

from collections.abc import Sequence
from pathlib import Path

from numawise.codec.bundle.archive import is_bundle
from numawise.codec.checkpoint import LARGEST_STATE, PLACES
from numawise.codec.checkpoint.look import kind_of_state, look
from numawise.errors import InputError
from numawise.node.state.folder import StateFile, StateFolder

ADVICE = "give the folder with cpu_manager_state, as in /var/lib/kubelet, or the files themselves"


def read_state(words: str | Sequence[str]) -> StateFolder:
    """The state files that are meant."""
    words = (words,) if isinstance(words, str) else tuple(words)
    if len(words) == 1:
        if is_bundle(words[0]):
            from numawise.inputs.bundle import open_bundle  # noqa: PLC0415 - few ask for it

            return open_bundle(words[0]).state()
        if Path(words[0]).is_dir():
            return _folder(words[0])
    files: dict[str, StateFile] = {}
    for word in words:
        file = _file(word)
        if file.name in files:
            raise InputError(f"is {file.name}, and so is {files[file.name].path}", file=word)
        files[file.name] = file
    return StateFolder(Path(words[0]).parent, tuple(files[name] for name in PLACES if name in files))


def _file(word: str) -> StateFile:
    path = Path(word)
    if not _is_file(path):
        what = "is a directory; give it alone" if path.is_dir() else "there is no such file or folder"
        raise InputError(what, file=word, advice=ADVICE)
    raw = _bytes(path)
    text = raw.decode("utf-8", errors="replace")
    name = next((name for name in PLACES if path.name.startswith(name)), "") or kind_of_state(text)
    if not name:
        raise InputError("is not a kubelet state file", file=word, advice=f"expected {', '.join(PLACES)}")
    return StateFile(name, path, raw, look(name, text))


def _folder(word: str) -> StateFolder:
    files = []
    for name, places in PLACES.items():
        path = next((Path(word) / inner for inner in places if _is_file(Path(word) / inner)), None)
        if path is not None:
            raw = _bytes(path)
            files.append(StateFile(name, path, raw, look(name, raw.decode("utf-8", errors="replace"))))
    if not files:
        raise InputError("has no kubelet state files", file=word, advice=f"expected {', '.join(PLACES)}")
    return StateFolder(Path(word), tuple(files))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=str(path)) from error


def _bytes(path: Path) -> bytes:
    try:
        if path.stat().st_size > LARGEST_STATE:
            raise InputError("is too large for a kubelet state file", file=str(path))
        return path.read_bytes()
    except OSError as error:
        advice = "do this as root" if isinstance(error, PermissionError) else ""
        raise InputError(f"cannot be read: {error.strerror}", file=str(path), advice=advice) from error
