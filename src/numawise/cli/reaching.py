"""The cluster that a command asks, where it takes files instead, too."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from numawise.errors import InputError
from numawise.values import dataclass

if TYPE_CHECKING:
    from numawise.inputs.spec import NodeSpec
    from numawise.kube.client import Cluster


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """How to reach a cluster."""

    kubeconfig: str | None = None
    context: str | None = None
    namespace: str | None = None

    @property
    def given(self) -> bool:
        """Whether any of them was given."""
        return bool(self.kubeconfig or self.context or self.namespace)


@contextmanager
def reached(options: ClusterOptions) -> "Iterator[Cluster]":
    """The cluster that is meant, of a command that takes files with ``--nodes`` instead."""
    from numawise.kube.client import Cluster, NoCluster, access_to  # noqa: PLC0415 - keeps --help quick

    try:
        access = access_to(options.kubeconfig or "", options.context or "")
    except NoCluster as problem:
        raise NoCluster(problem.message, f"{problem.advice}; or give files with --nodes") from None
    with Cluster(access) as cluster:
        yield cluster


def files_only(spec: "NodeSpec") -> None:
    """Refuse options of a node where a cluster is asked."""
    from numawise.inputs.spec import NodeSpec  # noqa: PLC0415 - keeps --help quick

    if spec != NodeSpec():
        raise InputError("options of a node go with --nodes", advice="leave them out, or give --nodes")
