"""Which pods of a cluster are meant, and what is asked about each of them.

Rules kept here:

1. An owner stands for its pods: those that a kubelet refused, newest first, one for each node, reason and
   size; else the newest that waits for a node; else the newest.  An owner without pods is judged by its
   template.
2. A pod that is gone is looked for by its owner: the newest pod of the same owner stands for it, one that
   was refused before any other; then the owner's template with what the events say; then the events alone.
3. A bare name is a pod, or else the one owner of that name.
4. What we may not see is left out, and a remark says so; without the pod itself there is nothing to
   explain.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from numawise.apps.why.live import (
    Live,
    LiveNode,
    created,
    event_time,
    gone_since,
    is_refused,
    owner_of,
    start_time,
)
from numawise.apps.why.target import KINDS, Target
from numawise.codec.document import Document, mapping
from numawise.codec.infile import is_there
from numawise.codec.objects import object_name
from numawise.codec.pod_phase import is_refusal
from numawise.codec.podresources import PodResources, pod_resources_of
from numawise.codec.workload import NATIVE
from numawise.errors import ClusterError, InputError, meant, quoted
from numawise.host.kubelet import DEFAULT_DIRECTORY, ROOT
from numawise.kube.client import Cluster, Object
from numawise.kube.podresources import SOCKET, ask
from numawise.render.words import both, counted
from numawise.values import replace

LAST_PART = re.compile(r"-[a-z0-9]+$")
OWNERS = tuple(kind for kind in KINDS if kind != "Pod")
BETWEEN = {"Deployment": "ReplicaSet", "CronJob": "Job"}
"""Owners that own pods through another object."""
MOST_GROUPS = 5
"""So many refusals of one owner are explained."""
NOBODY: tuple[Object, ...] = ()
Answer = TypeVar("Answer")


class Lookup:
    """Questions to one cluster; what was asked about a node is kept."""

    def __init__(self, cluster: Cluster, namespace: str, node: str = "", root: Path = ROOT) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.node = node
        """Where to judge what no node has yet; '' when none was named."""
        self.root = root
        """Of the host that we are on."""
        self.nodes: dict[str, LiveNode] = {}
        self.every_event: tuple[Object, ...] | None = None

    def found(self, target: Target) -> tuple[Live, ...]:
        """What is meant, and everything around it."""
        if target.kind and target.kind != "Pod":
            return self._owner(target.kind, target.name)
        pod = self.cluster.pod(self.namespace, target.name)
        if pod is None and not target.kind:
            owners = self._owners_named(target.name)
            if owners:
                return self._owner(owners[0], target.name)
        return (self._pod(target.name, pod),)

    # --- a pod ---

    def _pod(self, name: str, pod: Object | None) -> Live:
        remarks: list[str] = []
        events = self._events(name, remarks)
        template = False
        if pod is None:
            every = self.cluster.pods(self.namespace)
            pod = _successor(every, name)
            if pod is not None:
                other = object_name(pod)
                remarks.append(
                    f"Pod {name} is gone; this is {other}, which {owner_of(pod)} created in its place"
                )
                events = (*events, *self._events(other, remarks))
            elif any(is_refusal(str(one.get("reason") or "")) for one in events):
                pod = self._template_of(name)
                template = pod is not None
                gone = f"Pod {name} is gone and was not replaced"
                instead = (
                    f"the template of {owner_of(pod)} stands for it" if pod else "this is what its events say"
                )
                remarks.append(f"{gone}; {instead}")
            else:
                near = meant(name, [object_name(one) for one in every], 0.8)
                where = f"in namespace {quoted(self.namespace)}"
                what = f"there is no pod {quoted(name)} {where}, and no event about it"
                raise ClusterError(what, f"did you mean {near}?" if near else "")
        live = Live(self.namespace, name, pod, events, template=template, remarks=tuple(remarks))
        return self._around(_with_earlier(live))

    def _template_of(self, name: str) -> Object | None:
        """The template that a pod of this name was made of."""
        stem = LAST_PART.sub("", name)
        if stem == name:
            return None
        for kind in ("ReplicaSet", "StatefulSet", "Job", "DaemonSet", "ReplicationController"):
            owner = _allowed(lambda kind=kind: self.cluster.named(kind, self.namespace, stem), [], None)  # type: ignore[misc]
            if owner is not None:
                return template_pod(kind, owner, name)
        return None

    def _events(self, name: str, remarks: list[str], kind: str = "Pod") -> tuple[Object, ...]:
        return _allowed(lambda: self.cluster.events(self.namespace, name, kind), remarks, NOBODY)

    # --- an owner ---

    def _owners_named(self, name: str) -> list[str]:
        """The kinds of which there is an owner of that name (rule 3)."""
        kinds = [
            kind
            for kind in OWNERS
            if _allowed(lambda kind=kind: self.cluster.named(kind, self.namespace, name), [], None)  # type: ignore[misc]
        ]
        if len(kinds) > 1:
            words = [f"{kind.lower()}/{name}" for kind in kinds]
            what = f"{quoted(name)} may be {both(words, 'or')} in namespace {quoted(self.namespace)}"
            raise InputError(what, advice=f"write {words[0]}")
        return kinds

    def _owner(self, kind: str, name: str) -> tuple[Live, ...]:
        title = f"{kind} {name}"
        remarks: list[str] = []
        owner = self.cluster.named(kind, self.namespace, name)
        every = self.cluster.pods(self.namespace)
        pods = sorted(self._owned(kind, name, every), key=_age, reverse=True)
        if owner is None and not pods:
            raise ClusterError(f"there is no {kind} {quoted(name)} in namespace {quoted(self.namespace)}")
        if refused := [pod for pod in pods if is_refused(pod)]:
            return self._refused(title, refused, pods)
        waiting = [pod for pod in pods if _waits(pod)]
        if pods:
            chosen = (waiting or pods)[0]
            if len(pods) > 1:
                remarks.append(
                    f"{title} has {counted(len(pods), 'pod')}, none of which was refused; this is the newest"
                    + (" that waits for a node" if waiting else "")
                )
            events = self._events(object_name(chosen), remarks)
            live = Live(self.namespace, object_name(chosen), chosen, events, remarks=tuple(remarks))
            return (self._around(_with_earlier(live)),)
        assert owner is not None
        pod = template_pod(kind, owner, name)
        events = self._events(name, remarks, kind)
        remarks.insert(0, f"{title} has no pods; this is its template")
        remarks += _failures(events)
        return (self._around(Live(self.namespace, name, pod, template=True, remarks=tuple(remarks))),)

    def _refused(self, title: str, refused: Sequence[Object], pods: Sequence[Object]) -> tuple[Live, ...]:
        """One for each node, reason and size, the newest first (rule 1)."""
        groups: dict[tuple[str, ...], list[Object]] = {}
        for pod in refused:
            groups.setdefault(_alike(pod), []).append(pod)
        lives = []
        running = sum(1 for pod in pods if mapping(pod.get("status")).get("phase") == "Running")
        for number, group in enumerate(groups.values()):
            if number == MOST_GROUPS:
                break
            remarks = []
            if len(group) > 1:
                first, last = (
                    start_time(group[-1]) or created(group[-1]),
                    start_time(group[0]) or created(group[0]),
                )
                remarks.append(
                    f"It stands for {len(group)} pods of {title} that this node refused for this reason"
                    + (f" from {first}Z to {last}Z" if first and last else "")
                )
            if number == 0 and running:
                remarks.append(f"{counted(running, 'pod')} of {title} {'runs' if running == 1 else 'run'}")
            if number == 0 and len(groups) > MOST_GROUPS:
                remarks.append(
                    f"{len(groups) - MOST_GROUPS} other kinds of refusals of {title} are not shown"
                )
            name = object_name(group[0])
            lives.append(self._around(Live(self.namespace, name, group[0], remarks=tuple(remarks))))
        return tuple(lives)

    def _owned(self, kind: str, name: str, pods: Iterable[Object]) -> list[Object]:
        """The pods of an owner."""
        between = BETWEEN.get(kind)
        if between is None:
            return [pod for pod in pods if owner_of(pod) == f"{kind} {name}"]
        middle = _allowed(lambda: self.cluster.every(between, self.namespace), [], NOBODY)
        names = {f"{between} {object_name(one)}" for one in middle if owner_of(one) == f"{kind} {name}"}
        if names:
            return [pod for pod in pods if owner_of(pod) in names]
        made = re.compile(rf"{between} {re.escape(name)}-[a-z0-9]+")
        return [pod for pod in pods if made.fullmatch(owner_of(pod))] if not middle else []

    # --- its node ---

    def _around(self, live: Live) -> Live:
        """The same with what is known about its node."""
        name = live.sent_to or self.node
        if not name:
            return live
        if name not in self.nodes:
            self.nodes[name] = self._node(name)
        node = self.nodes[name]
        return replace(live, node=node, gone=self._gone(live, node))

    def _gone(self, live: Live, node: LiveNode) -> tuple[str, ...]:
        """Pods that were there when it was refused, and are gone."""
        if not live.moment:
            return ()
        if self.every_event is None:
            self.every_event = _allowed(lambda: self.cluster.events(self.namespace), [], NOBODY)
        listed = {object_name(pod) for pod in node.pods or ()} | {live.asked}
        return gone_since(self.every_event, node.name, live.moment, listed)

    def _node(self, name: str) -> LiveNode:
        remarks: list[str] = []
        cluster = self.cluster
        answer = _allowed(lambda: cluster.configz(name), remarks, None)
        configz = mapping(answer).get("kubeletconfig")
        node = _allowed(lambda: cluster.node(name), remarks, None)
        here = is_here(node, self.root)
        return LiveNode(
            name,
            node,
            _allowed(lambda: cluster.pods_on(name), remarks, None),
            configz if isinstance(configz, Mapping) else None,
            _allowed(lambda: cluster.topology(name), [], None),
            _allowed(lambda: socket_answers(self.root), remarks, None) if here else None,
            here,
            tuple(dict.fromkeys(remarks)),
        )


def is_here(node: Object | None, root: Path) -> bool:
    """Whether a node is the host that we are on, by the machine's id."""
    machine = LiveNode(object=node).info.get("machineID")
    try:
        own = (root / "etc/machine-id").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return False
    return bool(own) and own == machine


