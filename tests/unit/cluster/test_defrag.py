"""The smallest restart: which pods may be restarted, which set is the best, and when the search ends."""

from typing import Any

import pytest

from numawise.cluster.asking import Asker, Situation
from numawise.cluster.defrag import RestartBounds, search_restart
from numawise.cluster.restartable import (
    BUDGET,
    CRITICAL,
    DAEMON,
    ENDING,
    HIGHER,
    NO_OWNER,
    STATIC,
    STAYS,
    UNREADABLE,
    Restartable,
    budget_of,
    restartable,
)
from numawise.codec.cluster_pod import SAFE_TO_EVICT
from numawise.codec.pod import pod_from
from numawise.results.restart import RestartSearch
from numawise.values import replace
from tests.unit.cluster.nodes import gpu_pod, nodes, put

WEB = {"kind": "ReplicaSet", "name": "web", "controller": True}


def search(
    waits: int,
    *loads: tuple[int, ...],
    fixed: str = "",
    priorities: str = "",
    bounds: RestartBounds = RestartBounds(),  # noqa: B008 - a frozen value
) -> RestartSearch:
    """A node for each load; ``fixed``: pods that stay; ``priorities``: ``n0-1=5`` and so on."""
    members = nodes(len(loads))
    asker = Asker(members)
    ranks = dict(one.split("=") for one in priorities.split())
    pods = []
    for member, load in zip(members, loads, strict=True):
        for number, gpus in enumerate(load):
            raw = gpu_pod(f"{member.name}-{number}", gpus)
            put(asker, member, raw)
            if raw.name not in fixed.split():
                again = replace(raw, uid=f"again {raw.uid}")
                rank = int(ranks.get(raw.name, 0))
                pods.append(Restartable(again, raw.uid, member.name, rank, "ReplicaSet web"))
    situations = {member.name: Situation.of(member) for member in members}
    return search_restart(situations, pods, gpu_pod("waits", waits), {}, bounds)


def steps(found: RestartSearch) -> list[tuple[str, str]] | None:
    return None if found.plan is None else [(step.name, step.to) for step in found.plan.steps]


@pytest.mark.parametrize(("loads", "more", "expected"), [
    pytest.param([(4,)],             {}, [],                              id="nothing has to be restarted"),
    pytest.param([(3, 3), (4,)],     {}, [],                              id="there is room elsewhere"),
    pytest.param([(3, 1, 2), (4, 2)], {}, [("n0-2", "n1")],                id="a pair goes to another node"),
    pytest.param([(3, 2, 1), (4, 3)], {}, None,                            id="who is let in nowhere stays"),
    pytest.param([(3, 3, 1), (4, 1, 3)], {}, None,                        id="no room for anybody"),
    pytest.param([(3, 1, 2), (3, 2, 1)], {}, [("n0-2", "n1")],             id="the first of equals"),
    pytest.param([(3, 1, 2), (2, 2, 1)], {}, [("n1-2", "n0")],             id="less is restarted"),
    pytest.param([(3, 1, 2), (2, 2, 1)], {"priorities": "n1-2=1"}, [("n0-2", "n1")], id="the lower priority"),
    pytest.param([(3, 1, 2), (2, 2, 1)], {"fixed": "n1-2"}, [("n0-2", "n1")], id="one that stays"),
    pytest.param([(3, 1, 2)],        {"fixed": "n0-0 n0-1 n0-2"}, None,   id="all stay"),
])  # fmt: skip
def test_best(loads: list[tuple[int, ...]], more: dict[str, Any], expected: object) -> None:
    found = search(4, *loads, **more)
    assert steps(found) == expected
    assert found.complete


def test_a_pod_makes_room_for_one_that_is_restarted() -> None:
    """The pair fits only where a single one leaves, which goes to the last free GPU elsewhere."""
    loads = [(4, 2), (4, 1, 2), (4, 3)]
    fixed = "n0-0 n1-0 n1-2 n2-0 n2-1"
    assert steps(search(4, *loads, fixed=fixed)) == [("n0-1", "n1"), ("n1-1", "n2")]
    assert steps(search(4, *loads, fixed=f"{fixed} n1-1")) is None
    assert steps(search(4, *loads, fixed=fixed, bounds=RestartBounds(pods=1))) is None


def test_the_search_ends() -> None:
    loads = [(3, 1, 2), (4, 2)]
    found = search(4, *loads, bounds=RestartBounds(questions=0))
    assert (found.plan, found.complete) == (None, False)
    ends = [search(4, *loads, bounds=RestartBounds(questions=number)) for number in range(1, 30)]
    early = [one.plan for one in ends if one.plan is not None and not one.complete]
    assert early
    assert not any(plan.smallest for plan in early)
    assert ends[-1].complete
    found = search(4, *loads, bounds=RestartBounds(pods=0))
    assert (found.plan, found.complete) == (None, True)


