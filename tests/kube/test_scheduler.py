"""``numawise scheduler`` as kube-scheduler meets it: real HTTP, real TLS, a cluster that changes."""

import contextlib
import http.client
import json
import random
import shutil
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.extenders import Extender, extender
from tests.kube.rbac import Rules
from tests.kube.server import State, make_certificate, serving
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import GPU, kubelet
from tests.waiting import PATIENCE, until

RECORDED = Path(__file__).parents[1] / "recorded/extender"
OPENSSL = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")


def state(*names: str) -> State:
    """Nodes with two NUMA nodes of 4 GPUs each, and what they publish."""
    made = State()
    for name in names:
        made.put_node(api_node(name))
        made.put_topology(published(kubelet(), name))
    return made


@pytest.fixture
def cluster() -> State:
    return state("a", "b")


@pytest.fixture
def asked(tmp_path: Path, cluster: State) -> Iterator[Extender]:
    with serving(cluster) as server, extender(tmp_path, server) as running:
        running.ready()
        yield running


def question(name: str, gpus: int, *nodes: str, **more: Any) -> dict[str, Any]:
    return {"Pod": api_pod(name, gpus, **more), "Nodes": None, "NodeNames": list(nodes)}


def test_a_pod_from_question_to_binding(asked: Extender, cluster: State) -> None:
    cluster.put_pod(api_pod("x", 4, "a"))
    cluster.put_pod(api_pod("y", 1, "a", 2))
    until(lambda: asked.ask("filter", question("p", 4, "a", "b"))["NodeNames"] == ["b"], "pods are seen")
    answer = asked.ask("filter", question("p", 4, "a", "b"))
    assert answer["FailedNodes"]["a"].startswith("TopologyAffinityError, not now (2 pods hold 5 x/gpu)")
    assert answer["Error"] == ""
    assert asked.ask("filter", question("q", 4, "a", "b"))["NodeNames"] == ["b"]  # the other half
    assert asked.ask("filter", question("r", 4, "a", "b"))["NodeNames"] == []
    assert asked.metric("numawise_scheduler_promises_now") == "2"
    cluster.put_pod(api_pod("p", 4, "b"))  # as promised
    cluster.put_pod(api_pod("q", 4))
    cluster.put_pod(api_pod("q", 4), "DELETED")  # never bound
    until(lambda: asked.metric("numawise_scheduler_promises_now") == "0", "promises end")
    scores = {row["Host"]: row["Score"] for row in asked.ask("prioritize", question("s", 1, "a", "b"))}
    assert scores == {"a": 10, "b": 9}
    assert asked.ask("filter", question("t", 4, "a", "b"))["NodeNames"] == ["b"]


def test_a_half_that_others_need_is_not_broken(asked: Extender, cluster: State) -> None:
    cluster.put_pod(api_pod("big", 4, "a"))
    cluster.put_pod(api_pod("small", 2, "b", 2))
    until(lambda: asked.metric('numawise_fits{shape="4 gpu, 1 cpu, 1Gi"}') == "2", "places are counted")
    scores = {row["Host"]: row["Score"] for row in asked.ask("prioritize", question("p", 2, "a", "b"))}
    assert scores == {"b": 10, "a": 9}


def test_the_recorded_questions(asked: Extender) -> None:
    """Of kube-scheduler v1.36.4; its nodes publish nothing here, so they pass."""
    body = (RECORDED / "filter-names.json").read_bytes()
    answer = json.loads(asked.raw("filter", body)[1])
    assert answer["NodeNames"] == ["n00000", "n00001", "n00002"]
    assert {row["Score"] for row in json.loads(asked.raw("prioritize", body)[1])} == {0}
    whole = (RECORDED / "filter-whole-nodes.json").read_bytes()
    answer = json.loads(asked.raw("filter", whole)[1])
    assert answer["Nodes"]["items"] == json.loads(whole)["Nodes"]["items"]
    assert answer["NodeNames"] is None


