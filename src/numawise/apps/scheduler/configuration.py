"""How kube-scheduler is told to ask: its KubeSchedulerConfiguration, as a value.

Rules kept here:

1. One step of our score outweighs all plugins of the stock scheduler together: a step counts ten times the
   weight, and a plugin at most 100 times its own.  So the node that is promised is the node that is bound.
2. An extender that does not answer is passed over (``ignorable``): pods go on being bound, as without it.
3. Nodes are asked for by name (``nodeCacheCapable``): whole nodes cost the scheduler six times as much.
4. All nodes that the scheduler finds suitable are asked about (``percentageOfNodesToScore`` 100): of a
   sample, a pod may find none that would let it in although there is one.
"""

from typing import Any

from numawise.values import dataclass

API_VERSION = "kubescheduler.config.k8s.io/v1"
STOCK_WEIGHTS = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "DynamicResources": 2,
    "PodGroupPodsCount": 1,
}
"""Of v1.36, those behind gates included."""
HIGHEST_OF_PLUGIN, STEP = 100, 10
"""What a plugin gives at most, and what one step of an extender's score counts, before weights."""
WEIGHT = 200
FILTER, PRIORITIZE, PREEMPT = "filter", "prioritize", "preempt"
TIMEOUT_SECONDS = 5
CERTIFICATES = "/etc/kubernetes/numawise"


@dataclass(frozen=True, slots=True)
class ExtenderWish:
    """How the extender is reached and asked."""

    address: str = "https://127.0.0.1:9443"
    """Scheme, host and port."""
    kubeconfig: str = "/etc/kubernetes/scheduler.conf"
    """With which the scheduler reaches the API server; '': as it is started."""
    ca_file: str = f"{CERTIFICATES}/ca.crt"
    """Whose signature the extender's certificate has, on the scheduler's host."""
    client_cert: str = ""
    client_key: str = ""
    """What the scheduler shows to an extender that wants certificates."""
    server_name: str = ""
    """The name in the extender's certificate, where it is not the host of the address."""
    weight: int = WEIGHT
    percentage: int = 100
    ignorable: bool = True
    leader_election: bool = True
    managed: tuple[str, ...] = ()
    """Resources; with some, only pods that ask for one of them are asked about."""


def scheduler_configuration(wish: ExtenderWish = ExtenderWish()) -> dict[str, Any]:  # noqa: B008 - a frozen value
    """The file for ``kube-scheduler --config``."""
    extender: dict[str, Any] = {
        "urlPrefix": wish.address,
        "filterVerb": FILTER,
        "prioritizeVerb": PRIORITIZE,
        "preemptVerb": PREEMPT,
        "weight": wish.weight,
        "nodeCacheCapable": True,
        "ignorable": wish.ignorable,
        "httpTimeout": f"{TIMEOUT_SECONDS}s",
        "enableHTTPS": wish.address.startswith("https:"),
    }
    if extender["enableHTTPS"]:
        given = {
            "serverName": wish.server_name,
            "certFile": wish.client_cert,
            "keyFile": wish.client_key,
            "caFile": wish.ca_file,
        }
        extender["tlsConfig"] = {name: value for name, value in given.items() if value}
    if wish.managed:
        extender["managedResources"] = [{"name": name, "ignoredByScheduler": False} for name in wish.managed]
    configuration: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": wish.leader_election},
        "percentageOfNodesToScore": wish.percentage,
        "extenders": [extender],
    }
    if wish.kubeconfig:
        configuration["clientConnection"] = {"kubeconfig": wish.kubeconfig}
    return configuration
