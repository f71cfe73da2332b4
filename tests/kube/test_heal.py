"""``numawise heal`` against an API server: holds, releases, removals, two healers, faults."""

import json
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.heal.rights import POLICIES, POLICY, heal_rights
from numawise.results.pending import HOLD_GATE
from tests.cli.run import Ran, program
from tests.kube.healers import LEASED, LISTED, REGISTERED, HealedCluster, healer
from tests.kube.rbac import exact_rules
from tests.kube.server import kubeconfig, serving
from tests.unit.cluster.live_objects import api_node, api_pod, published
from tests.unit.cluster.nodes import gpu_pod, kubelet
from tests.waiting import until

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
DAY = ("--older-than", "1d")


def justified(changes: list[dict[str, Any]]) -> None:
    """Every change was intended first, with a reason and evidence, and ended somehow."""
    intended: dict[str, dict[str, Any]] = {}
    for line in changes:
        if line["outcome"] == "intended":
            assert line["why"], line
            assert line["evidence"], line
            intended[line["change"]] = line
        else:
            assert intended.pop(line["change"])["action"] == line["action"]


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_a_runaway_owner_is_held_until_a_node_would_let_its_pod_in(tmp_path: Path, kind: str) -> None:
    cluster = HealedCluster("a", "b")
    owner = cluster.owner("web", kind)
    cluster.state.rules = rules = exact_rules(heal_rights(defrag=False), "numawise")
    with serving(cluster.state) as server, healer(tmp_path, server.address, "--apply", *DAY) as running:
        running.hears("leads")
        cluster.refuse(cluster.make(owner), "a")
        until(lambda: "u-web.abc" in cluster.holds, "a hold")
        until(lambda: len(cluster.events("PodRefused")) == 1 and cluster.events("PodsHeld"), "Events")
        (told,) = cluster.events("PodRefused")
        assert "NUMA 0-1 have 1 free each, 1 short" in told["note"]
        assert "Smallest fix: " in told["note"]
        about = cluster.events("PodsHeld")[0]["regarding"]
        assert (about["kind"], about["name"]) == (
            ("Deployment", "web") if kind == "ReplicaSet" else (kind, "web")
        )
        waiting = cluster.make(owner)
        assert cluster.gated(waiting)
        other = cluster.make(owner, revision="new")
        assert not cluster.gated(other), "a corrected template is not held"
        cluster.publish("b", full=False)
        until(lambda: not cluster.gated(waiting), "a release")
        terms = cluster.pod(waiting)["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
        assert terms == [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["b"]}]}
        ]
        until(
            lambda: [one["action"] for one in running.changes()] == ["hold"] * 2 + ["release"] * 2, "the log"
        )
        assert running.end() == 0
        justified(running.changes())
    assert cluster.state.kept[LEASED]["spec"]["holderIdentity"] == "", "given back"
    assert not rules.refused, "with exactly its rights"
    assert cluster.removals() == []


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    cluster = HealedCluster("a")
    owner = cluster.owner("web")
    cluster.state.rules = rules = exact_rules(heal_rights(apply=False, defrag=False), "numawise")
    with serving(cluster.state) as server, healer(tmp_path, server.address, "--older-than", "0s") as running:
        running.hears("a dry run")
        for _ in range(3):
            cluster.refuse(cluster.make(owner), "a")
        running.hears("would hold ReplicaSet default/web")
        running.hears("would explain pod default/web-")
        running.hears("would delete pod default/web-")
        assert running.end() == 0
        assert len(running.said("would hold")) == 1
        assert running.changes() == []
    assert cluster.state.written == []
    assert not rules.refused


