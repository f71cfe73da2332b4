"""Plain messages of 1.20 and before: which event each is."""

import re
from collections.abc import Callable, Sequence

from numawise.codec.kubeletlog.fields import LONG_POD, PrintedField, pod_of, unquoted
from numawise.codec.kubeletlog.framing import Headed
from numawise.codec.kubeletlog.hints import (
    LoggedHints,
    patched_status,
    printed_hint,
    printed_list,
    printed_map,
    reason_in,
    reason_of,
    rejection_in,
)
from numawise.codec.kubeletlog.structured import numas_in
from numawise.engine.start import CPU_START
from numawise.request.model import CPU
from numawise.results.log import (
    ADMIT_STARTED,
    AFFINITY,
    ALLOCATING,
    BEST,
    CAME,
    CPUS,
    CPUS_WANTED,
    DEVICES,
    FAILED,
    HINTS,
    IMPOSSIBLE,
    LAST_WORDS,
    MACHINE,
    MERGED,
    NO_PREFERENCE,
    NOBODY,
    POLICY,
    PROVIDER_HINTS,
    RECREATED,
    RELEASE,
    RUNNING,
    SHORT,
    START_FAILED,
    STATUS,
    Event,
    PodRef,
)
from numawise.results.log import EVENT_REJECTED as REJECTED
from numawise.strconv import whole_number
from numawise.values import replace

Reading = Callable[[re.Match[str]], Event | None]

OLDEST, LAST = (1, 16), (1, 20)
"""Releases that write so."""
TAG = re.compile(r"\[(\w+)\] ")
WIDE = 64
"""Digits of a mask in 1.16."""


def plain_event(line: Headed) -> Event | None:
    """The event of a plain message; None when it is not about admissions."""
    tag = TAG.match(line.message)
    rows = READINGS.get(tag[1] if tag else "", ())
    for pattern, reading in rows:
        found = pattern.match(line.message, tag.end() if tag else 0)
        event = reading(found) if found else None
        if event is not None:
            return event
    return None


def _event(
    kind: str,
    pod: str = "",
    container: str | None = None,
    *,
    logged: LoggedHints | None = None,
    digits: str = "",
    releases: tuple[tuple[int, int], tuple[int, int]] = (OLDEST, LAST),
) -> Event:
    ref = pod_of(pod) if pod else NOBODY
    since, until = releases
    if LONG_POD.fullmatch(pod):
        since = max(since, (1, 20))
    elif pod and kind in (HINTS, PROVIDER_HINTS, BEST):
        until = min(until, (1, 19))
    if re.search(rf"[01]{{{WIDE}}}", digits):
        until = (1, 16)
    logged = logged or LoggedHints()
    return Event(
        kind,
        structured=False,
        pod=ref,
        container=container or None,
        hints=logged.hints,
        unsure=logged.unsure,
        cut=logged.cut,
        hint=printed_hint(digits) if digits else None,
        releases=(since, until),
    )


def _handler(_found: re.Match[str]) -> Event:
    return _event(ADMIT_STARTED)


def _hints(found: re.Match[str]) -> Event:
    return _event(HINTS, found[1], found[2], logged=printed_map(found[3]), digits=found[3])


def _cpu_hints(found: re.Match[str]) -> Event:
    event = _event(PROVIDER_HINTS, found[1], found[2], logged=printed_list(found[3], CPU), digits=found[3])
    return replace(event, provider=CPU)


def _no_preference(found: re.Match[str]) -> Event:
    return replace(_event(NO_PREFERENCE), resource=found[1] or "")


def _impossible(found: re.Match[str]) -> Event:
    return replace(_event(IMPOSSIBLE), resource=found[1])


def _merged(found: re.Match[str]) -> Event:
    scope = found[1].lower()
    since = (1, 20) if scope == "pod" else OLDEST
    return replace(_event(MERGED, digits=found[2], releases=(since, LAST)), scope=scope)


def _best(found: re.Match[str]) -> Event:
    return _event(BEST, found[1], found[2], digits=found[3], releases=((1, 20), LAST))


def _affinity(found: re.Match[str]) -> Event:
    return _event(AFFINITY, found[1], found[2], digits=found[3], releases=((1, 18), LAST))


def _affinities(found: re.Match[str]) -> Event:
    """Of 1.16 and 1.17: all containers at once, at the end."""
    return _event(AFFINITY, found[1], releases=(OLDEST, (1, 17)))