def socket_answers(root: Path) -> PodResources | None:
    """What the PodResources socket of this host's kubelet answers; None: there is none."""
    path = root / str(DEFAULT_DIRECTORY).lstrip("/") / SOCKET
    if not is_there(path):
        return None
    answers, _ = ask(str(path))
    try:
        return pod_resources_of([Document(answers, str(path))])
    except InputError as problem:
        raise ClusterError(str(problem)) from None


def template_pod(kind: str, owner: Object, name: str) -> Object:
    """The pod that an owner would make."""
    inner: Mapping[str, Any] = owner
    for step in NATIVE[kind][0]:
        inner = mapping(inner.get(step))
    template = mapping(inner.get("template"))
    reference = {"kind": kind, "name": object_name(owner), "controller": True}
    metadata = {**mapping(template.get("metadata")), "name": name, "ownerReferences": [reference]}
    metadata["namespace"] = mapping(owner.get("metadata")).get("namespace") or "default"
    spec = dict(mapping(template.get("spec")))
    spec.pop("nodeName", None)
    return {"metadata": metadata, "spec": spec}


def _with_earlier(live: Live) -> Live:
    """With a remark on earlier pods of the same name that were refused, when this one was not."""
    if live.refusal[0] or not live.refusals or live.template:
        return live
    newest = live.refusals[0]
    counts = [one.get("count") for one in live.refusals]
    times = sum(one for one in counts if isinstance(one, int) and not isinstance(one, bool)) or len(counts)
    where = f"{times} times, last" if times > 1 else "once,"
    when = f" at {event_time(newest)}Z" if event_time(newest) else ""
    text = f"A pod of this name was refused {where}{when}: {newest.get('reason')}: {newest.get('message')}"
    return replace(live, remarks=(*live.remarks, text))


