"""Random lives of owners, nodes, clocks and two healers: what is removed was allowed, and nobody is held for nothing.

The API server is a function behind the client's own transport: requests are real, the network is not.
"""

import io
import json
import random
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numawise.apps.heal.audit import AuditLog
from numawise.apps.heal.changing import HealWriter
from numawise.apps.heal.cleaning import CleaningRules
from numawise.apps.heal.healer import Healer
from numawise.apps.heal.holds import HoldSettings, Prospect
from numawise.apps.heal.refused import RefusedPod, refused_pod
from numawise.apps.heal.rights import BINDINGS, LEASE, POLICIES, POLICY
from numawise.apps.heal.terms import HealRules
from numawise.codec.kubeconfig import ClusterAccess
from numawise.kube.client import Cluster, Object
from numawise.kube.lease import LeaseKeeper
from numawise.results.pending import HOLD_GATE
from numawise.service.log import ServiceLog
from tests.kube.changes import merged
from tests.kube.healers import LISTED, NAMESPACE

KINDS = ("ReplicaSet", "StatefulSet", "Job", "DaemonSet")
RULES = HealRules(
    apply=True,
    cleaning=CleaningRules(keep=1, older_than=20, owners=("ReplicaSet", "StatefulSet"), per_minute=10),
    holds=HoldSettings(first=5, longest=40, calm=30, forget=100),
)
LONGEST_WAIT = 150
"""Turns within which everybody goes once there is room."""


