"""The API server, asked for what explains a pod: it, its owner, node and neighbours, events, ``configz``.

Rules kept here:

1. Only reading: ``get`` and ``list``.  Objects come as the server wrote them, whatever release it is.
2. kubectl's order of places: a file that was named, ``KUBECONFIG``, the one at home, then the pod we are in.
3. What goes wrong is one sentence that says which server, what was asked, and what to do.  An object that is
   not there is ``None``; what we may not see is an ``ApiRefused``, so that a caller can go on without it.
4. A list is read page by page, and refused when it is longer than ``MOST_OBJECTS``.
"""

import binascii
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from numawise.codec.kubeconfig import MALFORMED, ClusterAccess, kubeconfig_files, read_access
from numawise.errors import ClusterError, InputError, quoted
from numawise.extras import needed
from numawise.kube.credentials import ACCOUNT, in_cluster, issued

if TYPE_CHECKING:
    from lightkube import Client

Object = Mapping[str, Any]
EVERYWHERE = "*"
PATIENCE = 15.0
NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
UNKNOWN_CALLER, FORBIDDEN, ABSENT, CONFLICT = 401, 403, 404, 409
INVALID = (400, 422)
MOST_OBJECTS = 100_000
KINDS: Mapping[str, tuple[str, str, str]] = {
    # kind → group, version, name in paths
    "Pod":                   ("", "v1", "pods"),
    "Event":                 ("", "v1", "events"),
    "Node":                  ("", "v1", "nodes"),
    "ReplicationController": ("", "v1", "replicationcontrollers"),
    "Deployment":            ("apps", "v1", "deployments"),
    "ReplicaSet":            ("apps", "v1", "replicasets"),
    "StatefulSet":           ("apps", "v1", "statefulsets"),
    "DaemonSet":             ("apps", "v1", "daemonsets"),
    "Job":                   ("batch", "v1", "jobs"),
    "CronJob":               ("batch", "v1", "cronjobs"),
}  # fmt: skip
TOPOLOGY_GROUP, TOPOLOGY_KIND = "topology.node.k8s.io", "NodeResourceTopology"
TOPOLOGY_VERSIONS = ("v1alpha2", "v1alpha1")


def list_path(kind: str, namespace: str = "") -> str:
    """Where objects of a kind are; those of all namespaces, or of one."""
    group, version, plural = KINDS[kind]
    start = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{start}/namespaces/{namespace}/{plural}" if namespace else f"{start}/{plural}"


NODES, PODS = list_path("Node"), list_path("Pod")
TOPOLOGIES = tuple(
    f"/apis/{TOPOLOGY_GROUP}/{version}/noderesourcetopologies" for version in TOPOLOGY_VERSIONS
)
"""Where they may be served, the newest version first."""


class ApiRefused(ClusterError):
    """The API server knows us, and does not let us see this."""


class ApiConflict(ClusterError):
    """Somebody else changed the object, or owns what was to be changed."""


class ApiInvalid(ClusterError):
    """The API server does not take the object as it would be."""


class UnknownCaller(ClusterError):
    """The API server does not know us, or no longer."""


class NoCluster(ClusterError):
    """Nothing says which cluster is meant."""


def access_to(
    kubeconfig: str, context: str, environment: Mapping[str, str] | None = None, account: str = ACCOUNT
) -> ClusterAccess:
    """Which server to ask, as whom (rule 2)."""
    known = os.environ if environment is None else environment
    try:
        found = read_access(kubeconfig_files(kubeconfig, known), context, must_exist=bool(kubeconfig))
    except InputError as problem:
        raise ClusterError(str(problem)) from None
    found = found or in_cluster(known, account)
    if found is None:
        raise NoCluster("no cluster is known here", advice="give --kubeconfig FILE, or set KUBECONFIG")
    return found


