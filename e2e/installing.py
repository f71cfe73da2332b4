# ruff: noqa: T201 - it prints what came out
"""What is installed, on a real API server: taken, enough for each program, not more than enough, and gone afterwards.

Rules kept here:

1. Programs run with the token of their own account and nothing else.  What the API server refuses anybody on the way is
   counted by itself, and must be nothing.
2. Then each account asks for what it must not have, and must be refused.
3. What is removed leaves nothing: every kind of object is searched for our label.
"""

import base64
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from e2e.build import helm_program
from e2e.cluster import API_PORT, Api, wait_for
from e2e.schedulers import LEAST
from e2e.settings import Settings
from e2e.world import NUMAWISE, World, page
from numawise.apps.heal.hold_list import POLICY_VERSION
from numawise.apps.lab.rights import LAB_RIGHTS
from numawise.service.manifest import PART, PART_LABEL, ProgramObjects

DEPLOY = Path(__file__).parents[1] / "deploy"
NAMESPACE, PORT, PAGES = "numawise", 9443, 9453
ACCOUNTS = (
    "numawise-agent",
    "numawise-scheduler",
    "numawise-kube-scheduler",
    "numawise-heal",
    "numawise-lab",
)
IMAGE = ("--image", "registry.example.com/numawise:1")
DEPLOYMENTS = ("numawise-scheduler", "numawise-kube-scheduler", "numawise-heal")
CONFIG = DEPLOY.parent / "examples/8gpu-server/kubelet.yaml"