def test_only_what_the_rules_name_is_removed(tmp_path: Path) -> None:
    cluster = HealedCluster("a")
    owner, job = cluster.owner("web"), cluster.owner("job", "Job", "")
    mine = [cluster.refuse(cluster.make(owner), "a") for _ in range(4)]
    ran = cluster.refuse(cluster.make(owner), "a")
    ran["status"]["containerStatuses"] = [{"name": "c", "state": {"terminated": {"exitCode": 1}}}]
    cluster.state.put_pod(ran)
    evicted = cluster.refuse(cluster.make(owner), "a", "Evicted")
    of_job = [cluster.refuse(cluster.make(job), "a") for _ in range(3)]
    bare = api_pod("bare", 2, "a", phase="Failed", reason="TopologyAffinityError", message="x")
    cluster.state.put_pod(bare)
    words = ("--apply", "--older-than", "0s", "--keep", "1")
    with serving(cluster.state) as server, healer(tmp_path, server.address, *words) as running:
        until(lambda: sum(map(cluster.there, mine)) == 1, "three of four are removed")
        late = cluster.refuse(cluster.make(owner), "a")
        until(lambda: sum(map(cluster.there, [*mine, late])) == 1, "the next one, too")
        assert running.end() == 0
        removed = [one for one in running.changes() if one["action"] == "delete"]
        justified(running.changes())
    assert all(map(cluster.there, [ran, evicted, *of_job, bare]))
    assert len(cluster.removals()) == 4
    assert {one["name"] for one in removed} == set(cluster.removals())
    bodies = [body for method, _, body in cluster.state.written if method == "DELETE"]
    assert all({"uid", "resourceVersion"} == set(body["preconditions"]) for body in bodies)


def test_a_pod_that_names_a_foreign_owner_holds_nobody(tmp_path: Path) -> None:
    cluster = HealedCluster("a")
    real = cluster.owner("web")
    forged = json.loads(json.dumps(real))
    forged["metadata"]["uid"] = "u-of-somebody-else"
    with serving(cluster.state) as server, healer(tmp_path, server.address, "--apply", *DAY) as running:
        running.hears("leads")
        cluster.refuse(cluster.make(forged), "a")
        cluster.refuse(cluster.make(real), "a")
        until(lambda: cluster.holds, "a hold")
        assert running.end() == 0
    assert set(cluster.holds) == {"u-web.abc"}


def of_namespace(cluster: HealedCluster, pod: dict[str, Any], namespace: str) -> dict[str, Any]:
    """The same pod in another namespace."""
    cluster.state.put_pod(json.loads(json.dumps(pod)), "DELETED")
    pod["metadata"]["namespace"] = namespace
    cluster.state.put_pod(pod)
    return pod


def test_pods_that_others_hold_too_keep_nobody_waiting(tmp_path: Path) -> None:
    cluster = HealedCluster("a", "b")
    tenant, victim = cluster.owner("tenant"), cluster.owner("web")
    with serving(cluster.state) as server, healer(tmp_path, server.address, "--apply", *DAY) as running:
        running.hears("leads")
        cluster.refuse(cluster.make(tenant), "a")
        cluster.refuse(cluster.make(victim), "a")
        until(lambda: set(cluster.holds) == {"u-tenant.abc", "u-web.abc"}, "two holds")
        blocking = [cluster.make(tenant) for _ in range(40)]
        for pod in blocking:
            pod["spec"]["schedulingGates"].append({"name": "example.com/never"})
            cluster.state.put_pod(pod)
        waiting = cluster.make(victim)
        cluster.publish("b", full=False)
        until(lambda: not cluster.gated(waiting), "a release")
        assert all(len(cluster.pod(pod)["spec"]["schedulingGates"]) == 2 for pod in blocking)
        assert running.end() == 0


