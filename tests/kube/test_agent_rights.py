"""Each feature of the agent does its work with the mounts and rights that its manifest has, and no others."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from numawise.apps.agent.manifest import ManifestWish, manifest
from tests import needs
from tests.kube.agents import FAKES, GPU, NIC, agent, node
from tests.kube.confined import ConfinedAgent, confined
from tests.kube.kubelet import Kubelet, pairs
from tests.kube.noded import NodeOnDisk, node_on_disk, pod
from tests.kube.rbac import Rules
from tests.kube.server import State, kubeconfig, serving
from tests.nodetree import UIDS
from tests.waiting import until
from tests.watched import recorded_node


def _mounts() -> list[str]:
    file = Path("/proc/self/mountinfo")
    return file.read_text().splitlines() if file.exists() else []


WALLS = pytest.mark.skipif(
    shutil.which("setpriv") is None or not any(line.split()[4] == "/" for line in _mounts()),
    reason="there is no setpriv, or / is no mount, as in a chroot",
)
NO_RIGHTS = {"CapEff": "0" * 16, "CapPrm": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}


@pytest.fixture
def real() -> Iterator[Path]:
    """The kubelet's folder as the host has it."""
    with node() as made:
        (made / "pod-resources").mkdir()
        (made / "cpu_manager_state").write_text("{}")
        yield made


@pytest.fixture
def shown() -> Iterator[Path]:
    """The kubelet's folder as the container has it."""
    with node() as made:
        yield made


@needs.MOUNTS
@needs.PROC
@WALLS
def test_the_device_plugin(real: Path, shown: Path, tmp_path: Path) -> None:
    fakes = tmp_path / "fakes.yaml"
    fakes.write_text(FAKES)

    async def scenario(running: ConfinedAgent) -> None:
        kubelet = Kubelet(real / "device-plugins")
        await kubelet.start()
        await kubelet.knows(GPU)
        await kubelet.knows(NIC)
        assert running.rights() == NO_RIGHTS
        inside = Path(f"/proc/{running.process.pid}/root")
        assert not (inside / str(shown)[1:] / "cpu_manager_state").exists()  # of the host's folder no more
        (given,) = await kubelet.allocate(GPU, ("gpu3",))
        assert pairs(given, 1) == {"EXAMPLE_COM_GPU": "gpu3"}
        await kubelet.restart()  # which removes the agent's sockets
        await kubelet.knows(GPU)
        await kubelet.knows(NIC)
        await kubelet.until(lambda: running.page("/readyz") == (200, "ok\n"), "it is ready")
        assert await asyncio.to_thread(running.end) == 0
        assert not (kubelet.folder / "numawise-example.com_gpu.sock").exists()
        await kubelet.stop()

    with confined(real, shown, ["device-plugin"], "--fake", str(fakes)) as running:
        asyncio.run(scenario(running))


# --- at the API server ----------------------------------------------------------------------------

TAINT = "example.com/starting"
CONDITION = "NumawiseTopologyPublished"


def rules_of(*features: str) -> Rules:
    """The rules of a manifest's role."""
    objects = manifest(ManifestWish(features, "x", ()))
    (role,) = [one for one in objects if one["kind"] == "ClusterRole"]
    return Rules(role["rules"])


def node_object() -> dict[str, object]:
    return {
        "kind": "Node",
        "metadata": {"name": "n1", "uid": "u-n1"},
        "spec": {"taints": [{"key": TAINT, "effect": "NoSchedule"}]},
        "status": {"nodeInfo": {"kubeletVersion": "v1.36.4"}, "conditions": []},
    }


def words(machine: NodeOnDisk, config: Path) -> list[str]:
    return [
        "--node", "n1", "--kubeconfig", str(config), "--root", str(machine.root),
        "--kubelet-config", str(machine.folder / "config.yaml"),
    ]  # fmt: skip


