"""Objects that make pods: which, how many, and in whose name."""

from typing import Any

import pytest

from numawise.codec.document import Document
from numawise.codec.workload import decode_pods
from numawise.errors import InputError

SPEC: dict[str, Any] = {
    "containers": [{"name": "main", "image": "x", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]
}
TEMPLATE: dict[str, Any] = {"metadata": {"labels": {"a": "b"}}, "spec": SPEC}
RAY: dict[str, Any] = {
    "headGroupSpec": {"template": TEMPLATE},
    "workerGroupSpecs": [
        {
            "groupName": "gpu",
            "replicas": 1,
            "minReplicas": 2,
            "maxReplicas": 2147483647,
            "template": TEMPLATE,
        },
        {"groupName": "tpu", "replicas": 1, "numOfHosts": 2, "template": TEMPLATE},
    ],
}
JOBS: list[dict[str, Any]] = [
    {
        "name": "w",
        "replicas": 2,
        "template": {"spec": {"parallelism": 2, "completions": 2, "template": TEMPLATE}},
    }
]
RUNTIME: dict[str, Any] = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "ClusterTrainingRuntime",
    "metadata": {"name": "torch"},
    "spec": {
        "mlPolicy": {"numNodes": 2},
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {
                            "metadata": {
                                "labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
                            },
                            "spec": {
                                "template": {"spec": {"containers": [{"name": "node", "image": "torch"}]}}
                            },
                        },
                    }
                ]
            }
        },
    },
}
TRAIN_JOB: dict[str, Any] = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "llm"},
    "spec": {
        "runtimeRef": {"name": "torch"},
        "trainer": {"numNodes": 3, "resourcesPerNode": {"limits": {"cpu": "4", "memory": "1Gi"}}},
    },
}


def made(version: str, kind: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec, **more}


def kubeflow(kind: str, field: str) -> dict[str, Any]:
    roles = {"Master": {"template": TEMPLATE}, "Worker": {"replicas": 2, "template": TEMPLATE}}
    return made("kubeflow.org/v1", kind, {field: roles})


def volcano() -> dict[str, Any]:
    tasks = [{"name": "ps", "template": TEMPLATE}, {"name": "worker", "replicas": 3, "template": TEMPLATE}]
    return made("batch.volcano.sh/v1alpha1", "Job", {"tasks": tasks})


def leader_workers() -> dict[str, Any]:
    template = {"size": 3, "workerTemplate": TEMPLATE}
    return made(
        "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {"replicas": 2, "leaderWorkerTemplate": template}
    )


OBJECTS: dict[str, dict[str, Any]] = {
    "Pod": made("v1", "Pod", SPEC),
    "PodTemplate": {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "x"},
        "template": TEMPLATE,
    },
    "Deployment": made("apps/v1", "Deployment", {"replicas": 2, "template": TEMPLATE}),
    "ReplicaSet": made("apps/v1", "ReplicaSet", {"template": TEMPLATE}),
    "ReplicationController": made("v1", "ReplicationController", {"replicas": 2, "template": TEMPLATE}),
    "StatefulSet": made("apps/v1", "StatefulSet", {"replicas": 2, "template": TEMPLATE}),
    "DaemonSet": made("apps/v1", "DaemonSet", {"template": TEMPLATE}),
    "Job": made("batch/v1", "Job", {"parallelism": 3, "completions": 2, "template": TEMPLATE}),
    "CronJob": made("batch/v1", "CronJob", {"jobTemplate": {"spec": {"template": TEMPLATE}}}),
}
"""Kinds of Kubernetes itself."""
OTHERS: dict[str, dict[str, Any]] = {
    "RayCluster": made("ray.io/v1", "RayCluster", RAY),
    "RayJob": made("ray.io/v1", "RayJob", {"rayClusterSpec": RAY, "submitterPodTemplate": TEMPLATE}),
    "RayService": made("ray.io/v1", "RayService", {"rayClusterConfig": RAY}),
    "PyTorchJob": kubeflow("PyTorchJob", "pytorchReplicaSpecs"),
    "TFJob": kubeflow("TFJob", "tfReplicaSpecs"),
    "MPIJob": kubeflow("MPIJob", "mpiReplicaSpecs"),
    "XGBoostJob": kubeflow("XGBoostJob", "xgbReplicaSpecs"),
    "PaddleJob": kubeflow("PaddleJob", "paddleReplicaSpecs"),
    "JAXJob": kubeflow("JAXJob", "jaxReplicaSpecs"),
    "JobSet": made("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": JOBS}),
    "LeaderWorkerSet": leader_workers(),
    "Volcano Job": volcano(),
    "Rollout": made("argoproj.io/v1alpha1", "Rollout", {"replicas": 2, "template": TEMPLATE}),
    "InferenceService": made(
        "serving.kserve.io/v1beta1", "InferenceService", {"predictor": {"minReplicas": 2, **SPEC}}
    ),
    "TrainJob": {"apiVersion": "v1", "kind": "List", "items": [RUNTIME, TRAIN_JOB]},
    "an unknown kind": made("example.com/v1", "Fleet", {"groups": [{"replicas": 2, "template": TEMPLATE}]}),
}
"""Kinds of job systems."""