def test_pods_that_hold_nothing_stand_for_each_other() -> None:
    """Hundred pods in the shared pool of one node: which of them go is all the same, and quickly found."""
    members = nodes(2)
    asker = Asker(members)
    pods = []
    for number in range(90):
        raw = gpu_pod(f"p{number:02}", 0, "110m", "64Mi")
        put(asker, members[0], raw)
        again = replace(raw, uid=f"again {raw.uid}")
        pods.append(Restartable(again, raw.uid, "n0", 0, "ReplicaSet web"))
    put(asker, members[1], gpu_pod("full", 0, "9650m"))
    situations = {member.name: Situation.of(member) for member in members}
    waits = gpu_pod("waits", 4, "4400m")
    found = search_restart(situations, pods, waits, {}, RestartBounds(questions=2000))
    assert found.complete
    assert steps(found) == [("p00", "n1"), ("p01", "n1"), ("p02", "n1")]


# --- which pods may be restarted ------------------------------------------------------------


def pod(metadata: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **status: Any) -> Any:
    containers = [{"name": "c", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}]
    meta = {
        "name": "web-1",
        "uid": "u",
        "ownerReferences": [WEB],
        "labels": {"app": "web"},
        **(metadata or {}),
    }
    return {
        "metadata": meta,
        "spec": {"containers": containers, "nodeName": "n0", **(spec or {})},
        "status": status,
    }


def budget(allowed: object, selector: object = None, **metadata: Any) -> Any:
    labels = {"matchLabels": {"app": "web"}} if selector is None else selector
    return budget_of(
        {
            "metadata": {"name": "b", **metadata},
            "spec": {"selector": labels},
            "status": {"disruptionsAllowed": allowed},
        }
    )


@pytest.mark.parametrize(("value", "reason"), [
    (pod({"ownerReferences": []}), NO_OWNER),
    (pod({"ownerReferences": [{**WEB, "controller": False}]}), NO_OWNER),
    (pod({"ownerReferences": "web"}), NO_OWNER),
    (pod({"ownerReferences": [{**WEB, "kind": "DaemonSet"}]}), DAEMON),
    (pod({"annotations": {"kubernetes.io/config.mirror": "x"}}), STATIC),
    (pod({"ownerReferences": [{**WEB, "kind": "Node"}]}), STATIC),
    (pod({"annotations": {SAFE_TO_EVICT: "false"}}), STAYS),
    (pod(spec={"priority": 11}), HIGHER),
    (pod(spec={"priority": 2_000_000_000}), CRITICAL),
    (pod({"deletionTimestamp": "2026-11-15T11:04:28Z"}), ENDING),
    (pod(phase="Succeeded"), ENDING),
    (pod(spec={"nodeName": None}), UNREADABLE),
])  # fmt: skip
def test_who_stays(value: Any, reason: str) -> None:
    assert restartable(value, pod_from(value), 10) == reason


@pytest.mark.parametrize(("one", "stays"), [
    pytest.param(budget(0),                                True,  id="none allowed"),
    pytest.param(budget(1),                                False, id="one allowed"),
    pytest.param(budget("1"),                              True,  id="not a number"),
    pytest.param(budget(None),                             True,  id="nothing is known"),
    pytest.param(budget(0, namespace="other"),             False, id="of another namespace"),
    pytest.param(budget(0, {"matchLabels": {"app": "db"}}), False, id="of other pods"),
    pytest.param(budget(0, {}),                            True,  id="of all pods"),
    pytest.param(budget(0, "app=web"),                     True,  id="a selector that cannot be read"),
    pytest.param(budget(0, {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}), True,
                 id="in"),
    pytest.param(budget(0, {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}),
                 False, id="not in"),
    pytest.param(budget(0, {"matchExpressions": [{"key": "x", "operator": "Exists"}]}), False, id="exists"),
    pytest.param(budget(0, {"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}), True,
                 id="does not exist"),
    pytest.param(budget(0, {"matchExpressions": [{"key": "x", "operator": "Near"}]}), True, id="unknown"),
    pytest.param(budget(3, generation=2),                  False, id="nothing said about the generation"),
])  # fmt: skip
def test_budgets(one: Any, *, stays: bool) -> None:
    value = pod(spec={"priority": 10})
    found = restartable(value, pod_from(value), 10, [one])
    assert (found == BUDGET) is stays
    if not stays:
        assert isinstance(found, Restartable)
        assert (found.priority, found.owner, found.node) == (10, "ReplicaSet web", "n0")


def test_a_budget_that_its_controller_has_not_looked_at_allows_nothing() -> None:
    value = {
        "metadata": {"name": "b", "generation": 2},
        "spec": {"selector": {}},
        "status": {"disruptionsAllowed": 3, "observedGeneration": 1},
    }
    assert budget_of(value).allowed == 0
