"""Requests to an API server that are more than reading one object: changes, and lists that are followed.

Rules kept here:

1. A change is one request.  What the server answers is judged as everywhere (``Cluster.asking``); an object
   that others changed meanwhile, or that has other owners, is an ``ApiConflict``.
2. A list is followed from where it was read on (``watch``), one line an event, until the server ends it.
3. Who is not known logs in anew the next time.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from numawise.errors import ClusterError
from numawise.kube.client import PATIENCE, Cluster, Object, UnknownCaller, raise_for_status

APPLY, MERGE, STRATEGIC, JSON = (
    "application/apply-patch+yaml",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json",
)
METADATA_ALONE = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
FOLLOWED, SLACK = 240, 30.0
"""Seconds that a list is followed at a time, and that the server may be late in ending it."""


def send(
    cluster: Cluster,
    method: str,
    path: str,
    what: str,
    body: object = None,
    kind: str = JSON,
    *,
    params: Mapping[str, str] | None = None,
    accept: str = JSON,
) -> Object | None:
    """One request; None: there is nothing at that place (rule 1).

    ``what``: what it does, as in "you may not …".
    """
    content = None if body is None else json.dumps(body, separators=(",", ":")).encode()
    headers = {"Accept": accept} | ({} if content is None else {"Content-Type": kind})
    with _known_caller(cluster), cluster.asking(what, through=True) as found:
        answer = cluster.http.request(
            method, path, params=dict(params or {}), content=content, headers=headers
        )
        raise_for_status(answer)
        found.append(_object(answer.content))
    return found[0] if found else None


@contextmanager
def _known_caller(cluster: Cluster) -> Iterator[None]:
    """A token that has expired is not used again (rule 3)."""
    try:
        yield
    except UnknownCaller:
        cluster.log_in_again()
        raise


class NotServed(ClusterError):
    """The API server has no such list."""


def as_it_is(value: Object) -> Object:
    """An object with all that it has."""
    return value


def listed(
    cluster: Cluster,
    path: str,
    what: str,
    params: Mapping[str, str],
    slim: Callable[[Object], Object] = as_it_is,
) -> tuple[list[Object], str]:
    """All objects of a list, and the version from which on it can be followed.

    ``slim``: what is kept of each, so that a long list is never in memory as a whole.
    """
    objects: list[Object] = []
    version, more = "", ""
    while True:
        wish = {**params, "limit": "500", **({"continue": more} if more else {})}
        page = send(cluster, "GET", path, what, params=wish)
        if page is None:
            raise NotServed(f"{cluster.access.server} does not serve {path.rpartition('/')[2]}")
        with cluster.asking(what):
            objects += [slim(_object_of(one)) for one in page.get("items") or ()]
            metadata = page.get("metadata") or {}
            version, more = str(metadata.get("resourceVersion") or ""), str(metadata.get("continue") or "")
        if not more:
            return objects, version


def followed(
    cluster: Cluster, path: str, what: str, params: Mapping[str, str], version: str
) -> Iterator[tuple[str, Object]]:
    """What happens to the objects of a list: kind of event, and object (rule 2)."""
    import httpx2  # noqa: PLC0415 - an extra

    wish = {**params, "watch": "true", "resourceVersion": version, "timeoutSeconds": str(FOLLOWED)}
    wish["allowWatchBookmarks"] = "true"
    patience = httpx2.Timeout(PATIENCE, read=FOLLOWED + SLACK)
    with (
        _known_caller(cluster),
        cluster.asking(what),
        cluster.http.stream("GET", path, params=wish, timeout=patience) as answer,
    ):
        if answer.status_code >= 400:
            answer.read()
        raise_for_status(answer)
        for line in answer.iter_lines():
            yield watch_event(line)


def watch_event(line: str) -> tuple[str, Object]:
    """What a line says."""
    event = _object_of(json.loads(line))
    return str(event.get("type")), _object_of(event.get("object"))


def _object(raw: bytes) -> Object:
    return _object_of(json.loads(raw))


def _object_of(value: Any) -> Object:  # noqa: ANN401 - JSON can be anything
    if not isinstance(value, Mapping):
        raise TypeError("no object")
    return value
