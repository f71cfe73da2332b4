"""Manifests of pods, and the devices that they may ask for."""

from typing import Any

from e2e.cluster import NODE

IMAGE = "local.test/idle:1"
GPU, NIC, HUGE = "nvidia.com/gpu", "example.com/nic", "hugepages-2Mi"
DEVICES: dict[str, dict[str, list[int]]] = {
    GPU: {"gpu0": [0], "gpu1": [0], "gpu2": [1], "gpu3": [1]},
    NIC: {"nic0": [0], "nic1": [1], "nic-any": [], "nic-both": [0, 1]},
}
SHORT = {"gpu": GPU, "nic": NIC, "huge": HUGE, "disk": "ephemeral-storage", "none": "example.com/none"}
FLAGS = "/run/node/flags"
"""A folder of the node; a pod that waits for a file in it ends when the file comes."""


def fakes(sick: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """The devices in the form of ``numawise agent --fake``; ``sick``: those that are not healthy."""
    return [
        {
            "resource": resource,
            "ids": [name],
            "numa": numa,
            "health": "Unhealthy" if name in sick else "Healthy",
        }
        for resource, ids in DEVICES.items()
        for name, numa in ids.items()
    ]


def container(name: str, **resources: Any) -> dict[str, Any]:
    return {"name": name, "image": IMAGE, "imagePullPolicy": "Never", "resources": resources}


def guaranteed(name: str, cpu: str = "", memory: str = "", **more: int | str) -> dict[str, Any]:
    """A container whose limits are its requests; ``gpu``, ``nic`` …: other resources."""
    limits = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    limits |= {SHORT[key]: str(amount) for key, amount in more.items()}
    return container(name, limits=limits, requests=dict(limits))


def small(name: str, **more: int | str) -> dict[str, Any]:
    """A container with a fraction of a CPU as a request, and other resources."""
    given = guaranteed(name, memory="30Mi", **more)
    given["resources"]["requests"]["cpu"] = "250m"
    return given


def burstable(name: str, cpu: str = "", memory: str = "") -> dict[str, Any]:
    """A container with requests alone."""
    return container(
        name, requests={key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    )


def sidecar(given: dict[str, Any]) -> dict[str, Any]:
    """The same as an init container that goes on."""
    return {**given, "restartPolicy": "Always"}


def pod_spec(
    *containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), **more: Any
) -> dict[str, Any]:
    spec: dict[str, Any] = {
        "containers": list(containers),
        "terminationGracePeriodSeconds": 0,
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        **more,
    }
    if init:
        spec["initContainers"] = [
            given if "restartPolicy" in given else {**given, "command": ["/bin/true"]} for given in init
        ]
    return spec


def ending(name: str, *containers: dict[str, Any]) -> dict[str, Any]:
    """A pod that succeeds once a file of its name is in ``FLAGS``."""
    wait = ["/bin/sh", "-c", f"until test -e /flags/{name}; do sleep 1; done"]
    mount = [{"name": "flags", "mountPath": "/flags"}]
    return pod_spec(
        *({**given, "command": wait, "volumeMounts": mount} for given in containers),
        restartPolicy="Never",
        volumes=[{"name": "flags", "hostPath": {"path": FLAGS}}],
    )


def pod(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {**spec, "nodeName": NODE, "tolerations": [{"operator": "Exists"}]},
    }