class Installation:
    """A control plane, kubectl, and accounts."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.kubectl_program = world.plane.programs / "kubectl"

    def kubectl(self, *words: object, stdin: str = "", fine: bool = True) -> str:
        command = [
            str(self.kubectl_program),
            "--kubeconfig",
            str(self.world.plane.kubeconfig),
            *map(str, words),
        ]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, timeout=300)
        assert not fine or done.returncode == 0, f"kubectl {' '.join(map(str, words))}: {done.stderr.strip()}"
        return done.stdout + done.stderr

    def token(self, account: str, pod: dict[str, Any] | None = None) -> str:
        """A token of an account, bound to a pod as a mounted one is."""
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        spec: dict[str, Any] = {"audiences": ["https://kubernetes.default.svc"], "expirationSeconds": 3600}
        if pod is not None:
            spec["boundObjectRef"] = {
                "kind": "Pod", "apiVersion": "v1", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"],
            }  # fmt: skip
        status, answer = self.world.api.ask(
            "POST", path, {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        )
        assert status == 201, answer
        return str(answer["status"]["token"])

    def access(self, account: str) -> Path:
        """A kubeconfig with the token of an account alone."""
        file = self.folder / f"{account}.kubeconfig"
        file.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{API_PORT}", "insecure-skip-tls-verify": True}}],
                    "users": [{"name": "u", "user": {"token": self.token(account)}}],
                    "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                    "current-context": "c",
                }
            )
        )  # fmt: skip
        return file

    def files(self, secret: str) -> Path:
        """The files of a Secret, as they would be mounted."""
        folder = self.folder / secret
        folder.mkdir(exist_ok=True)
        status, value = self.world.api.ask("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/{secret}")
        assert status == 200, value
        for name, text in value["data"].items():
            (folder / name).write_bytes(base64.b64decode(text))
        return folder

    def refused(self) -> float:
        """How many requests the API server has refused so far, of anybody."""
        status, text = self.world.api.ask("GET", "/metrics")
        assert status == 200
        lines = (line for line in text.splitlines() if line.startswith("apiserver_request_total{"))
        return sum(float(line.rpartition(" ")[2]) for line in lines if 'code="403"' in line)

    def ours(self) -> list[str]:
        """All objects with our label, of every kind."""
        names = self.kubectl("api-resources", "--verbs=list", "-o", "name").split()
        kinds = ",".join(name for name in names if not name.startswith("events"))
        words = ("get", kinds, "--all-namespaces", "-l", f"{PART_LABEL}={PART}", "-o", "name")
        lines = self.kubectl(*words, "--ignore-not-found").splitlines()
        return [line for line in lines if "/" in line and not line.startswith("Warning")]

    def contents(self) -> dict[str, Any]:
        """Object → what is in it, without what the server and controllers add."""
        words = [
            name
            for name in self.ours()
            if not name.startswith(("pod/", "replicaset", "controllerrev", "endpoint"))
        ]
        contents = {}
        for name in words:
            value = json.loads(self.kubectl("get", name, "--namespace", NAMESPACE, "-o", "json"))
            contents[name] = {key: part for key, part in value.items() if key not in ("metadata", "status")}
        return contents

    def gone(self) -> None:
        """Until the namespace and everything of ours are gone."""
        path = f"/api/v1/namespaces/{NAMESPACE}"
        wait_for("the end of the namespace", 120, lambda: self.world.api.ask("GET", path)[0] == 404)
        left = self.ours()
        assert not left, f"left behind: {left}"
        definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        name = "noderesourcetopologies.topology.node.k8s.io"
        assert self.world.api.ask("GET", f"{definition}/{name}")[0] == 200, "the definition went as well"


# --- three ways to install ------------------------------------------------------------------------


def by_kustomize(where: Installation) -> None:
    """Apply, apply again without any change, and delete."""
    tree = where.folder / "kustomize"
    shutil.copytree(DEPLOY / "kustomize", tree, dirs_exist_ok=True)
    overlay = tree / "overlays/cluster"
    subprocess.run(
        [NUMAWISE, "manifest", "--certificates", overlay / "certificates"], check=True, capture_output=True
    )
    said = where.kubectl("apply", "-k", tree / "overlays/cluster-with-definition")
    assert "created" in said
    before = where.contents()
    assert len(before) > 20
    where.kubectl("apply", "-k", tree / "overlays/cluster-with-definition")
    after = where.contents()
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    assert not changed, f"not the same the second time: {changed}"
    where.kubectl("delete", "-k", overlay)
    where.gone()


def by_helm(where: Installation, helm: Path) -> None:
    """Install, upgrade with the same certificates, and uninstall."""
    chart, image = str(DEPLOY / "helm/numawise"), "image=registry.example.com/numawise:1"

    def run(*words: str) -> None:
        command = [
            str(helm),
            "--kubeconfig",
            str(where.world.plane.kubeconfig),
            "--namespace",
            NAMESPACE,
            *words,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr.strip()[-1000:]

    run("install", "numawise", chart, "--create-namespace", "--set", image)
    before = where.files("numawise-scheduler-server") / "tls.crt"
    certificate = before.read_bytes()
    some = ("--set", "heal.namespaces={default,kube-system}", "--set", "scheduler.from={10.0.0.0/24}")
    run("upgrade", "numawise", chart, "--set", image, "--set", "heal.apply=true", *some)
    assert (where.files("numawise-scheduler-server") / "tls.crt").read_bytes() == certificate
    run("uninstall", "numawise")
    where.kubectl("delete", "namespace", NAMESPACE)
    where.gone()


def by_command(where: Installation) -> None:
    """The command's objects, which the programs then run with."""
    words = [str(NUMAWISE), "manifest", *IMAGE, "--kubernetes", "1.36.4", "--heal-applies"]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    where.kubectl("apply", "-f", "-", stdin=text)
    own = ProgramObjects("numawise-lab", NAMESPACE)
    objects = [own.account(), *own.access(LAB_RIGHTS)]
    where.kubectl("apply", "-f", "-", stdin="---\n".join(map(yaml.safe_dump, objects)))


# --- with exactly these rights --------------------------------------------------------------------


def programs_run(where: Installation) -> None:
    """Every program does its work, and is refused nothing (rule 1)."""
    world, before = where.world, where.refused()
    _lab(where)
    _extender(where)
    _stock_scheduler(where)
    world.make(_pod("first", "numawise", "2"))
    path = "/api/v1/namespaces/default/pods/first"
    wait_for(
        "a pod that runs", 120, lambda: world.api.ask("GET", path)[1]["status"].get("phase") == "Running"
    )
    _heal(where)
    _other_pods_run(where)
    after = where.refused()
    assert after == before, f"{after - before:.0f} requests were refused"