class World:
    """An API server with owners and nodes."""

    def __init__(self, chance: random.Random, audits: Path) -> None:
        self.chance, self.audits = chance, audits
        self.now, self.jump = 1000.0, 0.0
        self.version = 1
        self.down = False
        self.pods: dict[str, dict[str, Any]] = {}
        self.born: dict[str, float] = {}
        self.kept: dict[str, dict[str, Any]] = {
            f"/apis/admissionregistration.k8s.io/v1/{plural}/{POLICY}": {"metadata": {}}
            for plural in (POLICIES, BINDINGS)
        }
        self.owners = [(kind, f"{kind.lower()}-{number}") for kind in KINDS for number in (0, 1)]
        self.revisions = dict.fromkeys(self.owners, 0)
        self.room = {"n1": 0, "n2": 0}
        self.known = True
        self.healers: list[HealingMember] = []
        self.removed: list[tuple[str, str]] = []
        """Uid, and the healer that did it."""

    def wall(self) -> float:
        return 1_800_000_000.0 + self.now + self.jump

    # --- the server -----------------------------------------------------------------------------

    def answer(self, request: httpx2.Request, who: str) -> httpx2.Response:
        if self.down:
            return httpx2.Response(503, json={"message": "down"}, request=request)
        path, body = request.url.path, json.loads(request.content or b"null")
        way = path.strip("/").split("/")
        if way[-2] == "pods":
            code, value = self.pod_request(request.method, way[-1], body, who)
        elif way[-2] in ("replicasets", "statefulsets", "jobs", "daemonsets"):
            code, value = self.owner_request(way[-1])
        else:
            code, value = self.kept_request(request.method, path, body)
        return httpx2.Response(code, json=value, request=request)

    def pod_request(self, method: str, name: str, body: Any, who: str) -> tuple[int, Any]:
        pod = next((one for one in self.pods.values() if one["metadata"]["name"] == name), None)
        if pod is None:
            return 404, {}
        wanted = body["preconditions"] if method == "DELETE" else body["metadata"]
        if any(pod["metadata"].get(key) != wanted[key] for key in ("uid", "resourceVersion")):
            return 409, {"message": "changed"}
        uid = pod["metadata"]["uid"]
        if method == "DELETE":
            self.check_removal(pod, who)
            self.removed.append((uid, who))
            self.put(uid, None)
        else:
            assert not pod["spec"].get("nodeName"), "only pods that wait are changed"
            self.put(uid, merged(pod, body))
        return 200, pod

    def owner_request(self, name: str) -> tuple[int, Any]:
        for (kind, known), revision in self.revisions.items():
            if known == name:
                status = {"updateRevision": f"r{revision}"} if kind == "StatefulSet" else {}
                labels = {"pod-template-hash": f"r{revision}"} if kind == "ReplicaSet" else {}
                metadata = {"name": name, "uid": f"u-{name}", "labels": labels}
                return 200, {"metadata": metadata, "spec": {"replicas": 1}, "status": status}
        return 404, {}

    def kept_request(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if method == "POST":
            path = f"{path}/{body['metadata']['name']}"
        known = self.kept.get(path)
        if method == "POST" and known is not None:
            return 409, {"message": "there"}
        if method == "GET" or (known is None and method != "POST"):
            return (200, known) if known is not None else (404, {})
        version = (body.get("metadata") or {}).get("resourceVersion")
        if known is not None and version and version != known["metadata"]["resourceVersion"]:
            return 409, {"message": "changed"}
        self.version += 1
        fresh = merged(known, body) if method == "PATCH" else body
        self.kept[path] = {**fresh, "metadata": {**fresh["metadata"], "resourceVersion": str(self.version)}}
        return 200, self.kept[path]

    @property
    def holds(self) -> dict[str, Any]:
        return dict(self.kept.get(LISTED, {}).get("data") or {})

    def put(self, uid: str, value: dict[str, Any] | None) -> None:
        before = self.pods.pop(uid, None)
        self.version += 1
        if value is not None:
            value = json.loads(json.dumps(value))
            value["metadata"]["resourceVersion"] = str(self.version)
            self.pods[uid] = value
        for member in self.healers:
            member.hear(before, value)

    # --- what may never be ----------------------------------------------------------------------

    def check_removal(self, pod: dict[str, Any], who: str) -> None:
        refused = refused_pod(pod)
        assert refused is not None, "only refused pods are removed"
        assert refused.owner_kind in RULES.cleaning.owners
        owner = refused.owner
        group = [
            one for one in map(refused_pod, self.pods.values()) if one is not None and one.owner == owner
        ]
        assert len(group) > RULES.cleaning.keep, "some are kept"
        lines = [json.loads(line) for line in (self.audits / who).read_text().splitlines()]
        assert any(
            line["outcome"] == "intended" and line["uid"] == refused.uid and line["action"] == "delete"
            for line in lines
        ), "no removal without a line before it"
        (healer,) = [one for one in self.healers if one.name == who]
        assert healer.lease.leads(), "only the leader acts"

    # --- what happens ---------------------------------------------------------------------------

    def make_pod(self, owner: tuple[str, str]) -> None:
        kind, name = owner
        uid = f"p{len(self.born)}"
        revision = f"r{self.revisions[owner]}" if kind in ("ReplicaSet", "StatefulSet") else ""
        label = "controller-revision-hash" if kind == "StatefulSet" else "pod-template-hash"
        reference = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "name": name,
            "uid": f"u-{name}",
            "controller": True,
        }
        gated = f"u-{name}.{revision or 'none'}" in self.holds
        self.born[uid] = self.now
        self.put(
            uid,
            {
                "metadata": {
                    "name": f"{name}-{uid}",
                    "namespace": "default",
                    "uid": uid,
                    "labels": {label: revision} if revision else {},
                    "creationTimestamp": f"2026-01-01T00:00:{len(self.born) % 60:02}Z",
                    "ownerReferences": [reference] if self.chance.random() < 0.95 else [],
                },
                "spec": {"containers": [], **({"schedulingGates": [{"name": HOLD_GATE}]} if gated else {})},
                "status": {"phase": "Pending"},
            },
        )

    def bind_pods(self) -> None:
        """The scheduler sends pods to the nodes that they allow, the kubelets let in or refuse."""
        for uid, pod in list(self.pods.items()):
            if pod["spec"].get("nodeName") or pod["spec"].get("schedulingGates"):
                continue
            affinity = pod["spec"].get("affinity")
            allowed = (
                affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
                    "nodeSelectorTerms"
                ][0]["matchExpressions"][0]["values"]
                if affinity
                else list(self.room)
            )
            node = self.chance.choice(allowed)
            value = json.loads(json.dumps(pod))
            value["spec"]["nodeName"] = node
            if self.room[node] > 0:
                self.room[node] -= 1
                value["status"] = {"phase": "Running"}
            elif self.chance.random() < 0.9:
                value["status"] = {"phase": "Failed", "reason": "TopologyAffinityError", "message": "no"}
            else:
                ended = {"name": "c", "state": {"terminated": {"exitCode": 1}}}
                value["status"] = {"phase": "Failed", "reason": "OutOfcpu", "containerStatuses": [ended]}
            self.put(uid, value)

    def recreate(self) -> None:
        """Owners make one pod each where none waits or runs; StatefulSets take the failed one away first."""
        for owner in self.owners:
            own = {
                uid: pod
                for uid, pod in self.pods.items()
                if pod["metadata"]["name"].startswith(f"{owner[1]}-")
            }
            if any(pod["status"]["phase"] != "Failed" for pod in own.values()):
                continue
            if owner[0] == "StatefulSet":
                for uid in own:
                    self.put(uid, None)
            self.make_pod(owner)

    def step(self) -> None:
        match self.chance.randrange(12):
            case 0:
                self.room[self.chance.choice(list(self.room))] = self.chance.randrange(3)
            case 1:
                self.jump = self.chance.choice((0.0, -3600.0, 86400.0))
            case 2:
                self.down = not self.down
            case 3:
                self.known = not self.known
            case 4:
                owner = self.chance.choice(self.owners)
                self.revisions[owner] += 1
            case 5 if self.holds:
                self.kept[LISTED]["data"] = {"not-ours": "nonsense"}
            case 6:
                restarted = self.chance.randrange(len(self.healers))
                self.healers[restarted].close()
                self.healers[restarted] = HealingMember(self, f"{self.healers[restarted].name}x")
            case _:
                pass
        self.recreate()
        self.bind_pods()
        self.now += self.chance.choice((0.2, 1.0, 1.0, 4.0, 16.0))
        for member in self.healers:
            if self.chance.random() < 0.9:
                member.turn()
        leaders = [member for member in self.healers if member.lease.leads()]
        assert len(leaders) <= 1, "one leads"