def _policy(found: re.Match[str]) -> Event:
    event = _event(POLICY, releases=((1, 20), LAST) if found[2] else (OLDEST, (1, 19)))
    return replace(event, text=found[1], scope=found[2] or "container")


def _no_policy(_found: re.Match[str]) -> Event:
    return replace(_event(POLICY, releases=(OLDEST, (1, 17))), text="none", scope="none")


def _allocating(found: re.Match[str]) -> Event:
    return _event(ALLOCATING, found[1], found[2], releases=((1, 18), LAST))


def _cpus_wanted(found: re.Match[str]) -> Event:
    return replace(_event(CPUS_WANTED), resource=CPU, asked=whole_number(found[1]))


def _cpus(found: re.Match[str]) -> Event:
    return replace(_event(CPUS, found[1], found[2]), text=found[3])


def _no_cpus(found: re.Match[str]) -> Event:
    event = _event(FAILED, found[2], found[3])
    return replace(event, provider=CPU, message=found[4], asked=whole_number(found[1]))


def _failed(found: re.Match[str]) -> Event:
    return replace(_event(FAILED), provider=CPU, message=found[1])


def _short(found: re.Match[str]) -> Event:
    return replace(
        _event(SHORT), resource=found[1], asked=whole_number(found[2]), available=whole_number(found[3])
    )


def _held_devices(found: re.Match[str]) -> Event:
    event = _event(SHORT, found[2], found[3])
    return replace(
        event, resource=found[1], asked=whole_number(found[4]), available=whole_number(found[5]), text="held"
    )


def _held_cpus(found: re.Match[str]) -> Event:
    event = _event(SHORT, found[1], found[2])
    return replace(
        event, resource=CPU, asked=whole_number(found[3]), available=whole_number(found[4]), text="held"
    )


def _devices(found: re.Match[str]) -> Event:
    return replace(_event(DEVICES), resource=found[2], text=",".join(found[1].split()))


def _occurred(found: re.Match[str]) -> Event | None:
    reason = reason_of(found[5])
    if not reason or found[4] != "Warning":
        return None
    pod = PodRef(found[2], found[1], found[3])
    return replace(_event(REJECTED), pod=pod, reason=reason, message=found[6])


def _patched(found: re.Match[str]) -> Event | None:
    rejection = rejection_in(patched_status(unquoted(found[2])))
    if rejection is None:
        return None
    return replace(_event(STATUS, found[1]), reason=rejection[0], message=rejection[1])


def _updated(found: re.Match[str]) -> Event | None:
    rejection = rejection_in(PrintedField(found[2]))
    if rejection is None:
        return None
    return replace(_event(STATUS, found[1]), reason=rejection[0], message=rejection[1])


def _predicate(found: re.Match[str]) -> Event:
    return replace(_event(STATUS, found[1]), reason=reason_in(found[2]), message=found[2])


def _machine(found: re.Match[str]) -> Event | None:
    numas = numas_in(found[1])
    return replace(_event(MACHINE), numas=numas) if numas else None


def _came(found: re.Match[str]) -> Event | None:
    pods = tuple(PodRef(*groups) for groups in LONG_POD.findall(found[1]))
    return replace(_event(CAME), pods=pods) if pods else None


def _recreated(found: re.Match[str]) -> Event:
    pod = pod_of(found[1])
    new = PodRef(pod.name, pod.namespace, found[3])
    return replace(_event(RECREATED), pod=new, pods=(PodRef(pod.name, pod.namespace, found[2]),))


def _runs(found: re.Match[str]) -> Event:
    return _event(RUNNING, found[1])


def _release(found: re.Match[str]) -> Event:
    return replace(_event(RELEASE, releases=(OLDEST, LAST)), text=found[1])


def _ended(found: re.Match[str]) -> Event:
    """Klog's last words: what follows in the log is the stack."""
    return replace(_event(START_FAILED), message=found[1], text=LAST_WORDS)


def _not_restored(found: re.Match[str]) -> Event:
    return replace(_event(START_FAILED), message=found[1], provider=CPU_START)


def _table(rows: Sequence[tuple[str, Reading]]) -> tuple[tuple[re.Pattern[str], Reading], ...]:
    return tuple((re.compile(pattern, re.DOTALL), reading) for pattern, reading in rows)


