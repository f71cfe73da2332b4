"""Admissions gathered by owner, so that a loop is shown once.

Rules kept here:

1. Rejections of one owner on one node are one group: how often, since when, how fast, and the last in full.
   Different pods are in one group only where reason and hints are the same; the same pod, made again, may
   have other hints for the same reason, which is counted.  What is undecided is grouped by kubelet, too.
2. A pod of the same name that comes again after a rejection was recreated; its uid, where it is logged, shows
   the same.
3. Groups are bounded: of owners beyond ``MOST_GROUPS`` only the number is kept.
"""

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from fnmatch import fnmatchcase

from numawise.apps.logs.wording import STATEFUL, PodOwner, owner_of
from numawise.results import log as values
from numawise.results.explanation import ADMITTED
from numawise.results.log import UNFINISHED, Event, LoggedAdmission, PodRef, Repeats, between
from numawise.values import dataclass, field

MOST_GROUPS = 2000
MOST_NAMES = 3
MOST_OTHERS = 12
MOST_CAME = 4096


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which admissions are asked for."""

    pod: str = ""
    """A name, ``namespace/name``, a uid or a pattern with ``*``; '' for all."""
    since: datetime | None = None
    all: bool = False
    """Also those that were admitted or have no end."""

    def named(self, pod: PodRef) -> bool:
        """True when the pod is asked for."""
        if not self.pod or self.pod == pod.uid:
            return True
        owner = owner_of(pod.name).name
        names = (pod.name, owner, f"{pod.namespace}/{pod.name}", f"{pod.namespace}/{owner}")
        return any(name == self.pod or fnmatchcase(name, self.pod) for name in names)

    def timely(self, time: datetime | None) -> bool:
        """True when it is late enough."""
        if self.since is None or time is None:
            return True
        since = self.since
        if values.YEARLESS in (since.year, time.year):
            since, time = (one.replace(year=values.YEARLESS) for one in (since, time))
        return between(since, time).total_seconds() >= 0


@dataclass(slots=True)
class AdmissionGroup:
    """Admissions of one owner that ended alike."""

    owner: PodOwner
    last: LoggedAdmission
    line: int
    """Where the first of them begins."""
    alone: bool = False
    """Only pods of the first one's name belong to it, as these had different hints."""
    count: int = 0
    recreated: int = 0
    first_time: datetime | None = None
    last_time: datetime | None = None
    names: OrderedDict[str, None] = field(default_factory=OrderedDict)
    named: int = 0
    changes: int = 0

    def add(self, admission: LoggedAdmission) -> None:
        before = self.last if self.count else None
        self.count += 1
        if before is not None and _shape(before) != _shape(admission):
            self.changes += 1
        self.last = admission
        self.seen(admission.start)
        name = admission.pod.name
        if name not in self.names:
            self.named += 1
        self.names[name] = None
        self.names.move_to_end(name)
        if len(self.names) > MOST_NAMES:
            self.names.popitem(last=False)

    def seen(self, time: datetime | None) -> None:
        if time is not None:
            self.first_time = self.first_time or time
            self.last_time = time

    @property
    def repeats(self) -> Repeats:
        """How often, and to whom."""
        kind = self.owner.kind
        if kind == STATEFUL and not (self.recreated or self.named > 1):
            kind = ""
        return Repeats(
            self.owner.name if kind or self.owner.made else self.last.pod.name,
            kind,
            self.count,
            self.recreated,
            self.first_time,
            self.last_time,
            tuple(self.names),
            self.named,
            self.changes,
        )

    def join(self, other: "AdmissionGroup") -> None:
        """Take in a group that turned out to be alike."""
        before = self.last
        self.line = min(self.line, other.line)
        self.count += other.count
        self.recreated += other.recreated
        self.changes += other.changes + (_shape(before) != _shape(other.last))
        self.named += sum(name not in self.names for name in other.names)
        self.names.update(other.names)
        times = [time for time in (self.first_time, other.first_time) if time is not None]
        self.first_time = min(times, default=None)
        if other.last.first_line > before.last_line:
            self.last, self.last_time = other.last, other.last_time or self.last_time


def _shape(admission: LoggedAdmission) -> tuple[object, ...]:
    one = admission.decisive
    hints = None if one is None else (one.container, tuple(one.hints.items()), one.best)
    return admission.reason, admission.likely, hints


def _shape_text(admission: LoggedAdmission) -> str:
    """The same as a key: what was refused, and for which hints."""
    one = admission.decisive
    if one is None:
        return admission.message
    hints = ((name, None if family is None else tuple(family)) for name, family in one.hints.items())
    return repr((one.container, sorted(hints), one.best, admission.troubles))


