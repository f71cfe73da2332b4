"""Kubelets that did not start: out of events, counted once for a reason, and explained.

Rules kept here:

1. Lines of one process are one failure: what a manager says comes before the last words, which may name the
   manager no more.  The words of the first that has a stage are kept.
2. A kubelet that fails again for the same reason is counted: how often, since when, how fast.
3. What is said is what ``why`` and ``check`` say of the same refusal; what belongs to none of theirs stands
   in the kubelet's own words, with what is known to help (``OTHERS``).
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator

from numawise.apps.logs.wording import span_text
from numawise.explain.start import refusal_answer
from numawise.node.refusal_codes import code_of, refusal_in
from numawise.render.words import times_text
from numawise.results.explanation import NOT_STARTED, Explanation
from numawise.results.finding import codes
from numawise.results.log import LAST_WORDS, Event, Origin, StartFailure, stamp_text
from numawise.rules.check import Refusal
from numawise.rules.validate.general import INVALID
from numawise.values import dataclass, replace

MOST_REASONS = 200
MOST_PENDING = 256
LONGEST_MESSAGE = 4000
ANOTHER = re.compile(
    rf", (?={re.escape(INVALID)}|kubelet is configured|cannot set feature gate|unrecognized )"
)
OTHERS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (
            r"unknown policy: ",
            "cpuManagerPolicy is none or static, memoryManagerPolicy None or Static, with these capitals",
        ),
        (
            r"running with swap on is not supported",
            "Swap is on. Switch it off (swapoff -a, and out of /etc/fstab), or set failSwapOn: false",
        ),
        (
            r"cgroup driver: .* is different from",
            "The container runtime has another cgroup driver. Set cgroupDriver to it: systemd on most nodes",
        ),
        (
            r"LimitedSwap but it is only supported with cgroupv2",
            "memorySwap.swapBehavior: LimitedSwap needs cgroup v2",
        ),
        (
            r"cgroups-per-qos was specified and cgroup-root was not|cgroup-root .* doesn't exist",
            "Check cgroupRoot and cgroupDriver: the cgroup that they name is not there",
        ),
        (
            r"validate (?:service connection|CRI v1)|container runtime is (?:not running|down)",
            "The container runtime does not answer. Check that it runs, and containerRuntimeEndpoint",
        ),
        (
            r"unable to load bootstrap kubeconfig|invalid kubeconfig|client-ca|client CA file",
            "A file with credentials is missing or damaged; the name is in the message",
        ),
        (
            r"unknown (?:shorthand )?flag|failed to parse kubelet flag",
            "This release does not have such a flag. Remove it; many became fields of the configuration file",
        ),
        (
            r"unable to acquire file lock|address already in use",
            "Another kubelet runs on this node",
        ),
        (
            r"failed to read kubelet config file|config file .* was empty",
            "The configuration file is missing, empty or not readable",
        ),
    )
)
"""Errors that only a node can show, and what helps; the first that fits."""


@dataclass(slots=True)
class _Pending:
    refusal: Refusal
    event: Event


class Starts:
    """Takes what kubelets say that do not start; gives failures, each once for its reason."""

    def __init__(self, timely: Callable[[Event], bool] = lambda _: True) -> None:
        self.timely = timely
        self._pending: OrderedDict[Origin, _Pending] = OrderedDict()
        self._found: OrderedDict[tuple[str, str, str], StartFailure] = OrderedDict()
        self.left_out = 0
        """Failures for reasons beyond those that are kept apart."""
        self._up: dict[str, int] = {}
        """By node, the last line of a kubelet that was up."""

    def failed(self, event: Event) -> None:
        """One more line about a start that fails (rule 1)."""
        if not self.timely(event):
            return
        found = refusal_in(event.message[:LONGEST_MESSAGE], event.provider)
        before = self._pending.pop(event.origin, None)
        kept = before if before is not None and before.refusal.stage else _Pending(found, event)
        if event.text == LAST_WORDS:
            if before is not None and not _same(before.refusal, found) and found.stage:
                kept = _Pending(found, event)
            self._add(kept, event.line)
            return
        if before is not None and not _same(before.refusal, found):
            self._add(before, before.event.line)
            kept = _Pending(found, event)
        self._pending[event.origin] = kept
        if len(self._pending) > MOST_PENDING:
            _, oldest = self._pending.popitem(last=False)
            self._add(oldest, oldest.event.line)

    def up(self, origin: Origin, line: int) -> None:
        """A kubelet of a node decides about pods: it has started."""
        self._up[origin.host] = line

    def finish(self) -> tuple[StartFailure, ...]:
        """All that there were, in the order of the log."""
        for pending in self._pending.values():
            self._add(pending, pending.event.line)
        self._pending.clear()
        return tuple(
            replace(
                one, started_later=line if (line := self._up.get(one.origin.host, 0)) > one.last_line else 0
            )
            for one in self._found.values()
        )

    def _add(self, pending: _Pending, line: int) -> None:
        refusal, event = pending.refusal, pending.event
        key = (event.origin.host, refusal.stage, refusal.message)
        before = self._found.get(key)
        if before is None:
            if len(self._found) >= MOST_REASONS:
                self.left_out += 1
                return
            code = code_of(refusal.stage, refusal.message) if refusal.stage else ""
            self._found[key] = StartFailure(
                event.origin, *key[1:], code, 1, event.time, event.time, event.line, line
            )
            return
        self._found[key] = replace(
            before,
            origin=event.origin,
            count=before.count + 1,
            first=before.first or event.time,
            last=event.time or before.last,
            last_line=line,
        )


def _same(one: Refusal, other: Refusal) -> bool:
    """True when one line tells what the other did."""
    return one.message in other.message or other.message in one.message


def explain_start(failure: StartFailure) -> Explanation:
    """Why a kubelet did not start, without its files (rule 3)."""
    refusal = Refusal(failure.stage, failure.message)
    return Explanation(
        name="kubelet",
        verdict=NOT_STARTED,
        answer=refusal_answer(refusal),
        reason=failure.stage,
        message=failure.message,
        remarks=tuple(_remarks(failure)),
    )


def _problems(message: str) -> list[str]:
    """The parts of a message that lists several problems, as the kubelet joins them."""
    listed = message.startswith("[") and message.endswith("]")
    return ANOTHER.split(message[1:-1]) if listed else [message]


def _remarks(failure: StartFailure) -> Iterator[str]:
    if failure.count > 1:
        seconds = failure.seconds
        span = f" in {span_text(seconds)}" if seconds else ""
        rate = f" (every {span_text(seconds / (failure.count - 1))})" if seconds and failure.count > 2 else ""
        since = f", since {stamp_text(failure.first)}" if failure.first is not None else ""
        yield f"It failed {times_text(failure.count)} for this reason{span}{rate}{since}"
    if failure.started_later:
        yield f"A kubelet of this node was up later, at line {failure.started_later:,}"
    if failure.stage:
        for name in dict.fromkeys(code_of(failure.stage, part) for part in _problems(failure.message)):
            code = codes()[name]
            yield f"{name}, {code.title[:1].lower()}{code.title[1:]}: {code.fix.rstrip('.')}"
        return
    for pattern, advice in OTHERS:
        if pattern.search(failure.message):
            yield advice
            return
