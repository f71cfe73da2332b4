"""Objects that run a program in a cluster: what all of them have in common.

Rules kept here:

1. An account has exactly the rights that its program lists: a ClusterRole for those of the whole cluster, a
   Role for those of its own namespace, a ClusterRole of its own for those of chosen namespaces, which is
   bound there alone.  A pod without rights gets no token.
2. A container has a read-only root, no capabilities, no way to more and the runtime's seccomp profile.
3. Every object has the label of its program and of numawise, so that nothing is left behind unseen.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from numawise.service.rights import REGISTRATION, ApiRight, rules_of
from numawise.values import dataclass, replace

Json = dict[str, Any]
NAME_LABEL, PART_LABEL, PART = "app.kubernetes.io/name", "app.kubernetes.io/part-of", "numawise"
RBAC = "rbac.authorization.k8s.io"
STAMP = "numawise.dev/certificates"
CRITICAL = ("system-cluster-critical", "system-node-critical")
NOBODY = 65532
"""A user without a name and without files."""


@dataclass(frozen=True, slots=True)
class ProgramObjects:
    """Makes objects of one program, all of one name."""

    name: str
    namespace: str

    @property
    def selector(self) -> dict[str, str]:
        """The labels by which its pods are known; they can never change."""
        return {NAME_LABEL: self.name}

    @property
    def labels(self) -> dict[str, str]:
        """Rule 3."""
        return {**self.selector, PART_LABEL: PART}

    @property
    def user(self) -> str:
        """What the API server calls its account."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    @property
    def subject(self) -> Json:
        """Its account, as bindings name it."""
        return {"kind": "ServiceAccount", "name": self.name, "namespace": self.namespace}

    def inside(self, version: str, kind: str, name: str = "", **fields: object) -> Json:
        """An object in the program's namespace."""
        metadata = {"name": name or self.name, "namespace": self.namespace, "labels": self.labels}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}

    def clusterwide(self, version: str, kind: str, name: str = "", **fields: object) -> Json:
        """An object of the cluster."""
        metadata = {"name": name or self.name, "labels": self.labels}
        return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}

    def account(self) -> Json:
        """Its account; pods that need a token ask for it."""
        return self.inside("v1", "ServiceAccount", automountServiceAccountToken=False)

    def access(self, rights: Sequence[ApiRight], namespaces: Sequence[str] = ()) -> tuple[Json, ...]:
        """Roles, and that the account has them (rule 1); without ``namespaces`` all are chosen."""
        everywhere, chosen = (self.clusterwide,), f"{self.name}-chosen"
        inside = [replace(self, namespace=namespace).inside for namespace in namespaces]
        parts = (
            (
                self.name,
                [right for right in rights if not right.own_namespace and not right.chosen],
                everywhere,
            ),
            (chosen, [right for right in rights if right.chosen], inside or everywhere),
            (self.name, [right for right in rights if right.own_namespace], (self.inside,)),
        )
        objects: list[Json] = []
        for name, own, bound in parts:
            if own:
                make = self.inside if own[0].own_namespace else self.clusterwide
                kind = "Role" if own[0].own_namespace else "ClusterRole"
                role = {"apiGroup": RBAC, "kind": kind, "name": name}
                objects.append(make(f"{RBAC}/v1", kind, name, rules=rules_of(own)))
                for bind in bound:
                    binding = "ClusterRoleBinding" if bind == self.clusterwide else "RoleBinding"
                    objects.append(bind(f"{RBAC}/v1", binding, name, roleRef=role, subjects=[self.subject]))
        return tuple(objects)

    def account_policy(
        self, rules: Sequence[Json], validations: Sequence[Json], variables: Mapping[str, str]
    ) -> tuple[Json, ...]:
        """What its account asks for is validated; what cannot be worked out is refused."""
        account = f"request.userInfo.username == '{self.user}'"
        spec = {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": list(rules)},
            "matchConditions": [{"name": f"the-{self.name.removeprefix(f'{PART}-')}", "expression": account}],
            "variables": [{"name": name, "expression": text} for name, text in variables.items()],
            "validations": list(validations),
        }
        binding = {"policyName": self.name, "validationActions": ["Deny"]}
        return (
            self.clusterwide(f"{REGISTRATION}/v1", "ValidatingAdmissionPolicy", spec=spec),
            self.clusterwide(f"{REGISTRATION}/v1", "ValidatingAdmissionPolicyBinding", spec=binding),
        )

    def template(self, pod: Json, stamp: str = "") -> Json:
        """A pod's template; pods start again when the stamp changes."""
        metadata: Json = {"labels": self.labels}
        if stamp:
            metadata["annotations"] = {STAMP: stamp}
        return {"metadata": metadata, "spec": pod}

    def deployment(self, replicas: int, pod: Json, stamp: str = "") -> Json:
        """So many pods; a new one is ready before an old one goes."""
        spec = {
            "replicas": replicas,
            "selector": {"matchLabels": self.selector},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "template": self.template(pod, stamp),
        }
        return self.inside("apps/v1", "Deployment", spec=spec)


