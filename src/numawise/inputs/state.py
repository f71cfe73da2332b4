"""The kubelet's state files: a directory, the files themselves, or a bundle.

Rules kept here:

1. A directory is one as ``/var/lib/kubelet``; a file is known by its name, or else by its content.
2. A file that cannot be read as text or as JSON is still a file: what is wrong with it is reported.
3. Of a file that was pasted out of a terminal what the terminal added is left out, with a remark; it may have
   several state files.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from numawise.codec.bundle.archive import is_bundle
from numawise.codec.checkpoint import LARGEST_STATE, PLACES
from numawise.codec.checkpoint.look import kind_of_state, look
from numawise.codec.checkpoint.pasted import pasted
from numawise.codec.checkpoint.reading import (
    ALLOCATED_FILE,
    CLAIMS_FILE,
    AllottedPod,
    allocated_pods,
    recorded_claims,
)
from numawise.codec.document import read_documents
from numawise.codec.hardware.nrt import KIND, NodeTopology, is_topology, read_topology
from numawise.codec.infile import is_file, is_folder, is_there, members, read_raw
from numawise.errors import InputError, KubeletRefused
from numawise.node.state.folder import Against, StateFile, StateFolder

ADVICE = "give the folder with cpu_manager_state, as in /var/lib/kubelet, or the files themselves"


def read_state(words: str | Sequence[str]) -> StateFolder:
    """The state files that are meant."""
    words = (words,) if isinstance(words, str) else tuple(words)
    if len(words) == 1:
        if is_bundle(words[0]):
            from numawise.inputs.bundle import open_bundle  # noqa: PLC0415 - few ask for it

            return open_bundle(words[0]).state()
        if is_folder(words[0]):
            return _folder(words[0])
    files: dict[str, StateFile] = {}
    remarks: list[str] = []
    for word in words:
        for file in _files(word, remarks):
            if file.name in files:
                raise InputError(f"is {file.name}, and so is {files[file.name].path}", file=word)
            files[file.name] = file
    found = tuple(files[name] for name in PLACES if name in files)
    return StateFolder(Path(words[0]).parent, found, remarks=tuple(remarks))


def _files(word: str, remarks: list[str]) -> Iterator[StateFile]:
    path = Path(word)
    if is_folder(path):
        raise InputError("is a directory; give it alone", file=word, advice=ADVICE)
    if not is_there(path):
        raise InputError("there is no such file or folder", file=word, advice=ADVICE)
    raw = _bytes(path)
    text = raw.decode("utf-8", errors="replace")
    inside = pasted(text)
    if inside:
        remarks.append(f"{word}: pasted from a terminal; what stands around the JSON is left out")
    named = next((name for name in PLACES if path.name.startswith(name)), "") if len(inside) < 2 else ""
    for one in inside or (text,):
        name = named or kind_of_state(one)
        if not name:
            raise InputError("is not a kubelet state file", file=word, advice=f"expected {', '.join(PLACES)}")
        yield StateFile(name, path, one.encode(errors="replace") if inside else raw, look(name, one))


def _folder(word: str) -> StateFolder:
    files = []
    remarks: list[str] = []
    for name, places in PLACES.items():
        path = next((Path(word) / inner for inner in places if is_there(Path(word) / inner)), None)
        if path is not None:
            files += [file for file in _files(str(path), remarks) if file.name == name]
    if not files:
        members(word)  # it may be that nothing in it can be seen
        raise InputError("has no kubelet state files", file=word, advice=f"expected {', '.join(PLACES)}")
    allocated = _allocated(Path(word) / ALLOCATED_FILE)
    claims = _claims(Path(word) / CLAIMS_FILE, remarks)
    return StateFolder(Path(word), tuple(files), allocated, tuple(remarks), claims)


def _allocated(path: Path) -> dict[str, AllottedPod] | None:
    """The record of allocations beside the state files; a damaged one says nothing."""
    if not is_file(path):
        return None
    try:
        return allocated_pods(_bytes(path).decode("utf-8", errors="replace"))
    except ValueError:
        return None


def _claims(path: Path, remarks: list[str]) -> tuple[str, ...]:
    """The claims that the kubelet prepared."""
    if not is_file(path):
        return ()
    try:
        return recorded_claims(_bytes(path).decode("utf-8", errors="replace"))
    except ValueError as problem:
        remarks.append(f"{path}: cannot be read, so which claims hold devices is not known: {problem}")
        return ()


def _bytes(path: Path) -> bytes:
    if not is_file(path):
        raise InputError("is not a regular file", file=str(path), advice=ADVICE)
    return read_raw(path, LARGEST_STATE)[0]


def read_published(words: str | Sequence[str], node: str = "") -> NodeTopology | None:
    """What a NodeResourceTopology in the place of state files says; None: they are something else."""
    words = (words,) if isinstance(words, str) else tuple(words)
    if len(words) != 1 or not is_file(words[0]) or is_bundle(words[0]):
        return None
    raw, name = read_raw(words[0])
    if KIND.encode() not in raw:
        return None
    documents = read_documents(raw, name)
    if len(documents) != 1 or not is_topology(documents[0].value):
        return None
    return read_topology(documents[0].root, node)


def refusal_with_fix(refusal: KubeletRefused, state: StateFolder | None, against: Against) -> KubeletRefused:
    """A refusal with what the linter of state files says against it."""
    if state is None or refusal.advice:
        return refusal
    from numawise.node.state.lint import verify  # noqa: PLC0415 - a refusal is rare

    for finding in verify(state, against):
        if finding.kubelet and finding.stage == refusal.stage:
            stage, reason, file, field = refusal.stage, refusal.reason, refusal.file, refusal.field
            return KubeletRefused(stage, reason, file=file, field=field, advice=finding.fix)
    return refusal
