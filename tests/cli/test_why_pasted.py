"""``numawise why`` on what kubectl prints, and the same text where other commands take pods."""

import json
from pathlib import Path

import pytest

from tests.cli.run import numawise, program
from tests.unit.codec.test_kubectl import DESCRIBED, LISTED

MACHINE = ("--machine", "2s 2n 8c", "--kubelet-config", "kubelet.yaml")
KUBELET = "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\ntopologyManagerPolicy: single-numa-node\n"
TOPOLOGY = DESCRIBED.replace("OutOfcpu", "TopologyAffinityError").replace(
    "Node didn't have enough resource: cpu, requested: 2000, used: 8600, capacity: 10000",
    "Resources cannot be allocated with Topology locality",
)


def told(text: str) -> list[dict[str, object]]:
    ran = program("why", "-", "-o", "json", stdin=text)
    assert ran.status in (0, 1), ran
    pods: list[dict[str, object]] = json.loads(ran.out)["pods"]
    return pods


def test_a_described_pod() -> None:
    (found,) = told(TOPOLOGY)
    assert (found["name"], found["namespace"], found["verdict"]) == ("initd", "team-a", "rejected")
    assert found["reason"] == "TopologyAffinityError"
    assert "the topology policy of node numa-vm does not accept a pod that asks for" in str(found["answer"])
    assert "StatefulSet initd keeps recreating it" in str(found["remarks"])
    assert "run 'numawise bundle' on numa-vm" in str(found["remarks"])


def test_sums_and_cores_are_said_as_what_they_are() -> None:
    (found,) = told(DESCRIBED)
    assert (
        "No NUMA node decided, but the sum of cpu: of 10 CPUs the pods there request 8600m CPUs already, and this "
        "one asks for 2 CPUs"
    ) in found["remarks"]  # type: ignore[operator]
    odd = "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2"
    (found,) = told(f"5m   Warning   SMTAlignmentError   pod/x   {odd}\n")
    assert "full-pcpus-only gives out whole cores of 2 CPUs: ask for 4 CPUs instead of 3" in found["remarks"]  # type: ignore[operator]


def test_events_alone() -> None:
    (found,) = told(LISTED)
    assert (found["name"], found["reason"]) == ("smt", "TopologyAffinityError")
    assert found["uid"] == ""


def test_events_of_several_pods_and_reasons() -> None:
    head = "LAST SEEN            TYPE      REASON                  OBJECT               MESSAGE\n"
    rows = [
        f"{age:<21}Warning   {reason:<24}pod/{name:<17}{message}\n"
        for age, reason, name, message in (
            ("5m", "TopologyAffinityError", "web-7d4b9c-abcde", "Resources cannot"),
            ("4m (x3 over 9m)", "TopologyAffinityError", "web-7d4b9c-fghij", "Resources cannot"),
            ("3m", "OutOfcpu", "web-7d4b9c-klmno", "Node didn't have enough resource: cpu"),
            ("2m", "FailedScheduling", "db-0", "0/3 nodes are available"),
        )
    ]
    found = told(head + "".join(rows))
    assert [(one["verdict"], one.get("reason")) for one in found] == [
        ("rejected", "TopologyAffinityError"),
        ("rejected", "OutOfcpu"),
        ("not scheduled", ""),
    ]
    assert "It stands for 2 pods with the same reason" in found[0]["remarks"]  # type: ignore[operator]
    assert (
        "The events count it 4 times, the last one 4m (x3 over 9m) before this was printed"
        in found[0]["remarks"]
    )  # type: ignore[operator]
    assert "0/3 nodes are available" in str(found[2]["answer"])


def test_a_list_of_events_as_an_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    involved = {"kind": "Pod", "namespace": "ml", "name": "x"}
    event = {"kind": "Event", "metadata": {"namespace": "ml"}, "involvedObject": involved}
    event |= {"reason": "UnexpectedAdmissionError", "message": "Allocate failed", "source": {"host": "node7"}}
    (tmp_path / "events.json").write_text(json.dumps({"kind": "List", "items": [event]}))
    ran = numawise(capsys, "why", tmp_path / "events.json")
    assert ran.status == 1
    assert "Rejected: the kubelet of node node7 did not admit a pod: Allocate failed." in ran.out


