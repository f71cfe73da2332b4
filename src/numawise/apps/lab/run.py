"""A lab from start to stop, and its end for good."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from numawise.apps.lab.calls import LabCalls
from numawise.apps.lab.floor import LabFloor
from numawise.apps.lab.plan import LabPlan
from numawise.codec.kubeconfig import ClusterAccess
from numawise.kube.client import Cluster
from numawise.service.attending import ServicePages, attend
from numawise.service.duty import INFO_METRIC, MetricName
from numawise.service.log import ServiceLog

LAB = MetricName("numawise_lab", INFO_METRIC, "The lab and its version.")


def run(plan: LabPlan, log: ServiceLog) -> int:
    """Be the nodes until a signal ends it."""
    attend(lambda: [LabFloor(plan, log)], ServicePages(LAB, plan.listen), log)
    return 0


def remove(
    access: ClusterAccess,
    lab: str,
    names: Sequence[str],
    clock: Callable[[], float],
    say: Callable[[str], None],
) -> int:
    """Delete the nodes that a lab made, all of them or these; how many that were."""
    with Cluster(access) as cluster:
        calls = LabCalls(cluster, lab, clock)
        nodes = calls.own_nodes()
        for name in names:
            if name not in nodes:
                say(f"node {name} is not one of lab {lab}, and is left alone")
        chosen = [value for name, value in nodes.items() if not names or name in names]
        with ThreadPoolExecutor(8) as pool:
            for _ in pool.map(calls.remove_node, chosen):
                pass
    return len(chosen)