class Cluster:
    """One API server, as somebody; ``MissingExtra``: what speaks with it is not installed."""

    def __init__(self, access: ClusterAccess) -> None:
        needed("kube", "lightkube")
        self.access = access

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in {"_client", "http"} & set(self.__dict__):
            self.__dict__[name].close()

    @property
    def namespace(self) -> str:
        """The namespace of the context."""
        return self.access.namespace

    def pod(self, namespace: str, name: str) -> Object | None:
        """A pod, or None when there is none of that name."""
        return self.named("Pod", namespace, name)

    def named(self, kind: str, namespace: str, name: str) -> Object | None:
        """An object of a namespace, or None when there is none of that name."""
        with self.asking(f"get {kind.lower()} {name} in namespace {_checked(namespace)}") as found:
            found.append(_whole(self._client.get(_resource(kind), name=_checked(name), namespace=namespace)))
        return found[0] if found else None

    def pods(self, namespace: str) -> tuple[Object, ...]:
        """All pods of a namespace."""
        return self.every("Pod", namespace)

    def every(self, kind: str, namespace: str) -> tuple[Object, ...]:
        """All objects of a kind in a namespace."""
        plural = KINDS[kind][2]
        with self.asking(f"list {plural} in namespace {_checked(namespace)}") as found:
            found += self._listed(kind, namespace)
        return tuple(found)

    def pods_on(self, node: str) -> tuple[Object, ...]:
        """All pods of a node."""
        fields: dict[str, Any] = {"spec.nodeName": _checked(node)}
        with self.asking(f"list the pods of node {node}") as found:
            found += self._listed("Pod", EVERYWHERE, fields)
        return tuple(found)

    def node(self, name: str) -> Object | None:
        """A node, or None when there is none of that name."""
        with self.asking(f"get node {_checked(name)}") as found:
            found.append(_whole(self._client.get(_resource("Node"), name=name)))
        return found[0] if found else None

    def configz(self, node: str) -> Object | None:
        """The configuration that a node's kubelet runs with, or None when unknown."""
        with self.asking(f"get nodes/proxy of node {_checked(node)}", through=True) as found:
            found.append(self._client.get(_configz(), name=node))
        return found[0] if found else None

    def topology(self, node: str) -> Object | None:
        """The NodeResourceTopology of a node, in the newest version that is served; None: there is none."""
        for version in TOPOLOGY_VERSIONS:
            with self.asking(f"get noderesourcetopology {_checked(node)}", through=True) as found:
                found.append(_whole(self._client.get(_topology(version), name=node)))
            if found:
                return {"apiVersion": f"{TOPOLOGY_GROUP}/{version}", "kind": TOPOLOGY_KIND, **found[0]}
        return None

    def events(self, namespace: str, name: str = "", kind: str = "Pod") -> tuple[Object, ...]:
        """The events about an object, also one that is gone; without a name, about all of a kind."""
        fields: dict[str, Any] = {"involvedObject.kind": kind}
        fields |= {"involvedObject.name": _checked(name)} if name else {}
        with self.asking(f"list events in namespace {_checked(namespace)}") as found:
            found += self._listed("Event", namespace, fields)
        return tuple(found)

    def _listed(self, kind: str, namespace: str, fields: dict[str, Any] | None = None) -> Iterator[Object]:
        """The objects of a list, one after the other (rule 4)."""
        objects = self._client.list(_resource(kind), namespace=namespace, fields=fields, chunk_size=500)
        for number, one in enumerate(objects):
            if number == MOST_OBJECTS:
                raise ClusterError(f"{self.access.server} lists more than {MOST_OBJECTS:,} {KINDS[kind][2]}")
            yield one

    @cached_property
    def _client(self) -> "Client":
        return _client(self.access)

    @cached_property
    def http(self) -> Any:  # noqa: ANN401 - of an extra
        """The connection itself, for what is not only reading (``kube.calls``)."""
        return _http(self.access)

    def log_in_again(self) -> None:
        """Take what a kubeconfig's program issues anew for the next request; others may be under way."""
        self.__dict__.pop("http", None)

    @contextmanager
    def asking(self, what: str, *, through: bool = False) -> Iterator[list[Object]]:
        """Ask for something; whatever goes wrong becomes one sentence (rule 3).

        ``through``: a kubelet behind the server answers, in its own manner.
        """
        import httpx2  # noqa: PLC0415 - an extra

        found: list[Object] = []
        server = self.access.server
        try:
            yield found
        except httpx2.HTTPStatusError as problem:
            code = problem.response.status_code
            if code == ABSENT and not through and not hasattr(problem, "status"):
                raise ClusterError(f"{server} does not answer as an API server does", REACH) from None
            self._judged(code, _server_message(problem), what)
        except httpx2.TimeoutException:
            raise ClusterError(f"{server} does not answer within {PATIENCE:.0f} s", REACH) from None
        except httpx2.TransportError as problem:
            reason = _plainly(problem)
            advice = TRUST if "CERTIFICATE" in reason.upper() else REACH
            raise ClusterError(f"{server} cannot be reached: {reason}", advice) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ssl.SSLError, OSError, binascii.Error) as problem:
            raise ClusterError(f"{server} cannot be asked: {_plainly(problem)}") from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError, MALFORMED):
            raise ClusterError(f"{server} does not answer as an API server does", REACH) from None

    def _judged(self, code: int, message: str, what: str) -> None:
        server = self.access.server
        if code == ABSENT:
            return
        if code == UNKNOWN_CALLER:
            advice = "log in again, or take another --context"
            raise UnknownCaller(f"{server} does not know who you are (401): {message}", advice)
        if code == FORBIDDEN:
            raise ApiRefused(f"you may not {what} (403): {message}", "ask for that right")
        if code == CONFLICT:
            raise ApiConflict(message)
        problem = ApiInvalid if code in INVALID else ClusterError
        raise problem(f"{server} answers {code} when asked to {what}: {message}")


def raise_for_status(answer: Any) -> None:  # noqa: ANN401 - of an extra
    """Raise what ``asking`` judges, where the server did not do what it was asked."""
    from lightkube.core.generic_client import GenericClient  # noqa: PLC0415 - an extra

    GenericClient.raise_for_status(answer)  # type: ignore[no-untyped-call]


REACH = "check the server of the kubeconfig, and whether a proxy or VPN is needed"
TRUST = "check certificate-authority of the kubeconfig"


