"""How to reach a cluster: the options that several commands share."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from numawise.values import dataclass

if TYPE_CHECKING:
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


def cluster_options(command: Any) -> Any:  # noqa: ANN401 - click's
    """``--kubeconfig`` and ``--context``; the command has ``kubeconfig`` and ``cluster``."""
    options: tuple[Callable[[Any], Any], ...] = (
        click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster."),
        click.option("--context", "cluster", metavar="NAME", help="The context of the kubeconfig."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@contextmanager
def reached(options: ClusterOptions) -> "Iterator[Cluster]":
    """The cluster that is meant; a ``ClusterError`` where none is known."""
    from numawise.kube.client import Cluster, access_to  # noqa: PLC0415 - keeps --help quick

    with Cluster(access_to(options.kubeconfig or "", options.context or "")) as cluster:
        yield cluster
