"""Write what kubelets log: recorded admissions as lines of any release, in any frame.

The lines follow the kubelet's own formats; the facts in them come from recordings.
"""

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Data = Mapping[str, Any]
PROVIDERS = ("device", "cpu", "memory")
TEXT, PRINTED, JSON = "text", "printed", "json"


@dataclass(frozen=True, slots=True)
class Style:
    """How a release writes."""

    release: tuple[int, int]
    verbosity: int = 2
    klog_json: bool = False
    """``--logging-format=json``."""

    @property
    def form(self) -> str:
        if self.release <= (1, 20):
            return TEXT
        return PRINTED if self.release <= (1, 27) and not self.klog_json else JSON


@dataclass(slots=True)
class Log:
    """Lines with the head of a klog, one after the other."""

    style: Style
    pid: int = 1021
    second: float = 1000.0
    lines: list[str] = field(default_factory=list)

    def say(self, file: str, message: str, /, *, error: bool = False, **values: Any) -> None:
        """One line: structured, or plain where the release is old enough."""
        self.second += 0.000_111
        if self.style.klog_json:
            self.lines.append(self._json(file, message, values, error=error))
            return
        clock = int(self.second)
        stamp = f"{clock // 3600 % 24:02}:{clock // 60 % 60:02}:{clock % 60:02}"
        head = f"{'E' if error else 'I'}0815 {stamp}.{int(self.second % 1 * 1e6):06} {self.pid:7} {file}:75] "
        if self.style.form == TEXT:
            self.lines.append(head + message)
            return
        told = "".join(f" {key}={self._value(value)}" for key, value in values.items())
        self.lines.append(head + json.dumps(message) + told)

    def _value(self, value: Any) -> str:
        if isinstance(value, str):
            return json.dumps(value)
        return (
            printed(value)
            if self.style.form == PRINTED
            else json.dumps(as_json(value), separators=(",", ":"))
        )

    def _json(self, file: str, message: str, values: Data, *, error: bool) -> str:
        body: dict[str, Any] = {"ts": 1723731893000.5 + self.second * 1000}
        if self.style.release >= (1, 24):
            body["caller"] = f"topologymanager/{file}:75"
        body["msg"] = message
        if not error:
            body["v"] = 0
        for key, value in values.items():
            if key in ("pod", "object"):
                namespace, _, name = value.rpartition("/")
                value = {"name": name, "namespace": namespace}
            body[key] = value if isinstance(value, str) else as_json(value)
        return json.dumps(body, separators=(",", ":"))


class Hint:
    """A hint as the kubelet holds it."""

    def __init__(self, nodes: Sequence[int] | None, preferred: bool) -> None:  # noqa: FBT001 - a recorded pair
        self.nodes, self.preferred = nodes, preferred


def mask_text(nodes: Sequence[int]) -> str:
    """Binary digits, as wide as the kubelet prints them."""
    value = sum(1 << node for node in nodes)
    width = 2
    for step in range(62, 0, -2):
        if value > 1 << step:
            width = step + 2
            break
    return f"{value:0{width}b}"


def plain(value: Any) -> str:
    """Go's ``%v``."""
    if isinstance(value, Hint):
        mask = "<nil>" if value.nodes is None else mask_text(value.nodes)
        return f"{{{mask} {str(value.preferred).lower()}}}"
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{plain(value[key])}' for key in sorted(value))}]"
    return "map[]" if value is None else f"[{' '.join(plain(one) for one in value)}]"


def printed(value: Any) -> str:
    """Go's ``%+v``."""
    if isinstance(value, Hint):
        mask = "<nil>" if value.nodes is None else mask_text(value.nodes)
        return f"{{NUMANodeAffinity:{mask} Preferred:{str(value.preferred).lower()}}}"
    if isinstance(value, Mapping):
        return f"map[{' '.join(f'{key}:{printed(value[key] or ())}' for key in sorted(value))}]"
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int):
        return str(value).lower()
    return "map[]" if value is None else f"[{' '.join(printed(one) for one in value)}]"


def as_json(value: Any) -> Any:
    """What Go's encoder makes of it."""
    if isinstance(value, Hint):
        mask = None if value.nodes is None else sum(1 << node for node in value.nodes)
        return {"NUMANodeAffinity": mask, "Preferred": value.preferred}
    if isinstance(value, Mapping):
        return {key: as_json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(one) for one in value]
    return value


# --- an admission ---------------------------------------------------------------------------


def recorded_hints(told: Any) -> Any:
    """Hints of one provider out of a recording."""
    if told is None:
        return None
    return {
        name: None if one is None else [Hint(nodes, liked) for nodes, liked in one]
        for name, one in told.items()
    }


