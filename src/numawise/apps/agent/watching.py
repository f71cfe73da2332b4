"""What was granted is still so: the duty behind ``--watch``, and with ``--repair`` it is made so again.

Rules kept here:

1. Looking is cheap: two small files a container every ``TICK`` seconds, and at once when somebody writes a
   cpuset; memory once in ``PAGES_EVERY``.  What a first look shows is looked at again after ``SOON``.
2. A drift counts by the rules of ``drift_book``.  A container of the shared pool has two periods of the
   kubelet to be given a new pool; every other drift needs two looks.
3. Nothing is changed without ``--repair``; what is changed with it, ``repairing`` says.
4. What is not known is not drift.  A record that cannot be read judges nobody.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from numawise.apps.agent.drift_book import DriftBook, DriftKey, SeenDrift
from numawise.apps.agent.drift_reports import DriftReports
from numawise.apps.agent.repairing import OUTCOMES, WRITTEN, Repairer
from numawise.apps.agent.sight_values import KubeletSight
from numawise.codec.checkpoint import PLACES
from numawise.codec.checkpoint.look import look
from numawise.codec.claims import DeviceKey, SliceDevice
from numawise.errors import HostError, NumawiseError
from numawise.explain.drift import CPUSET_CHANGED, DRIFTS, MEMS_CHANGED, RECORDS_DIFFER
from numawise.explain.grants import KubeletRecords, kubelet_records
from numawise.explain.placement import MEMORY_REMOTE
from numawise.explain.pod_check import ContainerCheck, NodeRecord, PodChecker, on_one_numa_node
from numawise.host.file_events import FileEvents
from numawise.host.kubelet import read_whole
from numawise.node.state.folder import Against, StateFile, StateFolder
from numawise.node.state.lint import state_findings
from numawise.results.finding import Finding, Severity
from numawise.results.verification import NOT_KNOWN
from numawise.rules.eviction import Duration
from numawise.service.duty import COUNTER, GAUGE, MetricFamily, MetricName, MetricRow
from numawise.service.log import INFO, WARNING, ServiceLog
from numawise.service.turns import Turns
from numawise.values import dataclass, field

TICK, SOON, PAGES_EVERY, SLICES_EVERY = 10.0, 2.5, 60.0, 300.0
SETTLE, PERIOD, RECORDS_WAIT, REPAIR_AGAIN = 2.0, 10.0, 10.0, 60.0
"""Seconds; ``PERIOD`` is the kubelet's default for cpuManagerReconcilePeriod."""
LOOP = "looking at containers"
CPUSETS = (CPUSET_CHANGED, MEMS_CHANGED)
STATE = "state-files"
"""The kind of everything that is wrong with the state files themselves; findings have codes of their own."""
CONTAINERS = MetricName("numawise_watch_containers", GAUGE, "Containers looked at, by verdict.")
ALIGNED = MetricName(
    "numawise_watch_aligned_compute_resources",
    GAUGE,
    "Containers with CPUs of their own that have CPUs, memory and devices as granted, on one NUMA node.",
)
DRIFT = MetricName("numawise_watch_drift", GAUGE, "1: a container has drifted, by kind.")
FOUND = MetricName("numawise_watch_drifts", COUNTER, "Drifts that were found, by kind.")
REPAIRS = MetricName("numawise_watch_repairs", COUNTER, "Cpusets that were to be written back, by outcome.")
EVENTS = MetricName("numawise_watch_events", COUNTER, "Kubernetes Events about drift, by outcome.")
LOOKS = MetricName("numawise_watch_looks", COUNTER, "Looks at all containers.")
WATCH_METRICS = (CONTAINERS, ALIGNED, DRIFT, FOUND, REPAIRS, EVENTS, LOOKS)
ALIGNED_WORD, DRIFTED, UNKNOWN = VERDICTS = ("aligned", "drifted", "unknown")


class Sighted(Protocol):
    """Whoever has the kubelet in sight."""

    @property
    def last(self) -> KubeletSight | None:
        """What was seen last."""
        ...