def test_nothing_was_refused() -> None:
    ran = program("why", "-", stdin=LISTED.replace("TopologyAffinityError", "Scheduled            "))
    assert (ran.status, ran.out) == (2, "")
    assert "none of 0 pods and 3 events says that a kubelet refused a pod" in ran.err


def test_a_description_that_is_cut_off() -> None:
    (found,) = told(TOPOLOGY[: TOPOLOGY.index("Init Containers")])
    assert (found["verdict"], found["reason"]) == ("rejected", "TopologyAffinityError")


def test_with_a_machine_it_is_simulated(tmp_path: Path) -> None:
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    text = TOPOLOGY.replace("      nvidia.com/gpu:  1\n", "")
    ran = program("why", *MACHINE, "-", stdin=text, cwd=tmp_path)
    assert ran.status == 0, ran
    assert "The kubelet refused it, but with no other pod known it is admitted. It said" in " ".join(
        ran.out.split()
    )
    ran = program("simulate", *MACHINE, "-", stdin=text, cwd=tmp_path)
    assert ran.status == 0, ran
    ran = program("check", "-", stdin=DESCRIBED, cwd=tmp_path)
    assert "NW434" in ran.out


def test_plan_pod_takes_a_description() -> None:
    ran = program("plan", "pod", "--machine", "2s 2n 8c 2gpu", "-", "-o", "json", stdin=DESCRIBED)
    assert ran.status == 0, ran
    plan = json.loads(ran.out)
    (manifest,), (pod,) = plan["manifests"], plan["pods"]
    assert (manifest["kind"], manifest["metadata"]["name"]) == ("Pod", "initd")
    assert not {"nodeName", "status", "ownerReferences"} & {
        *manifest,
        *manifest["spec"],
        *manifest["metadata"],
    }
    assert manifest["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert any("kubectl describe prints only part of a pod" in remark for remark in pod["remarks"])
    ran = program("plan", "pod", "-", stdin=LISTED)
    assert (ran.status, ran.err.count("\n")) == (2, 1)
    assert "has no pods; 'numawise why FILE'" in ran.err


def test_other_commands_say_what_events_are_for(tmp_path: Path) -> None:
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    ran = program("simulate", *MACHINE, "-", stdin=LISTED, cwd=tmp_path)
    assert (ran.status, ran.err.count("\n")) == (2, 1)
    assert "has no pods; 'numawise why FILE'" in ran.err
    ran = program("check", "-", stdin=LISTED, cwd=tmp_path)
    assert ran.out.count("NW403") == 1


def test_text_cannot_steer_a_terminal() -> None:
    ran = program("why", "-", stdin=TOPOLOGY.replace("with Topology", "\x1b]0;x\x07\x9b31m with"))
    assert ran.status == 1
    assert not {"\x1b", "\x07", "\x9b"} & set(ran.out + ran.err)


def test_a_published_topology_in_the_place_of_state_files(tmp_path: Path) -> None:
    rows = [("cpu", "4", "4", "1"), ("cpu", "4", "4", "3")]
    zones = [
        {
            "name": f"node-{at}",
            "type": "Node",
            "resources": [{"name": name, "capacity": size, "allocatable": some, "available": free}],
        }
        for at, (name, size, some, free) in enumerate(rows)
    ]
    kind = {"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology"}
    (tmp_path / "nrt.json").write_text(json.dumps({**kind, "metadata": {"name": "n1"}, "zones": zones}))
    (tmp_path / "kubelet.yaml").write_text(KUBELET)
    text = TOPOLOGY.replace("      nvidia.com/gpu:  1\n", "").replace(
        "cpu:             2", "cpu:             3"
    )
    ran = program("why", *MACHINE, "--state", "nrt.json", "-", "-o", "json", stdin=text, cwd=tmp_path)
    (found,) = json.loads(ran.out)["pods"]
    assert "on NUMA 1" in found["answer"], found
    ran = program("plan", "pod", *MACHINE, "--state", "nrt.json", "--cpus", "1", cwd=tmp_path)
    assert ran.status == 2
    for words in (("state", "show"), ("state", "verify")):
        ran = program(*words, "nrt.json", cwd=tmp_path)
        assert ran.status == 2
        assert "says how much is in use and not by whom" in ran.err