def _lab(where: Installation) -> None:
    world, access = where.world, where.access("numawise-lab")
    words = ("lab", "--nodes", "8gpu-server:3", "--kubelet-config", str(CONFIG), "--listen", "off")
    world.plane.start("lab", *words, "--kubeconfig", str(access), program=NUMAWISE)
    world.wait("three nodes", 120, lambda: world.ready_nodes() >= 3, "lab")


def _extender(where: Installation) -> None:
    world, access = where.world, where.access("numawise-scheduler")
    keys = where.files("numawise-scheduler-server")
    words = ["scheduler", "--listen", f"127.0.0.1:{PORT}", "--pages", f"127.0.0.1:{PAGES}"]
    words += [
        "--tls-cert",
        f"{keys}/tls.crt",
        "--tls-key",
        f"{keys}/tls.key",
        "--client-ca",
        f"{keys}/ca.crt",
    ]
    world.plane.start("extender", *words, "--kubeconfig", str(access), program=NUMAWISE)
    world.wait("the extender", 120, lambda: page(PAGES, "/readyz")[0] == 200, "extender")


def _stock_scheduler(where: Installation) -> None:
    """The second kube-scheduler with its own configuration; only places are others."""
    world, keys = where.world, where.files("numawise-scheduler-client")
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps/numawise-kube-scheduler"
    value = yaml.safe_load(world.api.ask("GET", path)[1]["data"]["config.yaml"])
    (entry,) = value["extenders"]
    name = entry["urlPrefix"].removeprefix("https://").rpartition(":")[0]
    entry["urlPrefix"] = f"https://127.0.0.1:{PORT}"
    entry["ignorable"] = False  # so that it must be asked, and must answer
    entry["tlsConfig"] |= {"serverName": name, "caFile": f"{keys}/ca.crt", "certFile": f"{keys}/tls.crt", "keyFile": f"{keys}/tls.key"}  # fmt: skip
    value["clientConnection"] = {"kubeconfig": str(where.access("numawise-kube-scheduler"))}
    file = where.folder / "kube-scheduler.yaml"
    file.write_text(yaml.safe_dump(value))
    words = (f"--config={file}", "--secure-port=10361", "--authentication-skip-lookup=true")
    world.plane.start("kube-scheduler-numawise", *words, program=world.plane.programs / "kube-scheduler")
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/numawise-kube-scheduler"
    world.wait("its Lease", 60, lambda: world.api.ask("GET", lease)[0] == 200, "kube-scheduler-numawise")


def _heal(where: Installation) -> None:
    """A Deployment that no node can take: refused, explained, held, and let go when the policy is taken away."""
    world = where.world
    world.scheduler(LEAST)
    words = ("heal", "--apply", "--namespace", NAMESPACE, "--listen", f"127.0.0.1:{PAGES + 1}")
    access = ("--kubeconfig", str(where.access("numawise-heal")))
    world.plane.start("heal", *words, *access, program=NUMAWISE)
    world.wait("the healer", 120, lambda: page(PAGES + 1, "/readyz")[0] == 200, "heal")
    world.api.ask("POST", "/apis/apps/v1/namespaces/default/deployments", _deployment("runaway", "80"))
    events = "/apis/events.k8s.io/v1/namespaces/default/events"

    def explained() -> bool:
        return any(event.get("action") == "Heal" for event in world.listed(events))

    def gated() -> list[str]:
        pods = world.listed("/api/v1/namespaces/default/pods?labelSelector=app%3Drunaway")
        return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("schedulingGates")]

    world.wait("an Event about it", 120, explained, "heal")
    world.wait("a pod that waits", 120, gated, "heal")
    where.kubectl("delete", "deployment", "runaway", "--namespace", "default", "--cascade=orphan")
    where.kubectl("delete", "mutatingadmissionpolicy", "numawise-hold")
    world.wait("the end of waiting", 120, lambda: not gated(), "heal")


def _other_pods_run(where: Installation) -> None:
    """The installation's own pods: the daemons' and the deployments', on virtual nodes."""

    def running() -> bool:
        pods = where.world.listed(f"/api/v1/namespaces/{NAMESPACE}/pods")
        names = {
            pod["metadata"]["labels"]["app.kubernetes.io/name"]
            for pod in pods
            if pod["status"].get("phase") == "Running"
        }
        return names >= {"numawise-agent", *DEPLOYMENTS}

    wait_for("pods of the installation", 120, running)


