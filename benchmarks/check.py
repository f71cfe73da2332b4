"""Lists of pods as a cluster prints them, read by several commands: ``python -m benchmarks.check``."""

import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

SERVER = Path(__file__).parent.parent / "examples/8gpu-server"
NODE = ("--machine", str(SERVER / "machine.yaml"), "--kubelet-config", str(SERVER / "kubelet.yaml"))
GOALS = {110: 1000.0, 2000: 10_000.0}
VARIABLES = range(20)
Fields = dict[str, object]


def listed_pod(number: int) -> dict[str, object]:
    """A running pod of two containers with what the API server adds: 9 kB of YAML, 22 of JSON."""
    amounts = {"cpu": "2", "memory": "4Gi", **({"nvidia.com/gpu": "1"} if number % 5 == 0 else {})}
    loose = {**amounts, "cpu": "1500m"} if number % 7 == 0 else amounts
    small = {"cpu": "1", "memory": "256Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generateName": f"web-{number:05}-",
            "labels": {"app": "web", "pod-template-hash": "abcde", "version": "v1"},
            "managedFields": [_managed("kube-controller-manager")],
            "name": f"web-{number:05}-abcde",
            "namespace": "default",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}],
            "resourceVersion": str(number),
            "uid": f"bbbbbbbb-0000-0000-0000-{number:012}",
        },
        "spec": {
            "containers": [_container("server", loose, amounts), _container("log", small, small)],
            "dnsPolicy": "ClusterFirst",
            "nodeName": "node7",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "tolerations": [{"effect": "NoExecute", "key": "node.kubernetes.io/not-ready"}],
            "volumes": [{"configMap": {"name": "config"}, "name": "config"}],
        },
        "status": {
            "conditions": [{"status": "True", "type": kind} for kind in ("Initialized", "Ready")],
            "containerStatuses": [
                {"containerID": f"containerd://{'ab' * 32}", "name": name, "ready": True, "restartCount": 0}
                for name in ("server", "log")
            ],
            "phase": "Running",
            "podIP": "10.1.0.1",
        },
    }


def _container(name: str, requests: dict[str, str], limits: dict[str, str]) -> dict[str, object]:
    probe = {"httpGet": {"path": "/healthz", "port": "http", "scheme": "HTTP"}, "periodSeconds": 10}
    return {
        "args": ["--listen=:8080", "--config=/etc/config/app.yaml"],
        "command": ["/bin/server"],
        "env": [{"name": f"VARIABLE_{one}", "value": f"value-{one}"} for one in VARIABLES],
        "image": "registry.example.com/team/server:1.2.3",
        "livenessProbe": probe,
        "name": name,
        "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
        "readinessProbe": dict(probe),
        "resources": {"limits": dict(limits), "requests": dict(requests)},
        "volumeMounts": [{"mountPath": "/etc/config", "name": "config"}],
    }


def _managed(manager: str) -> dict[str, object]:
    fields: Fields = {
        f"f:{name}": {".": {}, "f:value": {}} for name in ("args", "image", "ports", "resources")
    }
    variables: Fields = {
        f'k:{{"name":"VARIABLE_{one}"}}': {".": {}, "f:name": {}, "f:value": {}} for one in VARIABLES
    }
    containers = {'k:{"name":"server"}': {**fields, "f:env": variables}, 'k:{"name":"log"}': dict(fields)}
    values = {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:containers": containers}}
    return {"apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": values, "manager": manager}


def pod_lists() -> Iterator[tuple[str, float, float | None, str]]:
    """What, CPU milliseconds, the goal, and the size."""
    with tempfile.TemporaryDirectory() as folder:
        for count, goal in GOALS.items():
            pods = {"apiVersion": "v1", "items": [listed_pod(one) for one in range(count)], "kind": "List"}
            for form in ("json", "yaml"):
                file = Path(folder) / f"pods.{form}"
                file.write_text(_text(pods, form), encoding="utf-8")
                for command in (("check",), ("check", *NODE), ("simulate", *NODE)):
                    what = " ".join((command[0], *(["on a node"] if NODE[0] in command else [])))
                    size = f"{file.stat().st_size / 1e6:.1f} MB"
                    yield f"{what}: {count} pods as {form}", _run(*command, str(file)), goal, size


def _text(value: object, form: str) -> str:
    if form == "json":
        return json.dumps(value, indent=4)
    return yaml.dump(value, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper))


def _run(*words: str) -> float:
    """CPU milliseconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "numawise", *words], check=False, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


if __name__ == "__main__":
    for what, spent, goal, note in pod_lists():
        print(f"{what:44} {spent:9.0f} ms  {f'≤ {goal:.0f}' if goal else '':>8}  {note}")