@pytest.mark.parametrize(("kind", "names"), [
    ("Pod",                   ["x"]),
    ("PodTemplate",           ["x-0"]),
    ("Deployment",            ["x-0", "x-1"]),
    ("ReplicaSet",            ["x-0"]),
    ("ReplicationController", ["x-0", "x-1"]),
    ("StatefulSet",           ["x-0", "x-1"]),
    ("DaemonSet",             ["x-0"]),
    ("Job",                   ["x-0", "x-1"]),
    ("CronJob",               ["x-0"]),
    ("RayCluster",            ["x-head-0", "x-gpu-0", "x-gpu-1", "x-tpu-0", "x-tpu-1"]),
    ("RayJob",                ["x-head-0", "x-gpu-0", "x-gpu-1", "x-tpu-0", "x-tpu-1", "x-submitter-0"]),
    ("RayService",            ["x-head-0", "x-gpu-0", "x-gpu-1", "x-tpu-0", "x-tpu-1"]),
    ("PyTorchJob",            ["x-master-0", "x-worker-0", "x-worker-1"]),
    ("MPIJob",                ["x-master-0", "x-worker-0", "x-worker-1"]),
    ("JAXJob",                ["x-master-0", "x-worker-0", "x-worker-1"]),
    ("JobSet",                ["x-w-0", "x-w-1", "x-w-2", "x-w-3"]),
    ("LeaderWorkerSet",       ["x-leader-0", "x-leader-1", "x-worker-0", "x-worker-1", "x-worker-2", "x-worker-3"]),
    ("Volcano Job",           ["x-ps-0", "x-worker-0", "x-worker-1", "x-worker-2"]),
    ("Rollout",               ["x-0", "x-1"]),
    ("InferenceService",      ["x-predictor-0", "x-predictor-1"]),
    ("TrainJob",              ["llm-node-0", "llm-node-1", "llm-node-2"]),
    ("an unknown kind",       ["x-0", "x-1"]),
])  # fmt: skip
def test_pods_of_a_kind(kind: str, names: list[str]) -> None:
    pods = decode_pods(Document((OBJECTS | OTHERS)[kind], "object.yaml"))
    assert [pod.name for pod in pods] == names
    cpus = "4" if kind == "TrainJob" else "2"
    assert {str(one.limits["cpu"]) for pod in pods for one in pod.containers} == {cpus}
    if kind not in ("Pod", "TrainJob"):
        assert {pod.owner for pod in pods} == {f"{(OBJECTS | OTHERS)[kind]['kind']} x"}


def test_a_runtime_alone_is_read_by_itself() -> None:
    assert [pod.name for pod in decode_pods(Document(RUNTIME))] == ["torch-node-0", "torch-node-1"]


def test_a_model_server_is_a_container() -> None:
    model = {
        "model": {"modelFormat": {"name": "vllm"}, "resources": {"limits": {"cpu": "8", "memory": "1Gi"}}}
    }
    (pod,) = decode_pods(
        Document(made("serving.kserve.io/v1beta1", "InferenceService", {"predictor": model}))
    )
    assert [(one.name, str(one.limits["cpu"])) for one in pod.containers] == [("kserve-container", "8")]


@pytest.mark.parametrize(("value", "words"), [
    (TRAIN_JOB,                                    "its pods are described by ClusterTrainingRuntime torch, which is not among"),
    (made("ray.io/v1", "RayCluster", {}),          'objects of kind "RayCluster" have no pod template'),
    (made("argoproj.io/v1alpha1", "Rollout", {"replicas": -1, "template": TEMPLATE}), "spec.replicas: must be an integer"),
    (made("example.com/v1", "Fleet", {}),          'objects of kind "Fleet" have no pod template'),
    (made("v1", "Deploymnt", {}),                  'objects of kind "Deploymnt" are not known'),
])  # fmt: skip
def test_kinds_without_pods(value: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match="object.yaml: .*" + words):
        decode_pods(Document(value, "object.yaml"))


def test_objects_of_kubernetes_that_make_none() -> None:
    assert decode_pods(Document(made("v1", "Service", {}))) == ()
    assert decode_pods(Document(made("rbac.authorization.k8s.io/v1", "Role", {}))) == ()