def test_pods_that_wait_elsewhere_close_no_free_half(asked: Extender, cluster: State) -> None:
    """Five pods of one tenant whose volume is on node b: kube-scheduler names no other node for them."""
    cluster.put_pod(api_pod("x", 4, "a", restart="Always"))
    for number in range(2):
        cluster.put_pod(api_pod(f"y{number}", 4, "b", number + 2, restart="Always"))
    waiting = [question(f"w{number}", 4, "b", created="2020-01-01T00:00:00Z") for number in range(5)]
    for one in waiting:
        one["Pod"]["metadata"]["namespace"] = "tenant"
        cluster.put_pod(one["Pod"])
    until(lambda: asked.metric("numawise_cluster_pods") == "8", "pods are seen")
    for one in waiting:
        assert asked.ask("filter", one)["NodeNames"] == []
    for priority in (0, 1_000_000, 2_000_000_000):
        late = question(f"p{priority}", 4, "a", "b", spec={"priority": priority})
        assert asked.ask("filter", late)["NodeNames"] == ["a"]
        assert (
            asked.ask("filter", question(f"p{priority}", 4, "b"))["NodeNames"] == []
        )  # not promised any more


def test_what_is_published_of_nodes_that_are_gone_is_no_place(asked: Extender, cluster: State) -> None:
    cluster.put_pod(api_pod("x", 2, "a"))
    for name in ("gone-1", "gone-2"):
        cluster.put_topology(published(kubelet(), name))
    asked_for = f"capacity?shape=cpu=1,memory=1Gi,{GPU}=4"
    until(lambda: asked.metric('numawise_fits{shape="2 gpu, 1 cpu, 1Gi"}') == "7", "places are counted")
    (places,) = asked.ask(asked_for, None, "GET")["shapes"]
    assert {node["node"]: node["count"] for node in places["nodes"]} == {"a": 1, "b": 2}
    assert asked.metric('numawise_cluster_nodes{how="exact"}') == "2"
    cluster.put_node(api_node("b"), "DELETED")
    until(lambda: asked.metric('numawise_cluster_nodes{how="exact"}') == "1", "the node goes")
    (places,) = asked.ask(asked_for, None, "GET")["shapes"]
    assert [node["node"] for node in places["nodes"]] == ["a"]
    cluster.put_node(api_node("b"))
    until(lambda: asked.metric('numawise_cluster_nodes{how="exact"}') == "2", "the node is back")


def test_victims(asked: Extender, cluster: State) -> None:
    for node in ("a", "b"):
        for half in range(2):
            cluster.put_pod(api_pod(f"{node}{half}", 4, node, half + 1))
    until(lambda: asked.ask("filter", question("p", 4, "a", "b"))["NodeNames"] == [], "pods are seen")
    victims = {"Pods": [{"UID": "a0"}], "NumPDBViolations": 1}
    unhelpful = {"Pods": [{"UID": "elsewhere"}], "NumPDBViolations": 0}
    answer = asked.ask(
        "preempt", {"Pod": api_pod("p", 4), "NodeNameToMetaVictims": {"a": victims, "b": unhelpful}}
    )
    assert answer == {"NodeNameToMetaVictims": {"a": victims}}


def test_capacity(asked: Extender, cluster: State) -> None:
    cluster.put_pod(api_pod("x", 3, "a"))
    until(lambda: asked.ask("capacity", None, "GET")["shapes"], "a shape is learned")
    learned = asked.ask("capacity", None, "GET")
    assert learned["kind"] == "Capacity"
    assert [shape["name"] for shape in learned["shapes"]] == ["3 gpu, 1 cpu, 1Gi"]
    given = asked.ask(f"capacity?shape=cpu=1,memory=1Gi,{GPU}=4&shape=cpu=1,memory=1Gi,{GPU}=1", None, "GET")
    assert [shape["total"] for shape in given["shapes"]] == [3, 13]
    assert [node["count"] for node in given["shapes"][0]["nodes"]] == [1, 2]
    posted = asked.ask("capacity", api_pod("four", 4))
    assert [(shape["name"], shape["total"]) for shape in posted["shapes"]] == [("four", 3)]
    for words in ("shape=4", "shape=cpu=x", "colour=red", "most=0"):
        status, body = asked.raw(f"capacity?{words}", None, "GET")
        assert status == 400
        assert json.loads(body)["error"]