POD = r"([^\s()]+(?:\([^\s()]*\))?)"
WHO = rf"\(pod:? {POD}(?:,? container:? ([^)]*?))?\)"
COUNTS = r"requested: (\d+), (?:available|allocated): (\d+)"
ANOTHER = rf"already allocated to {WHO} with different number than request: {COUNTS}"
POD_OBJECT = r'Kind:"Pod", Namespace:"([^"]*)", Name:"([^"]*)", UID:"([^"]*)"'
TYPE_AND_REASON = r"type: '(\w+)' reason: '([^']*)'"
READINGS = {
    "topologymanager": _table(
        [
            (r"Topology Admit Handler", _handler),
            (r"TopologyHints for pod '([^']*)'(?:, container '([^']*)')?: (.*)", _hints),
            (r"Hint Provider has no preference .* with (?:any resource|resource '([^']*)')", _no_preference),
            (r"Hint Provider has no possible NUMA affinities for resource '([^']*)'", _impossible),
            (r"(Container|Pod)TopologyHint: (.*)", _merged),
            (rf"Best TopologyHint for {WHO}: (\{{.*)", _best),
            (rf"Topology Affinity for {WHO}: (\{{.*)", _affinity),
            (r"Topology Affinity for Pod: (\S+) are ", _affinities),
            (r"Creating topology manager with (\S+) policy(?: per (\S+) scope)?", _policy),
            (r"Init\w+ Topology Manager with (\S+) policy(?: and (\S+)-level scope)?", _policy),
            (r"Skipping calculate topology affinity as policy: none", _no_policy),
        ]
    ),
    "cpumanager": _table(
        [
            (r"TopologyHints generated for pod '([^']*)'(?:, container '([^']*)')? ?: (.*)", _cpu_hints),
            (rf"static policy: Allocate {WHO}", _allocating),
            (r"allocateCpus: \(numCPUs: (\d+), ", _cpus_wanted),
            (r'updated desired cpuset \(pod: (\S+), container: (\S+), cpuset: "([^"]*)"\)', _cpus),
            (r"unable to allocate (\d+) CPUs \(pod: (\S+), container: (\S+), error: (.*)\)", _no_cpus),
            (r"(?:Allocate|AddContainer) error: (.*)", _failed),
            (rf"CPUs {ANOTHER}", _held_cpus),
            (r"detected CPU topology: (.*)", _machine),
            (r"could not initialize checkpoint manager: (.*), please drain node and remove ", _not_restored),
            (r"policy start error: (.*)", _not_restored),
        ]
    ),
    "devicemanager": _table(
        [
            (rf"Unable to generate topology hints: .* unavailable for '([^']*)': {COUNTS}", _short),
            (rf"Resource '([^']*)' {ANOTHER}", _held_devices),
        ]
    ),
    "": _table(
        [
            (r"(failed to run [Kk]ubelet: .*)", _ended),
            (r"(failed to load Kubelet config file .*)", _ended),
            (r"(\[?invalid configuration: .*)", _ended),
            (r"(\[?(?:unrecognized|cannot set) feature gate.*)", _ended),
            (r"Failed to start ContainerManager (.*)", _ended),
            (r'SyncLoop \(PLEG\): "([^"]*)", event: .*Type:"ContainerStarted"', _runs),
            (r"Version: (v1\.\d+\S*)", _release),
            (r"Making allocation request for devices \[([^\]]*)\] for device plugin (\S+)", _devices),
            (rf"Event\(v1\.ObjectReference\{{{POD_OBJECT}.*?\}}\): {TYPE_AND_REASON} (.*)", _occurred),
            (r'Patch status for pod "([^"]*)" with "(.*)"', _patched),
            (r'Status for pod "([^"]*)" updated successfully: \(\d+, (.*)\)', _updated),
            (r"Failed to admit pod (\S+) - (.*)", _predicate),
            (r"Predicate failed on Pod: (\S+), for reason: (.*)", _predicate),
            (r'SyncLoop \(ADD, "[^"]*"\): "(.*)"', _came),
            (r'Receiving a new pod "(.*)"', _came),
            (
                r'Pod "([^"]*)" was deleted and then recreated.*; old UID "([^"]*)", new UID "([^"]*)"',
                _recreated,
            ),
        ]
    ),
}
"""What messages look like and say, by the manager that they name first."""
