"""The exact state of a node as attributes of its NodeResourceTopology, and back.

Rules kept here:

1. ``numawise.dev/node`` has the machine, the configuration and the release, and changes rarely;
   ``numawise.dev/state`` has everything else and the hash of the former, so that a reader who knows a machine
   does not read it again.
2. Both or none: an object with neither is not ours, one with half of it is broken.
3. What can be read decides exactly as the node that it came from; what cannot is an error, never a guess.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from numawise.codec.published.envelope import broken, hash_of, sealed, unsealed
from numawise.codec.published.node_part import decode_node, encode_node, machine_of
from numawise.codec.published.state_part import encode_state
from numawise.codec.published.state_reading import decode_state, description_of, state_of
from numawise.machine.model import Machine
from numawise.results.publication import Publication

NODE_ATTRIBUTE, STATE_ATTRIBUTE = "numawise.dev/node", "numawise.dev/state"
MOST_KNOWN = 8192
"""How many machines a reader remembers."""


def attributes_of(publication: Publication) -> dict[str, str]:
    """The attributes that say all of it."""
    machine = encode_node(publication.kubelet, publication.machine, publication.config)
    return {
        NODE_ATTRIBUTE: sealed(machine),
        STATE_ATTRIBUTE: sealed(encode_state(publication, hash_of(machine))),
    }


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
    return Publication(
        node=part.node,
        kubelet=kubelet,
        machine=machine,
        config=config,
        description=description_of(part),
        state=state_of(STATE_ATTRIBUTE, part, machine),
        missing=tuple(part.missing),
    )


@lru_cache(maxsize=MOST_KNOWN)
def _machine(text: str) -> tuple[str, Machine, Mapping[str, Any], str]:
    """Release, machine, configuration and hash of a part (rule 1)."""
    data, digits = unsealed(NODE_ATTRIBUTE, text)
    part = decode_node(NODE_ATTRIBUTE, data)
    return part.kubelet, machine_of(NODE_ATTRIBUTE, part), part.config, digits