def test_a_change_that_the_server_does_not_take_keeps_nobody_waiting(tmp_path: Path) -> None:
    cluster = HealedCluster("a")
    refusing = [cluster.make(cluster.owner("tenant")) for _ in range(3)]
    free = cluster.make(cluster.owner("web"))
    for pod in (*refusing, free):
        pod["spec"]["schedulingGates"] = [{"name": HOLD_GATE}]
        cluster.state.put_pod(pod)
    status = json.dumps({"kind": "Status", "code": 422, "message": "it is invalid"}).encode()
    for pod in refusing:
        path = f"/api/v1/namespaces/default/pods/{pod['metadata']['name']}"
        cluster.state.answers[path] = (422, "application/json", status)
    with serving(cluster.state) as server, healer(tmp_path, server.address, "--apply", *DAY) as running:
        until(lambda: not cluster.gated(free), "a release")
        running.hears("is left alone")
        assert running.end() == 0
    assert all(map(cluster.gated, refusing))


def test_in_a_namespace_alone_it_asks_for_nothing_in_others(tmp_path: Path) -> None:
    cluster = HealedCluster("a", "b")
    owner = cluster.owner("web")
    cluster.state.rules = rules = exact_rules(heal_rights(defrag=False), "numawise", ("default",))
    elsewhere = cluster.make(owner)
    elsewhere["spec"]["schedulingGates"] = [{"name": HOLD_GATE}]
    of_namespace(cluster, elsewhere, "elsewhere")
    of_namespace(cluster, cluster.refuse(cluster.make(owner), "a"), "elsewhere")
    words = ("--apply", "--in", "default", "--older-than", "0s", "--keep", "0")
    with serving(cluster.state) as server, healer(tmp_path, server.address, *words) as running:
        running.hears("leads")
        mine = cluster.refuse(cluster.make(owner), "a")
        until(lambda: "u-web.abc" in cluster.holds and not cluster.there(mine), "a hold and a removal")
        waiting = cluster.make(owner)
        cluster.publish("b", full=False)
        until(lambda: not cluster.gated(waiting), "a release")
        assert running.end() == 0
    assert not rules.refused, "with the rights of one namespace"
    assert cluster.gated(elsewhere)


def test_a_hold_that_somebody_takes_off_ends(tmp_path: Path) -> None:
    cluster = HealedCluster("a")
    owner = cluster.owner("web")
    with serving(cluster.state) as server, healer(tmp_path, server.address, "--apply", *DAY) as running:
        running.hears("leads")
        cluster.refuse(cluster.make(owner), "a")
        until(lambda: cluster.holds, "a hold")
        waiting = cluster.make(owner)
        with cluster.state.changed:
            cluster.state.kept[LISTED]["data"] = {"not-ours": "left alone"}
        until(lambda: not cluster.gated(waiting), "a release")
        assert running.end() == 0
    assert cluster.holds == {"not-ours": "left alone"}


def test_an_owner_that_is_gone_or_changed_is_held_no_longer(tmp_path: Path) -> None:
    cluster = HealedCluster("a")
    gone, changed = cluster.owner("gone"), cluster.owner("changed", "StatefulSet")
    with serving(cluster.state) as server, healer(tmp_path, server.address, "--apply", *DAY) as running:
        running.hears("leads")
        for owner in (gone, changed):
            cluster.refuse(cluster.make(owner), "a")
        until(lambda: len(cluster.holds) == 2, "two holds")
        waiting = cluster.make(changed)
        cluster.state.owners.remove(gone)
        changed["status"]["updateRevision"] = "new"
        until(lambda: not cluster.holds, "no holds")
        until(lambda: not cluster.gated(waiting), "a release")
        assert running.end() == 0


def test_without_the_policy_it_explains_and_cleans_alone(tmp_path: Path) -> None:
    cluster = HealedCluster("a", policy=False)
    owner = cluster.owner("web")
    words = ("--apply", "--older-than", "0s", "--keep", "0")
    with serving(cluster.state) as server, healer(tmp_path, server.address, *words) as running:
        running.hears("has no mutatingadmissionpolicies numawise-hold")
        pod = cluster.refuse(cluster.make(owner), "a")
        until(lambda: not cluster.there(pod) and cluster.events("PodRefused"), "an Event and a removal")
        assert running.end() == 0
    assert not cluster.holds