@needs.MOUNTS
@needs.PROC
@WALLS
def test_the_exporter(shown: Path, tmp_path: Path) -> None:
    state = State(rules=rules_of("export", "startup-taint"))
    state.put_node(node_object())
    with node_on_disk() as machine, serving(state) as server, machine.listening():
        said = words(machine, kubeconfig(tmp_path / "kubeconfig", server.address))
        said[-1] = str(shown / "config.yaml")
        features = ["export", "startup-taint"]
        with confined(machine.folder, shown, features, *said, "--startup-taint", TAINT) as running:
            until(lambda: "n1" in state.topologies, "the object is published")
            until(lambda: not state.nodes["n1"]["spec"].get("taints"), "the taint is removed")
            until(lambda: state.nodes["n1"]["status"]["conditions"], "the condition is written")
            assert running.rights() == NO_RIGHTS
            before = len(state.written)
            value = pod("one")
            state.put_pod(value)
            assert machine.admit(value)
            until(lambda: len(state.written) > before, "a pod is published")
            (machine.folder / "cpu_manager_state").write_text("{half a fi")
            until(lambda: state.events, "what is wrong is an Event")
            assert running.end() == 0
    assert state.rules is not None
    assert state.rules.refused == []
    assert running.said("forbidden") == []
    unused = state.rules.rights - state.rules.used
    assert unused <= {
        ("topology.node.k8s.io", "noderesourcetopologies", "create"),  # an apply that is new needs it
        ("topology.node.k8s.io", "noderesourcetopologies", "get"),  # now and then, and after a conflict
        ("events.k8s.io", "events", "patch"),  # an Event that is sent again
    }


@needs.MOUNTS
@needs.PROC
@WALLS
@pytest.mark.parametrize("features", [["watch"], ["watch", "repair"]], ids=" ".join)
def test_the_watcher(shown: Path, tmp_path: Path, features: list[str]) -> None:
    root = recorded_node(tmp_path / "host", a="N0=100 N1=0", b="N0=0 N1=100")
    (root / "var/log/containers").mkdir(parents=True, exist_ok=True)
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/shadow").write_text("not for agents")
    pods = root / f"sys/fs/cgroup/kubepods/pod{UIDS['a']}"
    place = next(file.parent for file in pods.glob("*/cpuset.cpus") if file.read_text() == "2-3\n")
    with confined(root, shown, features, "--root", str(shown), whole=True) as running:
        until(lambda: running.said("watches containers"), "the watcher starts")
        assert running.rights() == NO_RIGHTS
        inside = Path(f"/proc/{running.process.pid}/root{shown}")
        assert (inside / "var/lib/kubelet").is_dir()
        assert not (inside / "etc").exists()
        (place / "cpuset.cpus.effective").write_text("0-7\n")
        (place / "cpuset.cpus").write_text("\n")
        if "repair" in features:
            until(lambda: running.said("a-n1/c: repaired: 2-3 written to cpuset.cpus"), "it is repaired")
            assert (place / "cpuset.cpus").read_text().strip() == "2-3"
        else:
            until(lambda: running.said("a-n1/c: container c may run outside CPUs 2-3"), "the drift is said")
            assert (place / "cpuset.cpus").read_text() == "\n"
        assert running.end() == 0


def test_an_agent_without_its_rights_says_which_it_lacks(tmp_path: Path) -> None:
    state = State(rules=Rules([]))
    state.put_node(node_object())
    with node_on_disk() as machine, serving(state) as server, machine.listening():
        said = words(machine, kubeconfig(tmp_path / "kubeconfig", server.address))
        with agent(machine.folder, *said, features=("export",)) as running:
            until(lambda: running.said("you may not list the pods of node n1"), "it is said")
            assert running.process.poll() is None  # the right may come
            until(lambda: "you may not" in running.page("/readyz")[1], "and why it is not ready")
            assert running.page("/healthz") == (200, "ok\n")
    assert "n1" not in state.topologies