def _client(access: ClusterAccess) -> "Client":
    config, settings = _settings(access)
    from lightkube import Client  # noqa: PLC0415 - an extra

    with _usable(access):
        return Client(config, **settings)
    raise AssertionError


def _http(access: ClusterAccess) -> Any:  # noqa: ANN401 - of an extra
    config, settings = _settings(access)
    from lightkube.config.client_adapter import Client, ConnectionParams  # noqa: PLC0415 - an extra

    with _usable(access):
        return Client(config, ConnectionParams(**settings))
    raise AssertionError


def _settings(access: ClusterAccess) -> tuple[Any, dict[str, Any]]:
    """How to reach a server, and as whom."""
    import httpx2  # noqa: PLC0415 - an extra
    from lightkube.config.kubeconfig import KubeConfig  # noqa: PLC0415

    user = issued(access.user, Path(access.user_file or access.file or ".").resolve(), os.environ)
    if "auth-provider" in user:
        raise ClusterError(
            "the kubeconfig logs in with auth-provider, which is no longer supported", "use exec instead"
        )
    with _usable(access):
        name = {"name": "this"}
        config = KubeConfig.from_dict(
            {
                "current-context": "this",
                "clusters": [name | {"cluster": {**access.cluster, "server": access.server}}],
                "users": [name | {"user": user}],
                "contexts": [
                    name | {"context": {"cluster": "this", "user": "this", "namespace": access.namespace}}
                ],
            }
        ).get()
        return config, {
            "timeout": httpx2.Timeout(PATIENCE),
            "transport": _named_transport(config, access.cluster.get("tls-server-name")),
            "proxy": _proxy(access),
        }
    raise AssertionError


@contextmanager
def _usable(access: ClusterAccess) -> Iterator[None]:
    """What is wrong with a kubeconfig, in one sentence."""
    import httpx2  # noqa: PLC0415 - an extra

    try:
        yield
    except (MALFORMED, OSError, ValueError, TypeError, httpx2.InvalidURL) as problem:
        sentence = f"{access.file}: cannot be used: {_plainly(problem)}"
        raise ClusterError(sentence, "check certificates and keys of the kubeconfig") from None


def _proxy(access: ClusterAccess) -> str | None:
    proxy = access.cluster.get("proxy-url")
    if proxy is None or isinstance(proxy, str):
        return proxy or None
    raise ValueError("proxy-url is not text")


def _named_transport(config: Any, name: object) -> Any:  # noqa: ANN401 - of an extra
    """A transport that expects another name in the server's certificate; None when none is named."""
    if not isinstance(name, str) or not name:
        return None
    import httpx2  # noqa: PLC0415 - an extra
    from lightkube.config.client_adapter import verify_cluster  # noqa: PLC0415

    class Named(httpx2.HTTPTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            request.extensions["sni_hostname"] = name
            return super().handle_request(request)

    return Named(verify=verify_cluster(config.cluster, config.user, config.abs_file))


@cache
def _resource(kind: str) -> Any:  # noqa: ANN401 - of an extra
    """A resource that is asked for, its objects left as they come (rule 1)."""
    group, version, plural = KINDS[kind]
    core = _core()
    base = core.GlobalResource if kind == "Node" else core.NamespacedResourceG
    info = core.ApiInfo(core.ResourceDef(group, version, kind), plural, ["get", "list", "global_list"])
    return type(kind, (base, dict), {"_api_info": info})


@cache
def _topology(version: str) -> Any:  # noqa: ANN401 - of an extra
    core = _core()
    definition = core.ResourceDef(TOPOLOGY_GROUP, version, TOPOLOGY_KIND)
    info = core.ApiInfo(definition, "noderesourcetopologies", ["get"])
    return type(TOPOLOGY_KIND, (core.GlobalResource, dict), {"_api_info": info})


@cache
def _configz() -> Any:  # noqa: ANN401 - of an extra
    core = _core()
    node = core.ResourceDef("", "v1", "Node")
    info = core.ApiInfo(node, "nodes", ["get"], parent=node, action="proxy/configz")
    return type("Configz", (core.GlobalSubResource, dict), {"_api_info": info})


def _core() -> Any:  # noqa: ANN401 - of an extra
    from lightkube.core import resource  # noqa: PLC0415 - an extra

    return resource


def _whole(found: Object) -> Object:
    if "metadata" not in found:
        raise ValueError("no object")
    return found


def _checked(name: str) -> str:
    if not NAME.fullmatch(name):
        raise ClusterError(
            f"{quoted(name)} is not a valid Kubernetes name", "lower-case letters, digits, '-' and '.'"
        )
    return name


def _server_message(problem: Exception) -> str:
    """What the server said, in one line."""
    status = getattr(problem, "status", None)
    text = getattr(status, "message", "") or str(problem)
    return " ".join(text.split())[:300]


def _plainly(problem: BaseException) -> str:
    """An exception in a few words."""
    text = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
    return " ".join(re.sub(r"\[Errno -?\d+\] ", "", text).split())[:300]
