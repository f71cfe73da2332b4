"""``numawise agent --watch`` as a process, on the files of a node that a real kubelet left."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.agent.rights import WATCH, api_of
from numawise.service.rights import rules_of
from tests.kube.agents import Agent, node
from tests.kube.rbac import Rules
from tests.kube.server import State, kubeconfig, serving
from tests.nodetree import UIDS, grow_node
from tests.waiting import until
from tests.warm import Program
from tests.watched import RECORDED, recorded_node


class Watching(Agent):
    """An agent that watches and does nothing else."""

    def started(self) -> Program:
        places = ("--kubelet-dir", str(self.folder / "var/lib/kubelet"), "--root", str(self.folder))
        with self.log.open("ab") as log:
            return Program("agent", "--watch", *places, "--listen", "127.0.0.1:0", *self.words, stderr=log)

    def metrics(self) -> list[str]:
        return self.page("/metrics")[1].splitlines()

    def shows(self, row: str) -> None:
        """It is counted a moment after it has been done."""
        until(lambda: row in self.metrics(), row)

    def looks(self) -> int:
        return next(
            int(line.split()[1]) for line in self.metrics() if line.startswith("numawise_watch_looks_")
        )


@contextlib.contextmanager
def watching(root: Path, *words: str) -> Iterator[Watching]:
    """An agent that has looked at all containers, and is gone in the end."""
    running = Watching(root, *words)
    try:
        until(lambda: running.said("watches containers"), "the watcher starts")
        until(running.looks, "a look")
        yield running
    finally:
        if running.process.poll() is None:
            running.kill()


@pytest.fixture
def root() -> Iterator[Path]:
    with node() as folder:
        yield recorded_node(folder / "root", a="N0=100 N1=0", b="N0=0 N1=100")


def cpuset(root: Path) -> Path:
    """Where the cpuset of pod a is."""
    pod = root / f"sys/fs/cgroup/kubepods/pod{UIDS['a']}"
    return next(place.parent for place in pod.glob("*/cpuset.cpus") if place.read_text() == "2-3\n")


def widen(place: Path) -> None:
    """As a reload of systemd does it."""
    (place / "cpuset.cpus.effective").write_text("0-7\n")
    (place / "cpuset.cpus").write_text("\n")


def test_a_real_kubelets_node_has_not_drifted(root: Path) -> None:
    with watching(root) as agent:
        before = agent.looks()
        (cpuset(root) / "cpuset.cpus").write_text("2-3\n")  # somebody writes what is there already
        until(lambda: agent.looks() > before, "another look")
        agent.shows('numawise_watch_containers{verdict="drifted"} 0')
        agent.shows('numawise_watch_containers{verdict="aligned"} 3')
        aligned = 'numawise_watch_aligned_compute_resources{scope="container",boundary="numa_node"} 2'
        agent.shows(aligned)
        assert agent.page("/healthz") == (200, "ok\n")
        assert agent.page("/readyz") == (200, "ok\n")
        assert agent.end() == 0
        assert agent.said("stopping")


def test_drift_is_said_and_counted_and_left(root: Path) -> None:
    place = cpuset(root)
    with watching(root) as agent:
        widen(place)
        until(lambda: agent.said("a-n1/c: container c may run outside CPUs 2-3"), "the drift is said")
        (line,) = agent.said("may run outside")
        assert line["level"] == "warning"
        assert line["kind"] == "cpuset-changed"
        assert "it may run on CPUs 4-5, which b-n1/c has alone" in line["why"]
        row = 'numawise_watch_drift{namespace="default",pod="a-n1",container="c",kind="cpuset-changed"} 1'
        agent.shows(row)
        assert (place / "cpuset.cpus").read_text() == "\n"
        (place / "cpuset.cpus.effective").write_text("2-3\n")
        (place / "cpuset.cpus").write_text("2-3\n")
        until(lambda: agent.said("a-n1/c: no longer"), "that it is gone is said")


def test_drift_is_repaired(root: Path) -> None:
    place = cpuset(root)
    with watching(root, "--repair") as agent:
        assert agent.said("writes back cpusets")
        widen(place)
        until(lambda: agent.said("a-n1/c: repaired: 2-3 written to cpuset.cpus"), "it is repaired")
        assert (place / "cpuset.cpus").read_text().strip() == "2-3"
        agent.shows('numawise_watch_repairs_total{outcome="written"} 1')


def test_a_host_without_control_groups(tmp_path: Path) -> None:
    grow_node(tmp_path)
    command = [
        sys.executable,
        "-m",
        "numawise",
        "agent",
        "--watch",
        "--root",
        str(tmp_path),
        "--listen",
        "off",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "no control groups with the cpuset controller are below /sys/fs/cgroup" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("words", "message"), [
    pytest.param(["--repair"],              "there is nothing to do; add --device-plugin, --export or --watch", id="repair alone"),
    pytest.param(["--device-plugin", "--repair"], "--repair: repairs what --watch finds; add --watch", id="repair without watch"),
    pytest.param(["--watch", "--dry-run"],  "--dry-run: shows what --device-plugin would offer",      id="dry run"),
])  # fmt: skip
def test_typed_wrong(words: list[str], message: str) -> None:
    command = [sys.executable, "-m", "numawise", "agent", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert message in done.stderr


# --- an API server --------------------------------------------------------------------------------


def recorded_pods() -> list[dict[str, Any]]:
    """The pods of the node, as mirrors of static pods: the API server has uids of its own."""
    pods = json.loads((RECORDED / "pods.json").read_text())["items"]
    for pod in pods:
        metadata = pod["metadata"]
        metadata["annotations"]["kubernetes.io/config.mirror"] = metadata["uid"]
        metadata["uid"] = f"mirror-of-{metadata['name']}"
        pod.setdefault("spec", {})["nodeName"] = "n1"
    return pods


@pytest.fixture
def state() -> State:
    node = {"metadata": {"name": "n1", "uid": "u-n1"}, "status": {"nodeInfo": {"kubeletVersion": "v1.36.4"}}}
    rules = Rules(rules_of(api_of([WATCH])))
    return State(pods=recorded_pods(), nodes={"n1": {"kind": "Node", **node}}, rules=rules)


def test_events_about_pods_with_the_rights_of_the_page_alone(
    root: Path, state: State, tmp_path: Path
) -> None:
    for link in (root / "var/log/containers").iterdir():
        link.unlink()  # which container is which, the API server says
    place = cpuset(root)
    with serving(state) as server:
        config = kubeconfig(tmp_path / "kubeconfig", server.address)
        with watching(root, "--node", "n1", "--kubeconfig", str(config), "--repair") as agent:
            widen(place)
            until(lambda: len(state.events) == 2, "two Events")
            agent.shows('numawise_watch_events_total{outcome="sent"} 2')
    changed, repaired = state.events
    assert (changed["type"], changed["reason"]) == ("Warning", "CpusetChanged")
    assert changed["regarding"] == {
        "apiVersion": "v1", "kind": "Pod", "name": "a-n1", "namespace": "default", "uid": "mirror-of-a-n1",
    }  # fmt: skip
    assert changed["metadata"]["namespace"] == "default"
    assert changed["note"].startswith("container c may run outside CPUs 2-3. its cpuset has CPUs 0-7")
    assert (repaired["type"], repaired["reason"]) == ("Normal", "CpusetRepaired")
    assert state.rules is not None
    assert state.rules.refused == []


def test_an_api_server_that_refuses_events_is_said_once(root: Path, state: State, tmp_path: Path) -> None:
    state.forbidden.add("events")
    place = cpuset(root)
    with serving(state) as server:
        config = kubeconfig(tmp_path / "kubeconfig", server.address)
        with watching(root, "--node", "n1", "--kubeconfig", str(config)) as agent:
            widen(place)
            until(lambda: agent.said("no Event could be sent: you may not"), "the refusal is said")
            assert agent.said("a-n1/c: container c may run outside CPUs 2-3")
            agent.shows('numawise_watch_events_total{outcome="failed"} 1')


def test_an_api_server_that_is_gone_does_not_stop_the_watch(root: Path, tmp_path: Path) -> None:
    place = cpuset(root)
    config = kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:9")
    with watching(root, "--node", "n1", "--kubeconfig", str(config), "--repair") as agent:
        widen(place)
        until(lambda: agent.said("a-n1/c: repaired"), "it is repaired")
