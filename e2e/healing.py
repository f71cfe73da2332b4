# ruff: noqa: T201 - it prints what came out
"""Runaway owners on a real control plane with virtual nodes: refused pods with and without ``numawise heal``.

    python -m e2e.healing --programs DIR [--without] [--owners StatefulSet,parallel,Deployment,Job]

Every node has room for the pods of an owner in sum, and on no single NUMA node.  The real controllers make pods, the
real scheduler sends them, the nodes refuse them.  Then room appears on one node, and the time is taken until the pods
run.  Needs root (a network of its own) and the programs that ``python -m e2e build`` makes.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from e2e.build import RELEASE
from e2e.cluster import Api, ControlPlane, wait_for

ROOT = Path(__file__).parent.parent
INSIDE = "NUMAWISE_OWN_NETWORK"
NODES, NAMESPACE = 4, "numawise"
OWNERS = ("StatefulSet", "parallel", "Deployment", "Job")
LOOKED = 30.0
"""Seconds that an owner is let run away."""
GPU, HOST_NAME = "nvidia.com/gpu", "kubernetes.io/hostname"


@dataclass
class Tally:
    """What happened to the pods of one owner."""

    owner: str
    healed: bool
    refused: int = 0
    seconds: float = LOOKED
    left: int = 0
    """Failed pods that are still there."""
    running_after: float | None = None
    """Seconds from when there was room until all of its pods ran; None: they did not."""
    events: list[str] = field(default_factory=list)


class Refusals:
    """Uids of pods that were refused, by the label ``app``, as a watch tells them."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.uids: dict[str, set[str]] = {}
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        version = self.api.ask("GET", "/api/v1/pods?limit=1")[1]["metadata"]["resourceVersion"]
        for event in self.api.lines(f"/api/v1/pods?watch=1&resourceVersion={version}"):
            pod = event["object"]
            if event["type"] != "ERROR" and pod.get("status", {}).get("phase") == "Failed":
                label = pod["metadata"].get("labels", {}).get("app", "")
                self.uids.setdefault(label, set()).add(pod["metadata"]["uid"])

    def count(self, label: str) -> int:
        return len(self.uids.get(label, ()))


def template(label: str, gpus: int, **spec: Any) -> dict[str, Any]:
    limits = {"cpu": "2", "memory": "1Gi", GPU: str(gpus)}
    container = {"name": "c", "image": "none", "resources": {"limits": limits}}
    return {
        "metadata": {"labels": {"app": label}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **spec},
    }


def owner_object(kind: str, label: str) -> tuple[str, dict[str, Any]]:
    """Where an owner is made, and the owner."""
    pods = template(label, 2)
    selector = {"matchLabels": {"app": label}}
    metadata = {"name": label}
    if kind == "Job":
        pods["spec"]["restartPolicy"] = "Never"
        spec = {"backoffLimit": 6, "template": pods}
        return "/apis/batch/v1/namespaces/default/jobs", {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": spec,
        }
    spec = {"replicas": 1, "selector": selector, "template": pods}
    if kind == "Deployment":
        path = "/apis/apps/v1/namespaces/default/deployments"
        return path, {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}
    spec["serviceName"] = label
    if kind == "parallel":
        spec |= {"replicas": 5, "podManagementPolicy": "Parallel"}
    path = "/apis/apps/v1/namespaces/default/statefulsets"
    return path, {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}


