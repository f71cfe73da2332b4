"""``--defrag``: the fewest pods whose restart elsewhere lets a waiting pod in; shown, and on request done.

Rules kept here:

1. Everything is read anew, and the plan is made of that.  Without the right to see disruption budgets there
   is no plan.
2. A pod is evicted, never deleted: disruption budgets have the last word.  The first that is refused ends it.
3. Every eviction stands in the audit log before it is asked for, with the plan that it belongs to.
"""

from numawise.apps.heal.changing import HealWriter
from numawise.cluster.defrag import smallest_restart
from numawise.codec.cluster_pod import PodReading
from numawise.errors import ClusterError, InputError, quoted
from numawise.inputs.cluster import disruption_budgets, visible_cluster
from numawise.kube.client import Cluster
from numawise.render.restart import restart_sentence
from numawise.results.restart import RestartSearch


def restart_search(cluster: Cluster, namespace: str, name: str) -> RestartSearch:
    """Look for the plan (rule 1)."""
    pod = cluster.pod(namespace, name)
    if pod is None:
        raise InputError(f"there is no pod {quoted(name)} in namespace {namespace}", field="--defrag")
    reading = PodReading().read(pod)
    if reading.raw is None:
        raise InputError(f"pod {quoted(name)} cannot be read: {reading.problem}", field="--defrag")
    if reading.node or reading.ended:
        where = f"is bound to node {reading.node}" if reading.node else "has ended"
        raise InputError(f"pod {quoted(name)} does not wait: it {where}", field="--defrag")
    seen = visible_cluster(cluster)
    budgets, problem = disruption_budgets(cluster)
    if budgets is None:
        raise ClusterError(problem, "ask for the right to list poddisruptionbudgets")
    return smallest_restart(seen.view, reading.raw, seen.now, seen.pods, budgets)


def evict_all(search: RestartSearch, writer: HealWriter) -> int:
    """Evict the pods of a plan, one after the other (rules 2 and 3); how many were."""
    plan = search.plan
    if plan is None:
        return 0
    why = f"so that pod {plan.namespace}/{plan.name} is let in: {restart_sentence(search)}"
    for step in plan.steps:
        evidence = {
            "node": step.node,
            "then": step.to,
            "owner": step.owner,
            "priority": step.priority,
            "plan": [f"{one.namespace}/{one.name}" for one in plan.steps],
        }
        writer.evict(step.namespace, step.name, step.uid, why, evidence)
    return len(plan.steps)