def namespace_object(name: str, level: str) -> Json:
    """A namespace in which Pod Security allows what a level allows."""
    labels = {PART_LABEL: PART, "pod-security.kubernetes.io/enforce": level}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def critical_quota(namespace: str) -> Json:
    """Some providers allow critical pods only where a quota speaks of them; elsewhere it changes nothing."""
    scope = {"operator": "In", "scopeName": "PriorityClass", "values": list(CRITICAL)}
    spec = {"hard": {"pods": "1G"}, "scopeSelector": {"matchExpressions": [scope]}}
    metadata = {"name": "numawise-critical-pods", "namespace": namespace, "labels": {PART_LABEL: PART}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": spec}


def disruption_budget(own: ProgramObjects) -> Json:
    """A node that is drained takes one of its pods at a time."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": own.selector}}
    return own.inside("policy/v1", "PodDisruptionBudget", spec=spec)


def open_ports(own: ProgramObjects, ports: Mapping[str, Sequence[Json]]) -> Json:
    """These ports of its pods can be reached: each by its peers, or by everybody where it has none."""
    spec = {
        "podSelector": {"matchLabels": own.selector},
        "policyTypes": ["Ingress"],
        "ingress": [
            {"ports": [{"protocol": "TCP", "port": name}]} | ({"from": list(peers)} if peers else {})
            for name, peers in ports.items()
        ],
    }
    return own.inside("networking.k8s.io/v1", "NetworkPolicy", spec=spec)


def spread_over_nodes(own: ProgramObjects) -> Json:
    """Fields of a pod: its kind on different nodes where that can be, and away from a dead node soon."""
    gone = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    return {
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30} for key in gone
        ],
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": own.selector},
            }
        ],
    }


def container_security() -> Json:
    """Rule 2."""
    return {
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def pod_security(user: int = NOBODY) -> Json:
    """Rule 2, of the pod; user 0 where files of the host are root's."""
    who: Json = {"runAsUser": user, "runAsGroup": user}
    if user:
        who |= {"runAsNonRoot": True, "fsGroup": user}
    return {**who, "seccompProfile": {"type": "RuntimeDefault"}}


def resources(cpu: str, memory: str, most_memory: str) -> Json:
    """What a container asks for; CPU time is not limited, so that answers are never held up."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": most_memory}}


def probes(port: str = "pages") -> Json:
    """Asked at the program's own pages: whether it goes on, and whether it does what it is for."""
    return {
        "livenessProbe": _probe("/healthz", port, periodSeconds=20, failureThreshold=3),
        "readinessProbe": _probe("/readyz", port, periodSeconds=5, failureThreshold=1),
    }


def _probe(path: str, port: str, **times: int) -> Mapping[str, Any]:
    return {"httpGet": {"path": path, "port": port}, "timeoutSeconds": 5, **times}


def own_fields(fields: Iterable[tuple[str, str]]) -> list[Json]:
    """Variables with fields of the pod itself: name, path."""
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields]