@dataclass(frozen=True, slots=True)
class WatchPlan:
    """How a node is watched."""

    kubelet_dir: str
    root: Path = Path("/")
    repair: bool = False
    slices: Callable[[], Mapping[DeviceKey, SliceDevice]] | None = field(default=None)
    """Asks the API server what drivers say of their devices; None: there is none to ask."""


class Watcher:
    """Compares what containers have with what they were granted, for ever."""

    name = "watch"

    def __init__(
        self,
        plan: WatchPlan,
        source: Sighted,
        log: ServiceLog,
        reports: DriftReports,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.plan, self.source, self.log, self.reports, self.clock = plan, source, log, reports, clock
        self.turns = Turns()
        self.book = DriftBook()
        self.checker: PodChecker | None = None
        self.repairer: Repairer | None = None
        self.checks: tuple[ContainerCheck, ...] = ()
        self.counts: Counter[tuple[str, str]] = Counter()
        self.looks = 0
        self._woken = asyncio.Event()
        self._events: FileEvents | None = None
        self._records: tuple[Mapping[str, str], KubeletRecords] = ({}, KubeletRecords())
        self._linted: Mapping[str, str] | None = None
        self._wrong: tuple[Finding, ...] = ()
        self._pages_at = self._slices_at = float("-inf")
        self._devices: Mapping[DeviceKey, SliceDevice] = {}
        self._repair_at: dict[str, float] = {}
        self._heard: tuple[str, ...] = ()
        self._unknown: Collection[str] = frozenset()

    # --- a duty -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Find the control groups; without them there is nothing to watch."""
        self.checker = await asyncio.to_thread(PodChecker.of, self.plan.root)
        if self.checker is None:
            raise HostError(
                "no control groups with the cpuset controller are below /sys/fs/cgroup",
                "mount the host's /sys/fs/cgroup there, or name the host's root with --root",
            )
        self.repairer = Repairer(self.checker, self.fresh) if self.plan.repair else None
        try:
            self._events = FileEvents(())
        except HostError as problem:
            self.log.say(INFO, f"{problem}; cpusets are looked at every {TICK:.0f} seconds only")
        else:
            asyncio.get_running_loop().add_reader(self._events.descriptor, self._happened)
        version = self.checker.groups.trees.version
        mode = "writes back cpusets that were changed" if self.plan.repair else "changes nothing"
        told = "" if self.reports.sink is not None else "; there is no API server to send Events to"
        self.log.say(INFO, f"watches containers in control groups version {version}, and {mode}{told}")

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Look, and send Events, for ever."""
        return [self._go_on(), self.reports.deliver()]

    async def stop(self) -> None:
        """Listen no more."""
        if self._events is not None:
            asyncio.get_running_loop().remove_reader(self._events.descriptor)
            self._events.close()
            self._events = None

    def missing(self) -> Sequence[str]:
        """What keeps it from judging."""
        sight = self.source.last
        if sight is None or sight.hardware is None:
            return ["watch: the machine is not known yet"]
        records = self._records[1]
        if self.looks and records.cpu is None and records.memory is None and records.problems:
            return [f"watch: {records.problems[0]}"]
        return [] if self.looks else ["watch: no container was looked at yet"]

    def stuck(self) -> Sequence[str]:
        """Whether the loop goes on."""
        return self.turns.late()

    def families(self) -> Sequence[MetricFamily]:
        """What was found, from memory."""
        drifted = {key.id for key, _ in self.book.standing()}
        verdicts = Counter(self._verdict(check.id, drifted) for check in self.checks)
        names = {check.id: check.grant for check in self.checks}
        drifts: list[MetricRow] = []
        for key, _ in self.book.standing():
            grant = names.get(key.id)
            pod = (grant.namespace, grant.pod) if grant is not None else ("", "")
            kind = key.code if key.code in DRIFTS else STATE
            drifts.append(({"namespace": pod[0], "pod": pod[1], "container": key.container, "kind": kind}, 1))
        sight = self.source.last
        hardware = sight.hardware if sight is not None else None
        aligned = sum(
            1
            for check in self.checks
            if check.grant.alone
            and self._verdict(check.id, drifted) == ALIGNED_WORD
            and hardware is not None
            and on_one_numa_node(hardware, check.grant)
        )
        return [
            CONTAINERS.of(*(({"verdict": word}, verdicts[word]) for word in VERDICTS)),
            ALIGNED.of(({"scope": "container", "boundary": "numa_node"}, aligned)),
            DRIFT.of(*{tuple(labels.items()): (labels, value) for labels, value in drifts}.values()),
            FOUND.of(*(({"kind": kind}, self.counts["found", kind]) for kind in (*DRIFTS, STATE))),
            REPAIRS.of(*(({"outcome": word}, self.counts["repair", word]) for word in OUTCOMES)),
            EVENTS.of(*(({"outcome": word}, count) for word, count in self.reports.counts.items())),
            LOOKS.of(({}, self.looks)),
        ]

    def _verdict(self, id_: str, drifted: Collection[str]) -> str:
        return DRIFTED if id_ in drifted else UNKNOWN if id_ in self._unknown else ALIGNED_WORD

    # --- looking ------------------------------------------------------------------------------------

    async def _go_on(self) -> None:
        while True:
            self.turns.turn(LOOP, TICK)
            await self.look()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SOON if self.book.waiting() else TICK):
                    await self._woken.wait()
                    await asyncio.sleep(SETTLE / 4)  # whoever writes one file may write another
            self._woken.clear()

    async def look(self) -> None:
        """Look once, and say and do what follows from it."""
        sight = self.source.last
        if self.checker is None or sight is None or sight.hardware is None:
            return
        now = self.clock()
        pages = now - self._pages_at >= PAGES_EVERY
        node = await asyncio.to_thread(self.record, sight, now)
        checks = await asyncio.to_thread(self.checker.check, node, pages=pages)
        if pages:
            self._pages_at = now
            await asyncio.to_thread(self._lint, sight)
        self.checks = checks
        self.looks += 1
        by_id = {check.id: check for check in checks}
        seen = self._seen(checks, sight)
        kinds = {*DRIFTS, *(key.code for key in self.book.remembered() if not key.id)}
        if pages:
            self._unknown = {check.id for check in checks if check.grade == NOT_KNOWN}
        else:
            kinds.discard(MEMORY_REMOTE)
        risen, gone = self.book.look(now, seen, kinds, by_id)
        for change in risen:
            self.counts["found", change.key.code if change.key.code in DRIFTS else STATE] += 1
            self.reports.risen(change, by_id.get(change.key.id), sight)
        for change in gone:
            self.reports.gone(change, by_id.get(change.key.id))
            self._repair_at.pop(change.key.id, None)
        for id_ in [one for one in self._repair_at if one not in by_id]:
            del self._repair_at[id_]
            self.reports.forget(id_)
        if self.repairer is not None:
            await self._repair(self.repairer, by_id, now, sight)
        self._listen(checks)

    def record(self, sight: KubeletSight, now: float) -> NodeRecord:
        """What is judged by; blocks where an API server is asked."""
        assert sight.hardware is not None
        if self._records[0] != sight.texts:
            self._records = (sight.texts, kubelet_records(sight.texts))
        claimed = any(
            container.claims
            for pod in (sight.answers.pods if sight.answers is not None else None) or ()
            for container in pod.containers.values()
        )
        if self.plan.slices is not None and claimed and now - self._slices_at >= SLICES_EVERY:
            self._slices_at = now
            try:
                self._devices = self.plan.slices()
                self.log.forget("slices")
            except NumawiseError as problem:
                text = f"where claimed devices are is not known: {problem}"
                self.log.once("slices", WARNING, text)
        return NodeRecord(sight.hardware, self._records[1], sight.answers, sight.pods, self._devices)

    def fresh(self) -> NodeRecord:
        """The kubelet's record as its files say it at this moment; blocks."""
        sight = self.source.last
        if sight is None or sight.hardware is None:
            raise HostError("the machine is not known")
        texts = {}
        for name, places in PLACES.items():
            for place in places:
                file = read_whole(Path(self.plan.kubelet_dir) / place, follow=False)
                if not file.problem:
                    texts[name] = file.data.decode("utf-8", errors="replace")
                    break
        records = kubelet_records(texts)
        if records.problems:
            raise HostError(records.problems[0])
        return NodeRecord(sight.hardware, records)

    def _lint(self, sight: KubeletSight) -> None:
        """Compare the state files with each other, where they changed."""
        if self._linted == sight.texts:
            return
        self._linted = sight.texts
        folder = Path(self.plan.kubelet_dir)
        files = tuple(
            StateFile(name, folder / name, text.encode(errors="replace"), look(name, text))
            for name, text in sight.texts.items()
        )
        node = sight.node  # None: the kubelet would not start with these files, or its settings are not known
        against = Against(node.machine, node.config, version=node.version) if node is not None else Against()
        wrong = state_findings(StateFolder(folder, files), against)
        self._wrong = tuple(one for one in wrong if one.severity is Severity.ERROR)

    def _seen(self, checks: Sequence[ContainerCheck], sight: KubeletSight) -> dict[DriftKey, SeenDrift]:
        period = reconcile_period(sight.configuration)
        seen = {}
        for check in checks:
            for finding in check.findings:
                if finding.severity is not Severity.ERROR:
                    continue
                code = finding.code
                lone = code in CPUSETS or code in (MEMORY_REMOTE, RECORDS_DIFFER)
                key = DriftKey(
                    check.grant.uid, check.grant.container, check.id, code, "" if lone else finding.message
                )
                wait, basis = SETTLE, None
                if code in CPUSETS:
                    basis = (check.grant.cpus, check.grant.mems)
                    # a pass that is late on a busy node is followed by the next
                    wait = SETTLE if check.grant.alone else 2 * period + SETTLE
                elif code == MEMORY_REMOTE:
                    wait = PAGES_EVERY / 2
                elif code == RECORDS_DIFFER:
                    wait = RECORDS_WAIT
                seen[key] = SeenDrift(finding, basis, wait)
        for finding in self._wrong:
            key = DriftKey("", "", "", finding.code, finding.message)
            seen[key] = SeenDrift(finding, None, RECORDS_WAIT)
        return seen

    # --- repairing ----------------------------------------------------------------------------------

    async def _repair(
        self, repairer: Repairer, checks: Mapping[str, ContainerCheck], now: float, sight: KubeletSight
    ) -> None:
        due = {
            key.id: key
            for key, _ in self.book.standing()
            if key.code in CPUSETS and key.id in checks and now >= self._repair_at.get(key.id, now)
        }
        for id_, key in due.items():
            self._repair_at[id_] = now + REPAIR_AGAIN
            outcome = await asyncio.to_thread(repairer.repair, checks[id_], now)
            self.counts["repair", outcome.outcome] += 1
            self.reports.repaired(key, checks[id_], outcome, sight)
            if outcome.outcome == WRITTEN:
                self._woken.set()  # the next look confirms it

    # --- listening ----------------------------------------------------------------------------------

    def _listen(self, checks: Sequence[ContainerCheck]) -> None:
        """Hear of writes into the cpusets of these containers."""
        if self._events is None or self.checker is None:
            return
        heard = tuple(check.group.path for check in checks)
        if heard != self._heard:
            self._heard, groups = heard, self.checker.groups
            self._events.folders = tuple(Path(groups.written_file(check.group)).parent for check in checks)
            self._events.refresh()

    def _happened(self) -> None:
        assert self._events is not None
        assert self.checker is not None
        names = self.checker.groups.trees.written
        if any(path.name in names for path in self._events.changed()):
            self._woken.set()


def reconcile_period(configuration: Mapping[str, Any]) -> float:
    """Seconds between two passes of the kubelet's CPU Manager."""
    value = configuration.get("cpuManagerReconcilePeriod")
    try:
        seconds = Duration.parse(value).seconds if isinstance(value, str) else 0.0
    except ValueError:
        seconds = 0.0
    return seconds if 0 < seconds < 3600 else PERIOD
