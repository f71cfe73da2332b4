"""Names of a cluster for completion: nodes, pods and owners.

Rules kept here:

1. A shell is not kept waiting: what has not answered after ``PATIENCE`` seconds is not offered, and nothing
   that goes wrong is said.
2. Only names that Kubernetes allows are offered, whatever a server sends.
"""

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

PATIENCE = 2.0
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
MOST_NAMES = 500


def node_names(options: Mapping[str, Any]) -> list[str]:
    """The nodes of the cluster that a command line means."""
    return _names(options, "Node", "")


def target_words(options: Mapping[str, Any], unfinished: str) -> list[str]:
    """``pod/``, ``deployment/`` and so on; behind the slash the names of the namespace."""
    from numawise.apps.why.target import KINDS, kind_named  # noqa: PLC0415 - shells alone ask

    word, slash, _ = unfinished.partition("/")
    if not slash:
        return [f"{words[1] if len(words) > 2 else words[0]}/" for words in KINDS.values()]
    kind = kind_named(word)
    if not kind:
        return []
    return [f"{word}/{name}" for name in _names(options, kind, str(options.get("namespace") or ""))]


def _names(options: Mapping[str, Any], kind: str, namespace: str) -> list[str]:
    """Rules 1 and 2."""
    names: list[str] = []

    def ask() -> None:
        with contextlib.suppress(Exception):  # a shell is told nothing
            names.extend(_asked(options, kind, namespace))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return sorted(names)


def _asked(options: Mapping[str, Any], kind: str, namespace: str) -> list[str]:
    from numawise.codec.document import mapping  # noqa: PLC0415 - shells alone ask
    from numawise.codec.objects import object_name  # noqa: PLC0415
    from numawise.kube.calls import send  # noqa: PLC0415
    from numawise.kube.client import KINDS, NAME, Cluster, access_to, list_path  # noqa: PLC0415

    with Cluster(access_to(options.get("kubeconfig") or "", options.get("cluster") or "")) as cluster:
        path = list_path(kind, "" if kind == "Node" else namespace or cluster.namespace)
        what = f"list {KINDS[kind][2]}"
        page = send(cluster, "GET", path, what, params={"limit": str(MOST_NAMES)}, accept=METADATA_LIST)
    rows = mapping(page).get("items")
    names = [object_name(one) for one in (rows if isinstance(rows, list) else ())]
    return [name for name in names if NAME.fullmatch(name)]
