"""Scenario files: what happens to one node, step by step.

Rules kept here:

1. A file is a list of steps, or a mapping with ``steps``.  A step is one word (``reconcile``) or a mapping
   with one word and, if wanted, ``at`` (time since the beginning) or ``after`` (since the step before).
2. Files that a step names are looked for beside the scenario; errors in them are reported with their lines.
3. Time never runs backwards.  A step without a time happens together with the one before.
4. What can be checked without a node is checked here; a step keeps its part of the file for what cannot.
5. Instead of a file a step may carry its text (``text``).  Where no folder is known, no file may be named.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from numawise.codec.allocated import quantity
from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.document import Document, Part, field_name, read_file, shown
from numawise.codec.infile import is_there, read_raw
from numawise.codec.pod import amount_of
from numawise.codec.workload import MOST_PODS, objects_in, pod_documents, pods_in, pods_of_all
from numawise.errors import InputError, quoted, suggestion
from numawise.quantity import Quantity
from numawise.request.defaults import RawPod
from numawise.request.resize import SIZES, ResizeRequest, SizeChange
from numawise.results.simulation import (
    Act,
    Add,
    Describe,
    Devices,
    Fill,
    Reconcile,
    Remove,
    ResizeStep,
    Restart,
    Retry,
    ScenarioStep,
    StartStep,
)
from numawise.values import dataclass, field, replace

ADD, START, REMOVE, RESTART, RECONCILE, DEVICES, NODE, FILL, RESIZE, RETRY = (
    "add",
    "start",
    "remove",
    "restart",
    "reconcile",
    "devices",
    "node",
    "fill",
    "resize",
    "retry",
)
WORDS = (ADD, START, REMOVE, RESIZE, RETRY, RESTART, RECONCILE, DEVICES, NODE, FILL)
ALONE = (RECONCILE, RESTART, RETRY)
TIMES = ("at", "after")
TOP = ("apiVersion", "kind", "name", "node", "compare", "steps", "at")
"""Of these only the steps are read here; the page keeps node, comparison and step there, too."""
GONE, UNHEALTHY, BACK, ALL = "gone", "unhealthy", "back", "all"
HEALTH = (GONE, UNHEALTHY, BACK)
SOURCES = ("file", "text", "pod")
NO_PODS = "give a Pod, Deployment, StatefulSet, Job or List"
EARLY, LATE = "before-pods", "after-pods"
STATE_FILES = (CPU_FILE, MEMORY_FILE, DEVICE_FILE)
RESIZE_EXAMPLE = "such as resize: {pod: train, cpu: 8, memory: 16Gi}"
RESIZE_TEXT = "write it as pod=train,container=main,cpu=8,memory=16Gi"
MOST_COPIES, MOST_STEPS = MOST_PODS, 100_000
DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+", re.ASCII)
PIECE = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
LONGEST = 100 * 366 * 86400.0
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class Timed(ScenarioStep):
    """A step of a file."""

    part: Part | None = None
    """Where it is written."""


@dataclass(frozen=True, slots=True)
class Beside:
    """Files beside a scenario, each read once."""

    folder: Path | None = None
    """None: no file may be named (rule 5)."""
    pods: dict[str, tuple[RawPod, ...]] = field(default_factory=dict)


def read_steps(path: str) -> tuple[Timed, ...]:
    """Read a scenario file; ``-`` is standard input."""
    documents = read_file(path)
    if len(documents) > 1:
        raise documents[1].error((), "a scenario is one document", "write all steps in one list")
    folder = Path() if path == "-" else Path(path).parent
    return decode_steps(documents[0], folder)


def decode_steps(document: Document, folder: Path = Path()) -> tuple[Timed, ...]:
    """Read the steps; ``folder``: where the files they name are."""
    root = document.root
    if isinstance(root.value, dict):
        root.mapping(TOP)
        root = root.at("steps")
    parts = root.items("a list of steps")
    if not parts:
        raise root.error("has no steps", f"list some; known are {', '.join(WORDS)}")
    if len(parts) > MOST_STEPS:
        raise root.error(f"has more than {MOST_STEPS:,} steps", "split it into several scenarios")
    found: list[Timed] = []
    beside = Beside(folder)
    arriving = 0
    for part in parts:
        acts = decode_step(part, len(found) + 1, found[-1].at if found else None, beside)
        arriving += sum(len(one.act.pods) for one in acts if isinstance(one.act, Add))
        if arriving > MOST_PODS:
            raise part.error(f"with it more than {MOST_PODS:,} pods have come", "let fewer come")
        found += acts
    return tuple(found)


def decode_step(part: Part, number: int, now: float | None, beside: Beside) -> tuple[Timed, ...]:
    """Read one step, which may be several acts; ``now``: when the step before happens."""
    word, argument = _word(part)
    at = _time(part, now)
    return tuple(Timed(number, word, act, at, part) for act in _acts(word, argument, beside))


def pods_of(path: str) -> tuple[RawPod, ...]:
    """The pods of one file."""
    documents = pod_documents(*read_raw(path))
    return tuple(pods_of_all([one for document in documents for one in objects_in(document.root)]))


def template_of(pods: Sequence[RawPod]) -> RawPod | None:
    """The one pod that all of these are copies of; None when they differ."""
    first = pods[0] if pods else None
    if first is None or any(_asks(pod) != _asks(first) for pod in pods[1:]):
        return None
    name = first.owner.partition(" ")[2] or first.name
    return replace(first, name=name)


def parse_duration(text: str) -> float:
    """``1h30m`` in seconds; raise ``ValueError`` when it is not a duration."""
    if not DURATION.fullmatch(text):
        raise ValueError(f"{quoted(text)} is not a duration")
    seconds = sum(float(size) * SECONDS[unit] for size, unit in PIECE.findall(text))
    if seconds > LONGEST:
        raise ValueError(f"{quoted(text)} is longer than 100 years")
    return seconds


def duration_text(seconds: float) -> str:
    """Seconds as ``1h30m``; 0 is ``0s``."""
    left = round(seconds * 1000)
    out = ""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        if left >= size:
            out += f"{left // size}{unit}"
            left %= size
    return out or "0s"


def _asks(pod: RawPod) -> tuple[object, ...]:
    return (pod.containers, pod.requests, pod.limits, pod.qos, pod.namespace)


def _word(part: Part) -> tuple[str, Part]:
    """The word of a step, and what comes with it."""
    if isinstance(part.value, str):
        if part.value in ALONE:
            return part.value, Part(part.document, part.steps, None)
        if part.value in WORDS:
            raise part.error(f"{part.value} of what?", f"write it as {part.value}: ...")
        raise part.error(f"unknown step {shown(part.value)}", suggestion(part.value, WORDS))
    value = part.mapping((*WORDS, *TIMES), "a step: one word, or a mapping")
    words = [key for key in value if key in WORDS]
    if len(words) != 1:
        what = f"has {' and '.join(words)}" if words else "does nothing"
        raise part.error(f"{what}, and a step does one thing", f"known are {', '.join(WORDS)}")
    return words[0], part.at(words[0])


def _time(part: Part, now: float | None) -> float | None:
    if not isinstance(part.value, dict):
        return now
    given = [key for key in TIMES if key in part.value]
    if len(given) > 1:
        raise part.error("has both at and after", "give one of them")
    if not given:
        return now
    when = part.at(given[0])
    seconds = seconds_of(when)
    if given[0] == "after":
        return (now or 0.0) + seconds
    if now is not None and seconds < now:
        raise when.error(f"{shown(when.value)} is earlier than the previous step, at {duration_text(now)}")
    return seconds


def seconds_of(part: Part) -> float:
    """A time out of a document: seconds, or text such as ``5m``."""
    value = part.value
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LONGEST:
        return float(value)
    try:
        return parse_duration(value if isinstance(value, str) else "")
    except ValueError:
        raise part.error(f"{shown(value)} is not a time", "write it as 30s, 5m or 1h30m") from None


def _acts(word: str, part: Part, beside: Beside) -> list[Act]:
    if word == ADD:
        return [_add(part, beside)]
    if word == START:
        return [StartStep(_names(part))]
    if word == REMOVE:
        return [Remove(_names(part))]
    if word == RESTART:
        return [_restart(part, beside)]
    if word == FILL:
        return [_fill(part, beside)]
    if word == NODE:
        return [_node(part, beside)]
    if word == RESIZE:
        return [_resize(part)]
    if word in (RECONCILE, RETRY):
        if part.value not in (None, True, {}):
            raise part.error(f"takes nothing, not {shown(part.value)}")
        return [Reconcile() if word == RECONCILE else Retry()]
    resources = part.mapping(what="a mapping from resource to what happens")
    if not resources:
        raise part.error("is missing", "such as devices: {nvidia.com/gpu: {unhealthy: [gpu0]}}")
    return [_devices(part.at(resource), resource) for resource in resources]


def _add(part: Part, beside: Beside) -> Add:
    """A file, several, an object, or a mapping with file or pod, count and start."""
    value = part.value
    if isinstance(value, str):
        return Add(_file(part, beside))
    if isinstance(value, list):
        return Add(tuple(pod for item in part.items() for pod in _file(item, beside)))
    given = part.mapping(what="a file, a list of files, or a pod")
    if not given:
        raise part.error("is missing", "give a file with pods, or a pod")
    if "spec" in given or "kind" in given or "metadata" in given:
        return Add(pods_in(part))
    part.mapping((*SOURCES, "count", "start"))
    pods = _pods(part, beside)
    if "count" in given:
        count = part.at("count").integer(1, MOST_COPIES // max(1, len(pods)))
        pods = tuple(_numbered(pod, number) for pod in pods for number in range(count))
    start = part.at("start")
    if start.value not in (None, True, False):
        raise start.error(f"must be true or false, not {shown(start.value)}")
    return Add(pods, start=start.value is not False)


def _numbered(pod: RawPod, number: int) -> RawPod:
    name = f"{pod.name}-{number}"
    return replace(pod, name=name, uid=f"{pod.namespace}/{name}", owner=pod.owner or f"Pod {pod.name}")


def _pods(part: Part, beside: Beside) -> tuple[RawPod, ...]:
    """The pods of a file, a text or an object."""
    given = [name for name in SOURCES if name in part.mapping()]
    if len(given) != 1:
        raise part.error("needs either file, text or pod", "give one of them")
    source = part.at(given[0])
    if given[0] == "file":
        return _file(source, beside)
    if given[0] == "pod":
        return pods_in(source)
    documents = _inside(source)
    pods = tuple(pods_of_all([one for document in documents for one in objects_in(document.root)]))
    if not pods:
        raise source.error("has no pods", NO_PODS)
    return pods


def _inside(part: Part) -> tuple[Document, ...]:
    """The documents of a text; its own lines count where those around it are not known."""
    if part.document.lines is not None:
        return part.inside()
    return pod_documents(part.text().encode(errors="surrogatepass"), field_name(part.steps))


def _file(part: Part, beside: Beside) -> tuple[RawPod, ...]:
    path = _path(part, beside.folder)
    pods = beside.pods.get(path) or pods_of(path)
    beside.pods[path] = pods
    if not pods:
        raise part.error(f"{part.value} has no pods", NO_PODS)
    return pods


def _path(part: Part, folder: Path | None) -> str:
    text = part.text()
    if folder is None:
        raise part.error(f"{quoted(text)} cannot be read: no file may be named here", "give its text")
    path = folder / text
    if not is_there(path):
        raise part.error(f"there is no file {quoted(str(path))}", "paths are relative to the scenario")
    return str(path)


def _names(part: Part) -> tuple[str, ...]:
    if isinstance(part.value, str):
        return (part.value,)
    names = tuple(item.text() for item in part.items("the name of a pod, or a list of names"))
    if not names:
        raise part.error(
            "is missing", "name a pod: NAME, NAMESPACE/NAME, its uid, or a pattern such as web-*"
        )
    return names


def _resize(part: Part) -> ResizeStep:
    """A pod, and the new sizes of its containers, or of itself."""
    given = part.mapping(("pod", "containers", "resources", *SIZES), RESIZE_EXAMPLE)
    if "pod" not in given:
        raise part.error("does not say which pod", RESIZE_EXAMPLE)
    containers = {}
    for name in part.at("containers").mapping(what="a mapping from containers to sizes"):
        containers[name] = _size(part.at("containers", name))
    short = {name: amount_of(part.at(name)) for name in SIZES if name in given}
    if short:
        containers[""] = SizeChange(sizes=short)
    own = _size(part.at("resources")) if "resources" in given else None
    if not containers and own is None:
        raise part.error("changes nothing", RESIZE_EXAMPLE)
    return ResizeStep(part.at("pod").text(), ResizeRequest(containers, own))


def _size(part: Part) -> SizeChange:
    given = part.mapping(("requests", "limits", *SIZES), "new sizes, such as {cpu: 8, memory: 16Gi}")
    if not given:
        raise part.error("changes nothing", "give new sizes, such as {cpu: 8, memory: 16Gi}")
    requests, limits = (
        {name: amount_of(part.at(side, name)) for name in part.at(side).mapping(SIZES)}
        for side in ("requests", "limits")
    )
    return SizeChange(requests, limits, {name: amount_of(part.at(name)) for name in SIZES if name in given})


def resize_text(text: str) -> ResizeStep:
    """``pod=train,container=main,cpu=8,memory=16Gi``, as on the command line."""
    given: dict[str, str] = {}
    for piece in text.split(","):
        key, sign, value = piece.partition("=")
        if not sign or not value or key in given:
            raise InputError(f"{quoted(text)} is not a resize", field="--resize", advice=RESIZE_TEXT)
        given[key] = value
    unknown = next((key for key in given if key not in ("pod", "container", *SIZES)), None)
    if unknown is not None or "pod" not in given or not given.keys() & set(SIZES):
        what = f"{quoted(text)} is not a resize" if unknown is None else f"unknown word {quoted(unknown)}"
        raise InputError(what, field="--resize", advice=RESIZE_TEXT)
    sizes: dict[str, Quantity] = {}
    for name in given.keys() & set(SIZES):
        try:
            sizes[name] = quantity(given[name])
        except ValueError as problem:
            what = f"{name}: {quoted(given[name])} is not a quantity: {problem}"
            raise InputError(what, field="--resize", advice="write it like 500m, 2 or 8Gi") from None
    change = SizeChange(sizes=sizes)
    return ResizeStep(given["pod"], ResizeRequest({given.get("container", ""): change}))


def _node(part: Part, beside: Beside) -> Describe:
    """A file with a Node object, or the object."""
    from numawise.codec.node import node_object, read_node_file  # noqa: PLC0415 - few ask for it

    if part.value is None:
        raise part.error("is missing", "give a file with a Node object, or the object")
    if isinstance(part.value, str):
        return Describe(read_node_file(_path(part, beside.folder)))
    return Describe(node_object(part))


def _restart(part: Part, beside: Beside) -> Restart:
    given = part.mapping(("config", "text", "plugins", "delete"))
    if "config" in given and "text" in given:
        raise part.error("has both config and text", "give one of them")
    plugins = part.at("plugins")
    if plugins.value not in (None, EARLY, LATE):
        raise plugins.error(f"must be {EARLY} or {LATE}, not {shown(plugins.value)}")
    config = _path(part.at("config"), beside.folder) if "config" in given else ""
    text = part.at("text").text() if "text" in given else ""
    return Restart(config, late=plugins.value == LATE, delete=_deleted(part.at("delete")), text=text)


def _deleted(part: Part) -> tuple[str, ...]:
    if part.value == ALL:
        return STATE_FILES
    items = [part] if isinstance(part.value, str) else part.items("state files, or all")
    for item in items:
        if item.text() not in STATE_FILES:
            raise item.error(
                f"there is no state file {shown(item.value)}", suggestion(item.text(), STATE_FILES)
            )
    return tuple(item.text() for item in items)


def _devices(part: Part, resource: str) -> Devices:
    given = part.mapping(HEALTH, "what happens to devices, such as {unhealthy: [gpu0]}")
    if not given:
        raise part.error("is missing", f"say which devices are {', '.join(HEALTH[:-1])} or {BACK}")
    changes: list[tuple[str, tuple[str, ...] | None]] = []
    for health in given:
        one = part.at(health)
        if one.value == ALL:
            changes.append((health, None))
        elif isinstance(one.value, str):
            changes.append((health, (one.value,)))
        else:
            changes.append((health, tuple(item.text() for item in one.items("device ids, or all"))))
    return Devices(resource, tuple(changes))


def _fill(part: Part, beside: Beside) -> Fill:
    most = None
    if isinstance(part.value, dict) and not {"spec", "kind", "metadata"} & set(part.value):
        given = part.mapping((*SOURCES, "most"))
        most = part.at("most").integer(1, MOST_COPIES) if "most" in given else None
        pods = _pods(part, beside)
    else:
        pods = _file(part, beside) if isinstance(part.value, str) else pods_in(part)
    pod = template_of(pods)
    if pod is None:
        raise part.error("holds pods that differ", "give one pod to make copies of")
    return Fill(pod, most)