def complete(step: Data) -> bool:
    """True when no list of hints was shortened in the recording."""
    return all(
        not isinstance(one, Mapping)
        for round_ in step.get("hint_rounds", ())
        for told in round_["hints"].values()
        for one in (told or {}).values()
    )


def write_boot(log: Log, policy: str) -> None:
    """What a kubelet says of itself when it starts."""
    major, minor = log.style.release
    scope = "container"
    if log.style.form == TEXT:
        log.say("server.go", f"Version: v{major}.{minor}.7")
        scoped = f" per {scope} scope" if log.style.release >= (1, 20) else ""
        log.say(
            "topology_manager.go", f"[topologymanager] Creating topology manager with {policy} policy{scoped}"
        )
        return
    log.say("server.go", "Kubelet version", kubeletVersion=f"v{major}.{minor}.7")
    named = {"topologyPolicyName": policy, "topologyScopeName": scope}
    log.say("topology_manager.go", "Creating topology manager with policy per scope", **named)


def write_admission(log: Log, pod: Data, step: Data) -> None:
    """The lines of one recorded admission."""
    meta = pod["metadata"]
    name, uid = meta["name"], str(uuid.uuid5(uuid.NAMESPACE_OID, meta["uid"]))
    namespace = meta.get("namespace", "default")
    writing = _Plain if log.style.form == TEXT else _Structured
    writing(log, name, namespace, uid).admission(pod, step)


class _Structured:
    def __init__(self, log: Log, name: str, namespace: str, uid: str) -> None:
        self.log, self.uid = log, uid
        self.pod = f"{namespace}/{name}"
        self.name, self.namespace = name, namespace

    @property
    def release(self) -> tuple[int, int]:
        return self.log.style.release

    def admission(self, pod: Data, step: Data) -> None:
        rounds = step.get("hint_rounds", ())
        self.start()
        for round_ in rounds:
            self.round(round_, pod)
        failed = step.get("allocate_failed")
        if failed:
            self.failed(failed)
        elif not rounds and step["admitted"]:
            self.allocating(pod)
        self.verdict(step)

    def start(self) -> None:
        if self.release <= (1, 24):
            self.log.say("topology_manager.go", "Topology Admit Handler")
        elif self.release <= (1, 30):
            values = {"podUID": self.uid, "podNamespace": self.namespace, "podName": self.name}
            self.log.say("topology_manager.go", "Topology Admit Handler", **values)
        elif self.release >= (1, 33) and self.log.style.verbosity >= 4:
            self.log.say("topology_manager.go", "Topology manager admission check", pod=self.pod)

    def round(self, round_: Data, pod: Data) -> None:
        container = round_.get("container")
        who: dict[str, Any] = {"pod": self.pod}
        if container is not None:
            who["containerName"] = container
        file = "scope_pod.go" if container is None else "scope_container.go"
        for provider in PROVIDERS:
            told = recorded_hints(round_["hints"].get(provider))
            if provider == "cpu" and told and told.get("cpu"):
                uid = {"podUID": self.uid} if self.release >= (1, 35) else {}
                self.log.say(
                    "policy_static.go", "TopologyHints generated", **who, **uid, cpuHints=told["cpu"]
                )
            self.log.say(file, "TopologyHints", hints=told, **who)
        for provider in PROVIDERS:
            self.preferences(recorded_hints(round_["hints"].get(provider)))
        best = Hint(round_["merged"]["numa"], round_["merged"]["preferred"])
        kind = "PodTopologyHint" if container is None else "ContainerTopologyHint"
        self.log.say(file, kind, bestHint=best, **(who if self.release >= (1, 33) else {}))
        self.log.say(file, "Best TopologyHint", bestHint=best, **who)
        if round_["merged"]["admit"]:
            for one in [container] if container is not None else names_of(pod):
                self.log.say(file, "Topology Affinity", bestHint=best, pod=self.pod, containerName=one)

    def preferences(self, told: Any) -> None:
        if not told:
            self.log.say("policy.go", "Hint Provider has no preference for NUMA affinity with any resource")
            return
        for resource, hints in told.items():
            if hints is None:
                text = "Hint Provider has no preference for NUMA affinity with resource"
                self.log.say("policy.go", text, resource=resource)
            elif not hints:
                text = "Hint Provider has no possible NUMA affinities for resource"
                self.log.say("policy.go", text, resource=resource)

    def allocating(self, pod: Data) -> None:
        for name in names_of(pod):
            self.log.say("policy_static.go", "Static policy: Allocate", pod=self.pod, containerName=name)

    def failed(self, failed: Data) -> None:
        if failed["provider"] == "device":
            return  # the Device Manager says nothing
        file = f"{failed['provider']}_manager.go"
        who = {"pod": self.pod, "containerName": failed["container"]} if self.release >= (1, 33) else {}
        self.log.say(file, "Allocate error", error=True, err=failed["error"], **who)

    def verdict(self, step: Data) -> None:
        style = self.log.style
        message = step.get("message", "")
        if self.release >= (1, 33) and style.verbosity >= 4:
            self.log.say("topology_manager.go", "Pod Admit Result", Message=message, pod=self.pod)
        if step["admitted"]:
            if style.verbosity >= 2:
                event = {"ID": self.uid, "Type": "ContainerStarted", "Data": "5298ba2b030a"}
                self.log.say("kubelet.go", "SyncLoop (PLEG): event for pod", pod=self.pod, event=event)
            return
        if self.release >= (1, 31):
            told = {"podUID": self.uid, "pod": self.pod, "reason": step["reason"], "message": message}
            self.log.say("kubelet.go", "Pod admission denied", **told)
        if style.verbosity >= 3:
            kind = {"fieldPath": "", "kind": "Pod", "apiVersion": "v1", "type": "Warning"}
            told = {"object": self.pod, **kind, "reason": step["reason"], "message": message}
            self.log.say("event.go", "Event occurred", **told)


