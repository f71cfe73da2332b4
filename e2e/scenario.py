"""What happens on the node, step by step: pods of all classes and sizes, refusals of every kind, and trouble."""

from dataclasses import dataclass
from typing import Any

from e2e.node import BASE, STATIC
from e2e.pods import burstable, container, ending, guaranteed, pod_spec, sidecar, small

FIRST: dict[str, Any] = {
    **BASE,
    **STATIC,
    "topologyManagerPolicy": "single-numa-node",
    "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
}
SECOND: dict[str, Any] = {
    **STATIC,
    "topologyManagerPolicy": "best-effort",
    "topologyManagerScope": "pod",
    "cpuManagerPolicyOptions": {},
    "maxPods": 4,
}
HUGE_PAGES = 32
"""Of 2 MiB, on each NUMA node."""


@dataclass(frozen=True)
class Add:
    """A pod comes; ``reason``: what it is refused with, as far as this list knows ('': admitted)."""

    name: str
    spec: dict[str, Any]
    reason: str = ""
    static: bool = False
    labels: bool = False
    """It goes by labels of the node, which are not published: the Node object is taken, too."""


@dataclass(frozen=True)
class Delete:
    """Pods are deleted."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class End:
    """A pod ends by itself, with success."""

    name: str


@dataclass(frozen=True)
class Sick:
    """These devices are unhealthy from now on, and no others."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Restart:
    """The kubelet is started anew."""


@dataclass(frozen=True)
class Kill:
    """The agent is killed, and started again by its service manager."""


@dataclass(frozen=True)
class Switch:
    """Another policy, by the script of ``plan switch``; ``words``: its arguments."""

    new: dict[str, Any] | None
    words: tuple[str, ...] = ()