def _failures(events: Iterable[Object]) -> list[str]:
    """Why an owner could not create pods, as its events say."""
    failures = [one for one in events if str(one.get("reason") or "").startswith("Failed")]
    newest = max(failures, key=event_time, default=None)
    return [f"{newest.get('reason')}: {newest.get('message')}"] if newest is not None else []


def _successor(pods: Iterable[Object], name: str) -> Object | None:
    """The pod that stands for one that is gone (rule 2)."""
    stem = LAST_PART.sub("", name)
    family = LAST_PART.sub("", stem)
    owned = [pod for pod in pods if owner_of(pod)]
    heirs = [pod for pod in owned if owner_of(pod).partition(" ")[2] == stem]
    if not heirs and family != stem:
        heirs = [pod for pod in owned if owner_of(pod).startswith(f"ReplicaSet {family}-")]
    return max(heirs, key=lambda pod: (is_refused(pod), created(pod)), default=None)


def _alike(pod: Object) -> tuple[str, ...]:
    """What refusals have in common that are explained as one."""
    spec, status = mapping(pod.get("spec")), mapping(pod.get("status"))
    sizes = []
    for group in ("initContainers", "containers"):
        rows = spec.get(group)
        sizes += [str(mapping(one).get("resources")) for one in (rows if isinstance(rows, list) else ())]
    return str(spec.get("nodeName")), str(status.get("reason")), *sizes


def _age(pod: Object) -> tuple[str, str, str]:
    return start_time(pod) or created(pod), created(pod), object_name(pod)


def _waits(pod: Object) -> bool:
    phase = mapping(pod.get("status")).get("phase")
    return phase == "Pending" and not mapping(pod.get("spec")).get("nodeName")


def _allowed(ask: Callable[[], Answer], remarks: list[str], otherwise: Answer) -> Answer:
    """An answer, or a remark why there is none (rule 4)."""
    try:
        return ask()
    except ClusterError as problem:
        remarks.append(f"Not known: {problem.message}")
        return otherwise