class _Plain(_Structured):
    def __init__(self, log: Log, name: str, namespace: str, uid: str) -> None:
        super().__init__(log, name, namespace, uid)
        self.long = f"{name}_{namespace}({uid})" if self.release == (1, 20) else name

    def start(self) -> None:
        self.log.say("topology_manager.go", "[topologymanager] Topology Admit Handler")

    def round(self, round_: Data, pod: Data) -> None:
        container = round_.get("container")
        whose = f"'{self.long}'" + ("" if container is None else f", container '{container}'")
        file = "scope_pod.go" if container is None else "scope_container.go"
        for provider in PROVIDERS:
            told = recorded_hints(round_["hints"].get(provider))
            if provider == "cpu" and told and told.get("cpu"):
                blank = " " if container is None else ""
                text = f"[cpumanager] TopologyHints generated for pod {whose}{blank}: {plain(told['cpu'])}"
                self.log.say("policy_static.go", text)
            shown = plain({name: one or () for name, one in told.items()} if told else None)
            self.log.say(file, f"[topologymanager] TopologyHints for pod {whose}: {shown}")
        for provider in PROVIDERS:
            self.preferences(recorded_hints(round_["hints"].get(provider)))
        best = plain(Hint(round_["merged"]["numa"], round_["merged"]["preferred"]))
        kind = "PodTopologyHint" if container is None else "ContainerTopologyHint"
        self.log.say(file, f"[topologymanager] {kind}: {best}")
        if self.release == (1, 20):
            named = "" if container is None else f" container: {container}"
            self.log.say(file, f"[topologymanager] Best TopologyHint for (pod: {self.long}{named}): {best}")
        if round_["merged"]["admit"]:
            who = self.long if self.release == (1, 20) else self.uid
            for one in [container] if container is not None else names_of(pod):
                text = f"[topologymanager] Topology Affinity for (pod: {who} container: {one}): {best}"
                self.log.say(file, text)

    def preferences(self, told: Any) -> None:
        lead = "[topologymanager] Hint Provider has no"
        if not told:
            self.log.say("policy.go", f"{lead} preference for NUMA affinity with any resource")
            return
        for resource, hints in told.items():
            if hints is None:
                self.log.say("policy.go", f"{lead} preference for NUMA affinity with resource '{resource}'")
            elif not hints:
                self.log.say("policy.go", f"{lead} possible NUMA affinities for resource '{resource}'")

    def allocating(self, pod: Data) -> None:
        for name in names_of(pod):
            text = f"[cpumanager] static policy: Allocate (pod: {self.long}, container: {name})"
            self.log.say("policy_static.go", text)

    def failed(self, failed: Data) -> None:
        if failed["provider"] == "cpu":
            self.log.say("cpu_manager.go", f"[cpumanager] Allocate error: {failed['error']}", error=True)

    def verdict(self, step: Data) -> None:
        if step["admitted"] and self.log.style.verbosity >= 2:
            long = f"{self.name}_{self.namespace}({self.uid})"
            event = (
                f'&pleg.PodLifecycleEvent{{ID:"{self.uid}", Type:"ContainerStarted", Data:"5298ba2b030a"}}'
            )
            self.log.say("kubelet.go", f'SyncLoop (PLEG): "{long}", event: {event}')
        if step["admitted"] or self.log.style.verbosity < 3:
            return
        if self.release == (1, 20):
            # The broadcaster went structured before the rest did.
            self.log.style, before = Style((1, 28), 3), self.log.style
            super().verdict(step)
            self.log.style = before
            return
        subject = (
            f'v1.ObjectReference{{Kind:"Pod", Namespace:"{self.namespace}", Name:"{self.name}", UID:"{self.uid}", '
            'APIVersion:"v1", ResourceVersion:"42", FieldPath:""}'
        )
        told = f"type: 'Warning' reason: '{step['reason']}' {step['message']}"
        self.log.say("event.go", f"Event({subject}): {told}")


