"""What ``kubectl describe pod`` and ``kubectl get events`` print, as the objects that were printed.

Rules kept here:

1. A description becomes a Pod with what decides on it (resources, node, owner, class, priority, tolerations,
   node selector) and its status; its events become Events.  Whatever else it prints is passed over.
2. A table of events is read by the columns of its header, and by the gaps between cells where a row does not
   keep to them.  Ages are relative to the time of printing; they stay text (``age``).
3. A description does not say which init containers are sidecars; one that runs beside the others is one.
4. Text is taken as people paste it: quoted, indented, with colours, between other lines.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from itertools import pairwise
from typing import Any

from numawise.codec.document import Document
from numawise.codec.hardware.pasted import lines as plain_lines
from numawise.errors import InputError

EDGE, WIDE = rb"^[ \t>#/|]*", rb"(?: {2,200}|\t{1,20})"
KINDS = rb"(?:Warning|Normal)" + WIDE + rb"[A-Z][\w ]{0,60}?" + WIDE
DESCRIBED = re.compile(EDGE + rb"Name:[ \t]+\S[^\n]*\n[ \t>#/|]*Namespace:[ \t]+\S", re.MULTILINE)
LISTED = re.compile(
    rb"^[^\n]{0,60}?LAST ?SEEN\b[^\n]{0,200}?\bREASON\b[^\n]{0,200}?\bMESSAGE\b", re.MULTILINE
)
TABLED = re.compile(EDGE + rb"Type[ \t]+Reason[ \t]+Age[ \t]+From[ \t]+Message[ \t]*$", re.MULTILINE)
AGE = rb"(?:\d{1,4}[smhdy]\S{0,20}|<unknown>)(?: \(x\d{1,9} over [^\s()]{1,20}\))?"
ROW = re.compile(EDGE + KINDS + AGE + WIDE + rb"\S", re.MULTILINE)
LISTED_ROW = re.compile(
    rb"^[^\n]{0,100}?" + AGE + WIDE + KINDS + rb"[Pp]od/\S{1,300}" + WIDE + rb"\S", re.MULTILINE
)
"""Forms of texts; every repetition is bounded, because anybody may write one."""
MANIFEST = re.compile(rb"^(?:apiVersion|kind):", re.MULTILINE)
LISTED_HEAD = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
ROW_HEAD = ("Type", "Reason", "Age", "From", "Message")
SNIFFED = 1 << 20
KEY = re.compile(r"([A-Z][A-Za-z/ -]*?):(?:\s+(.*))?")
NAMED = re.compile(r" {1,3}([a-z0-9]([a-z0-9-]*[a-z0-9])?):")
AMOUNT = re.compile(r"\s+([A-Za-z0-9][\w./-]*):\s+(\S+)", re.ASCII)
WORDS = re.compile(r"\S+(?: \S+)*")
GAP = re.compile(r"\s{2,}|\t+")
TIMES = re.compile(r"\(x(\d{1,9}) over ")
TOLERATION = re.compile(r"([^\s=:]*)(?:=([^\s:]*))?(?::(\w+))?(?: ?op=(\w+))?(?: for (\d+)s)?")
CONTAINERS = {"Init Containers": "initContainers", "Containers": "containers"}
SIDES = {"Limits": "limits", "Requests": "requests"}
OWN_ANNOTATION = re.compile(r"(kubernetes\.io/config\.\w+):\s+(\S+)")
PORT = re.compile(r"\b(\d{1,5})/([A-Z]+)", re.ASCII)
NOT_OF_PODS = frozenset(
    {"Replicas", "Pod Template", "Pods Status", "Parallelism", "Desired Number of Nodes Scheduled"}
)
"""Fields of owners."""
NOTHING = ("", "<none>", "<unset>", "<unknown>")
MOST_EVENTS = 100_000

Data = dict[str, Any]


def is_kubectl_text(raw: bytes) -> bool:
    """Whether a text has a description of a pod or a table of events in it."""
    head = raw[:SNIFFED]
    if head.lstrip()[:1] in (b"{", b"[") or MANIFEST.search(head):
        return False
    return any(form.search(head) for form in (DESCRIBED, LISTED, TABLED, ROW, LISTED_ROW))


def kubectl_documents(raw: bytes, file: str) -> tuple[Document, ...]:
    """The pods that a text describes, each a document, and its events, a document together."""
    rows = [row.expandtabs() for row in plain_lines(raw.decode("utf-8", errors="replace"))]
    starts = [at for at, row in enumerate(rows[:-1]) if _begins(row, rows[at + 1])]
    pods: list[Data] = []
    events: list[Data] = []
    for at, end in pairwise([*starts, len(rows)]):
        indent = len(rows[at]) - len(rows[at].lstrip())
        description = _Description([_unindented(row, indent) for row in rows[at:end]])
        if description.sections.isdisjoint(NOT_OF_PODS):
            pods.append(description.pod)
            events += description.events
    if not starts:
        events += _listed(rows)
    if len(events) > MOST_EVENTS:
        raise InputError(f"has more than {MOST_EVENTS:,} events", file=file, advice="give fewer of them")
    documents = [Document(pod, file) for pod in pods]
    if events:
        documents.append(Document({"kind": "EventList", "apiVersion": "v1", "items": events}, file))
    if not documents:
        what = "describes something else than a pod" if starts else "has neither a pod nor events"
        raise InputError(what, file=file, advice="give what 'kubectl describe pod NAME' prints, all of it")
    return tuple(documents)


def _begins(row: str, following: str) -> bool:
    """Whether a description of an object of a namespace begins here."""
    return row.lstrip().startswith("Name: ") and following.lstrip().startswith("Namespace: ")


def _unindented(row: str, indent: int) -> str:
    return row[indent:] if not row[:indent].strip() else row.lstrip()


# --- a description ----------------------------------------------------------------------------


class _Description:
    """One pod, line by line."""

    def __init__(self, rows: Sequence[str]) -> None:
        self.metadata: Data = {}
        self.spec: Data = {}
        self.status: Data = {}
        self.events: list[Data] = []
        self.sections: set[str] = set()
        section, own = "", list[str]()
        for row in rows:
            key = KEY.fullmatch(row.rstrip()) if row[:1].strip() else None
            if key is None:
                own.append(row.rstrip())
                continue
            self._read(section, own)
            section, own = key[1], [key[2] or ""]
        self._read(section, own)
        self._settle_sidecars()

    @property
    def pod(self) -> Data:
        """The pod as an API server would have returned it, as far as it was printed."""
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": self.metadata,
            "spec": self.spec,
            "status": self.status,
        }

    def _settle_sidecars(self) -> None:
        """Tell sidecars from other init containers (rule 3)."""
        apps, inits = self.spec.get("containers", []), self.spec.get("initContainers", [])
        running = [one.pop("running") for one in apps]
        for one in inits:
            if one.pop("running") and any(running):
                one["restartPolicy"] = "Always"

    def _read(self, section: str, rows: Sequence[str]) -> None:
        """One field with the lines below it."""
        self.sections.add(section)
        value = rows[0].strip() if rows else ""
        if section in CONTAINERS:
            self.spec[CONTAINERS[section]] = list(_containers(rows[1:]))
        elif section == "Events":
            self.events += _described_events(rows[1:], self.metadata)
        elif section == "Resources":
            self.spec["resources"] = _resources(rows[1:], 0)
        elif section == "Tolerations":
            self.spec["tolerations"] = [one for row in rows if (one := _toleration(row.strip()))]
        elif section == "Node-Selectors":
            pairs = (row.strip().partition("=") for row in rows if "=" in row)
            self.spec["nodeSelector"] = {name: text for name, _, text in pairs}
        elif section == "Annotations":
            named = (OWN_ANNOTATION.match(row.strip()) for row in rows)
            self.metadata["annotations"] = {one[1]: one[2] for one in named if one}
        elif value not in NOTHING:
            self._field(section, value, rows)

    def _field(self, section: str, value: str, rows: Sequence[str]) -> None:
        match section:
            case "Name" | "Namespace":
                self.metadata[section.lower()] = value
            case "Node":
                self.spec["nodeName"] = value.partition("/")[0]
            case "Priority" if value.lstrip("-").isdigit() and len(value) < 12:
                self.spec["priority"] = int(value)
            case "Start Time":
                self.status["startTime"] = _time(value)
            case "Status":
                self.status["phase"] = "Running" if value.startswith("Terminating") else value
            case "Reason":
                self.status["reason"] = value
            case "Message":
                self.status["message"] = " ".join(row.strip() for row in rows).strip()
            case "QoS Class":
                self.status["qosClass"] = value
            case "Controlled By":
                kind, _, name = value.partition("/")
                self.metadata["ownerReferences"] = [{"kind": kind, "name": name, "controller": True}]


def _time(text: str) -> str:
    """A time as Go prints it, as RFC 3339; '' where it is none."""
    try:
        return parsedate_to_datetime(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, TypeError, OverflowError):
        return ""


def _containers(rows: Sequence[str]) -> Iterator[Data]:
    """The containers below a heading."""
    name, own = "", list[str]()
    for row in rows:
        named = NAMED.fullmatch(row)
        if named is None:
            own.append(row)
            continue
        if name:
            yield _container(name, own)
        name, own = named[1], []
    if name:
        yield _container(name, own)


def _container(name: str, rows: Sequence[str]) -> Data:
    container: Data = {"name": name, "image": "", "resources": _resources(rows, 1), "running": False}
    for row in rows:
        field = KEY.fullmatch(row.strip())
        if field is not None and field[1] == "Image" and field[2]:
            container["image"] = field[2].strip()
        elif field is not None and field[1] == "State" and field[2]:
            container["running"] = field[2].strip() == "Running"
        elif field is not None and field[1] in ("Host Port", "Host Ports") and field[2]:
            ports = [(int(port[1]), port[2]) for port in PORT.finditer(field[2]) if int(port[1])]
            container["ports"] = [
                {"containerPort": port, "hostPort": port, "protocol": protocol} for port, protocol in ports
            ]
    return container


def _resources(rows: Sequence[str], least: int) -> Data:
    """Limits and requests; ``least``: they are indented by more than so many blanks."""
    resources: Data = {}
    side: Data | None = None
    depth = 0
    for row in rows:
        indent = len(row) - len(row.lstrip())
        heading = row.strip().removesuffix(":")
        if row.strip().endswith(":") and heading in SIDES and indent > least:
            side, depth = resources.setdefault(SIDES[heading], {}), indent
        elif side is not None and indent > depth and (amount := AMOUNT.fullmatch(row)):
            side[amount[1]] = amount[2]
        else:
            side = None
    return resources


def _toleration(text: str) -> Data | None:
    if text == "op=Exists":
        return {"operator": "Exists"}
    found = TOLERATION.fullmatch(text)
    if found is None or text in NOTHING:
        return None
    key, value, effect, operator, seconds = found.groups()
    toleration: Data = {"operator": operator or "Equal", "key": key, "value": value, "effect": effect}
    if not operator and value is None:
        toleration["operator"] = "Equal"
        toleration["value"] = ""
    if seconds and len(seconds) < 12:
        toleration["tolerationSeconds"] = int(seconds)
    return {name: one for name, one in toleration.items() if one is not None and (one or name == "value")}


# --- events -----------------------------------------------------------------------------------


def _described_events(rows: Sequence[str], metadata: Data) -> Iterator[Data]:
    """The table at the end of a description."""
    head = next((at for at, row in enumerate(rows) if row.split()[:2] == ["Type", "Reason"]), None)
    if head is None:
        return
    for cells in _cells(rows[head], rows[head + 1 :]):
        if not set(cells.get("Type", "")) <= {"-"}:
            yield _described_event(cells, metadata)


def _described_event(cells: Mapping[str, str], metadata: Data) -> Data:
    component, _, host = cells.get("From", "").partition(", ")
    return _event(
        {"kind": "Pod", "name": metadata.get("name", "")},
        metadata.get("namespace", "default"),
        cells.get("Reason", ""),
        cells.get("Message", ""),
        cells.get("Age", ""),
        (component, host),
    )


def _listed(rows: Sequence[str]) -> Iterator[Data]:
    """A table of ``kubectl get events``, or the end of a description without its beginning, or rows of it."""
    for at, row in enumerate(rows):
        if TABLED.match(row.encode(errors="replace")):
            yield from _described_events(rows[at:], {})
            return
        if not LISTED.match(row.encode(errors="replace")):
            continue
        yield from filter(None, map(_listed_event, _cells(row, rows[at + 1 :])))
        return
    for row in rows:
        raw = row.encode(errors="replace")
        if ROW.match(raw):
            yield _described_event(_split(row, ROW_HEAD), {})
        elif LISTED_ROW.match(raw):
            cells = GAP.split(row.strip())
            head = LISTED_HEAD if cells[1:2] in (["Warning"], ["Normal"]) else ("NAMESPACE", *LISTED_HEAD)
            event = _listed_event(_split(row, head))
            if event is not None:
                yield event


def _split(row: str, head: Sequence[str]) -> dict[str, str]:
    """The cells of a row whose columns nobody shows, by the gaps between them."""
    return dict(zip(head, GAP.split(row.strip(), maxsplit=len(head) - 1), strict=False))


def _listed_event(cells: Mapping[str, str]) -> Data | None:
    """A row of ``kubectl get events``; None: it does not say what it is about."""
    kind, slash, name = cells.get("OBJECT", "").partition("/")
    if not slash:
        kind, name = cells.get("KIND", ""), cells.get("NAME", "")
    if not name:
        return None
    component, _, host = cells.get("SOURCE", "").partition(", ")
    event = _event(
        {"kind": "Pod" if kind.lower() == "pod" else kind, "name": name},
        cells.get("NAMESPACE", "") or "default",
        cells.get("REASON", ""),
        cells.get("MESSAGE", ""),
        cells.get("LAST SEEN", "") or cells.get("LASTSEEN", ""),
        (component, host),
    )
    count = cells.get("COUNT", "")
    return event | ({"count": int(count)} if count.isdigit() and len(count) < 10 else {})


def _event(
    involved: Data, namespace: str, reason: str, message: str, age: str, source: tuple[str, str]
) -> Data:
    times = TIMES.search(age)
    event: Data = {
        "kind": "Event",
        "metadata": {"namespace": namespace},
        "involvedObject": {**involved, "namespace": namespace},
        "reason": reason,
        "message": message,
        "age": age,
        "source": {"component": source[0], "host": source[1]},
    }
    return event | ({"count": int(times[1])} if times else {})


def _cells(head: str, rows: Sequence[str]) -> Iterator[dict[str, str]]:
    """The rows of a table by the names of its columns (rule 2); it ends at an empty line."""
    columns = [(found[0], found.start()) for found in WORDS.finditer(head)]
    for row in rows:
        if not row.strip():
            if columns[0][1] == 0:
                return
            continue
        yield _row(columns, row)


def _row(columns: Sequence[tuple[str, int]], row: str) -> dict[str, str]:
    names = [name for name, _ in columns]
    starts = [start for _, start in columns]
    aligned = all(
        start < len(row) and row[start].strip() and (start == 0 or not row[start - 1].strip())
        for start in starts[:4]
    )
    if aligned:
        ends = [*starts[1:], len(row)]
        return {name: row[start:end].strip() for name, start, end in zip(names, starts, ends, strict=True)}
    return _split(row, names)