@contextmanager
def program(folder: Path, name: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A command of numawise that goes on until the end."""
    config = next(one / "kubeconfig" for one in (folder, folder.parent) if (one / "kubeconfig").exists())
    with (folder / f"{name}.log").open("ab") as log:
        child = subprocess.Popen(
            [sys.executable, "-m", "numawise", *words, "--kubeconfig", str(config)],
            stderr=log,
            stdout=log,
            cwd=ROOT,
        )
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()


@contextmanager
def healing(folder: Path, *words: str, led: bool = True) -> Iterator[subprocess.Popen[bytes]]:
    """``numawise heal --apply``, ready; its audit log is ``audit.jsonl``."""
    folder.mkdir(exist_ok=True)
    audit = str(folder / "audit.jsonl")
    with program(folder, "heal", "heal", "--apply", "--listen", "off", "--audit", audit, *words) as child:
        if led:
            log = folder / "heal.log"
            wait_for("the healer that leads", 60, lambda: '"leads"' in log.read_text() or None)
        yield child


def fill(api: Api) -> None:
    """On every node three of the four devices of each NUMA node are taken."""
    nodes = [node["metadata"]["labels"][HOST_NAME] for node in api.ask("GET", "/api/v1/nodes")[1]["items"]]
    wanted = {f"full-{number}-{half}": node for number, node in enumerate(nodes) for half in (0, 1)}
    place = "/api/v1/namespaces/default/pods"

    def all_run() -> bool:
        phases = {pod["metadata"]["name"]: pod["status"].get("phase") for pod in pods_of(api, "full")}
        for name, node in wanted.items():
            if name not in phases:
                pod = template("full", 3, nodeSelector={HOST_NAME: node})
                named = {"name": name, "labels": {"app": "full"}}
                api.ask("POST", place, pod | {"apiVersion": "v1", "kind": "Pod", "metadata": named})
            elif phases[name] == "Failed":  # what others had there was not collected yet
                api.ask("DELETE", f"{place}/{name}", {"gracePeriodSeconds": 0})
        return [phases.get(name) for name in wanted] == ["Running"] * len(wanted)

    wait_for("the pods that fill the nodes", 60, all_run)


def pods_of(api: Api, label: str) -> list[dict[str, Any]]:
    path = f"/api/v1/namespaces/default/pods?labelSelector=app%3D{label}"
    return list(api.ask("GET", path)[1]["items"])


def events_of(api: Api, label: str) -> list[str]:
    items = api.ask("GET", "/apis/events.k8s.io/v1/namespaces/default/events")[1]["items"]
    return [
        f"{one['regarding']['kind']}/{one['regarding']['name']} {one['reason']}: {one['note']}"
        for one in items
        if one.get("reportingController") == "numawise.dev/numawise-heal"
        and one["regarding"]["name"].startswith(label)
    ]


def run_away(api: Api, refusals: Refusals, kind: str, *, healed: bool, number: int) -> Tally:
    """Let one owner run away, then make room."""
    label = f"{kind.lower()}-{'healed' if healed else 'alone'}-{number}"
    tally = Tally(kind, healed)
    path, owner = owner_object(kind, label)
    status, answer = api.ask("POST", path, owner)
    assert status == 201, answer
    time.sleep(LOOKED)
    tally.refused = refusals.count(label)
    wanted = owner["spec"].get("replicas", 1)
    names = [f"full-{node}-{half}" for node in range(NODES) for half in (0, 1)][:wanted]
    for name in names:
        api.ask("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
    begin = time.monotonic()

    def runs() -> bool:
        running = [pod for pod in pods_of(api, label) if pod["status"].get("phase") == "Running"]
        return len(running) == wanted

    try:
        wait_for("the pods of the owner", 150 if kind == "Job" else 60, runs)
        tally.running_after = round(time.monotonic() - begin, 1)
    except TimeoutError:
        pass
    tally.refused = refusals.count(label)
    failed = [pod for pod in pods_of(api, label) if pod["status"].get("phase") == "Failed"]
    tally.left = len(failed)
    tally.events = events_of(api, label)
    api.ask("DELETE", f"{path}/{label}?propagationPolicy=Foreground")
    wait_for("an end of the owner", 120, lambda: not pods_of(api, label))
    empty(api)
    return tally


def correct(api: Api, refusals: Refusals) -> Tally:
    """A StatefulSet that can never run is corrected while it is held: the correction rolls out by itself."""
    label = "corrected"
    path, owner = owner_object("StatefulSet", label)
    owner["spec"]["template"] = template(label, 5)
    status, answer = api.ask("POST", path, owner)
    assert status == 201, answer
    wait_for("a held pod", 60, lambda: [pod for pod in pods_of(api, label) if gated(pod)])
    patch = {"spec": {"template": template(label, 1)}}
    status, answer = api.ask("PATCH", f"{path}/{label}", patch, "application/strategic-merge-patch+json")
    assert status == 200, answer
    return _run_out(api, refusals, path, label)


def _run_out(api: Api, refusals: Refusals, path: str, label: str) -> Tally:
    """Wait until the pod of an owner runs, and end it."""
    tally, begin = Tally(label, healed=True), time.monotonic()

    def runs() -> bool:
        return "Running" in [pod["status"].get("phase") for pod in pods_of(api, label)]

    with contextlib.suppress(TimeoutError):
        wait_for("the pod of the owner", 60, runs)
        tally.running_after = round(time.monotonic() - begin, 1)
    tally.refused, tally.events = refusals.count(label), events_of(api, label)
    api.ask("DELETE", f"{path}/{label}?propagationPolicy=Foreground")
    wait_for("an end of the owner", 60, lambda: not pods_of(api, label))
    return tally


def gated(pod: dict[str, Any]) -> bool:
    return bool(pod["spec"].get("schedulingGates"))


def succeed(api: Api, refusals: Refusals, folder: Path) -> Tally:
    """A healer is killed while it holds an owner; another one goes on."""
    label = "succeeded"
    path, owner = owner_object("Deployment", label)
    with healing(folder / "first") as first, healing(folder / "second", led=False):
        fill(api)
        status, answer = api.ask("POST", path, owner)
        assert status == 201, answer
        wait_for("a held pod", 60, lambda: [pod for pod in pods_of(api, label) if gated(pod)])
        wait_for("an Event", 60, lambda: events_of(api, label))
        first.kill()
        empty(api)
        return _run_out(api, refusals, path, label)


def empty(api: Api) -> None:
    for pod in pods_of(api, "full"):
        name = pod["metadata"]["name"]
        api.ask("DELETE", f"/api/v1/namespaces/default/pods/{name}", {"gracePeriodSeconds": 0})
    wait_for("empty nodes", 60, lambda: not pods_of(api, "full"))


def prepare(api: Api) -> None:
    """The namespace and the policy, as ``numawise heal --policy`` prints them."""
    api.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    printed = subprocess.run(
        [sys.executable, "-m", "numawise", "heal", "--policy"], cwd=ROOT, check=True, capture_output=True
    )
    places = {
        "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "MutatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
        "MutatingAdmissionPolicyBinding": (
            "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings"
        ),
    }
    for one in yaml.safe_load_all(printed.stdout):
        status, answer = api.ask("POST", places[one["kind"]], one)
        assert status in (201, 409), answer


def runaway_owners(
    api: Api, folder: Path, owners: tuple[str, ...] = OWNERS, *, without: bool = True
) -> list[Tally]:
    """All owners, first without a healer where that is asked for, then with one; nodes and pods are made here.

    Then one that is corrected while it is held, and one whose healer is killed.
    """
    prepare(api)
    config = str(ROOT / "examples" / "8gpu-server" / "kubelet.yaml")
    tallies: list[Tally] = []
    words = ("--nodes", f"8gpu-server:{NODES}", "--kubelet-config", config, "--listen", "off")
    with program(folder, "lab", "lab", *words):
        wait_for("the nodes", 60, lambda: len(api.ask("GET", "/api/v1/nodes")[1]["items"]) == NODES)
        refusals = Refusals(api)
        if without:
            for number, kind in enumerate(owners):
                fill(api)
                tallies.append(run_away(api, refusals, kind, healed=False, number=number))
        with healing(folder, "--older-than", "10s"):
            for number, kind in enumerate(owners):
                fill(api)
                tallies.append(run_away(api, refusals, kind, healed=True, number=number))
            tallies.append(correct(api, refusals))
        tallies.append(succeed(api, refusals, folder))
    return tallies


def problems(tallies: list[Tally], folder: Path) -> list[str]:
    """What is not as it should be."""
    lines = []
    for tally in tallies:
        if not tally.healed:
            continue
        if tally.refused > 5:
            lines.append(f"{tally.owner}: {tally.refused} refused pods, not 5 at most")
        if tally.running_after is None or tally.running_after > 30:
            lines.append(f"{tally.owner}: runs {tally.running_after} s after there was room, not within 30 s")
        if not any("PodRefused" in line or "PodsHeld" in line for line in tally.events):
            lines.append(f"{tally.owner}: no Event says why")
    changes = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    intended = {one["change"] for one in changes if one["outcome"] == "intended"}
    lines += [f"no line before {one['change']}" for one in changes if one["change"] not in intended]
    return lines


def report(tallies: list[Tally]) -> str:
    rows = [f"{'OWNER':<14} {'HEAL':<5} {'REFUSED':>8} {'FAILED LEFT':>12} {'RUNS AFTER':>11}"]
    for tally in tallies:
        after = "never" if tally.running_after is None else f"{tally.running_after} s"
        rows.append(
            f"{tally.owner:<14} {'yes' if tally.healed else 'no':<5} {tally.refused:>8} {tally.left:>12} {after:>11}"
        )
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    home = os.environ.get("NUMAWISE_CLUSTER") or str(Path.home() / ".cache/numawise-cluster")
    parser.add_argument("--programs", default=home)
    parser.add_argument("--release", default=RELEASE)
    parser.add_argument("--without", action="store_true", help="first without a healer")
    parser.add_argument("--owners", default=",".join(OWNERS))
    parser.add_argument("--out", help="where logs go")
    chosen = parser.parse_args()
    if os.environ.get(INSIDE) is None:
        command = ["unshare", "-n", sys.executable, "-m", "e2e.healing", *sys.argv[1:]]
        return subprocess.run(command, env={**os.environ, INSIDE: "1"}, cwd=ROOT, check=False).returncode
    with tempfile.TemporaryDirectory(prefix="numawise-healing-") as scratch:
        folder = Path(chosen.out or scratch).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        with ControlPlane(Path(chosen.programs) / chosen.release, folder):
            owners = tuple(chosen.owners.split(","))
            tallies = runaway_owners(Api("127.0.0.1"), folder, owners, without=chosen.without)
        print(report(tallies))
        for tally in tallies:
            for line in tally.events:
                print(f"  {line}")
        wrong = problems(tallies, folder)
        print("\n".join(wrong) or "all as it should be")
        return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
