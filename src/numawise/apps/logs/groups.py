"""Admissions gathered by owner, so that a loop is shown once.

Rules kept here:

1. Rejections of one owner on one node are one group: how often, since when, how fast, and the last in full.
2. A pod of the same name that comes again after a rejection was recreated; its uid, where it is logged, shows
   the same.
3. Groups are bounded: of owners beyond ``MOST_GROUPS`` only the number is kept.
"""

from collections import OrderedDict
from datetime import datetime
from fnmatch import fnmatchcase

from numawise.apps.logs.wording import STATEFUL, PodOwner, owner_of
from numawise.results import log as values
from numawise.results.explanation import ADMITTED
from numawise.results.log import Event, LoggedAdmission, PodRef, Repeats, between
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


def _shape(admission: LoggedAdmission) -> tuple[object, ...]:
    one = admission.decisive
    hints = None if one is None else (one.container, tuple(one.hints.items()), one.best)
    return admission.reason, hints


class Groups:
    """Takes admissions and what is heard of pods' lives; gives groups."""

    def __init__(self, wanted: LogFilter) -> None:
        self.wanted = wanted
        self.groups: dict[tuple[str, str, str, str], AdmissionGroup] = {}
        self.counts = {ADMITTED: 0}
        self.left_out = self.early = 0
        self.others: OrderedDict[str, None] = OrderedDict()
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
        self.counts[admission.verdict] = self.counts.get(admission.verdict, 0) + 1
        if not admission.rejected and not self.wanted.all:
            return
        owner = owner_of(pod.name)
        host = admission.origin.host
        key = (host, pod.namespace, owner.name or pod.uid, admission.verdict)
        group = self.groups.get(key)
        if group is None:
            if len(self.groups) >= MOST_GROUPS:
                self.left_out += 1
                return
            group = self.groups[key] = AdmissionGroup(owner, admission)
        elif admission.rejected:
            group.recreated += self._is_anew(group, admission)
        group.add(admission)
        if admission.rejected:
            self._await(host, pod)

    def _is_anew(self, group: AdmissionGroup, admission: LoggedAdmission) -> bool:
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
        owner = owner_of(pod.name).name
        return self.groups.get((event.origin.host, pod.namespace, owner, "rejected"))