def _pod(name: str, scheduler: str, cpus: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": scheduler, **_containers(cpus)},
    }


def _containers(cpus: str) -> dict[str, Any]:
    amount = {"cpu": cpus, "memory": "1Gi"}
    resources = {"requests": amount, "limits": amount}
    return {"containers": [{"name": "c", "image": "x", "resources": resources}]}


def _deployment(name: str, cpus: str) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _containers(cpus)},
        },
    }


# --- and no others --------------------------------------------------------------------------------

SECRETS = (
    ("GET", "/api/v1/secrets"),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets"),
    ("GET", f"/api/v1/namespaces/{NAMESPACE}/secrets/numawise-scheduler-server"),
    ("GET", "/api/v1/secrets?watch=1"),
)
NEVER = (
    *SECRETS,
    ("POST", "/api/v1/namespaces/default/pods/first/exec?command=id"),
    ("POST", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/numawise-heal/token"),
    ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
    ("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/numawise-heal"),
    ("GET", "/api/v1/nodes/8gpu-server-0/proxy/configz"),
    ("DELETE", "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"),
    ("DELETE", "/api/v1/namespaces/default/pods"),
    (
        "DELETE",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/noderesourcetopologies.topology.node.k8s.io",
    ),
)
WRITES = (
    ("POST", "/api/v1/namespaces/default/pods"),
    ("DELETE", "/api/v1/namespaces/default/pods/first"),
    ("PATCH", "/api/v1/namespaces/default/pods/first"),
    ("PATCH", "/api/v1/nodes/8gpu-server-0"),
    ("PATCH", "/api/v1/nodes/8gpu-server-0/status"),
    ("POST", "/api/v1/namespaces/default/pods/first/binding"),
    ("POST", "/api/v1/namespaces/default/pods/first/eviction"),
    ("POST", "/api/v1/namespaces/default/configmaps"),
    ("GET", "/api/v1/namespaces/kube-system/configmaps"),
    ("POST", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"),
)
BEYOND: dict[str, tuple[tuple[str, str], ...]] = {
    "numawise-agent": (*NEVER, *(pair for pair in WRITES if "/nodes/" not in pair[1])),
    "numawise-scheduler": (*NEVER, *WRITES),
    "numawise-kube-scheduler": SECRETS,
    "numawise-heal": (
        *NEVER,
        *WRITES,
        ("PATCH", f"/api/v1/namespaces/{NAMESPACE}/configmaps/numawise-kube-scheduler"),
        ("PUT", f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/numawise-kube-scheduler"),
        ("DELETE", "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies/numawise-hold"),
    ),
    "numawise-lab": (
        *NEVER,
        ("POST", "/api/v1/namespaces/default/pods"),
        ("PATCH", "/api/v1/namespaces/default/pods/first"),
        ("POST", "/api/v1/namespaces/default/pods/first/binding"),
        ("POST", "/api/v1/namespaces/default/pods/first/eviction"),
        ("POST", "/api/v1/namespaces/default/configmaps"),
    ),
}  # fmt: skip
"""Account → what it must not do."""


def nothing_else(where: Installation) -> None:
    """Each account is refused what it must not have (rule 2)."""
    granted = []
    for account, requests in BEYOND.items():
        api = Api("127.0.0.1", token=where.token(account))
        for method, path in requests:
            kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
            status, answer = api.ask(method, path, None if method in ("GET", "DELETE") else {}, kind)
            if status != 403:
                granted.append(f"{account}: {method} {path}: {status} {str(answer)[:200]}")
    assert not granted, "\n".join(granted)
    count = sum(map(len, BEYOND.values()))
    print(f"        {count} requests of {len(BEYOND)} accounts were refused", flush=True)


def own_node_alone(where: Installation) -> None:
    """An agent writes about the node that its token was issued for, and changes of it what it is for."""
    pods = where.world.listed(
        f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/name%3Dnumawise-agent"
    )
    own, other = pods[0], pods[1]["spec"]["nodeName"]
    node = own["spec"]["nodeName"]
    bound = Api("127.0.0.1", token=where.token("numawise-agent", own))
    loose = Api("127.0.0.1", token=where.token("numawise-agent"))
    condition = {"type": "NumawiseTopologyPublished", "status": "True", "reason": "Tried", "message": "tried"}
    topology = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
    published = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": node}}  # fmt: skip
    merge, strategic = "application/merge-patch+json", "application/strategic-merge-patch+json"
    apply, forced = "application/apply-patch+yaml", "?fieldManager=tried&force=true"
    tries: Iterator[tuple[Api, str, str, Any, bool]] = iter([
        (bound, f"/api/v1/nodes/{node}/status",   strategic, {"status": {"conditions": [condition]}}, True),
        (bound, f"{topology}/{node}{forced}",     apply,     published, True),
        (bound, f"/api/v1/nodes/{other}/status",  strategic, {"status": {"conditions": [condition]}}, False),
        (bound, f"{topology}/{other}{forced}",    apply,     {**published, "metadata": {"name": other}}, False),
        (bound, f"/api/v1/nodes/{node}/status",   strategic, {"status": {"conditions": [{**condition, "type": "Ready"}]}}, False),
        (bound, f"/api/v1/nodes/{node}/status",   merge,     {"status": {"capacity": {"example.com/gold": "1"}}}, False),
        (bound, f"/api/v1/nodes/{node}/status",   merge,     {"metadata": {"labels": {"a": "b"}}}, False),
        (bound, f"/api/v1/nodes/{node}",          merge,     {"spec": {"taints": None}}, False),
        (loose, f"/api/v1/nodes/{node}/status",   strategic, {"status": {"conditions": [condition]}}, False),
        (loose, f"{topology}/{node}{forced}",     apply,     published, False),
    ])  # fmt: skip
    wrong = []
    for api, path, kind, body, may in tries:
        status, answer = api.ask("PATCH", path, body, kind)
        if (status < 300) != may:
            wrong.append(f"{path} {body}: {status} {str(answer)[:300]}")
    assert not wrong, "\n".join(wrong)


GATE, OTHER_GATE, STEERED = "numawise.dev/hold", "example.com/quota", "numawise.dev/steered"


class Pods:
    """Pods as an attacker finds them, made and given a status by the administrator."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api, self.path = api, f"/api/v1/namespaces/{namespace}/pods"

    def make(self, name: str, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
        """A pod that no scheduler looks at; with ``status`` it is on a node and has it."""
        value = _pod(name, "nobody", "1")
        value["metadata"]["labels"] = {"app": "tried"}
        value["spec"] |= {"terminationGracePeriodSeconds": 0, **spec}
        if status is not None:
            value["spec"]["nodeName"] = "tried-by-hand"
        answer = self.api.ask("POST", self.path, value)
        assert answer[0] == 201, answer
        if status is not None:
            answer = self.api.ask(
                "PATCH", f"{self.path}/{name}/status", {"status": status}, "application/merge-patch+json"
            )
            assert answer[0] == 200, answer
        return dict(answer[1])


def own_pods_alone(where: Installation) -> None:
    """The healer's account deletes refused pods and takes its gate off, and changes nothing else of any pod."""
    where.world.plane.stop("heal")  # or it would let these pods go
    admin, healer = where.world.api, Api("127.0.0.1", token=where.token("numawise-heal"))
    refused = {"phase": "Failed", "reason": "TopologyAffinityError", "message": "tried"}
    ended = [
        {
            "name": "c",
            "image": "x",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": {"terminated": {"exitCode": 1}},
        }
    ]
    system, usual = Pods(admin, "kube-system"), Pods(admin, "default")
    system.make("running", {"phase": "Running"})
    usual.make("refused", refused)
    usual.make("out-of", {**refused, "reason": "OutOfnvidia.com/gpu"})
    usual.make("evicted", {**refused, "reason": "Evicted"})
    usual.make("running", {"phase": "Running", "reason": "TopologyAffinityError"})
    usual.make("ran", {**refused, "containerStatuses": ended})
    own, two = [{"name": GATE}], [{"name": GATE}, {"name": OTHER_GATE}]
    chosen = {"key": "disk", "operator": "In", "values": ["ssd"]}
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["a", "b"]}
    by_name = {"key": "metadata.name", "operator": "In", "values": ["a"]}

    def terms(*expressions: Any, part: str = "matchExpressions", **more: Any) -> dict[str, Any]:
        required = {"nodeSelectorTerms": [{part: list(expressions)}]}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required, **more}}

    preferred = {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [here]}}
        ]
    }
    free: dict[str, Any] = {"schedulingGates": None}
    steered = {"annotations": {STEERED: "a,b"}}
    image = {
        "containers": [
            {"name": "c", "image": "evil", "resources": _containers("1")["containers"][0]["resources"]}
        ]
    }
    for name in ("held", "named"):
        usual.make(name, schedulingGates=own)
    usual.make("picky", schedulingGates=two, affinity=terms(chosen))
    tolerated = usual.make("tried", schedulingGates=two, affinity=terms(chosen))["spec"]["tolerations"]
    usual.make("foreign", schedulingGates=[{"name": OTHER_GATE}])
    default, tried = usual.path, f"{usual.path}/tried"
    merge = "application/merge-patch+json"
    others = {"schedulingGates": [{"name": OTHER_GATE}]}
    tries: list[tuple[str, str, dict[str, Any] | None, bool]] = [
        ("PATCH",  f"{system.path}/running", {"spec": image}, False),
        ("PATCH",  f"{system.path}/running", {"metadata": {"labels": {"app": "mine"}}}, False),
        ("PATCH",  f"{system.path}/running", {"metadata": {"finalizers": ["example.com/mine"]}}, False),
        ("DELETE", f"{system.path}/running", None, False),
        ("DELETE", f"{default}/first",       None, False),
        ("DELETE", f"{default}/running",     None, False),
        ("DELETE", f"{default}/evicted",     None, False),
        ("DELETE", f"{default}/ran",         None, False),
        ("DELETE", f"{default}/held",        None, False),
        ("PATCH",  f"{default}/refused",     {"metadata": {"labels": {"app": "mine"}}}, False),
        ("PATCH",  f"{default}/foreign",     {"spec": free}, False),
        ("PATCH",  tried, {"spec": free}, False),
        ("PATCH",  tried, {"spec": {"schedulingGates": own}}, False),
        ("PATCH",  tried, {"spec": {"affinity": terms(chosen, here)}}, False),
        ("PATCH",  tried, {"spec": {**others, **image}}, False),
        ("PATCH",  tried, {"spec": {**others, "tolerations": [*tolerated, {"key": "a", "operator": "Exists"}]}}, False),
        ("PATCH",  tried, {"spec": {**others, "nodeSelector": {"a": "b"}}}, False),
        ("PATCH",  tried, {"spec": {**others, "activeDeadlineSeconds": 1}}, False),
        ("PATCH",  tried, {"spec": {**others, "affinity": terms(chosen, {**here, "key": "disk"})}}, False),
        ("PATCH",  tried, {"spec": {**others, "affinity": terms(chosen, {**here, "operator": "NotIn"})}}, False),
        ("PATCH",  tried, {"spec": {**others, "affinity": terms(chosen, **preferred)}}, False),
        ("PATCH",  tried, {"spec": others, "metadata": {"labels": {"app": "mine"}}}, False),
        ("PATCH",  tried, {"spec": others, "metadata": {"annotations": {"a": "b"}}}, False),
        ("PATCH",  tried, {"spec": others, "metadata": {"finalizers": ["example.com/mine"]}}, False),
        ("PATCH",  tried, {"spec": others, "metadata": {"ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "first", "uid": "1"}]}}, False),
        ("DELETE", f"{default}/refused",     None, True),
        ("DELETE", f"{default}/out-of",      None, True),
        ("PATCH",  f"{default}/held",        {"spec": {**free, "affinity": terms(here)}, "metadata": steered}, True),
        ("PATCH",  f"{default}/named",       {"spec": {**free, "affinity": terms(by_name, part="matchFields")}, "metadata": steered}, True),
        ("PATCH",  f"{default}/picky",       {"spec": {**others, "affinity": terms(chosen, here)}, "metadata": steered}, True),
        ("PATCH",  tried, {"spec": others}, True),
    ]  # fmt: skip
    wrong, refusals = [], 0
    for method, path, body, may in tries:
        status, answer = healer.ask(method, path, body, merge)
        refusals += status == 403
        if (status < 300) != may or (not may and status != 403):
            wrong.append(f"{method} {path} {body}: {status} {str(answer)[:400]}")
    status, policy = admin.ask("GET", f"/apis/{POLICY_VERSION}/validatingadmissionpolicies/numawise-heal")
    warnings = policy.get("status", {}).get("typeChecking", {}).get("expressionWarnings")
    assert not warnings, warnings
    assert not wrong, "\n".join(wrong)
    print(
        f"        {refusals} requests of the healer were refused, {len(tries) - refusals} went through",
        flush=True,
    )


def own_namespaces_alone(where: Installation) -> None:
    """With ``--heal-in`` the account has what it has about pods there alone; in others a refused pod stays."""
    words = [str(NUMAWISE), "manifest", *IMAGE, "--for", "heal", "--heal-applies", "--heal-in", "chosen"]
    where.kubectl("create", "namespace", "chosen")
    where.kubectl("delete", "clusterrolebinding", "numawise-heal-chosen")
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    where.kubectl("apply", "-f", "-", stdin=text)
    healer = Api("127.0.0.1", token=where.token("numawise-heal"))
    refused = {"phase": "Failed", "reason": "TopologyAffinityError", "message": "tried"}
    answers = []
    for namespace in ("default", "chosen"):
        pods = Pods(where.world.api, namespace)
        pods.make("limited", refused)
        replicas = f"/apis/apps/v1/namespaces/{namespace}/replicasets/none"
        answers += [healer.ask("GET", replicas)[0], healer.ask("DELETE", f"{pods.path}/limited")[0]]
    where.kubectl("delete", "namespace", "chosen")
    assert answers == [403, 403, 404, 200], answers


# --- the trial ------------------------------------------------------------------------------------


def trial(settings: Settings) -> bool:
    """Right when every step is."""
    helm = helm_program(settings.cache)
    with World(settings.programs, None, settings.scratch / "install") as world:
        where = Installation(world, settings.scratch / "install")
        steps: list[tuple[str, Callable[[], None]]] = [
            ("kubectl apply -k, again, delete -k", lambda: by_kustomize(where)),
            ("helm install, upgrade, uninstall", lambda: by_helm(where, helm)),
            ("numawise manifest | kubectl apply -f -", lambda: by_command(where)),
            ("every program with its own rights", lambda: programs_run(where)),
            ("nobody may do more", lambda: nothing_else(where)),
            ("agents write about their own node", lambda: own_node_alone(where)),
            ("the healer changes refused and held pods alone", lambda: own_pods_alone(where)),
            ("the healer of one namespace has no rights in others", lambda: own_namespaces_alone(where)),
            ("numawise manifest | kubectl delete -f -", lambda: removed(where)),
        ]
        right = [_step(name, step) for name, step in steps]
        target = settings.out / "install"
        target.mkdir(parents=True, exist_ok=True)
        for log in (settings.scratch / "install").glob("*.log"):
            shutil.copy(log, target)
    return all(right)


def removed(where: Installation) -> None:
    """One command removes; the definition and running pods of others stay."""
    for name in ("heal", "extender", "kube-scheduler-numawise"):
        if name in where.world.plane.running:
            where.world.plane.stop(name)
    words = [str(NUMAWISE), "manifest", *IMAGE, "--kubernetes", "1.36.4", "--heal-applies", "--tls", "given"]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    where.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=text)
    own = ProgramObjects("numawise-lab", NAMESPACE)
    for value in own.access(LAB_RIGHTS):
        where.kubectl("delete", value["kind"], value["metadata"]["name"])
    where.gone()
    pods = where.world.listed("/api/v1/namespaces/default/pods")
    assert any(pod["metadata"]["name"] == "first" for pod in pods)


def _step(name: str, step: Callable[[], None]) -> bool:
    try:
        step()
    except Exception as problem:  # noqa: BLE001 - the others are still tried
        print(
            f"failed  {name}\n" + "".join(f"        {line}\n" for line in str(problem).splitlines()),
            file=sys.stderr,
            flush=True,
        )
        return False
    print(f"ok      {name}", flush=True)
    return True