Step = Add | Delete | End | Sick | Restart | Kill | Switch
ALIGN, SMT, UNEXPECTED = "TopologyAffinityError", "SMTAlignmentError", "UnexpectedAdmissionError"
ELSEWHERE = {"nodeSelector": {"kubernetes.io/hostname": "another"}}
TUNED = {"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "65536"}]}}
WHOLE = {"resources": {"requests": {"cpu": "1", "memory": "60Mi"}, "limits": {"cpu": "1", "memory": "60Mi"}}}
CRITICAL = {"priorityClassName": "system-node-critical"}
PORT = {"ports": [{"containerPort": 31999, "hostPort": 31999}]}

# fmt: off
STEPS: list[Step] = [
    # --- single-numa-node, container scope, full-pcpus-only ---------------------------------------
    Add("nothing",     pod_spec(container("c"))),
    Add("burst",       pod_spec(container("c", requests={"cpu": "300m"}, limits={"memory": "40Mi"}))),
    Add("near",        pod_spec(guaranteed("c", "2", "100Mi", gpu=1, nic=1))),
    Add("odd",         pod_spec(guaranteed("c", "1", "30Mi")), SMT),
    Add("float",       pod_spec(small("c", gpu=1))),
    Add("pair",        pod_spec(guaranteed("c", "2", "60Mi", gpu=2))),
    Add("first",       pod_spec(guaranteed("m", "2", "50Mi"), init=(guaranteed("i", "4", "80Mi"),))),
    Add("wide",        pod_spec(guaranteed("c", "6", "100Mi")), ALIGN),
    Add("never",       pod_spec(guaranteed("c", "8", "100Mi")), ALIGN),
    Add("five-gpus",   pod_spec(small("c", gpu=5)), ALIGN),
    Add("sum-cpu",     pod_spec(burstable("c", "6500m")), "OutOfcpu"),
    Add("sum-memory",  pod_spec(burstable("c", memory="5Gi")), "OutOfmemory"),
    Add("sum-disk",    pod_spec(small("c", disk="900Ti")), "OutOfephemeral-storage"),
    Add("fraction",    pod_spec(guaranteed("c", "1100m", "30Mi", nic=1))),
    Add("huge",        pod_spec(guaranteed("c", "100m", "30Mi", huge="20Mi"))),
    Add("too-huge",    pod_spec(guaranteed("c", "100m", "30Mi", huge="80Mi")), UNEXPECTED),
    Delete(("near", "first")),
    Add("memory",      pod_spec(guaranteed("c", "2", "1500Mi")), UNEXPECTED),
    Add("beside",      pod_spec(guaranteed("m", "2", "40Mi"), init=(sidecar(guaranteed("s", "2", "40Mi")),))),
    Add("elsewhere",   pod_spec(small("c"), **ELSEWHERE), "NodeAffinity", labels=True),
    Add("tuned",       pod_spec(small("c"), **TUNED), "SysctlForbidden"),
    Add("unknown",     pod_spec(small("c", none=1))),
    Delete(("beside", "unknown", "burst")),
    Restart(),
    Add("after",       pod_spec(guaranteed("x", "2", "50Mi"), guaranteed("y", "500m", "50Mi"))),
    Add("again",       pod_spec(guaranteed("c", "4", "60Mi", nic=1))),
    Sick(("gpu0",)),
    Add("none-left",   pod_spec(guaranteed("c", "2", "40Mi", gpu=1)), ALIGN),
    Sick(()),
    Delete(("again",)),
    Add("one-back",    pod_spec(guaranteed("c", "2", "40Mi", gpu=1))),
    Delete(("pair", "one-back")),
    Add("ends",        ending("ends", guaranteed("c", "4", "200Mi", gpu=2))),
    Add("full",        pod_spec(guaranteed("c", "4", "40Mi", gpu=1)), ALIGN),
    End("ends"),
    Add("instead",     pod_spec(guaranteed("c", "4", "40Mi", gpu=2))),
    Kill(),
    Add("killed",      pod_spec(guaranteed("c", "2", "40Mi", nic=1))),
    Delete(("instead",)),
    Add("by-file",     pod_spec(guaranteed("c", "2", "40Mi", gpu=1)), static=True),
    Add("devices",     pod_spec(container("c", limits={"example.com/nic": "1"}))),
    Delete(("killed", "devices")),
    Add("in-turn",     pod_spec(guaranteed("m", "2", "40Mi", gpu=1), init=(guaranteed("i", "2", "40Mi", gpu=1), guaranteed("j", "4", "60Mi"))), ALIGN),
    Delete(("in-turn",)),
    Add("two",         pod_spec(guaranteed("x", "2", "40Mi", gpu=1), small("y", nic=1))),
    Add("whole",       pod_spec(container("x"), container("y"), **WHOLE)),
    Add("port",        pod_spec({**small("c"), **PORT})),
    Add("same-port",   pod_spec({**small("c"), **PORT}), "NodePorts"),
    Add("important",   pod_spec(guaranteed("c", "2", "40Mi"), **CRITICAL)),
    # --- best-effort, pod scope -------------------------------------------------------------------
    Switch(SECOND),
    Add("across",      pod_spec(guaranteed("c", "7", "100Mi"))),
    Add("three-gpus",  pod_spec(small("c", gpu=3))),
    Add("no-cpus",     pod_spec(guaranteed("c", "4", "40Mi")), UNEXPECTED),
    Add("no-gpus",     pod_spec(small("c", gpu=2)), UNEXPECTED),
    Add("odd-now",     pod_spec(guaranteed("c", "1", "30Mi", gpu=1))),
    Delete(("across", "three-gpus")),
    Add("both",        pod_spec(guaranteed("c", "2", "1700Mi"))),
    Add("all",         pod_spec(guaranteed("x", "2", "40Mi", gpu=1), guaranteed("y", "1", "40Mi", nic=1), init=(guaranteed("i", "3", "60Mi"),))),
    Add("last",        pod_spec(container("c"))),
    Add("too-many",    pod_spec(container("c")), "OutOfpods"),
    Delete(("both", "all", "last", "odd-now")),
    Switch(None, ("--rollback",)),
    Add("back",        pod_spec(guaranteed("c", "2", "100Mi", gpu=1, nic=1))),
    Add("odd-again",   pod_spec(guaranteed("c", "3", "30Mi")), SMT),
]
# fmt: on