class Groups:
    """Takes admissions and what is heard of pods' lives; gives groups."""

    def __init__(self, wanted: LogFilter) -> None:
        self.wanted = wanted
        self.groups: dict[tuple[str, ...], AdmissionGroup] = {}
        self.counts = {ADMITTED: 0}
        self.resizes = 0
        """New sizes that running pods were refused."""
        self.left_out = self.early = 0
        self.others: OrderedDict[str, None] = OrderedDict()
        self._by_pod: OrderedDict[tuple[str, ...], AdmissionGroup] = OrderedDict()
        """The last group of a pod, by node, name and reason."""
        self._came: OrderedDict[tuple[str, str, str], bool] = OrderedDict()
        """Pods by node that were rejected and have come again, or not yet."""

    def add(self, admission: LoggedAdmission) -> None:
        """One more admission."""
        pod = admission.pod
        if not self.wanted.timely(admission.start):
            self.early += 1
            return
        if not self.wanted.named(pod):
            if len(self.others) < MOST_OTHERS:
                self.others[pod.shown] = None
            return
        if admission.resize and admission.rejected:
            self.resizes += 1
        else:
            self.counts[admission.verdict] = self.counts.get(admission.verdict, 0) + 1
        if admission.verdict == ADMITTED and not self.wanted.all:
            return
        self._grouped(admission)
        if admission.rejected and not admission.resize:
            self._await(admission.origin.host, pod)

    def _grouped(self, admission: LoggedAdmission) -> None:
        """Into the group of its like, or a new one (rule 1)."""
        pod, host = admission.pod, admission.origin.host
        owner = owner_of(pod.name)
        kind = f"{admission.verdict} {admission.reason} {admission.resize}"
        if admission.verdict == UNFINISHED:
            kind += f" {admission.likely} {admission.origin}"
        own = (host, pod.namespace, pod.name or pod.uid, kind)
        key: tuple[str, ...] = (host, pod.namespace, owner.name or pod.uid, kind, _shape_text(admission))
        group = self.groups.get(key)
        if group is None or (group.alone and pod.name not in group.names):
            group = self._by_pod.get(own)
            if group is not None and (group.named > 1 or admission.verdict == UNFINISHED):
                group = None
        if group is None:
            if len(self.groups) >= MOST_GROUPS:
                self.left_out += 1
                return
            if key in self.groups:
                key = (*key, pod.name)
            group = self.groups[key] = AdmissionGroup(owner, admission, admission.first_line)
        elif admission.rejected:
            group.recreated += self._came_again(group, admission)
        group.add(admission)
        group.alone = group.alone or bool(group.changes)
        self._by_pod[own] = group
        self._by_pod.move_to_end(own)
        if len(self._by_pod) > MOST_CAME:
            self._by_pod.popitem(last=False)

    def settle(self, settled: Callable[[LoggedAdmission], LoggedAdmission]) -> tuple[AdmissionGroup, ...]:
        """All groups at the end of the log, those that are undecided with what follows from all of it."""
        found: list[AdmissionGroup] = []
        undecided: list[AdmissionGroup] = []
        alike: dict[tuple[object, ...], AdmissionGroup] = {}
        for group in self.groups.values():
            before = group.last
            group.last = settled(before)
            if group.last.verdict != before.verdict:
                self.counts[before.verdict] -= group.count
                self.counts[group.last.verdict] = self.counts.get(group.last.verdict, 0) + group.count
            if group.last.verdict == UNFINISHED:
                undecided.append(group)
                continue
            last = group.last
            key = (last.origin.host, last.pod.namespace, group.owner.name, last.verdict, _shape_text(last))
            other = alike.get(key) if last.verdict != before.verdict else None
            if other is not None:
                other.join(group)
            else:
                alike.setdefault(key, group)
                found.append(group)
        found.sort(key=lambda group: group.line)
        undecided.sort(key=lambda group: group.line)
        return (*found, *undecided)

    def _came_again(self, group: AdmissionGroup, admission: LoggedAdmission) -> bool:
        """True for the same name once more, unless its coming was counted already."""
        before, now = group.last.pod, admission.pod
        if now.name not in group.names or (before.uid and before.uid == now.uid):
            return False
        return not self._came.get((admission.origin.host, now.namespace, now.name), False)

    def _await(self, host: str, pod: PodRef) -> None:
        self._came[(host, pod.namespace, pod.name)] = False
        if len(self._came) > MOST_CAME:
            self._came.popitem(last=False)

    def life(self, event: Event) -> None:
        """What is heard of a pod's coming (rule 2)."""
        if event.kind == values.RECREATED:
            self._recreated_before(event)
            return
        for pod in event.pods:
            key = (event.origin.host, pod.namespace, pod.name)
            if self._came.get(key) is False:
                self._came[key] = True
                group = self._group_of(event, pod)
                if group is not None:
                    group.recreated += 1
                    group.seen(event.time)

    def _recreated_before(self, event: Event) -> None:
        """The pod that is here has had a forerunner, of which the log may say nothing else."""
        group = self._group_of(event, event.pod)
        if group is not None and group.count == 1 and not group.recreated:
            group.recreated += 1

    def _group_of(self, event: Event, pod: PodRef) -> AdmissionGroup | None:
        """The group that the pod's last rejection is in."""
        for (host, namespace, name, _), group in reversed(self._by_pod.items()):
            same = (host, namespace, name) == (event.origin.host, pod.namespace, pod.name)
            if same and group.last.rejected and not group.last.resize:
                return group
        return None
