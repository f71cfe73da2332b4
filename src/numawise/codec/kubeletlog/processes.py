"""Which process of a kubelet wrote a line, where several have one number, or none.

Rules kept here:

1. A kubelet names its version first, then its policy (up to 1.22 twice), each once; then it decides about
   pods.  A version or a policy that comes later is that of another process.
2. After its last words nothing more comes from a process.
"""

from collections import OrderedDict

from numawise.results import log as values
from numawise.results.log import Event, Origin
from numawise.values import dataclass, replace

MOST_PROCESSES = 256


@dataclass(slots=True)
class _Process:
    origin: Origin
    released: bool = False
    policy: str = ""
    busy: bool = False
    """Something else was heard of it."""


class Processes:
    """The processes of a log, the last so many."""

    def __init__(self) -> None:
        self._known: OrderedDict[Origin, _Process] = OrderedDict()

    def origin_of(self, event: Event, origin: Origin) -> Origin:
        """The process that an event belongs to, of those with the number that its line has."""
        process = self._known.get(origin)
        if process is None:
            process = self._known[origin] = _Process(origin)
            if len(self._known) > MOST_PROCESSES:
                self._known.popitem(last=False)
        elif self._begins(process, event):
            before = process.origin
            process = self._known[origin] = _Process(replace(before, boot=before.boot + 1))
        match event.kind:
            case values.RELEASE:
                process.released = True
            case values.POLICY:
                process.policy = event.text
            case values.START_FAILED:
                process.busy = process.busy or event.text == values.LAST_WORDS
            case _:
                process.busy = True
        return process.origin

    @staticmethod
    def _begins(process: _Process, event: Event) -> bool:
        if event.kind == values.RELEASE:
            return process.released or process.busy or bool(process.policy)
        if event.kind == values.POLICY:
            return process.busy or process.policy not in ("", event.text)
        return False