def test_killed_and_started_again(tmp_path: Path, cluster: State) -> None:
    cluster.put_pod(api_pod("x", 4, "a"))
    with serving(cluster) as server, extender(tmp_path, server) as running:
        running.ready()
        port = running.address.rpartition(":")[2]
        assert running.ask("filter", question("p", 4, "a"))["NodeNames"] == ["a"]
        running.kill()
        cluster.put_pod(api_pod("p", 4, "a", 2))
        running.log.unlink()
        running.words = ("--listen", f"127.0.0.1:{port}")
        running.process = running.started()
        running.ready()
        assert running.ask("filter", question("q", 4, "a"))["NodeNames"] == []
        assert running.end() == 0
        assert not running.said("mistake")


def test_a_question_that_comes_before_the_cluster(tmp_path: Path) -> None:
    """Nobody answers at the API server's address."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    for way, names in (("pass", ["a"]), ("hold", [])):
        folder = tmp_path / way
        folder.mkdir()
        with extender(folder, address, "--unpublished", way) as running:
            until(lambda running=running: running.said("answering"), "it listens")  # type: ignore[misc]
            answer = running.ask("filter", question("p", 4, "a"))
            assert answer["NodeNames"] == names
            assert answer["FailedNodes"] == ({} if names else {"a": "numawise has not read the cluster yet"})
            assert running.raw("capacity", None, "GET")[0] == 503


def test_it_goes_on_while_the_api_server_is_away(tmp_path: Path, cluster: State) -> None:
    with serving(cluster) as server:
        port = server.server_port
        running = Extender(tmp_path, server.address)
        running.ready()
    try:
        until(lambda: running.page("/readyz")[0] == 503, "it is missed")
        assert running.ask("filter", question("p", 5, "a", "b"))["NodeNames"] == []
        assert running.ask("filter", question("p", 4, "a"))["NodeNames"] == ["a"]
        assert running.page("/healthz")[0] == 200
        with serving(cluster, port=port):
            cluster.put_pod(api_pod("x", 4, "a"))
            cluster.put_pod(api_pod("y", 4, "a", 2))
            until(
                lambda: running.ask("filter", question("p", 4, "a"))["NodeNames"] == [],
                "it is followed again",
            )
    finally:
        running.kill()


def test_its_rights_are_enough(tmp_path: Path, cluster: State) -> None:
    from numawise.apps.scheduler.rights import SCHEDULER_RIGHTS  # noqa: PLC0415
    from numawise.service.rights import rules_of  # noqa: PLC0415

    cluster.rules = Rules(rules_of(SCHEDULER_RIGHTS))
    with serving(cluster) as server, extender(tmp_path, server) as running:
        running.ready()
        assert running.ask("filter", question("p", 4, "a"))["NodeNames"] == ["a"]
    assert cluster.written == []


# --- what nobody should send --------------------------------------------------------------------


def test_paths_and_methods(asked: Extender) -> None:
    assert asked.raw("", b"{}")[0] == 404
    assert asked.raw("bind", b"{}")[0] == 404
    assert asked.raw("filter", None, "GET")[0] == 405
    assert asked.raw("capacity", None, "DELETE")[0] == 405


def test_bad_questions_are_answered_with_a_sentence(asked: Extender) -> None:
    for body in (b"", b"null", b"[]", b"{", b"\xff", b'{"Pod": 1}', b'{"Pod": {}}', b'{"Pod": {"spec": 7}}'):
        status, text = asked.raw("filter", body)
        answer = json.loads(text)
        assert status == 200
        assert answer["Error"] or answer["NodeNames"] == []
        assert asked.raw("prioritize", body)[0] in (200, 400)
        assert asked.raw("preempt", body)[0] in (200, 400)
    assert int(asked.metric('numawise_scheduler_requests_total{verb="filter",ended="unreadable"}')) >= 6
    assert asked.metric('numawise_scheduler_requests_total{verb="filter",ended="failed"}') == "0"


def test_damaged_questions_never_fail(asked: Extender) -> None:
    draw = random.Random(7)
    good = json.dumps(question("p", 1, "a", "b", "c")).encode()
    for _ in range(300):
        body = bytearray(good)
        for _ in range(draw.randrange(1, 8)):
            at = draw.randrange(len(body))
            body[at : at + draw.randrange(1, 4)] = bytes(
                draw.randrange(256) for _ in range(draw.randrange(4))
            )
        for verb in ("filter", "prioritize", "preempt"):
            assert asked.raw(verb, bytes(body))[0] in (200, 400)
    for verb in ("filter", "prioritize", "preempt"):
        assert asked.metric(f'numawise_scheduler_requests_total{{verb="{verb}",ended="failed"}}') == "0"
    assert asked.ask("filter", question("q", 1, "a"))["NodeNames"] == ["a"]


def test_a_body_that_is_too_large_is_refused_while_it_comes(asked: Extender) -> None:
    with contextlib.closing(asked.connection()) as connection:
        connection.putrequest("POST", "/filter")
        connection.putheader("Content-Length", str(200 << 20))
        connection.endheaders()
        with contextlib.suppress(OSError):
            for _ in range(200):
                connection.send(b" " * (1 << 20))
        with contextlib.suppress(OSError, http.client.HTTPException):
            assert connection.getresponse().status == 413
    assert asked.ask("filter", question("q", 1, "a"))["NodeNames"] == ["a"]


def test_a_body_that_never_comes_keeps_nobody_waiting(asked: Extender) -> None:
    with contextlib.closing(asked.connection()) as connection:
        connection.putrequest("POST", "/filter")
        connection.putheader("Content-Length", "100")
        connection.endheaders()
        assert asked.ask("filter", question("q", 1, "a"))["NodeNames"] == ["a"]
        answer = connection.getresponse()
        assert answer.status == 408
        assert "did not come" in json.loads(answer.read())["Error"]


# --- certificates -------------------------------------------------------------------------------


def made(folder: Path) -> tuple[Path, Path]:
    folder.mkdir()
    return make_certificate(folder)


def trusting(certificate: Path, own: tuple[Path, Path] | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(certificate))
    if own is not None:
        context.load_cert_chain(*own)
    return context


def refused(running: Extender, trust: ssl.SSLContext) -> bool:
    """Whether a client is not answered."""
    with contextlib.closing(running.connection(trust)) as connection:
        try:
            connection.request("GET", "/capacity")
            connection.getresponse().read()
        except (ssl.SSLError, ConnectionError, http.client.HTTPException):
            return True
    return False


@OPENSSL
def test_only_clients_of_the_authority_are_answered(tmp_path: Path, cluster: State) -> None:
    own, client, stranger = (made(tmp_path / name) for name in ("own", "client", "stranger"))
    words = ("--tls-cert", str(own[0]), "--tls-key", str(own[1]), "--client-ca", str(client[0]))
    with serving(cluster) as server, extender(tmp_path, server, *words) as running:
        running.trust = trusting(own[0], client)
        running.ready()
        assert running.address.startswith("https://")
        assert running.ask("filter", question("p", 4, "a"))["NodeNames"] == ["a"]
        assert refused(running, trusting(own[0]))
        assert refused(running, trusting(own[0], stranger))
        assert running.end() == 0


@OPENSSL
def test_new_certificates_are_taken_up(tmp_path: Path, cluster: State) -> None:
    own, client, later, other = (made(tmp_path / name) for name in ("own", "client", "later", "other"))
    gone = (Path(shutil.copy(client[0], tmp_path / "gone.crt")), client[1])
    words = ("--tls-cert", str(own[0]), "--tls-key", str(own[1]), "--client-ca", str(client[0]))
    with serving(cluster) as server, extender(tmp_path, server, *words) as running:
        running.trust = trusting(own[0], client)
        running.ready()
        assert running.ask("filter", question("p", 4, "a"))["NodeNames"] == ["a"]
        own[1].write_text("no key\n")
        until(lambda: running.said("the old certificates stay"), "broken files are said")
        assert running.ask("filter", question("p", 4, "a"))["NodeNames"] == ["a"]
        shutil.copy(later[1], own[1])
        shutil.copy(later[0], own[0])
        shutil.copy(other[0], client[0])
        until(lambda: running.said("new certificates"), "new files are taken up")
        until(lambda: not refused(running, trusting(later[0], other)), "both are new")
        running.trust = trusting(later[0], other)
        assert running.ask("filter", question("p", 4, "a"))["NodeNames"] == ["a"]
        assert refused(running, trusting(later[0], gone))


def test_without_a_certificate_it_listens_at_home_alone(tmp_path: Path) -> None:
    with extender(tmp_path, "http://127.0.0.1:1", "--listen", "0.0.0.0:0") as running:
        assert running.process.wait(PATIENCE) == 2
        assert "would be answered in the clear" in running.log.read_text()
