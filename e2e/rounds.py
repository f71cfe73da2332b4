"""Rounds of pods on a real kubelet: what came, what the kubelet made of it, and all files that it left."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from e2e.cluster import wait_for
from e2e.node import (
    BASE,
    KUBECONFIG,
    KUBELET,
    NODE,
    STATIC,
    Node,
    paused,
    runs,
)
from e2e.pods import container, guaranteed, pod, pod_spec, small
from numawise.kube.podresources import ask

FILES = (
    "cpu_manager_state",
    "memory_manager_state",
    "device-plugins/kubelet_internal_checkpoint",
    "allocated_pods_state",
)
BURSTABLE = {"requests": {"cpu": "300m"}, "limits": {"memory": "40Mi"}}


# fmt: off
MIXED: list[tuple[str, dict[str, Any] | None]] = [
    ("near",     pod_spec(guaranteed("c", "2", "100Mi", gpu=1, nic=1))),
    ("float",    pod_spec(small("c", gpu=1))),
    ("pair",     pod_spec(guaranteed("c", "2", "60Mi", gpu=2))),
    ("sides",    pod_spec(guaranteed("x", "2", "50Mi"), guaranteed("y", "2", "50Mi", nic=1))),
    ("first",    pod_spec(guaranteed("m", "2", "50Mi"), init=(guaranteed("i", "4", "80Mi"),))),
    ("near",     None),
    ("wide",     pod_spec(guaranteed("c", "6", "100Mi"))),
    ("odd",      pod_spec(guaranteed("c", "1", "30Mi"))),
    ("float",    None),
    ("both",     pod_spec(guaranteed("c", "2", "40Mi", gpu=1, nic=2))),
    ("greedy",   pod_spec(guaranteed("c", "1", "1300Mi"))),
    ("fraction", pod_spec(guaranteed("c", "1500m", "30Mi", nic=1))),
    ("many",     pod_spec(container("c", **BURSTABLE), small("d", nic=1))),
    ("pair",     None),
    ("late",     pod_spec(guaranteed("c", "4", "60Mi", gpu=2))),
    ("nothing",  pod_spec(container("c"))),
]
ROUNDS: dict[str, dict[str, Any]] = {
    "single-pcpus":    {"topologyManagerPolicy": "single-numa-node", "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}},
    "single-pod":      {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod"},
    "restricted-container": {"topologyManagerPolicy": "restricted", "cpuManagerPolicyOptions": {"full-pcpus-only": "true"}},
    "best-effort-pod": {"topologyManagerPolicy": "best-effort", "topologyManagerScope": "pod"},
}
# fmt: on


def record(node: Node, name: str, folder: Path) -> None:
    """Play one round, and leave its files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {**BASE, **STATIC, **ROUNDS[name]}
    node.start(config)
    api = node.api
    (folder / "config.yaml").write_text(json.dumps(config, indent=1))
    (folder / "node.json").write_text(json.dumps(api.node(), indent=1))
    status, configz = api.ask("GET", f"/api/v1/nodes/{NODE}/proxy/configz")
    assert status == 200, configz
    (folder / "configz.json").write_text(json.dumps(configz))
    _answers(folder / "podresources-0.json")
    _bundle(folder / "before.tar.gz")
    results: list[dict[str, Any]] = []
    for number, (pod_name, spec) in enumerate(MIXED, 1):
        step: dict[str, Any] = {"step": number, "pod": pod_name, "op": "add" if spec else "del"}
        path = f"/api/v1/namespaces/default/pods/{pod_name}"
        if spec is None:
            api.ask("DELETE", path)
            wait_for(f"the end of {pod_name}", 900, lambda path=path: api.ask("GET", path)[0] == 404)
            paused(5)
        else:
            manifest = pod(pod_name, spec)
            status, created = api.ask("POST", "/api/v1/namespaces/default/pods", manifest)
            assert status == 201, created
            (folder / f"pod-{pod_name}.json").write_text(json.dumps(created))
            found = wait_for(
                f"a verdict on {pod_name}", 900, lambda path=path: _judged(api.ask("GET", path)[1])
            )
            status_of = found["status"]
            step |= {
                "uid": created["metadata"]["uid"],
                "phase": "Failed" if status_of["phase"] == "Failed" else "Running",
                "reason": status_of.get("reason"),
                "message": status_of.get("message"),
            }
            paused(3)
        place = folder / f"state-{number:02}"
        place.mkdir()
        for file in FILES:
            if (KUBELET / file).exists():
                shutil.copy(KUBELET / file, place)
        _answers(folder / f"podresources-{number:02}.json")
        results.append(step)
        (folder / "result.json").write_text(json.dumps(results, indent=1))
        print(json.dumps(step), flush=True)  # noqa: T201
    (folder / "pods.json").write_text(json.dumps({"items": api.pods()}))
    _bundle(folder / "after.tar.gz")
    _bundle(folder / "after-local.tar.gz", alone=True)


def _judged(found: dict[str, Any]) -> dict[str, Any] | None:
    """A pod that was refused, or that is being started; how long its containers take does not matter."""
    status = found["status"]
    return found if status.get("phase") in ("Running", "Failed") or status.get("containerStatuses") else None


def _answers(path: Path) -> None:
    answers, problems = ask(str(KUBELET / "pod-resources/kubelet.sock"))
    assert not problems, problems
    path.write_text(json.dumps(answers))


def _bundle(path: Path, *, alone: bool = False) -> None:
    """What numawise collects on the node; ``alone``: without the API server."""
    cluster = () if alone else ("--kubeconfig", str(KUBECONFIG), "--node", NODE)
    words = (sys.executable, "-m", "numawise", "bundle", "-o", str(path), "--keep-names", *cluster)
    done = runs(*words)
    path.with_suffix(".txt").write_text(f"{done.returncode}\n{done.stdout}{done.stderr}")
