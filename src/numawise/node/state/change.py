"""A change of state files as a value: what becomes of each, why, and what cannot be done.

Rules kept here:

1. No file is touched here; ``apps.state.change`` carries a change out.
2. No new text is written that the kubelet of the release would not read.
"""

from collections.abc import Iterable

from numawise.codec.checkpoint.look import Look, encoded, look
from numawise.errors import HostError
from numawise.node.state.folder import Against, StateFile, StateFolder
from numawise.node.state.lint import verify
from numawise.node.state.readers import informed, problem_of, rules_for
from numawise.results.finding import Finding, Severity
from numawise.values import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class FileChange:
    """What becomes of one file."""

    file: StateFile
    text: str | None
    """The new text; None: the file goes."""
    said: tuple[str, ...]
    """What is changed, a sentence each."""

    @property
    def changes(self) -> bool:
        """True when the file will not be what it was."""
        return self.text is None or self.text.encode() != self.file.raw


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of all files."""

    files: tuple[FileChange, ...] = ()
    refused: tuple[str, ...] = ()
    """What was asked for and is not done, and why."""
    left: tuple[Finding, ...] = field(default=())
    """Errors that remain afterwards."""

    @property
    def changes(self) -> bool:
        """True when there is anything to do."""
        return any(one.changes for one in self.files)


def rewritten(file: StateFile, new: Look, said: Iterable[str]) -> FileChange:
    """The change that gives a file a new content, in its format."""
    return FileChange(file, encoded(new), tuple(said))


def proved(folder: StateFolder, change: Change, against: Against) -> Change:
    """The change with what will still be wrong after it (rule 2)."""
    after = folder_after(folder, change)
    against = informed(after, against)
    for one in change.files:
        if one.text is None or not one.changes:
            continue
        new = look(one.file.name, one.text)
        problem = problem_of(one.file.name, one.text, rules_for(new, against.version, gate=against.pod_level))
        if problem:
            raise HostError(f"the new {one.file.name} would not be read by the kubelet: {problem}")
    return replace(
        change, left=tuple(one for one in verify(after, against) if one.severity is Severity.ERROR)
    )


def folder_after(folder: StateFolder, change: Change) -> StateFolder:
    """The folder as it will be."""
    texts = {one.file.name: one.text for one in change.files}
    files = []
    for file in folder.files:
        text = texts.get(file.name, file.text)
        if text is not None:
            raw = file.raw if file.name not in texts else text.encode()
            files.append(StateFile(file.name, file.path, raw, look(file.name, text)))
    return StateFolder(folder.directory, tuple(files))
