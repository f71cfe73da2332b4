"""ResourceSlices of a node: which NUMA nodes its claimed devices are on."""

from pathlib import Path
from typing import Any

import pytest

from numawise.apps.agent.claimed_devices import slice_devices
from numawise.errors import ClusterError, InputError
from numawise.kube.client import ApiRefused, Cluster, access_to
from tests.kube.server import State, kubeconfig, serving


def slice_of(node: str, device: str, *, basic: bool = False, **attributes: Any) -> dict[str, Any]:
    own: dict[str, Any] = {"attributes": attributes}
    return {
        "metadata": {"name": f"{node}-{device}"},
        "spec": {
            "nodeName": node,
            "driver": "gpu.x",
            "pool": {"name": node, "generation": 1},
            "devices": [{"name": device, **({"basic": own} if basic else own)}],
        },
    }


def asked(state: State, folder: Path) -> dict[tuple[str, str, str], int | None]:
    with serving(state) as server:
        access = access_to(str(kubeconfig(folder / "config", server.address)), "", {})
        with Cluster(access) as cluster:
            return {key: device.numa for key, device in slice_devices(cluster, "n1").items()}


NUMA = {"resource.kubernetes.io/numaNode": {"int": 1}}


def test_devices_of_the_node_alone(tmp_path: Path) -> None:
    state = State(slices=[slice_of("n1", "a", **NUMA), slice_of("n1", "b"), slice_of("n2", "c", **NUMA)])
    assert asked(state, tmp_path) == {("gpu.x", "n1", "a"): 1, ("gpu.x", "n1", "b"): None}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_versions(tmp_path: Path, version: str) -> None:
    state = State(slices=[slice_of("n1", "a", basic=version == "v1beta1", **NUMA)], slice_versions=(version,))
    assert asked(state, tmp_path) == {("gpu.x", "n1", "a"): 1}


def test_a_cluster_without_claims(tmp_path: Path) -> None:
    assert asked(State(slice_versions=()), tmp_path) == {}


def test_what_goes_wrong_is_said(tmp_path: Path) -> None:
    with pytest.raises(ApiRefused, match="you may not list the resourceslices of node n1"):
        asked(State(forbidden={"resourceslices"}), tmp_path)
    broken = slice_of("n1", "a", **NUMA)
    broken["spec"]["devices"] = 7
    with pytest.raises((InputError, ClusterError), match="list of devices"):
        asked(State(slices=[broken]), tmp_path)