class HealingMember:
    """One of the healers."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        cluster = Cluster(ClusterAccess("test", "http://server"))
        transport = httpx2.MockTransport(lambda request: world.answer(request, name))
        cluster.__dict__["http"] = httpx2.Client(transport=transport, base_url="http://server")
        log = ServiceLog(io.StringIO(), structured=True)
        self.lease = LeaseKeeper(cluster, NAMESPACE, LEASE, name, lambda: world.now, world.wall)
        self.cluster = cluster
        self.audit = AuditLog(str(world.audits / name), log, name, world.wall)
        writer = HealWriter(cluster, NAMESPACE, self.audit)
        self.healer = Healer(RULES, writer, self, None, log, self.lease.leads, lambda: world.now, world.wall)
        for pod in list(world.pods.values()):
            self.hear(None, pod, first=True)

    def hear(self, before: Object | None, after: Object | None, *, first: bool = False) -> None:
        failed, unbound = (
            [value if value is not None and chosen(value) else None for value in (before, after)]
            for chosen in (is_failed, is_unbound)
        )
        self.healer.failed_changed(*failed, first=first)
        self.healer.unbound_changed(*unbound)

    def close(self) -> None:
        self.audit.close()
        self.cluster.__dict__["http"].close()

    def turn(self) -> None:
        self.lease.turn()
        self.healer.turn()
        while self.healer.explain_next():
            pass

    # --- what kubelets would say ----------------------------------------------------------------

    def prospect(self, _: Object) -> Prospect:
        if not self.world.known:
            return Prospect()
        return Prospect(tuple(node for node, room in self.world.room.items() if room), exact=True)

    def promise(self, pod: Object, node: str) -> None:
        pass

    def hosts(self, nodes: Any) -> dict[str, str]:
        return {node: node for node in nodes}

    def explanation(self, refused: RefusedPod, _: Object) -> str:
        return refused.reason


def is_failed(pod: Object) -> bool:
    return bool(pod["status"]["phase"] == "Failed")


def is_unbound(pod: Object) -> bool:
    return not pod["spec"].get("nodeName") and bool(pod["status"]["phase"] == "Pending")


@given(seed=st.integers(0, 2**32))
@settings(max_examples=12)
def test_random_lives(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    world = World(random.Random(seed), tmp_path_factory.mktemp("audit"))
    world.healers += [HealingMember(world, "a"), HealingMember(world, "b")]
    waited = 0
    for _ in range(80):
        world.step()
        waited += sum(bool(pod["spec"].get("schedulingGates")) for pod in world.pods.values())
    # Then there is room for everybody, and the server is there: nobody waits for long.
    world.down, world.known, world.jump = False, True, 0.0
    for _ in range(LONGEST_WAIT):
        world.room = dict.fromkeys(world.room, 100)
        world.recreate()
        world.bind_pods()
        world.now += 1.0
        for member in world.healers:
            member.turn()
    for member in world.healers:
        member.close()
    assert waited, "somebody was held"
    held = [pod["metadata"]["name"] for pod in world.pods.values() if pod["spec"].get("schedulingGates")]
    assert held == []
    assert set(world.holds) <= {"not-ours"}, "calm owners are held no longer"
