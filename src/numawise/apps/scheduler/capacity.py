"""How many more pods would be let in, for those who send jobs: an answer to ``/capacity``, and a metric.

Rules kept here:

1. ``/capacity`` takes shapes (``shape=cpu=4,memory=8Gi,nvidia.com/gpu=1``, several times) or, as a body,
   pods; with neither, the shapes that were learned are counted.  The answer is that of ``numawise capacity``.
2. ``numawise_fits`` has the learned shapes, counted from time to time; there are never more of them than
   shapes count in choosing nodes.
3. Counting is done beside the questions of the scheduler, a few nodes at a time, and rests longer than it
   works.
4. Once the cluster has been read, its state is worked out before somebody waits for it.
"""

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from numawise.cluster.live_places import LivePlaces
from numawise.codec.cluster_pod import MOST_CONTAINERS
from numawise.codec.document import Document, read_documents
from numawise.codec.output import to_json
from numawise.codec.workload import decode_pods
from numawise.errors import InputError, quoted
from numawise.render.cluster import places_data
from numawise.request.defaults import RawPod
from numawise.results.cluster import PlacesReport
from numawise.service.duty import GAUGE, MetricFamily, MetricName
from numawise.service.log import ServiceLog
from numawise.service.turns import Turns
from numawise.strconv import whole_number

EVERY, LOOK, MOST, LARGEST_MOST, MOST_SHAPES = 10.0, 0.1, 64, 10_000, 50
REST = 0.004
"""Seconds between two looks at nodes."""
LONGEST_QUESTION = 1 << 20
FITS = MetricName(
    "numawise_fits", GAUGE, f"Pods of a learned shape that would be let in now, at most {MOST} on a node."
)
FITS_AGE = MetricName("numawise_fits_age_seconds", GAUGE, "Seconds since these were counted.")
CAPACITY_METRICS = (FITS, FITS_AGE)
Query = Sequence[tuple[str, str]]


class FreePlaces:
    """The duty that counts places."""

    name = "capacity"

    def __init__(
        self,
        places: LivePlaces,
        synced: Callable[[], bool],
        log: ServiceLog,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.places, self.synced, self.log, self.clock = places, synced, log, clock
        self.report: PlacesReport | None = None
        self._counted = 0.0
        self._ending = threading.Event()
        self._turns = Turns()

    async def answer(self, query: Query, body: bytes) -> bytes:
        """The answer to ``/capacity`` (rule 1)."""
        most, named = asked_shapes(query, body)
        report = await asyncio.to_thread(self.places.report, named, most, self.clock, self._rest)
        return to_json(places_data(report)).encode()

    # --- a duty ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Nothing."""

    def tasks(self) -> Sequence[Coroutine[Any, Any, None]]:
        """Count from time to time."""
        return (self._go_on(),)

    async def stop(self) -> None:
        """Count no more."""
        self._ending.set()

    def missing(self) -> Sequence[str]:
        """Nothing: a metric that comes later is no reason to wait."""
        return ()

    def stuck(self) -> Sequence[str]:
        """Loops that do not go on."""
        return self._turns.late()

    def families(self) -> Sequence[MetricFamily]:
        """What would be let in."""
        report = self.report
        if report is None:
            return ()
        rows = [({"shape": places.name}, places.total) for places in report.shapes]
        return FITS.of(*rows), FITS_AGE.of(({}, round(time.monotonic() - self._counted, 1)))

    async def _go_on(self) -> None:
        settled = False
        while True:
            self._turns.turn(self.name, EVERY + 600)
            if self.synced():
                try:
                    if not settled:
                        await asyncio.to_thread(self._settle)
                        settled = True
                    await self._count()
                except Exception as problem:  # noqa: BLE001 - a metric must not end an extender
                    self.log.mistake(self.name, problem)
            await asyncio.sleep(EVERY if settled else LOOK)

    def _settle(self) -> None:
        """Rule 4; the collector of garbage then leaves all that alone, or it would stop answers for long."""
        self.places.visit(self.clock)
        gc.collect()
        gc.freeze()

    async def _count(self) -> None:
        self.report = await asyncio.to_thread(
            self.places.report, (), MOST, self.clock, self._rest, reasons=False
        )
        self._counted = time.monotonic()

    def _rest(self) -> None:
        """Rule 3."""
        if self._ending.wait(REST):
            raise InputError("the program is ending")


def asked_shapes(query: Query, body: bytes) -> tuple[int, list[tuple[str, RawPod]]]:
    """How many to count on a node, and the shapes that are asked about."""
    most, named = MOST, []
    for name, value in query:
        if name == "most" and value.isascii() and value.isdigit() and 0 < whole_number(value) <= LARGEST_MOST:
            most = whole_number(value)
        elif name == "shape":
            named.append((value, shape_pod(value)))
        else:
            raise InputError(
                f"{quoted(f'{name}={value}')} is not known here",
                advice=f"there are shape=cpu=4,memory=8Gi,nvidia.com/gpu=1 and most=N up to {LARGEST_MOST}",
            )
    if body.strip():
        if len(body) > LONGEST_QUESTION:
            raise InputError(f"the pods have more than {LONGEST_QUESTION >> 20} MiB")
        for document in read_documents(body, "body"):
            named += [(pod.name, pod) for pod in decode_pods(document)]
    for name, pod in named:
        if len(pod.containers) > MOST_CONTAINERS:
            problem = f"has {len(pod.containers)} containers, and at most {MOST_CONTAINERS} are looked at"
            raise InputError(f"pod {quoted(name)} {problem}")
    if len(named) > MOST_SHAPES:
        raise InputError(f"{len(named)} shapes are asked about at once, and at most {MOST_SHAPES} may be")
    return most, named


def shape_pod(text: str) -> RawPod:
    """A pod of one container that asks for so much of each resource, and is given it for itself."""
    limits: dict[str, str] = {}
    for part in text.split(","):
        name, equals, amount = part.strip().partition("=")
        if not (name and equals and amount) or name in limits:
            raise InputError(
                f"{quoted(text)} is not a shape", advice="write it like cpu=4,memory=8Gi,nvidia.com/gpu=1"
            )
        limits[name] = amount
    containers = [{"name": "main", "resources": {"limits": limits}}]
    value = {"kind": "Pod", "metadata": {"name": "shape"}, "spec": {"containers": containers}}
    (pod,) = decode_pods(Document(value, "shape"))
    return pod
