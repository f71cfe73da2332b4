"""The cluster as an API server shows it, followed: what comes and goes, servers that end, refuse or forget."""

import asyncio
import io
from pathlib import Path
from typing import Self

from numawise.inputs.cluster import followed_remarks
from numawise.inputs.live import LiveFeed, live_cluster
from numawise.kube.client import Cluster, access_to
from numawise.service.log import ServiceLog
from tests.kube.server import Server, State, kubeconfig, serving
from tests.unit.cluster.live_objects import api_pod
from tests.unit.cluster.nodes import gpu_pod
from tests.waiting import until


class Fed:
    """A feed that runs."""

    def __init__(self, folder: Path, address: str) -> None:
        self.text = io.StringIO()
        access = access_to(str(kubeconfig(folder / "config", address)), "")
        self.feed = LiveFeed(access, ServiceLog(self.text, structured=False), clock=lambda: 1000.0)
        self.heard: list[tuple[str, str]] = []
        self.feed.subscribe(
            lambda kind, before, after: self.heard.append((kind, (after or before or {})["metadata"]["name"]))
        )

    def __enter__(self) -> Self:
        asyncio.run(self.feed.start())
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run(self.feed.stop())

    def takers(self, gpus: int) -> list[str]:
        """Nodes that would let in a pod."""
        with self.feed.lock:
            verdicts = self.feed.view.judge(gpu_pod("probe", gpus), None, 1000.0)
            return sorted(verdict.node for verdict in verdicts if verdict.rating is not None)


def test_what_comes_and_goes(server: Server, state: State, tmp_path: Path) -> None:
    with Fed(tmp_path, server.address) as fed:
        until(fed.feed.synced, "everything was read")
        assert fed.takers(4) == ["n1", "n2"]
        state.put_pod(api_pod("b", 1, "n1"))
        until(lambda: fed.takers(4) == ["n2"], "a pod that is bound is put in")
        state.put_pod(api_pod("b", 1, "n1", phase="Failed"))
        until(lambda: fed.takers(4) == ["n1", "n2"], "it has failed")
        state.put_topology(state.topologies["n2"], "DELETED")
        until(lambda: fed.feed.view.problems("n2"), "nothing is published any more")
        assert ("Pod", "b") in fed.heard


def test_one_reading_says_the_same(server: Server, tmp_path: Path) -> None:
    with Cluster(access_to(str(kubeconfig(tmp_path / "config", server.address)), "")) as cluster:
        view = live_cluster(cluster, 1000.0)
    assert [verdict.how for verdict in view.judge(gpu_pod("probe", 4), None, 1000.0)] == ["exact", "exact"]
    assert view.judge(gpu_pod("probe", 8), None, 1000.0)[0].reason == "OutOfx/gpu"


def test_a_server_without_topologies_is_said_once(server: Server, state: State, tmp_path: Path) -> None:
    state.topology_versions = ()
    with Fed(tmp_path, server.address) as fed:
        until(fed.feed.synced, "the rest was read")
        assert fed.takers(4) == ["n1", "n2"]
        assert fed.text.getvalue().count("does not serve noderesourcetopologies") == 1
        (remark,) = followed_remarks(fed.feed)
        assert remark.startswith(f"what nodes publish is not known: {server.address} does not serve")
        assert remark.endswith("numawise agent --definition | kubectl apply -f -")
    with Cluster(access_to(str(kubeconfig(tmp_path / "config", server.address)), "")) as cluster:
        assert live_cluster(cluster, 0.0).how("n1") == "unknown"


def test_a_right_that_is_missing_is_missing(server: Server, state: State, tmp_path: Path) -> None:
    state.forbidden = {"/pods"}
    with Fed(tmp_path, server.address) as fed:
        until(lambda: len(fed.feed.missing()) == 1, "the rest was read")
        assert fed.feed.missing()[0].startswith("you may not list pods (403)")
        (remark,) = followed_remarks(fed.feed)
        assert remark.startswith("pods that a node does not publish yet are not counted")
        assert "learned: you may not list pods (403)" in remark


def test_one_cause_is_one_remark(server: Server, state: State, tmp_path: Path) -> None:
    state.token = "another"
    fed = Fed(tmp_path, server.address)
    assert followed_remarks(fed.feed) == ("the cluster is being read",)
    with fed:
        until(lambda: all(gap.problem for gap in fed.feed.gaps()), "each list was refused")
        (remark,) = followed_remarks(fed.feed)
        assert remark.startswith(f"{server.address} does not know who you are (401)")


def test_a_server_that_restarts_and_forgets(state: State, tmp_path: Path) -> None:
    with serving(state) as server:
        port = server.server_port
        fed = Fed(tmp_path, server.address)
        asyncio.run(fed.feed.start())
        until(fed.feed.synced, "in touch")
    until(lambda: len(fed.feed.missing()) == 3, "each list has seen that the server is gone")
    (remark,) = followed_remarks(fed.feed)
    assert remark.startswith("what is shown may be old since 1970-01-01 00:16:40 UTC: http://127.0.0.1")
    state.pods.clear()  # while nobody followed
    state.put_pod(api_pod("late", 8, "n2"))
    state.put_pod(api_pod("later", 1, "n1"))
    with serving(state, port=port):
        until(lambda: sorted(fed.feed.view.pods) == ["late", "later"], "read again")
        with state.changed:
            state.pods.append(api_pod("unheard", 1, "n1"))  # an event of it was never sent
            state.happened("pods", "ERROR", {"kind": "Status", "code": 410})
        until(lambda: "unheard" in fed.feed.view.pods, "the version was too old: read again")
        asyncio.run(fed.feed.stop())


def test_an_older_version_of_the_definition_is_followed_too(
    server: Server, state: State, tmp_path: Path
) -> None:
    state.topology_versions = ("v1alpha1",)
    with Fed(tmp_path, server.address) as fed:
        until(fed.feed.synced, "everything was read")
        assert fed.feed.view.how("n1") == "exact"
        state.put_topology(state.topologies["n1"], "DELETED")
        until(lambda: fed.feed.view.problems("n1"), "it is gone")
        families = {family.about.name: family.rows for family in fed.feed.families()}
        assert families["numawise_cluster_nodes"] == (
            ({"how": "exact"}, 1),
            ({"how": "conservative"}, 0),
            ({"how": "unknown"}, 1),
        )
