"""Recorded traces: one JSON object a line, plain or gzipped."""

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import IO, Any, cast

import msgspec

from numawise.codec.forms import converted
from numawise.codec.infile import name_of, opened, unreadable
from numawise.codec.outfile import check_place, write_whole
from numawise.errors import STEERING, InputError

LONGEST_LINE = 16 << 20
EXAMPLE = 'a line looks like {"scenario": {"id": …, "machine": …, "kubelet": …, "steps": […]}}'


def read_lines(path: str) -> Iterator[tuple[str, bytes]]:
    """Walk the non-empty lines of a file as (place, text)."""
    with opened(path) as raw, _unpacked(raw, path) as file:
        try:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), 1):
                if len(line) > LONGEST_LINE:
                    what = f"is longer than {LONGEST_LINE >> 20} MiB"
                    raise InputError(what, file=f"{name_of(path)}:{number}", advice=EXAMPLE)
                if line.strip():
                    yield f"{name_of(path)}:{number}", line
        except zlib.error as error:
            raise unreadable(error, path) from None


def _unpacked(raw: IO[bytes], path: str) -> AbstractContextManager[IO[bytes]]:
    if path.endswith(".gz"):
        return cast("AbstractContextManager[IO[bytes]]", gzip.GzipFile(fileobj=raw))
    return nullcontext(raw)


def scenario_of(place: str, line: bytes) -> dict[str, Any]:
    """The scenario of one line; a line may also be a scenario itself."""
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"is not JSON ({error})", file=place, advice=EXAMPLE) from None
    scenario = value.get("scenario", value) if isinstance(value, dict) else None
    if (
        not isinstance(scenario, dict)
        or not isinstance(scenario.get("machine"), dict)
        or "id" not in scenario
    ):
        raise InputError("has no scenario with an id and a machine", file=place, advice=EXAMPLE)
    return scenario


# --- the form of a scenario -----------------------------------------------------------------

Amounts = dict[str, str | int | float] | None


class TraceResources(msgspec.Struct):
    """What a container or a pod asks for."""

    requests: Amounts = None
    limits: Amounts = None


class TraceContainer(msgspec.Struct):
    """A container of a recorded pod."""

    name: str
    resources: TraceResources | None = None
    restartPolicy: str | None = None  # noqa: N815 - as Kubernetes writes it


class TracePodSpec(msgspec.Struct):
    """The specification of a recorded pod."""

    containers: list[TraceContainer]
    initContainers: list[TraceContainer] | None = None  # noqa: N815 - likewise
    resources: TraceResources | None = None
    overhead: Amounts = None


class TraceMetadata(msgspec.Struct):
    """The names of a recorded pod."""

    name: str
    namespace: str | None = None
    uid: str | None = None


class TraceStatus(msgspec.Struct):
    """What a cluster says about a recorded pod."""

    qosClass: str | None = None  # noqa: N815 - likewise


class TracePod(msgspec.Struct):
    """A recorded pod."""

    metadata: TraceMetadata
    spec: TracePodSpec
    status: TraceStatus | None = None


class TraceRestart(msgspec.Struct):
    """How a kubelet is restarted."""

    machine: dict[str, Any] = {}
    kubelet: dict[str, Any] = {}
    plugins: str = ""


class TraceResize(msgspec.Struct):
    """A new spec of a recorded pod."""

    uid: str
    containers: dict[str, TraceResources] = {}
    resources: TraceResources | None = None


class TraceStep(msgspec.Struct, forbid_unknown_fields=True):
    """One step: exactly one of these."""

    add: TracePod | msgspec.UnsetType = msgspec.UNSET
    remove: str | msgspec.UnsetType = msgspec.UNSET
    reconcile: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    restart: TraceRestart | msgspec.UnsetType = msgspec.UNSET
    devices: dict[str, list[Any]] | msgspec.UnsetType = msgspec.UNSET
    resize: TraceResize | msgspec.UnsetType = msgspec.UNSET
    retry: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


class TraceScenario(msgspec.Struct):
    """What is run of a line."""

    machine: dict[str, Any]
    kubelet: dict[str, Any] | None = None
    kubernetes: str | None = None
    admission: str | None = None
    steps: list[TraceStep] | None = None


def check_scenario(scenario: dict[str, Any]) -> None:
    """Refuse what has not the form of a scenario."""
    try:
        converted(scenario, TraceScenario)
    except msgspec.ValidationError as problem:
        raise InputError(f"is not a scenario: {problem}") from None
    for number, step in enumerate(scenario.get("steps") or ()):
        if len(step) != 1:
            raise InputError("must have exactly one step", field=f"steps[{number}]")


def encode_line(value: object) -> str:
    """One line of results."""
    text = msgspec.json.encode(value).decode()
    return STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"


@contextmanager
def written(path: str | None) -> Iterator[Callable[[str], object]]:
    """A function that writes to the file, which appears when all is done, or to standard output."""
    if path is None:
        yield sys.stdout.write
        return
    check_place(path)
    text = io.StringIO()
    yield text.write
    write_whole(path, text.getvalue())
