"""Traces: which pod arrives when, and how long it runs.

Rules kept here:

1. A trace is a JSON object for each pod, one after the other (``.jsonl``), a list of them, or a stream of
   YAML documents.  ``at`` is when it arrives and ``seconds`` how long it runs: seconds, or text such as
   ``5m``.
2. What it asks for is one of: ``gpus``, ``cpu``, ``memory`` and ``resources`` of one container, which has
   them as requests and as limits; ``pod``, a manifest; ``file``, a manifest beside the trace with one pod.
3. Pods need not be in the order of time.  Names may repeat; a pod without one is numbered.
"""

from collections.abc import Iterator
from pathlib import Path

from numawise.codec.document import Part, read_file, shown
from numawise.codec.infile import is_there
from numawise.codec.pod import amount_of, unique_uids
from numawise.codec.steps import pods_of, seconds_of
from numawise.codec.workload import MOST_PODS, pods_in
from numawise.errors import quoted
from numawise.quantity import Quantity
from numawise.request.defaults import RawContainer, RawPod
from numawise.request.model import CPU, MEMORY, Role
from numawise.results.cluster import Arrival
from numawise.values import replace

GPU_RESOURCE = "nvidia.com/gpu"
SHORT = ("gpus", "cpu", "memory", "resources")
FIELDS = ("at", "seconds", "name", *SHORT, "pod", "file")
EXAMPLE = 'such as {"at": 12.5, "seconds": 600, "gpus": 1, "cpu": "22", "memory": "225Gi"}'
MOST_GPUS = 100_000


def read_arrivals(path: str) -> tuple[Arrival, ...]:
    """Read a trace in the order of time; ``-`` is standard input."""
    folder = Path() if path == "-" else Path(path).parent
    reader = _Reader(folder)
    documents = read_file(path)
    rows = [part for document in documents for part in _rows(document.root)]
    if not rows:
        raise documents[0].root.error("has no pods", EXAMPLE)
    if len(rows) > MOST_PODS:
        raise rows[MOST_PODS].error(f"with it the trace has more than {MOST_PODS:,} pods", "split it")
    arrivals = [reader.arrival(row, number) for number, row in enumerate(rows)]
    pods = unique_uids(arrival.pod for arrival in arrivals)
    arrivals = [replace(arrival, pod=pod) for arrival, pod in zip(arrivals, pods, strict=True)]
    return tuple(sorted(arrivals, key=lambda arrival: arrival.at))


def _rows(root: Part) -> Iterator[Part]:
    if isinstance(root.value, list):
        yield from root.items()
    else:
        yield root


class _Reader:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: dict[str, RawPod] = {}
        self.containers: dict[tuple[str, ...], tuple[RawContainer, ...]] = {}
        """Pods that ask for the same share their containers."""

    def arrival(self, row: Part, number: int) -> Arrival:
        given = row.mapping(FIELDS, "a pod, " + EXAMPLE)
        ways = [name for name in ("pod", "file") if name in given]
        short = [name for name in SHORT if name in given]
        if len(ways) + bool(short) != 1:
            both = f"has {' and '.join([*ways, *short[:1]])}" if ways else "asks for nothing"
            raise row.error(both, f"give one of pod, file, or {', '.join(SHORT)}; {EXAMPLE}")
        at, seconds = seconds_of(row.at("at")), seconds_of(row.at("seconds"))
        if not seconds:
            raise row.at("seconds").error("must be more than 0")
        name = row.at("name").text() if row.at("name").value is not None else f"pod-{number}"
        if short:
            pod = RawPod(f"default/{name}", name, self.short(row))
        else:
            pod = (
                self.file(row.at("file"))
                if ways == ["file"]
                else _only(row.at("pod"), pods_in(row.at("pod"), "Pod"))
            )
            if "name" in given:
                pod = replace(pod, name=name, uid=f"{pod.namespace}/{name}")
        return Arrival(at, seconds, pod)

    def short(self, row: Part) -> tuple[RawContainer, ...]:
        """One container with what the row asks for."""
        key = tuple(repr(row.at(name).value) for name in SHORT)
        containers = self.containers.get(key)
        if containers is None:
            amounts = {
                name: _amount(row.at(name)) for name in (CPU, MEMORY) if row.at(name).value is not None
            }
            for name in row.at("resources").mapping(what="a mapping from resource to amount"):
                amounts[name] = _amount(row.at("resources", name))
            if row.at("gpus").value is not None:
                if GPU_RESOURCE in amounts:
                    raise row.at("gpus").error(f"and {GPU_RESOURCE} are given", "give one of them")
                gpus = row.at("gpus").integer(0, MOST_GPUS)
                amounts |= {GPU_RESOURCE: Quantity.parse(str(gpus))} if gpus else {}
            containers = (RawContainer("main", Role.APP, amounts, amounts),)
            self.containers[key] = containers
        return containers

    def file(self, part: Part) -> RawPod:
        path = str(self.folder / part.text())
        if path not in self.files:
            if not is_there(path):
                raise part.error(f"there is no file {quoted(path)}", "paths are relative to the trace")
            self.files[path] = _only(part, pods_of(path))
        return self.files[path]


def _only(part: Part, pods: tuple[RawPod, ...]) -> RawPod:
    if len(pods) != 1:
        raise part.error(f"has {len(pods)} pods, and one arrives", "give a manifest with one pod")
    return pods[0]


def _amount(part: Part) -> Quantity:
    amount = amount_of(part)
    if amount.nano < 0:
        raise part.error(f"{shown(part.value)} is negative")
    return amount
