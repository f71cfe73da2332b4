"""Whole kubelets of several releases: what each makes of the same configuration."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.build import GI, STATIC, T3, even, machine, static_memory

from numawise.cli.main import main
from numawise.errors import InputError
from numawise.node.node import Files, SimulatedNode, boot
from numawise.node.replay import replay
from numawise.rules.check import Refusal
from numawise.rules.versions import NEWEST, OLDEST

SERVER = machine(T3, 8 * GI)
EXAMPLE = Path(__file__).parents[3] / "examples" / "3gpu-server"
NEAREST: dict[str, Any] = {"topologyManagerPolicyOptions": {"prefer-closest-numa-nodes": "true"}}
UNKNOWN: dict[str, Any] = {"topologyManagerPolicyOptions": {"prefer-close": "true"}}


def start(number: int, **config: Any) -> SimulatedNode | tuple[str, str]:
    node = boot(SERVER, config, Files(), version=(1, number))
    return (node.stage, node.message) if isinstance(node, Refusal) else node


@pytest.mark.parametrize("number", range(OLDEST[1], NEWEST[1] + 1))
def test_every_release_starts(number: int) -> None:
    node = start(number, **STATIC)
    assert isinstance(node, SimulatedNode)
    assert node.rules.cpu_static
    assert node.rules.pod_level_resources == (number >= 34)
    assert not node.rules.pod_level_managers


# fmt: off
@pytest.mark.parametrize(("number", "config", "refusal"), [
    pytest.param(27, UNKNOWN,                                     ("topology-manager", 'unknown Topology Manager Policy option: "prefer-close"'),
                 id="none reads options"),
    pytest.param(28, UNKNOWN,                                     None, id="none ignores options"),
    pytest.param(25, UNKNOWN,                                     None, id="no such field"),
    pytest.param(26, {**UNKNOWN, "featureGates": {"TopologyManager": False}}, None, id="no Topology Manager"),
    pytest.param(27, {**NEAREST, "featureGates": {"TopologyManagerPolicyOptions": True, "TopologyManagerPolicyAlphaOptions": True}},
                 ("topology-manager", "cannot discover NUMA topology: error getting NUMA distances from cadvisor"), id="none wants distances"),
    pytest.param(31, {"memoryManagerPolicy": "BestEffort"},       ("memory-manager", 'unknown policy: "BestEffort"'), id="no such policy"),
    pytest.param(32, {"memoryManagerPolicy": "BestEffort"},       ("memory-manager", 'policy "BestEffort" is not available for platform "linux"'), id="not here"),
    pytest.param(20, {"memoryManagerPolicy": "BestEffort"},       None, id="no Memory Manager"),
    pytest.param(21, {"memoryManagerPolicy": "BestEffort"},       None, id="its gate is off"),
    pytest.param(25, {"cpuManagerPolicy": "x", "featureGates": {"CPUManager": False}}, None, id="no CPU Manager"),
    pytest.param(21, {"cpuManagerPolicyOptions": {"x": "y"}},     None, id="no CPU options"),
    pytest.param(23, {"cpuManagerPolicyOptions": {"x": "y"}},
                 ("cpu-manager", "new none policy error: None policy: received unsupported options=map[x:y]"), id="none with options"),
])
def test_refusals(number: int, config: dict[str, Any], refusal: tuple[str, str] | None) -> None:
    found = start(number, **config)
    assert (found if isinstance(found, tuple) else None) == refusal
# fmt: on


def test_a_memory_manager_behind_its_gate() -> None:
    off = start(21, **static_memory(GI, GI))
    on = start(21, **static_memory(GI, GI), featureGates={"MemoryManager": True})
    assert isinstance(off, SimulatedNode)
    assert isinstance(on, SimulatedNode)
    assert (off.rules.memory_static, on.rules.memory_static) == (False, True)


def test_more_numa_nodes_are_allowed_since_an_option_came() -> None:
    wide = machine(even(9, 9, 9))
    config = {
        "topologyManagerPolicy": "restricted",
        "topologyManagerPolicyOptions": {"max-allowable-numa-nodes": "9"},
    }
    old = boot(wide, config, Files(), version=(1, 30))
    assert old == Refusal(
        "topology-manager", 'unknown Topology Manager Policy option: "max-allowable-numa-nodes"'
    )
    assert isinstance(boot(wide, config, Files(), version=(1, 31)), SimulatedNode)


def test_unknown_releases() -> None:
    with pytest.raises(ValueError, match=r"Kubernetes 1.19 is not known; known are 1.20 to 1.37"):
        boot(SERVER, {}, Files(), version=(1, 19))
    with pytest.raises(InputError, match=r"kubernetes: Kubernetes 1.19 is not known"):
        replay(
            {
                "id": "x",
                "kubernetes": "v1.19.0",
                "machine": {"numa": [{"id": 0}], "cpus": [{"cpu": 0, "core": 0, "socket": 0, "numa": 0}]},
            }
        )


# fmt: off
@pytest.mark.parametrize(("kube", "more", "status", "words"), [
    pytest.param("1.36",    "",                                   0, "", id="the reference"),
    pytest.param("v1.31.4", "",                                   0, "", id="another"),
    pytest.param("1.19",    "",                                   2, "numawise: --kube: Kubernetes 1.19 is not known; known are 1.20 to 1.37\n", id="not known"),
    pytest.param("1.38",    "",                                   0, "numawise: Kubernetes 1.38 is newer than any known release; it is treated as 1.37\n", id="newer"),
    pytest.param("new",     "",                                   2, "numawise: --kube: 'new' is not a Kubernetes version such as 1.36\n", id="none at all"),
    pytest.param("1.32",    "mergeDefaultEvictionSettings: true", 2,
                 'numawise: {file}:3: mergeDefaultEvictionSettings: unknown field "mergeDefaultEvictionSettings"; 1.33 is the first release that has it; 1.32 ignores it; upgrade, or remove it\n',
                 id="a field it does not know"),
])
def test_simulate(tmp_path: Path, capsys: pytest.CaptureFixture[str], kube: str, more: str, status: int, words: str) -> None:
    config, pods = tmp_path / "kubelet.yaml", tmp_path / "pod.yaml"
    config.write_text(f"apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n{more}\n")
    pods.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n")
    found = main(["simulate", "--machine", str(EXAMPLE / "machine.yaml"), "--kubelet-config", str(config), "--kube", kube, str(pods)])
    assert (found, capsys.readouterr().err) == (status, words.format(file=config))
# fmt: on
