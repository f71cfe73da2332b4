"""What is published of a virtual node, and the node as it was when that was published.

Rules kept here:

1. ``ours`` is what the agent publishes; ``foreign`` has the zones and settings alone, as other exporters
   write them.
2. A state that was published is taken over where machine, configuration and release are the same to the
   letter; otherwise the pods that run are put in one after the other.
"""

from typing import Any

from numawise.apps.lab.kubelet import LabKubelet
from numawise.apps.lab.node_object import kubelet_version
from numawise.codec.document import mapping
from numawise.codec.fingerprint import fingerprint
from numawise.codec.publication import NODE_ATTRIBUTE, STATE_ATTRIBUTE, attributes_of, publication_from
from numawise.errors import InputError
from numawise.kube.client import Object
from numawise.node.node import SimulatedNode
from numawise.node.publication import publication_of, topology_object

OWN = (NODE_ATTRIBUTE, STATE_ATTRIBUTE)


def published_value(node: SimulatedNode, name: str, release: str, *, foreign: bool = False) -> dict[str, Any]:
    """The NodeResourceTopology of a node."""
    pods = [(pod.namespace, pod.name) for pod in node.state.active.values() if pod is not None]
    publication = publication_of(node, name, kubelet=release)
    value = topology_object(publication, fingerprint=fingerprint(pods), node=node)
    if foreign:
        value["attributes"] = [one for one in value["attributes"] if one["name"] not in OWN]
    return value


def published_state(kubelet: LabKubelet, value: Object | None, named: str = "") -> bool:
    """Take over the state that was published of a node; False: nothing fits (rule 2).

    ``named``: the release as it was named.
    """
    rows = mapping(value).get("attributes")
    texts = {
        str(mapping(one).get("name")): str(mapping(one).get("value"))
        for one in (rows if isinstance(rows, list) else ())
    }
    node = kubelet.node
    own = attributes_of(publication_of(node, kubelet.name, kubelet=kubelet_version(node, named)))
    if texts.get(NODE_ATTRIBUTE) != own[NODE_ATTRIBUTE]:
        return False
    try:
        publication = publication_from(texts)
    except InputError:
        return False
    if publication is None:
        return False
    node.keep(publication.state)
    return True
