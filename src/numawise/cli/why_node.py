"""``numawise why`` with a bundle, or about a pod of a cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from numawise.errors import InputError

if TYPE_CHECKING:
    from numawise.apps.why.files import Explained
    from numawise.inputs.bundle import Bundle


@dataclass(frozen=True, slots=True)
class NodeFlags:
    """What was given."""

    bundle: str | None
    kubeconfig: str | None
    context: str | None
    namespace: str | None
    machine: str | None
    kubelet_config: str | None
    state: str | None
    nodes: Sequence[str]
    kube: str | None
    pods: Sequence[str]


def wants_cluster(flags: NodeFlags) -> bool:
    """Whether a cluster is to be asked: somebody wrote pod/NAME, which is no file."""
    from pathlib import Path  # noqa: PLC0415 - keeps --help quick

    from numawise.apps.why.live import live_name  # noqa: PLC0415

    live = [word for word in flags.pods if live_name(word) and not Path(word).exists()]
    if live and len(live) != len(flags.pods):
        other = next(word for word in flags.pods if word not in live)
        raise InputError(
            f"{live[0]} is of a cluster, and {other} is a file", advice="ask for one kind at once"
        )
    if not live and (flags.kubeconfig or flags.context or flags.namespace):
        raise InputError("--kubeconfig, --context and --namespace go with pod/NAME", advice="name the pod so")
    return bool(live)


def release_in(bundle: str) -> str | None:
    """The kubelet's version that a bundle tells; None when it does not."""
    from numawise.inputs.bundle import open_bundle  # noqa: PLC0415 - keeps --help quick

    return open_bundle(bundle).kube or None


def explain_node(flags: NodeFlags) -> "Explained":
    """Explain pods of a cluster, or on the node of a bundle."""
    from numawise.inputs.bundle import open_bundle  # noqa: PLC0415 - keeps --help quick

    bundle = open_bundle(flags.bundle) if flags.bundle is not None else None
    if wants_cluster(flags):
        return _live(flags, bundle)
    from numawise.apps.why.bundled import Beside, explain_bundle  # noqa: PLC0415

    assert bundle is not None
    if flags.state is not None:
        raise InputError("--state and --bundle exclude each other", advice="the bundle has state files")
    profile = bundle.profile(flags.kube)
    if profile.remark:
        click.echo(f"numawise: {profile.remark}", err=True)
    beside = Beside(flags.machine, flags.kubelet_config)
    return explain_bundle(bundle, flags.pods, flags.nodes, profile.version, beside)


def _live(flags: NodeFlags, bundle: "Bundle | None") -> "Explained":
    from numawise.apps.why.files import Explained  # noqa: PLC0415
    from numawise.apps.why.live import live_name, look_up  # noqa: PLC0415
    from numawise.apps.why.live_explained import NodeGiven, explain_live  # noqa: PLC0415
    from numawise.kube.client import Cluster, access_to  # noqa: PLC0415

    given = NodeGiven(bundle, flags.machine, flags.kubelet_config, flags.state, flags.kube)
    with Cluster(access_to(flags.kubeconfig or "", flags.context or "")) as cluster:
        namespace = flags.namespace or cluster.namespace
        found = [explain_live(look_up(cluster, namespace, live_name(word)), given) for word in flags.pods]
    return Explained(tuple(found))
