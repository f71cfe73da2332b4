"""What is wrong with the memory in a state file: books that contradict themselves, or not the machine's."""

from collections.abc import Iterator

from numawise.codec.checkpoint import MEMORY_FILE
from numawise.node.node import Files, boot
from numawise.node.state.finding import DRAIN, ERROR, Against, Finding
from numawise.node.state.folder import StateFolder
from numawise.node.state.memory_tables import USUAL, Difference, Drift, amount, contradiction, drift
from numawise.rules.check import Refusal
from numawise.sets import format_ids


def memory_findings(folder: StateFolder, against: Against) -> Iterator[Finding]:
    """Books that contradict themselves, and books that are not those of the machine."""
    file = folder.file(MEMORY_FILE)
    if file is None or file.look.memory is None or file.look.policy != "Static":
        return
    state = file.look.memory
    wrong = contradiction(state)
    if wrong:
        fix = "numawise state repair --recompute-books counts anew from the blocks"
        yield Finding("books", ERROR, MEMORY_FILE, wrong, fix)
    if against.machine is None or not state.numa:
        return
    reserved = None
    if against.config is not None:
        node = boot(against.machine, against.config, Files(), version=against.version)
        if not isinstance(node, Refusal):
            if not node.rules.memory_static:
                return
            reserved = node.rules.reserved_memory
    found = drift(state, against.machine, reserved)
    if found.there:
        safe = f"not safe to adapt: {found.obstacle}" if found.obstacle else "safe to adapt"
        fix = (
            f"{DRAIN}, then numawise state repair --reset memory"
            if found.obstacle
            else "numawise state repair --adapt-memory; pods keep what they have"
        )
        yield Finding("memory-drift", ERROR, MEMORY_FILE, f"{drift_text(found)}; {safe}", fix)


def drift_text(found: Drift) -> str:
    """How books and machine differ, in one sentence."""
    parts = []
    if found.gone:
        parts.append(f"NUMA {format_ids(found.gone)} is not there any more")
    if found.new:
        parts.append(f"NUMA {format_ids(found.new)} is new")
    parts += [_difference(one) for one in found.totals]
    parts += [
        f"NUMA {one.numa} keeps {amount(one.now)} of {one.kind} for the system "
        f"(recorded {amount(one.recorded)})"
        for one in found.reservations
    ]
    if found.kinds:
        parts.append(f"only one side knows {', '.join(found.kinds)}")
    if found.usual:
        parts.append(f"as a reboot does it (up to {amount(USUAL)})")
    return ", ".join(parts)


def _difference(one: Difference) -> str:
    way = "more" if one.change > 0 else "less"
    return (
        f"NUMA {one.numa} has {amount(abs(one.change))} {way} {one.kind} than recorded "
        f"({amount(one.now)}, recorded {amount(one.recorded)})"
    )