def test_when_the_policy_goes_nobody_waits_any_more(tmp_path: Path) -> None:
    cluster = HealedCluster("a")
    owner = cluster.owner("web")
    with serving(cluster.state) as server, healer(tmp_path, server.address, "--apply", *DAY) as running:
        running.hears("leads")
        cluster.refuse(cluster.make(owner), "a")
        until(lambda: cluster.holds, "a hold")
        waiting = cluster.make(owner)
        assert cluster.gated(waiting)
        cluster.state.kept.pop(f"{REGISTERED}/{POLICIES}/{POLICY}")
        until(lambda: not cluster.gated(waiting), "it is let go")
        assert running.said("there is no policy that holds pods")
        assert running.end() == 0


def test_of_two_healers_one_acts_and_the_other_follows(tmp_path: Path) -> None:
    cluster = HealedCluster("a")
    owner = cluster.owner("web")
    words = ("--apply", "--older-than", "0s", "--keep", "0")
    with (
        serving(cluster.state) as server,
        healer(tmp_path / "one", server.address, *words) as one,
        healer(tmp_path / "two", server.address, *words) as two,
    ):
        until(lambda: one.said("leads") or two.said("leads"), "a leader")
        first, second = (one, two) if one.said("leads") else (two, one)
        pods = [cluster.refuse(cluster.make(owner), "a") for _ in range(5)]
        until(lambda: not any(map(cluster.there, pods)), "removals")
        until(lambda: cluster.holds, "a hold")
        assert second.changes() == []
        assert first.end() == 0
        second.hears("leads")
        waiting = cluster.make(owner)
        assert cluster.gated(waiting)
        cluster.publish("a", full=False)
        until(lambda: not cluster.gated(waiting), "the other goes on with the hold")
        assert second.end() == 0
        justified([*first.changes(), *second.changes()])
    assert len(cluster.removals()) == 5, "each once"


def test_a_server_that_restarts_is_gone_on_with(tmp_path: Path) -> None:
    cluster = HealedCluster("a")
    owner = cluster.owner("web")
    with serving(cluster.state) as server:
        port = server.server_port
        context = healer(tmp_path, server.address, "--apply", *DAY)
        running = context.__enter__()
        running.hears("leads")
        cluster.refuse(cluster.make(owner), "a")
        until(lambda: cluster.holds, "a hold")
        waiting = cluster.make(owner)
    cluster.publish("a", full=False)
    with serving(cluster.state, port=port):
        until(lambda: not cluster.gated(waiting), "a release after the restart")
        assert running.end() == 0


def test_once(tmp_path: Path) -> None:
    cluster = HealedCluster("a")
    with serving(cluster.state) as server:
        with healer(tmp_path, server.address, "--once") as running:
            assert running.process.wait(900) == 0
        cluster.refuse(cluster.make(cluster.owner("web")), "a")
        with healer(tmp_path, server.address, "--once") as running:
            assert running.process.wait(900) == 1
    assert (
        "would explain pod default/web-1: TopologyAffinityError on a: Rejected, not now"
        in running.log.read_text()
    )
    assert cluster.state.written == []


def test_once_is_about_every_owner_of_a_namespace(tmp_path: Path) -> None:
    cluster = HealedCluster("a")
    for number in range(55):
        cluster.refuse(cluster.make(cluster.owner(f"web{number}")), "a")
    with (
        serving(cluster.state) as server,
        healer(tmp_path, server.address, "--once") as running,
    ):
        assert running.process.wait(900) == 1
    assert running.log.read_text().count("would explain pod") == 55


