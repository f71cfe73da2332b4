"""What kube-scheduler and an extender say to each other, to the letter of ``extender/v1``.

Rules kept here:

1. Keys are Go's names of fields, capitalised; Pod and Node objects inside are as the API server writes them.
2. A scheduler whose extender caches nodes sends names, any other one whole nodes.  Whole nodes go back as the
   bytes that came, those that are left out apart.
3. A body is bounded in bytes (``LARGEST_BODY``) and in values (``MOST_VALUES``), which are counted before one
   of them is made, and so is the number of nodes in it.  What cannot be read is an ``InputError`` in one
   sentence, whatever it is.
4. With an extender that caches nodes, null means no node at all: a list is always written.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from numawise.codec.forms import most_values_in
from numawise.errors import InputError, cut, one_line
from numawise.values import dataclass, field

LARGEST_BODY = 8 << 20
"""5,000 nodes by name are at most 1.3 MB, and a pod as large as the API server keeps 1.5 MB; of whole nodes
of ten thousand bytes, 800 fit."""
MOST_VALUES = 750_000
"""Objects of the API server take 14 bytes a value and more; ``[{},{},…`` takes three for two."""
MOST_NODES = 50_000
LONGEST_NAME = 253
LONGEST_SENTENCE = 200
"""Of a node that is left out; ``kubectl describe`` shows one for each."""
LOWEST_SCORE, HIGHEST_SCORE = 0, 10
Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExtenderArgs:
    """A pod, and the nodes that are asked about."""

    pod: Object
    names: tuple[str, ...]
    nodes: tuple[msgspec.Raw, ...] | None = None
    """Whole nodes, in the order of their names; None: names alone came."""


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """Which nodes are left, and what keeps the pod from the others."""

    names: tuple[str, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    """Node → sentence."""
    never: Mapping[str, str] = field(default_factory=dict)
    """Likewise, where ending pods would not help."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class NodeVictims:
    """Pods that would be ended to make room on one node."""

    uids: tuple[str, ...]
    disruptions: int = 0
    """How many of them a PodDisruptionBudget protects."""


@dataclass(frozen=True, slots=True)
class PreemptArgs:
    """A pod that would make room for itself, and the pods that would be ended, by node."""

    pod: Object
    victims: Mapping[str, NodeVictims]


# --- on the wire ------------------------------------------------------------------------------


class _Args(msgspec.Struct):
    Pod: dict[str, Any] | None = None
    Nodes: dict[str, msgspec.Raw] | None = None
    NodeNames: list[str] | None = None


class _Named(msgspec.Struct):
    name: str = ""


class _Node(msgspec.Struct):
    metadata: _Named = msgspec.field(default_factory=_Named)


class _HostScore(msgspec.Struct):
    Host: str
    Score: int


class _MetaPod(msgspec.Struct):
    UID: str = ""


class _MetaVictims(msgspec.Struct):
    Pods: list[_MetaPod] | None = None
    NumPDBViolations: int = 0


class _Uid(msgspec.Struct):
    uid: str = ""


class _WholePod(msgspec.Struct):
    metadata: _Uid = msgspec.field(default_factory=_Uid)


class _Victims(msgspec.Struct):
    Pods: list[_WholePod] | None = None
    NumPDBViolations: int = 0


class _PreemptArgs(msgspec.Struct):
    Pod: dict[str, Any] | None = None
    NodeNameToVictims: dict[str, _Victims] | None = None
    NodeNameToMetaVictims: dict[str, _MetaVictims] | None = None


_ARGS = msgspec.json.Decoder(_Args)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw] | None)
_NODE = msgspec.json.Decoder(_Node)
_PREEMPT = msgspec.json.Decoder(_PreemptArgs)
_MALFORMED = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)


def check_size(size: int) -> None:
    """Raise ``InputError`` when a body is too large (rule 3)."""
    if size > LARGEST_BODY:
        raise InputError(
            f"the question is larger than {LARGEST_BODY >> 20} MiB; "
            "let the scheduler send names of nodes (nodeCacheCapable: true)"
        )


