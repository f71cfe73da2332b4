"""A cluster read once for a person's question, as far as that person may see it.

Rules kept here:

1. What may not be seen is left out, and a remark says so and what follows from it.  Likewise of a cluster
   that is followed, where a remark also says since when something may be old.
2. Without nodes, pods and NodeResourceTopologies there is nothing to say: that is the error.
"""

import time
from collections.abc import Sequence

from numawise.cluster.live import LiveCluster, LiveSettings
from numawise.codec.selector import read_selector
from numawise.codec.stamps import second_stamp
from numawise.errors import ClusterError, cut
from numawise.inputs.live import POD, LiveFeed, live_cluster
from numawise.kube.calls import NotServed, listed
from numawise.kube.client import ApiRefused, Cluster, Object
from numawise.kube.writer import DEFINITION
from numawise.values import dataclass

FOLLOWS = {
    "list nodes": "labels, taints and nodes that publish nothing are not known, nor which nodes are gone",
    "list pods": "pods that a node does not publish yet are not counted, and shapes are not learned",
    "list noderesourcetopologies": "what nodes publish is not known",
}
KINDS = len(FOLLOWS)
NODES_NOT_READ = "nodes were not read: what is published may be of nodes that are gone"
MOST_GONE, LONGEST_NAME = 10, 100
BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
NO_BUDGETS = "no restart of other pods was looked for"


@dataclass(frozen=True, slots=True)
class VisibleCluster:
    """A cluster as somebody sees it."""

    view: LiveCluster
    now: float
    """When it was read, in seconds since 1970."""
    pods: Sequence[Object] = ()
    """Every pod, as far as it decides."""
    remarks: tuple[str, ...] = ()
    """What may not be seen, a sentence each."""

    @property
    def published_alone(self) -> bool:
        """Whether there are NodeResourceTopologies and nothing else."""
        return not self.view.states.nodes_read and not self.pods


def visible_cluster(cluster: Cluster, now: float | None = None) -> VisibleCluster:
    """Read nodes, pods and NodeResourceTopologies once (rules 1 and 2)."""
    moment = time.time() if now is None else now
    problems: list[ApiRefused] = []
    pods: list[Object] = []

    def seen(kind: str, value: Object) -> None:
        if kind == POD:
            pods.append(value)

    view = live_cluster(cluster, moment, LiveSettings(), refused=problems.append, seen=seen)
    if len(problems) >= KINDS:
        raise problems[0]
    return VisibleCluster(view, moment, pods, (*map(_remark, problems), *gone_remarks(view)))


def gone_remarks(view: LiveCluster) -> tuple[str, ...]:
    """What is published of nodes without a Node object, and bound to such, a sentence each."""
    names = set(view.names)
    gone = [one for one in view.views.values() if one.name not in names]
    published = [one.name for one in gone if one.source is not None]
    bound = [one.name for one in gone if one.pods]
    remarks = (
        [f"published of nodes without a Node object, and not counted: {_listed(published)}"]
        if published
        else []
    )
    if bound:
        pods = sum(len(one.pods) for one in gone)
        count = "a pod is" if pods == 1 else f"{pods} pods are"
        remarks.append(f"{count} bound to nodes without a Node object, and not counted: {_listed(bound)}")
    return tuple(remarks)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_GONE} more" if len(names) > MOST_GONE else ""
    return f"{', '.join(cut(name, LONGEST_NAME) for name in names[:MOST_GONE])}{more}"


def chosen_nodes(view: LiveCluster, selector: str, field: str = "--selector") -> list[str]:
    """The nodes with these labels; without any, all nodes."""
    wanted, names = read_selector(selector, field=field), list(view.names)
    if not selector.strip():
        return names
    described = {name: view.views[name].description for name in names}
    if names and not any(described.values()):
        advice = "leave the labels out, or ask for the right to list nodes"
        raise ClusterError("the labels of nodes are not known", advice)
    return [name for name, one in described.items() if one is not None and wanted(one.labels)]


def _remark(problem: ApiRefused) -> str:
    follows = next((words for what, words in FOLLOWS.items() if what in problem.message), "")
    return f"{problem.message}{f'; {follows}' if follows else ''}"


def followed_remarks(feed: LiveFeed) -> tuple[str, ...]:
    """What of a followed cluster is not known or may be old, and why; what has one cause is one sentence."""
    gaps = feed.gaps()
    with feed.lock:
        lines = dict.fromkeys(gone_remarks(feed.view))
    for gap in gaps:
        alike = [one for one in gaps if one.problem == gap.problem]
        whole = len(alike) == KINDS
        times = [one.since for one in alike if one.since is not None]
        cause = gap.problem if gap.served else f"{gap.problem}; to have them, {DEFINITION}"
        if not cause:
            lines["the cluster is being read"] = None
        elif times:
            what = "what is shown" if whole else " and ".join(one.what.removeprefix("list ") for one in alike)
            since = second_stamp(min(times)).replace("T", " ").replace("Z", " UTC")
            lines[f"{what} may be old since {since}: {cause}"] = None
        else:
            lines[cause if whole else f"{FOLLOWS[gap.what]}: {cause}"] = None
    return tuple(lines)


def disruption_budgets(cluster: Cluster) -> tuple[tuple[Object, ...] | None, str]:
    """All PodDisruptionBudgets, or None and why they are not known."""
    try:
        return tuple(listed(cluster, BUDGETS, "list poddisruptionbudgets", {})[0]), ""
    except NotServed:
        return (), ""
    except ClusterError as problem:
        return None, f"{problem.message}; {NO_BUDGETS}"
