"""Scenarios played step by step: what is kept of the first steps gives the same as playing all of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.simulate.playing import MOST_STEPS, PATIENCE, Played, ScenarioPlayer
from numawise.apps.simulate.recording import trace_of
from numawise.apps.simulate.scenario import run_scenario, script
from numawise.apps.simulate.sides import fits
from numawise.codec.decision import decision_data, state_data
from numawise.codec.document import Document
from numawise.codec.pod import pod_from
from numawise.codec.pod_manifest import pod_manifest
from numawise.codec.steps import decode_steps
from numawise.codec.tracefile import check_scenario, encode_line
from numawise.errors import InputError
from numawise.inputs.spec import NodeSpec, read_node, start_node
from numawise.node.node import SimulatedNode
from numawise.render.simulation import simulation_data
from tests.cli.run import program

EXAMPLE = Path(__file__).parents[4] / "examples" / "8gpu-server"
PODS = sorted((EXAMPLE / "pods").glob("*.yaml"))
KUBELET = EXAMPLE / "kubelet.yaml"
OTHER = KUBELET.read_text().replace("Policy: restricted", "Policy: best-effort")
DAY: list[Any] = [
    {"add": {"text": PODS[2].read_text()}},
    {"at": "1h", "add": {"text": PODS[4].read_text(), "count": 3}},
    {"at": "2h", "remove": "numa-affinity-test-1"},
    {"after": "10s", "reconcile": None},
    {"at": "3h", "devices": {"nvidia.com/gpu": {"unhealthy": ["gpu4"]}}},
    {"add": {"text": PODS[1].read_text()}},
    {"devices": {"nvidia.com/gpu": {"back": "all"}}},
    {"add": {"text": PODS[1].read_text()}},
    {"add": {"text": PODS[3].read_text()}},
    {"resize": {"pod": "numa-affinity-test-0", "cpu": 6}},
    "retry",
    {"restart": {"plugins": "after-pods"}},
    {"restart": {"text": OTHER}},
    {"fill": {"text": PODS[0].read_text(), "most": 2}},
    {"remove": ["numa-affinity-test-*"]},
    {"add": {"text": PODS[5].read_text()}},
]


def start() -> SimulatedNode:
    return start_node(
        read_node(NodeSpec(machine=str(EXAMPLE / "machine.yaml"), kubelet_config=(str(KUBELET),)))
    )


def played(steps: list[Any], player: ScenarioPlayer | None = None) -> Played:
    return (player or ScenarioPlayer()).play(b"node", start, steps)


def data(found: Played) -> str:
    return json.dumps(simulation_data(found.run(), steps=True), default=str)


def test_played_as_simulate_does() -> None:
    whole = run_scenario(start(), script((), decode_steps(Document({"steps": DAY}))))
    found = played(DAY)
    assert data(found) == json.dumps(simulation_data(whole, steps=True), default=str)
    assert found.run().state == whole.state
    assert len(found.moments) == len(DAY) + 1


def test_one_more_step_is_the_same_as_all() -> None:
    player = ScenarioPlayer()
    for count in range(len(DAY) + 1):
        assert data(played(DAY[:count], player)) == data(played(DAY[:count])), count


def test_what_is_kept_is_played_once_and_never_changed() -> None:
    starts = []

    def counted() -> SimulatedNode:
        starts.append(1)
        return start()

    player = ScenarioPlayer()
    first = player.play(b"node", counted, DAY[:3])
    states = [moment.node.state for moment in first.moments]
    other = player.play(b"node", counted, [*DAY[:2], {"remove": "ai-inference-service-0"}, "restart"])
    again = player.play(b"node", counted, DAY[:3])
    assert len(starts) == 1
    assert [moment.node.state for moment in first.moments] == states
    assert other.moments[2] is first.moments[2] is again.moments[2]
    assert again.moments[3] is first.moments[3]
    assert player.play(b"another", counted, []).moments[0] is not first.moments[0]
    assert len(starts) == 2


def test_the_first_steps_are_dropped_last() -> None:
    player = ScenarioPlayer(most=3)
    whole = played(DAY[:6], player)
    again = played(DAY[:6], player)
    assert [one is other for one, other in zip(whole.moments, again.moments, strict=True)] == [
        *[True] * 3,
        *[False] * 4,
    ]
    assert data(whole) == data(again)


def test_a_pod_that_comes_again_is_another_one() -> None:
    steps = [DAY[5], {"remove": "ai-training-4gpu"}, DAY[5], DAY[5]]
    names = [
        result.pods[0].pod.uid for moment in played(steps).moments for result in moment.results if result.pods
    ]
    assert len(set(names)) == 3


def test_nothing_follows_a_kubelet_that_does_not_start() -> None:
    found = played([DAY[0], {"restart": {"text": (EXAMPLE / "kubelet-refused.yaml").read_text()}}, DAY[1]])
    assert found.moments[-1].ended
    assert len(found.moments) == 3
    refusal = found.moments[-1].results[0].refusal
    assert refusal is not None
    assert "is not equal to" in refusal.message


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([{"add": "/etc/passwd"}], "steps[0].add: '/etc/passwd' cannot be read: no file may be named here"),
        ([{"add": {"file": "pods.yaml"}}], "steps[0].add.file: 'pods.yaml' cannot be read"),
        ([{"restart": {"config": "/etc/kubelet"}}], "steps[0].restart.config: '/etc/kubelet' cannot be read"),
        ([{"node": "node.yaml"}], "steps[0].node: 'node.yaml' cannot be read"),
        ([DAY[0], {"add": {"text": "a: [\n"}}], "steps[1].add.text:1"),
        (
            [{"add": {"text": "kind: Pod\nmetadata: {name: x}\nspec:\n  containers: 3\n"}}],
            "steps[0].add.text:4",
        ),
        (
            [{"restart": {"text": "topologyManagerPolicyy: none\nkind: KubeletConfiguration"}}],
            "steps[0].restart.text",
        ),
        ([{"remove": "nobody"}], "there is no pod 'nobody'"),
        ([{"restart": {"text": "a: b", "config": "c"}}], "has both config and text"),
        ([{"add": {"text": "a: b", "pod": {}}}], "needs either file, text or pod"),
        (["reconcile"] * (MOST_STEPS + 1), f"there are {MOST_STEPS + 1} steps"),
    ],
)
def test_steps_that_cannot_be(steps: list[Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        played(steps)
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("- restart:\n    text: |\n      kind: KubeletConfiguration\n      policyy: none\n", "steps.yaml:4: policyy: unknown field"),
        ("- add:\n    text: |\n      kind: Pod\n      metadata: {name: a}\n      spec: 3\n", "steps.yaml:5: spec: must be"),
    ],
)  # fmt: skip
def test_texts_of_a_file_are_wrong_at_the_lines_of_the_file(text: str, place: str, tmp_path: Path) -> None:
    (tmp_path / "steps.yaml").write_text(text)
    node = ("--machine", "8gpu-server", "--kubelet-config", KUBELET)
    done = program("simulate", *node, "--steps", tmp_path / "steps.yaml")
    assert done.status == 2
    assert place in done.err


def test_what_came_before_a_wrong_step_stays_known() -> None:
    player = ScenarioPlayer()
    with pytest.raises(InputError):
        played([DAY[0], {"remove": "nobody"}], player)
    known = played([DAY[0]], player).moments
    assert played([DAY[0]], player).moments[1] is known[1]


def test_a_question_that_takes_too_long_is_ended_and_can_be_asked_again() -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += PATIENCE / 4
        return now[0]

    player = ScenarioPlayer(clock=clock)
    with pytest.raises(InputError, match="ask again to go on from there"):
        played(DAY[:6], player)
    again = played(DAY[:6], player)
    assert data(again) == data(played(DAY[:6]))


def test_copies_count_among_the_pods_that_come() -> None:
    small = "kind: Pod\nmetadata: {name: tiny}\nspec: {containers: [{name: c}]}"
    add = {"add": {"text": small, "count": 1000}}
    with pytest.raises(InputError, match="with it more than 2,000 pods have come"):
        played(
            [add, {"fill": {"text": small}}, add, {"add": {"text": small}}], ScenarioPlayer(clock=lambda: 0.0)
        )


# --- traces ---------------------------------------------------------------------------------------


def raw_config() -> dict[str, Any]:
    return dict(read_node(NodeSpec(kubelet_config=(str(KUBELET),))).configuration.raw((1, 37)))


def test_a_trace_is_replayed_as_it_was_played(tmp_path: Path) -> None:
    found = played(DAY)
    trace = trace_of(found, raw_config(), "day")
    check_scenario(trace)
    path = tmp_path / "trace.jsonl"
    path.write_text(encode_line({"scenario": trace}))
    done = program("replay", str(path), "--jobs", "1")
    assert done.status == 0, done.err
    result = json.loads(done.out)["result"]
    run = found.run()
    ours = [decision_data(one.decision, one.steps)["admitted"] for one in run.pods]
    told = [step["admitted"] for step in result["steps"] if step["op"] == "add"]
    copies = sum(filled.count for filled in run.fills)
    assert ours == told[: len(ours) - 1] + told[-1:]  # the last pod came after the copies
    assert len(told) == len(ours) + copies
    last = result["steps"][-1]["state"]
    last.pop("checkpoints", None)
    last.pop("allocated", None)
    assert json.loads(json.dumps(state_data(run.rules, run.state, {}))) == last


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([{"add": {"text": PODS[0].read_text(), "start": False}}], "its containers start at a later step"),
        ([{"restart": {"delete": "all"}}], "state files are deleted"),
        ([{"node": {"kind": "Node", "metadata": {"name": "n"}}}], "the Node object changes"),
    ],
)
def test_what_a_trace_has_no_words_for(steps: list[Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        trace_of(played(steps), raw_config(), "none")
    assert "steps[0]" in str(error.value)
    assert words in str(error.value)


def test_a_trace_begins_with_an_idle_node() -> None:
    other = EXAMPLE.parent / "3gpu-server"
    node = NodeSpec(
        machine=str(other / "machine.yaml"),
        kubelet_config=(str(other / "kubelet.yaml"),),
        state=(str(other / "state" / "numa1-busy"),),
    )
    found = ScenarioPlayer().play(b"held", lambda: start_node(read_node(node)), [])
    with pytest.raises(InputError, match="begins with an idle node"):
        trace_of(found, raw_config(), "held")


MANIFEST: dict[str, Any] = {
    "metadata": {
        "name": "whole",
        "namespace": "team",
        "uid": "1-2",
        "annotations": {"kubernetes.io/config.source": "file"},
        "labels": {"kubernetes.io/os": "linux"},
    },
    "spec": {
        "nodeSelector": {"gpu": "h100"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                    ]
                }
            }
        },
        "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute"}, {"operator": "Exists"}],
        "priority": 2000000000,
        "os": {"name": "linux"},
        "hostNetwork": True,
        "hostUsers": False,
        "securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]},
        "overhead": {"cpu": "250m"},
        "resources": {"limits": {"cpu": "8", "memory": "8Gi"}},
        "initContainers": [
            {"name": "first", "resources": {"requests": {"cpu": "1"}}},
            {"name": "side", "restartPolicy": "Always", "ports": [{"containerPort": 9, "hostPort": 90}]},
        ],
        "containers": [
            {
                "name": "main",
                "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "2", "hugepages-2Mi": "4Mi"}},
                "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}],
                "ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "UDP", "hostIP": "10.0.0.1"}],
            },
            {"name": "other"},
        ],
    },
    "status": {"qosClass": "Burstable"},
}


def test_a_manifest_written_again_is_the_same_pod() -> None:
    pod = pod_from(MANIFEST)
    assert pod_from(pod_manifest(pod)) == pod


def test_demands_that_nobody_judged_are_left_out() -> None:
    spec = pod_manifest(pod_from(MANIFEST), placed=False)["spec"]
    assert "nodeSelector" not in spec
    assert "affinity" not in spec
    assert spec["priority"] == 2000000000


def test_counting_what_fits_ends_in_time() -> None:
    found = played([])
    pod = pod_from({"metadata": {"name": "small"}, "spec": {"containers": [{"name": "c"}]}})
    now = iter([0.0, *[1.0] * 3, *[PATIENCE + 1] * 9])
    with pytest.raises(InputError, match="take longer than 20 seconds: 1 of 2 are counted") as problem:
        fits(found, 0, [("a", pod), ("b", pod)], 2, lambda: next(now))
    assert problem.value.field == "shapes"
    assert [one.count for one in fits(found, 0, [("a", pod), ("b", pod)], 2, lambda: 0.0)] == [2, 2]
