"""Pods and events that somebody pasted, explained by what they say, without a machine.

Rules kept here:

1. Whatever kubectl prints about pods and events is taken: ``describe pod``, ``get events``, ``get -o yaml``.
2. Of several pods those are explained that a kubelet refused or that wait for a node; one pod alone is always
   explained.  Events count with the pod that they are about.
3. Refusals that only events tell of are put together where owner, reason, message and node are the same.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numawise.apps.why.live import Live, LiveNode, host_of, is_refused
from numawise.apps.why.live_explained import explain_live
from numawise.apps.why.nodes import Explained
from numawise.codec.document import mapping
from numawise.codec.infile import read_raw
from numawise.codec.objects import object_name
from numawise.codec.pod_phase import is_refusal
from numawise.codec.workload import objects_in, pod_documents
from numawise.errors import InputError
from numawise.inputs.pods import manifests
from numawise.inputs.spec import NodeInput
from numawise.kube.client import Object
from numawise.values import replace

PART = re.compile(r"-([a-z0-9]{5}|\d+|[a-f0-9]{8,10})$")
"""What controllers add to the names of their pods."""
MOST = 20
"""So many refusals are explained."""
SCHEDULER = "FailedScheduling"
GIVE = "give --machine and --kubelet-config as well, to simulate it"

Named = tuple[str, str]
"""Namespace and name."""


def explain_pasted_objects(words: Sequence[str], given: NodeInput) -> Explained | None:
    """Explain what the files say; None when they hold neither events nor pods of a cluster."""
    pods: dict[Named, Object] = {}
    events: list[Object] = []
    for path in manifests(words):
        for document in pod_documents(*read_raw(path)):
            for one in objects_in(document.root):
                value = one.part.mapping()
                if one.kind == "Event":
                    events.append(value)
                elif one.kind == "Pod" and _lived(value):
                    pods[_named(value)] = value
    if not pods and not events:
        return None
    lives = list(_lives(pods, events))
    if not lives:
        raise InputError(
            f"none of {len(pods)} pods and {len(events)} events says that a kubelet refused a pod",
            file=words[0],
            advice=GIVE,
        )
    shown = tuple(explain_live(live, given) for live in lives[:MOST])
    left = len(lives) - len(shown)
    remarks = (f"{left} more refusals of other pods, reasons or nodes are not shown",) if left else ()
    return Explained(shown, remarks=remarks)


def _lived(pod: Object) -> bool:
    """Whether it is a pod that a cluster knew, and not a manifest."""
    return bool(mapping(pod.get("status")).get("phase"))


def _named(thing: Object) -> Named:
    return str(mapping(thing.get("metadata")).get("namespace") or "default"), object_name(thing)


def _lives(pods: Mapping[Named, Object], events: Iterable[Object]) -> Iterable[Live]:
    about: dict[Named, list[Object]] = {}
    for event in events:
        involved = mapping(event.get("involvedObject"))
        if involved.get("kind") in ("Pod", None):
            namespace = involved.get("namespace") or mapping(event.get("metadata")).get("namespace")
            about.setdefault((str(namespace or "default"), str(involved.get("name") or "")), []).append(event)
    for named, pod in pods.items():
        waits = mapping(pod.get("status")).get("phase") == "Pending"
        if len(pods) == 1 or is_refused(pod) or waits:
            own = tuple(about.pop(named, ()))
            spec = {"containers": [], **mapping(pod.get("spec"))}  # a description may be cut off
            whole = {**pod, "spec": spec}
            yield Live(named[0], named[1], whole, own, LiveNode(str(spec.get("nodeName") or "")))
        else:
            about.pop(named, None)
    yield from _by_events(about)


def _by_events(about: Mapping[Named, Sequence[Object]]) -> Iterable[Live]:
    """Pods that only events tell of (rule 3)."""
    groups: dict[tuple[str, ...], list[tuple[Named, Object]]] = {}
    for (namespace, name), events in about.items():
        for event in events:
            reason = str(event.get("reason") or "")
            if is_refusal(reason) or reason == SCHEDULER:
                key = (namespace, PART.sub("", PART.sub("", name)), reason, _shape(event), host_of(event))
                groups.setdefault(key, []).append(((namespace, name), event))
    for members in groups.values():
        (namespace, name), event = members[-1]
        live = Live(namespace, name or "a pod that is not named", None, (event,))
        yield replace(live, remarks=tuple(_counted(members)))


def _shape(event: Object) -> str:
    """A message without its numbers, which differ from time to time."""
    return re.sub(r"\d+", "0", str(event.get("message") or ""))


def _counted(members: Sequence[tuple[Named, Object]]) -> Iterable[str]:
    names = {named for named, _ in members}
    times = sum(_times(event) for _, event in members)
    if len(names) > 1:
        yield f"It stands for {len(names)} pods with the same reason"
    age = members[-1][1].get("age")
    if times > 1:
        last = f", the last one {age} before this was printed" if isinstance(age, str) and age else ""
        yield f"The events count it {times} times{last}"


def _times(event: Mapping[str, Any]) -> int:
    count = event.get("count")
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else 1