def names_of(pod: Data) -> list[str]:
    """Containers in the order in which they are admitted."""
    spec = pod["spec"]
    return [one["name"] for one in (*spec.get("initContainers", ()), *spec.get("containers", ()))]


# --- frames ---------------------------------------------------------------------------------


def _journal(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"Aug 15 00:16:40 node7.example kubelet[1021]: {line}\n"


def _journal_iso(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"2024-08-15T00:16:40+0800 node7.example kubelet[1021]: {line}\n"


def _journal_full(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"Thu 2024-08-15 00:16:40 CST node7.example kubelet[1021]: {line}\n"


def _journal_json(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        entry = {
            "__CURSOR": "s=1",
            "_HOSTNAME": "node7.example",
            "__REALTIME_TIMESTAMP": "1723681000000000",
            "_PID": "1021",
            "MESSAGE": line,
        }
        yield json.dumps(entry) + "\n"


def _journal_bytes(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield json.dumps({"MESSAGE": list(line.encode()), "_HOSTNAME": "node7.example"}) + "\n"


def _journal_pretty(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        entry = {"_HOSTNAME": "node7.example", "MESSAGE": line, "_PID": "1021"}
        yield json.dumps(entry, indent="\t", separators=(",", " : ")) + "\n"


def _journal_export(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1723681000000000\n_HOSTNAME=node7.example\nMESSAGE={line}\n_PID=1021\n\n"


def _docker(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield json.dumps({"log": line + "\n", "stream": "stderr", "time": "2024-08-15T00:16:40.1Z"}) + "\n"


def _docker_broken(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        parts = [line[at : at + 90] for at in range(0, len(line), 90)]
        for at, part in enumerate(parts):
            end = "\n" if at == len(parts) - 1 else ""
            yield json.dumps({"log": part + end, "stream": "stderr", "time": "2024-08-15T00:16:40.1Z"}) + "\n"


def _runtime(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"2024-08-15T00:16:40.123456789Z stderr F {line}\n"


def _runtime_broken(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        parts = [line[at : at + 90] for at in range(0, len(line), 90)]
        for at, part in enumerate(parts):
            tag = "F" if at == len(parts) - 1 else "P"
            yield f"2024-08-15T00:16:40.123456789Z stderr {tag} {part}\n"


def _kubectl(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"[pod/kubelet-node7/kubelet] {line}\n"


def _stern(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"\x1b[36mkubelet-node7\x1b[0m \x1b[35mkubelet\x1b[0m {line}\n"


def _named(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"node7.example Aug 15 00:16:40.123456 node7.example kubenswrapper[1021]: {line}\n"


def _grepped(lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"/var/log/kubelet.log:{number}:{line}\n"


def _syslog(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"<30>Aug 15 00:16:40 node7 kubelet: {line}\n"


def _crlf(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield f"{line}\r\n"


def _collector(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield (
            json.dumps({"@timestamp": "2024-08-15T00:16:40Z", "host": {"name": "node7"}, "message": line})
            + "\n"
        )


def _cloud(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        entry = {"jsonPayload": {"MESSAGE": line, "_HOSTNAME": "node7"}, "timestamp": "2024-08-15T00:16:40Z"}
        yield json.dumps(entry) + "\n"


def _with_garbage(lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        yield f"{line}\n"
        yield ("\n", "-- Reboot --\n", "goroutine 7 [running]:\n", "\ufffd\x01\x02 {\n", "{}\n")[number % 5]


FRAMES: Mapping[str, Callable[[Sequence[str]], Iterator[str]]] = {
    "plain": lambda lines: (f"{line}\n" for line in lines),
    "journal": _journal,
    "journal short-iso": _journal_iso,
    "journal short-full": _journal_full,
    "journal json": _journal_json,
    "journal json, bytes": _journal_bytes,
    "journal json-pretty": _journal_pretty,
    "journal export": _journal_export,
    "docker": _docker,
    "docker, broken lines": _docker_broken,
    "containerd": _runtime,
    "containerd, broken lines": _runtime_broken,
    "kubectl logs --prefix": _kubectl,
    "stern": _stern,
    "node names": _named,
    "grep -nH": _grepped,
    "syslog": _syslog,
    "CRLF": _crlf,
    "collector": _collector,
    "cloud": _cloud,
    "garbage between": _with_garbage,
}


def framed(frame: str, lines: Sequence[str]) -> bytes:
    """Lines as something else has kept them."""
    return "".join(FRAMES[frame](lines)).encode()