@pytest.mark.parametrize(("words", "problem"), [
    (("--owners", "ReplicaSet,Node"),               "--owners: 'Node' is no kind of owner"),
    (("--older-than", "soon"),                      "--older-than: 'soon' is not a number of seconds"),
    (("--first-hold", "2h"),                        "--longest-hold: '1h' is shorter than --first-hold '2h'"),
    (("--selector", "app"),                         "--selector: 'app' is not a label and its value"),
    (("--in", "Default"),                           "--in: 'Default' is not the name of a namespace"),
    (("--namespace", "../x"),                       "--namespace: '../x' is not the name of a namespace"),
    (("--listen", "here"),                          "--listen 'here' is not an address and a port"),
])  # fmt: skip
def test_typed_wrong(words: tuple[str, ...], problem: str) -> None:
    outcome = program("heal", *words)
    assert outcome.status == 2
    assert problem in outcome.err


def fragmented() -> HealedCluster:
    """Of 16 GPUs 5 are free, and nowhere 4 on one NUMA node."""
    cluster = HealedCluster()
    for name, gpus in (("a", (3, 2)), ("b", (4, 2))):
        cluster.state.put_node(api_node(name))
        node = kubelet()
        for number, count in enumerate(gpus):
            pod = api_pod(f"{name}-{number}", count, name, phase="Running")
            pod["metadata"]["ownerReferences"] = [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "u", "controller": True}
            ]
            node.admit(node.requested(gpu_pod(f"{name}-{number}", count)))
            cluster.state.put_pod(pod)
        cluster.state.put_topology(published(node, name))
    cluster.state.put_pod(api_pod("trainer", 4))
    cluster.state.answers["/apis/policy/v1/poddisruptionbudgets"] = (
        200,
        "application/json",
        b'{"kind": "PodDisruptionBudgetList", "metadata": {}, "items": []}',
    )
    return cluster


def defrag(folder: Path, server: str, *words: str) -> Ran:
    config = kubeconfig(folder / "kubeconfig", server)
    return program("heal", "--defrag", "trainer", "--kubeconfig", config, "--log", "json", *words)


def test_a_plan_is_shown_and_done_on_request(tmp_path: Path) -> None:
    cluster = fragmented()
    audit = tmp_path / "audit.jsonl"
    with serving(cluster.state) as server:
        shown = defrag(tmp_path, server.address)
        assert shown.status == 0, shown.err
        assert shown.out.startswith("It is let in on node a (NUMA 1) once 1 pod has been restarted: a-1.")
        assert cluster.state.written == []
        cluster.state.guarded.add("a-1")
        refused = defrag(tmp_path, server.address, "--apply", "--audit", str(audit))
        assert refused.status == 5
        assert "would violate the disruption budget" in refused.err
        cluster.state.guarded.clear()
        done = defrag(tmp_path, server.address, "--apply", "--audit", str(audit))
        assert done.status == 0, done.err
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(line["action"], line["outcome"]) for line in lines] == [
        ("evict", "intended"), ("evict", "failed"), ("evict", "intended"), ("evict", "done"),
    ]  # fmt: skip
    assert lines[0]["evidence"]["plan"] == ["default/a-1"]
    (leaving,) = [pod for pod in cluster.state.pods if pod["metadata"].get("deletionTimestamp")]
    assert leaving["metadata"]["name"] == "a-1"


@pytest.mark.parametrize(("words", "problem"), [
    (("--defrag", "nobody"), "--defrag: there is no pod 'nobody' in namespace default"),
    (("--defrag", "a-0"),    "--defrag: pod 'a-0' does not wait: it is bound to node a"),
    (("--defrag", "a/../b"), "--defrag: 'a/../b' is not the name of a pod"),
    (("--once",),            "--defrag: --once and --defrag do not go together"),
])  # fmt: skip
def test_a_plan_for_what_does_not_wait(tmp_path: Path, words: tuple[str, ...], problem: str) -> None:
    cluster = fragmented()
    with serving(cluster.state) as server:
        outcome = defrag(tmp_path, server.address, *words)
    assert outcome.status == 2
    assert problem in outcome.err
