"""The exact state of a node as attributes of its NodeResourceTopology, and back.

Rules kept here:

1. ``numawise.dev/node`` has the machine, the configuration and the release, and changes rarely;
   ``numawise.dev/state`` has everything else and the hash of the former, so that a reader who knows a machine
   does not read it again.
2. Both or none: an object with neither is not ours, one with half of it is broken.
3. What can be read decides exactly as the node that it came from; what cannot is an error, never a guess.
4. ``numawise.dev/names`` may stand beside them and say what pods are called; no decision depends on it.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from numawise.codec.published.envelope import broken, hash_of, misread, sealed, unsealed
from numawise.codec.published.node_part import decode_node, encode_node, machine_of
from numawise.codec.published.state_part import encode_state
from numawise.codec.published.state_reading import decode_state, description_of, state_of
from numawise.engine.state import NodeState
from numawise.machine.model import Machine
from numawise.request.model import PodRequest
from numawise.results.publication import Publication
from numawise.values import replace

NODE_ATTRIBUTE, STATE_ATTRIBUTE = "numawise.dev/node", "numawise.dev/state"
NAMES_ATTRIBUTE = "numawise.dev/names"
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=253)]
Names = dict[str, tuple[Name, Name]]
"""Uid → namespace and name."""
MOST_KNOWN = 8192
"""How many machines a reader remembers."""


def attributes_of(publication: Publication) -> dict[str, str]:
    """The attributes that say all of it."""
    machine = encode_node(publication.kubelet, publication.machine, publication.config)
    attributes = {
        NODE_ATTRIBUTE: sealed(machine),
        STATE_ATTRIBUTE: sealed(encode_state(publication, hash_of(machine))),
    }
    if publication.names:
        attributes[NAMES_ATTRIBUTE] = sealed(msgspec.json.encode(publication.names))
    return attributes


def publication_from(attributes: Mapping[str, str]) -> Publication | None:
    """What the attributes say; None: they are not ours.  ``InputError``: broken, or of a newer form."""
    node, state = attributes.get(NODE_ATTRIBUTE), attributes.get(STATE_ATTRIBUTE)
    if node is None and state is None:
        return None
    if node is None or state is None:
        lacking = NODE_ATTRIBUTE if node is None else STATE_ATTRIBUTE
        raise broken(lacking, "is missing beside the other attribute of its kind")
    kubelet, machine, config, digits = _machine(node)
    part = decode_state(STATE_ATTRIBUTE, unsealed(STATE_ATTRIBUTE, state)[0])
    if part.machine != digits:
        raise broken(STATE_ATTRIBUTE, f"belongs to machine {part.machine[:40]}, and beside it is {digits}")
    names = _names(attributes.get(NAMES_ATTRIBUTE, ""))
    return Publication(
        node=part.node,
        kubelet=kubelet,
        machine=machine,
        config=config,
        description=description_of(part),
        state=_named(state_of(STATE_ATTRIBUTE, part, machine), names),
        missing=tuple(part.missing),
        names=names,
    )


def _names(text: str) -> Names:
    if not text:
        return {}
    try:
        return msgspec.json.decode(unsealed(NAMES_ATTRIBUTE, text)[0], type=Names)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise misread(NAMES_ATTRIBUTE, "names of pods", problem) from None


def _named(state: NodeState, names: Names) -> NodeState:
    """The state with pods that have their names (rule 4)."""
    if not names:
        return state

    def named(uid: str, pod: PodRequest) -> PodRequest:
        namespace, name = names.get(uid, (pod.namespace, pod.name))
        return replace(pod, namespace=namespace, name=name)

    active = {uid: pod and named(uid, pod) for uid, pod in state.active.items()}
    desired = {uid: named(uid, pod) for uid, pod in state.resizes.desired.items()}
    return replace(state, active=active, resizes=replace(state.resizes, desired=desired))


@lru_cache(maxsize=MOST_KNOWN)
def _machine(text: str) -> tuple[str, Machine, Mapping[str, Any], str]:
    """Release, machine, configuration and hash of a part (rule 1)."""
    data, digits = unsealed(NODE_ATTRIBUTE, text)
    part = decode_node(NODE_ATTRIBUTE, data)
    return part.kubelet, machine_of(NODE_ATTRIBUTE, part), part.config, digits
