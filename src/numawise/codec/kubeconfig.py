"""A kubeconfig, read and merged as kubectl does it.

Rules kept here:

1. Of several files the first that names a cluster, a user, a context or the current context wins; files of a
   list that are not there are passed over.
2. Paths inside a file are relative to it.
3. A context that is not there, or that leads to a cluster or user that is not there, is refused with those
   that are.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from numawise.codec.document import Document, read_file
from numawise.codec.infile import is_there
from numawise.errors import InputError, quoted, suggestion
from numawise.values import dataclass, field, replace

PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
MALFORMED = msgspec.MsgspecError
"""What a client raises for an object, or an answer, of the wrong shape."""
FROM_KUBECTL = "give one that kubectl works with"


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """One context, resolved: which server, as whom, in which namespace."""

    context: str
    server: str
    namespace: str = "default"
    cluster: Mapping[str, Any] = field(default_factory=dict)
    user: Mapping[str, Any] = field(default_factory=dict)
    file: str = ""
    user_file: str = ""
    """The one of several files that names the user."""


def kubeconfig_files(given: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The files to read: the one that was given, those of ``KUBECONFIG``, or the one at home."""
    if given:
        return (given,)
    if environment.get("KUBECONFIG"):
        return tuple(part for part in environment["KUBECONFIG"].split(os.pathsep) if part)
    home = environment.get("HOME", "")
    return (str(Path(home) / ".kube/config"),) if home else ()


def read_access(files: Sequence[str], context: str = "", *, must_exist: bool = False) -> ClusterAccess | None:
    """What the files say about a context, the current one if none is named; None when no file is there."""
    merged: dict[str, dict[str, Mapping[str, Any]]] = {section: {} for section in SECTIONS}
    user_files: dict[str, str] = {}
    current, first = "", ""
    for file in files:
        if not must_exist and not is_there(file):
            continue
        document = _document(file)
        first = first or file
        value = document.root.mapping(what="a kubeconfig")
        current = current or _text(value.get("current-context"))
        for section, inner in SECTIONS.items():
            for part in document.root.at(section).items():
                name, found = part.at("name").value, part.at(inner)
                if isinstance(name, str) and found.value is not None:
                    merged[section].setdefault(name, _absolute(found.mapping(), file))
                    if section == "users":
                        user_files.setdefault(name, file)
    if not first:
        return None
    access = _resolved(merged, context or current, first, named=bool(context))
    user = _text(merged["contexts"][access.context].get("user"))
    return replace(access, user_file=user_files.get(user, first))


def _resolved(
    merged: Mapping[str, Mapping[str, Mapping[str, Any]]], context: str, file: str, *, named: bool
) -> ClusterAccess:
    contexts, clusters, users = merged["contexts"], merged["clusters"], merged["users"]
    if not context:
        raise InputError("has no current context", file=file, advice="name one with --context")
    if context not in contexts:
        advice = suggestion(context, tuple(contexts)) if contexts else "it has no contexts at all"
        what = (
            f"there is no context {quoted(context)}"
            if named
            else f"its current context {quoted(context)} does not exist"
        )
        raise InputError(what, file=file, advice=advice)
    chosen = contexts[context]
    cluster, user = _text(chosen.get("cluster")), _text(chosen.get("user"))
    if cluster not in clusters:
        raise InputError(
            f"context {quoted(context)} refers to cluster {quoted(cluster)}, which does not exist", file=file
        )
    if user and user not in users:
        raise InputError(
            f"context {quoted(context)} refers to user {quoted(user)}, which does not exist", file=file
        )
    server = _text(clusters[cluster].get("server"))
    if not server:
        raise InputError(f"cluster {quoted(cluster)} has no server", file=file, advice=FROM_KUBECTL)
    return ClusterAccess(
        context=context,
        server=server,
        namespace=_text(chosen.get("namespace")) or "default",
        cluster=clusters[cluster],
        user=users.get(user, {}),
        file=file,
    )


def _document(file: str) -> Document:
    documents = read_file(file)
    value = documents[0].value
    if len(documents) != 1 or not isinstance(value, Mapping) or not SECTIONS.keys() & value.keys():
        raise InputError("is not a kubeconfig", file=file, advice=FROM_KUBECTL)
    return documents[0]


def _absolute(value: Mapping[str, Any], file: str) -> dict[str, Any]:
    folder = Path(file).resolve().parent
    found = dict(value)
    for name in PATHS:
        if isinstance(found.get(name), str) and found[name]:
            found[name] = str(folder / found[name])
    return found


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