def check_values(body: bytes) -> None:
    """Raise ``InputError`` when a body has too many values: no more than openings and commas (rule 3)."""
    values = most_values_in(body)
    if values > MOST_VALUES:
        raise InputError(f"the question has {values} values, and at most {MOST_VALUES} may be")


def read_args(body: bytes) -> ExtenderArgs:
    """The question of ``filter`` and ``prioritize`` (rules 2 and 3)."""
    try:
        args = _ARGS.decode(body)
        nodes = None
        names = args.NodeNames
        if names is None and args.Nodes is not None:
            raw = args.Nodes.get("items")
            nodes = tuple((_ITEMS.decode(raw) or []) if raw is not None else [])
            names = [_NODE.decode(node).metadata.name for node in nodes]
    except _MALFORMED as problem:
        raise _unreadable(problem) from None
    return ExtenderArgs(_pod(args.Pod), _names(names or ()), nodes)


def read_preemption(body: bytes) -> PreemptArgs:
    """The question of ``preempt``: uids of victims alone, or whole pods."""
    try:
        args = _PREEMPT.decode(body)
    except _MALFORMED as problem:
        raise _unreadable(problem) from None
    victims = {
        name: NodeVictims(tuple(pod.UID for pod in one.Pods or ()), one.NumPDBViolations)
        for name, one in (args.NodeNameToMetaVictims or {}).items()
    } or {
        name: NodeVictims(tuple(pod.metadata.uid for pod in one.Pods or ()), one.NumPDBViolations)
        for name, one in (args.NodeNameToVictims or {}).items()
    }
    _names(victims)
    return PreemptArgs(_pod(args.Pod), victims)


def _pod(value: Object | None) -> Object:
    if not value:
        raise InputError("there is no Pod in the question")
    return value


def _names(names: Collection[str]) -> tuple[str, ...]:
    if len(names) > MOST_NODES:
        raise InputError(f"{len(names)} nodes are asked about at once, and at most {MOST_NODES} may be")
    if not all(names) or max(map(len, names), default=0) > LONGEST_NAME:
        raise InputError(f"a node has no name, or one of more than {LONGEST_NAME} characters")
    return tuple(names)


def _unreadable(problem: Exception) -> InputError:
    words = "it is nested too deeply" if isinstance(problem, RecursionError) else str(problem)
    return InputError(f"the question cannot be read: {cut(one_line(words), LONGEST_SENTENCE)}")


# --- answers ----------------------------------------------------------------------------------


def filter_body(answer: FilterAnswer, args: ExtenderArgs | None = None) -> bytes:
    """The answer of ``filter``, in the form that was asked in (rules 2 and 4)."""
    whole = None
    names: Sequence[str] | None = answer.names
    if args is not None and args.nodes is not None:
        left = set(answer.names)
        items = [node for node, name in zip(args.nodes, args.names, strict=True) if name in left]
        whole, names = {"metadata": {}, "items": items}, None
    return msgspec.json.encode(
        {
            "Nodes": whole,
            "NodeNames": names,
            "FailedNodes": answer.failed,
            "FailedAndUnresolvableNodes": answer.never,
            "Error": answer.error,
        }
    )


def priority_body(scores: Mapping[str, int]) -> bytes:
    """The answer of ``prioritize``."""
    return msgspec.json.encode([_HostScore(name, score) for name, score in scores.items()])


def preempt_body(victims: Mapping[str, NodeVictims]) -> bytes:
    """The answer of ``preempt``: always uids, whatever the question had."""
    return msgspec.json.encode(
        {
            "NodeNameToMetaVictims": {
                name: {"Pods": [{"UID": uid} for uid in one.uids], "NumPDBViolations": one.disruptions}
                for name, one in victims.items()
            }
        }
    )
