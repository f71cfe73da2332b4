"""Admissions out of a log: who is whose, what is concluded, loops told once, what is said of each."""

import random
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from numawise.apps.logs.check import checked, load_log_node
from numawise.apps.logs.explain import LogEvidence, cause_of, explain_admission
from numawise.apps.logs.groups import LogFilter
from numawise.apps.logs.read import Source, parse_since, read_log
from numawise.apps.logs.wording import PodOwner, owner_of, span_text, times_text
from numawise.errors import InputError
from numawise.inputs.spec import NodeSpec, read_node
from numawise.results.explanation import Explanation
from numawise.results.log import YEARLESS, Kubelet, LoggedAdmission, LogReport, PodRef, Repeats
from numawise.results.log_data import report_data
from tests.logs import admissions_in, interleaved
from tests.logwriting import Hint, Log, Style, framed, write_admission, write_boot

ROOT = Path(__file__).parents[4]
INCIDENT = ROOT / "tests" / "recorded" / "kubelet-logs" / "incident.log"
SERVER = ROOT / "examples" / "incident-server"
NOW = datetime.fromisoformat("2024-08-16T10:00:00")


def hints(text: str) -> list[Hint]:
    """``1! 0-1`` as people write hints."""
    found = []
    for word in text.split():
        first, _, last = word.rstrip("!").partition("-")
        found.append(Hint(list(range(int(first), int(last or first) + 1)), word.endswith("!")))
    return found


def best(text: str) -> Hint:
    return Hint(None, text.endswith("!")) if text.startswith("nil") else hints(text)[0]


def admit(
    log: Log, pod: str, container: str | None, told: dict[str, str], answer: str, *, stored: bool
) -> None:
    """The Topology Manager's lines for one merge, as 1.29 writes them."""
    who = {"pod": pod} if container is None else {"pod": pod, "containerName": container}
    for resource, text in told.items():
        log.say("scope.go", "TopologyHints", hints={resource: hints(text)}, **who)
    kind = "PodTopologyHint" if container is None else "ContainerTopologyHint"
    log.say("scope.go", kind, bestHint=best(answer), **(who if log.style.release >= (1, 33) else {}))
    log.say("scope.go", "Best TopologyHint", bestHint=best(answer), **who)
    if stored:
        log.say(
            "scope.go", "Topology Affinity", bestHint=best(answer), pod=pod, containerName=container or "main"
        )


def rejected_again(log: Log, pod: str, uid: str, *, event: bool = True, wait: float = 2.0) -> None:
    """One turn of the loop: the pod comes, and is rejected."""
    log.second += wait
    namespace, _, name = pod.partition("/")
    log.say("topology_manager.go", "Topology Admit Handler", podUID=uid, podNamespace=namespace, podName=name)
    admit(log, pod, "main", {"cpu": "1! 0-1", "memory": "0!"}, "nil", stored=False)
    if event:
        log.say("event.go", "Event occurred", object=pod, kind="Pod", type="Warning", reason="TopologyAffinityError", message="Resources cannot be allocated with Topology locality")  # fmt: skip


def report_of(
    tmp_path: Path, lines: Sequence[str], wanted: LogFilter | None = None, given: LogEvidence | None = None
) -> LogReport:
    path = tmp_path / "kubelet.log"
    path.write_bytes(framed("journal", lines))
    return read_log(Source([str(path)]), wanted or LogFilter(), given)


def verdicts(log: Log) -> list[tuple[str, str, bool]]:
    found, _, _ = admissions_in(framed("plain", log.lines))
    return [(one.pod.name, one.verdict, one.stated) for one in found]


# --- the incident ---------------------------------------------------------------------------


def test_the_incident_in_its_own_words() -> None:
    (finding,) = read_log(Source([str(INCIDENT)]), LogFilter()).findings
    found = finding.explanation
    assert (
        found.answer
        == "Rejected: CPU hints only on NUMA 1, memory hints only on NUMA 0: no NUMA node serves both"
    )
    loop, policy, untold = found.remarks
    assert loop == (
        "StatefulSet recreated again and again: vmstorage-common-15 of vmstorage-common was rejected once and recreated "
        "twice in 0.6 seconds, since Aug 15 22:24:53; each new pod asks for the same and fails in the same way"
    )
    assert policy.startswith("The policy is single-numa-node: not named in the log")
    assert untold.startswith("The log does not say how much was asked for")
    assert found.resources == ("cpu", "memory")
    assert (found.reason, found.container) == ("TopologyAffinityError", "vmstorage")
    assert found.uid == "563dafa2-77a7-4dab-949e-9dbf079a4a70"


NODE = NodeSpec(machine=(str(SERVER / "machine.yaml"),), kubelet_config=(str(SERVER / "kubelet.yaml"),))


def test_the_incident_beside_its_server() -> None:
    pods = sorted(str(path) for path in (SERVER / "pods").glob("*.yaml"))
    beside = load_log_node(read_node(NODE), pods)
    report = checked(read_log(Source([str(INCIDENT)]), LogFilter(), beside.given(None, None)), beside)
    (finding,) = report.findings
    assert (
        "NUMA 0 lacks 2 of 4 CPUs and NUMA 1 lacks 53 GiB of 120 GiB of memory" in finding.explanation.answer
    )
    assert (
        "With these files the engine finds the same hints and the same answer" in finding.explanation.remarks
    )
    assert finding.explanation.suggestions
    # Without the pods that came before, the node is empty, and that is no longer the node of the log.
    alone = load_log_node(read_node(NODE), pods[-1:])
    (finding,) = checked(read_log(Source([str(INCIDENT)]), LogFilter()), alone).findings
    told = finding.explanation.remarks[-1]
    assert told.startswith(
        "With these files the engine finds other hints for cpu (0! 1! 0-1 instead of 1! 0-1) and memory"
    )


def test_another_node_is_noticed(tmp_path: Path) -> None:
    log = Log(Style((1, 29)))
    admit(log, "ns/p", "main", {"cpu": "5!", "memory": "0!"}, "0-5", stored=False)
    log.say("kubelet.go", "SyncLoop (housekeeping)")
    beside = load_log_node(read_node(NODE), ())
    (finding,) = checked(report_of(tmp_path, log.lines), beside).findings
    assert "The log has hints for NUMA 2-5, which this machine does not have" in finding.explanation.remarks
    assert (
        "The configuration has policy single-numa-node, and the log was written under restricted or "
        "best-effort" in finding.explanation.remarks
    )


# --- loops ----------------------------------------------------------------------------------


def test_a_loop_is_told_once(tmp_path: Path) -> None:
    log = Log(Style((1, 29)))
    for turn in range(133):
        rejected_again(log, "db/store-7", f"00000000-0000-4000-8000-{turn:012}", wait=2.27)
    report = report_of(tmp_path, log.lines)
    (finding,) = report.findings
    assert report.rejected == 133
    assert finding.explanation.remarks[0] == (
        "StatefulSet recreated again and again: store-7 of store was rejected 133 times and recreated 132 times in 5 minutes "
        "(every 2 seconds), since Aug 15 00:16:42; each new pod asks for the same and fails in the same way"
    )
    repeats = report_data(report)["pods"][0]["repeats"]
    assert (repeats["times"], repeats["recreated"], repeats["ownerKind"], repeats["owner"]) == (
        133,
        132,
        "StatefulSet",
        "store",
    )


def test_a_loop_of_a_deployment(tmp_path: Path) -> None:
    log = Log(Style((1, 29)))
    for suffix in ("x2x4z", "q7bcd", "zz9wv"):
        rejected_again(log, f"shop/web-7c9d8b6f5d-{suffix}", "", wait=60)
    (finding,) = report_of(tmp_path, log.lines).findings
    assert finding.explanation.remarks[0] == (
        "ReplicaSet web-7c9d8b6f5d of Deployment web makes a new pod after each rejection: 3 were rejected in 2 minutes "
        "(every 60 seconds), since Aug 15 00:17:40, the last is web-7c9d8b6f5d-zz9wv"
    )


def test_lines_about_rejections_alone_are_counted_too(tmp_path: Path) -> None:
    """As ``grep TopologyAffinityError`` leaves them."""
    log = Log(Style((1, 29)))
    for turn in range(5):
        rejected_again(log, "db/store-7", f"u{turn}")
    lines = [line for line in log.lines if "TopologyAffinityError" in line]
    report = report_of(tmp_path, lines)
    assert report.rejected == 5
    (finding,) = report.findings
    assert finding.explanation.answer == "Rejected: the log has no hints for it"


def test_the_same_rejection_told_four_times_is_one(tmp_path: Path) -> None:
    log = Log(Style((1, 36), 5))
    who = "db/store-7"
    log.say("topology_manager.go", "Topology manager admission check", pod=who)
    admit(log, who, "main", {"cpu": "1!", "memory": "0!"}, "nil", stored=False)
    message, reason = "Resources cannot be allocated with Topology locality", "TopologyAffinityError"
    log.say("topology_manager.go", "Pod Admit Result", Message=message, pod=who)
    log.say(
        "allocation_manager.go", "Pod admission denied", podUID="u1", pod=who, reason=reason, message=message
    )
    log.say(
        "event.go", "Event occurred", object=who, kind="Pod", type="Warning", reason=reason, message=message
    )
    status = {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"}
    for version in range(3):
        log.say(
            "status_manager.go",
            "Status for pod updated successfully",
            pod=who,
            statusVersion=version,
            status=status,
        )
    report = report_of(tmp_path, log.lines)
    assert report.rejected == 1
    (finding,) = report.findings
    assert finding.admission.stated
    assert finding.admission.pod == PodRef("store-7", "db", "u1")


@pytest.mark.parametrize(("name", "owner"), [
    ("vmstorage-common-15",      PodOwner("vmstorage-common", "StatefulSet", numbered=True)),
    ("web-7c9d8b6f5d-x2x4z",     PodOwner("web-7c9d8b6f5d", "ReplicaSet", "web", made=True)),
    ("agent-x2x4z",              PodOwner("agent", made=True)),
    ("backup-28391042-x2x4z",    PodOwner("backup-28391042", "Job", "backup", made=True)),
    ("my-nginx",                 PodOwner("my-nginx")),
    ("train",                    PodOwner("train")),
    ("a-007",                    PodOwner("a-007")),
    ("",                         PodOwner("")),
])  # fmt: skip
def test_owners(name: str, owner: PodOwner) -> None:
    assert owner_of(name) == owner


@pytest.mark.parametrize(("seconds", "text"), [
    (0.62, "0.6 seconds"), (1, "1 second"), (59.6, "60 seconds"), (300, "5 minutes"), (7300, "2 hours"), (250000, "3 days"),
])  # fmt: skip
def test_spans(seconds: float, text: str) -> None:
    assert span_text(seconds) == text
    assert [times_text(count) for count in (1, 2, 3, 2000)] == ["once", "twice", "3 times", "2,000 times"]


# --- what is concluded ----------------------------------------------------------------------


def test_a_rejection_without_a_word_is_concluded() -> None:
    """Only single-numa-node answers without NUMA nodes, and it refuses what is not preferred."""
    log = Log(Style((1, 29)))
    admit(log, "ns/p", "main", {"cpu": "1!", "memory": "0!"}, "nil", stored=False)
    assert verdicts(log) == [("p", "rejected", False)]


def outcome(log: Log) -> list[tuple[str, str]]:
    found, _, _ = admissions_in(framed("plain", log.lines))
    return [(one.verdict, one.likely) for one in found]


def test_what_is_not_stored_is_refused_under_a_policy_that_refuses() -> None:
    """Restricted and best-effort merge alike; a line that is missing may have been cut out."""
    log = Log(Style((1, 29)))
    admit(log, "ns/p", "main", {"cpu": "1!", "memory": "0!"}, "0-1", stored=False)
    assert outcome(log) == [("unfinished", "")], "all lines are about hints: the log is filtered"
    log.say("kubelet.go", "SyncLoop (housekeeping)")
    assert outcome(log) == [("unfinished", "rejected")]
    for policy, expected in (
        ("restricted", ("rejected", "")),
        ("best-effort", ("unfinished", "admitted")),
    ):
        named = Log(Style((1, 29)))
        write_boot(named, policy)
        named.lines += log.lines
        assert outcome(named) == [expected]


def test_a_refusal_of_one_pod_shows_the_policy_for_the_others() -> None:
    log = Log(Style((1, 29), 3))
    admit(log, "ns/p", "main", {"cpu": "1!", "memory": "0!"}, "0-1", stored=False)
    admit(log, "ns/q", "main", {"cpu": "1!", "memory": "0!"}, "0-1", stored=False)
    log.say("event.go", "Event occurred", object="ns/q", kind="Pod", type="Warning", reason="TopologyAffinityError", message="m")  # fmt: skip
    assert outcome(log) == [("rejected", ""), ("rejected", "")]


def test_hints_alone_show_a_refusal_where_the_policy_is_named() -> None:
    """More hints never make an answer preferred, so it does not matter which lines are missing."""
    log = Log(Style((1, 29)))
    write_boot(log, "restricted")
    admit(log, "ns/p", "main", {"cpu": "1!", "memory": "0!"}, "0-1", stored=False)
    log.lines = [line for line in log.lines if "bestHint" not in line]
    assert outcome(log) == [("rejected", "")]
    log = Log(Style((1, 29)))
    write_boot(log, "restricted")
    admit(log, "ns/p", "main", {"cpu": "1! 0-1", "memory": "1!"}, "1!", stored=True)
    log.lines = [line for line in log.lines if "bestHint" not in line]
    assert outcome(log) == [("unfinished", "")]


def test_an_answer_that_was_stored_may_be_refused_later() -> None:
    log = Log(Style((1, 29)))
    admit(log, "ns/p", "main", {"cpu": "1!"}, "1!", stored=True)
    assert outcome(log) == [("unfinished", "admitted")]
    log.say("util.go", "No sandbox for pod can be found. Need to start a new one", pod="ns/p")
    assert outcome(log) == [("unfinished", "admitted")], "so it is said of a refused pod that is deleted"
    event = {"ID": "06c1247a-ca00-4835-9b6a-337a82aa88be", "Type": "ContainerStarted", "Data": "52"}
    log.say("kubelet.go", "SyncLoop (PLEG): event for pod", pod="ns/p", event=event)
    assert outcome(log) == [("admitted", "")]


def test_a_kubelet_that_begins_anew_may_have_another_policy() -> None:
    """JSON logs name no process; the version that it says first does."""
    log = Log(Style((1, 29), klog_json=True))
    for policy in ("restricted", "best-effort", "restricted"):
        write_boot(log, policy)
        admit(log, "ns/p", "main", {"cpu": "1!", "memory": "0!"}, "0-1", stored=policy == "best-effort")
    found, kubelets, _ = admissions_in(framed("plain", log.lines))
    assert [(one.verdict, one.likely, one.origin.boot) for one in found] == [
        ("rejected", "", 0), ("unfinished", "admitted", 1), ("rejected", "", 2),
    ]  # fmt: skip
    assert [one.policy for one in kubelets.all] == ["restricted", "best-effort", "restricted"]


def test_an_allocation_that_fails_is_a_rejection() -> None:
    error = "not enough cpus available to satisfy request: requested=16, available=15"
    for who, expected in ({"pod": "ns/p"}, "Rejected"), ({}, "Probably rejected"):
        log = Log(Style((1, 29)))
        admit(log, "ns/p", "main", {"cpu": "1!"}, "1!", stored=True)
        log.say("policy_static.go", "Unable to allocate CPUs", error=True, err=error, **who)
        log.say("cpu_manager.go", "Allocate error", error=True, err=error)
        found, kubelets, _ = admissions_in(framed("plain", log.lines))
        (one,) = found
        assert (one.rejected, one.likely) == ((True, "") if who else (False, "rejected"))
        assert (
            explained(one, kubelets.of(one.origin)).answer
            == f"{expected}: cpu: 16 CPUs are asked for and 15 are free"
        )


def explained(admission: LoggedAdmission, kubelet: Kubelet) -> Explanation:
    return explain_admission(admission, kubelet, Repeats())


@pytest.mark.parametrize(("answers", "policies"), [
    ([("nil", False)],                    ("single-numa-node",)),
    ([("nil!", True)],                    ("single-numa-node",)),
    ([("0-1", True)],                     ("best-effort",)),
    ([("0-1!", True)],                    ("restricted", "best-effort")),
    ([("0-1", False)],                    ("restricted", "best-effort")),
    ([("0!", True)],                      ("single-numa-node", "restricted", "best-effort")),
    ([("0!", True), ("0-1!", True), ("1", True)], ("best-effort",)),
])  # fmt: skip
def test_the_policy_by_its_answers(answers: list[tuple[str, bool]], policies: tuple[str, ...]) -> None:
    log = Log(Style((1, 29)))
    for number, (answer, stored) in enumerate(answers):
        admit(log, f"ns/p{number}", "main", {"cpu": "0! 0-1"}, answer, stored=stored)
    log.say("kubelet.go", "SyncLoop (housekeeping)")
    _, kubelets, _ = admissions_in(framed("plain", log.lines))
    (kubelet,) = kubelets.all
    assert kubelet.policies == policies
    assert kubelet.policy == (policies[0] if len(policies) == 1 else "")
    assert not kubelet.policy_stated


def test_what_is_told_wins_over_what_is_concluded() -> None:
    log = Log(Style((1, 29)))
    log.say("server.go", "Kubelet version", kubeletVersion="v1.29.3")
    log.say(
        "topology_manager.go",
        "Creating topology manager with policy per scope",
        topologyPolicyName="restricted",
        topologyScopeName="pod",
    )
    admit(log, "ns/p", None, {"cpu": "0! 0-1"}, "0!", stored=True)
    _, kubelets, _ = admissions_in(framed("plain", log.lines))
    (kubelet,) = kubelets.all
    assert (kubelet.policy, kubelet.policy_stated, kubelet.scope, kubelet.release) == (
        "restricted",
        True,
        "pod",
        "v1.29.3",
    )
    assert kubelet.releases_text == "1.29"


def test_a_merge_of_1_23_and_before_is_recognised() -> None:
    """Both prefer, though not the same: enough until 1.23, and the lines of 1.21 to 1.27 look alike."""
    for answer, version in (("0!", "old"), ("0-1", "new")):
        log = Log(Style((1, 23)))
        admit(log, "ns/p", "main", {"a/gpu": "0! 1! 0-1", "cpu": "0-1!"}, answer, stored=True)
        found, kubelets, _ = admissions_in(framed("plain", log.lines))
        explanation = explained(found[0], kubelets.of(found[0].origin))
        assert not [text for text in explanation.remarks if text.startswith("These hints alone")], version


def test_a_line_that_is_missing_is_noticed(tmp_path: Path) -> None:
    log = Log(Style((1, 29)))
    admit(log, "ns/p", "main", {"cpu": "1! 0-1", "memory": "0!"}, "nil", stored=False)
    log.say("kubelet.go", "SyncLoop (housekeeping)")
    lines = [line for line in log.lines if '"memory"' not in line]
    (finding,) = report_of(tmp_path, lines).findings
    assert (
        finding.explanation.answer
        == "Rejected: the hints in the log do not show why; a line of them may be missing"
    )
    assert any(
        text.startswith("These hints alone would give NUMA 1, preferred, the log has no NUMA nodes")
        for text in finding.explanation.remarks
    )


def test_a_policy_that_is_open_is_named_as_open(tmp_path: Path) -> None:
    log = Log(Style((1, 29)))
    admit(log, "ns/p", "main", {"cpu": "1! 0-1"}, "1!", stored=True)
    (finding,) = report_of(tmp_path, log.lines, LogFilter(all=True)).findings
    told = "The log does not name the policy; single-numa-node, restricted and best-effort answer like this"
    assert finding.explanation.remarks[1:] == (told,)
    assert (finding.explanation.policy, finding.explanation.rule) == ("", "")
    (finding,) = report_of(tmp_path, log.lines, LogFilter(all=True), LogEvidence("restricted")).findings
    assert finding.explanation.policy == "restricted"
    assert len(finding.explanation.remarks) == 1


# --- whose line it is -----------------------------------------------------------------------


def test_pods_of_one_kubelet_may_interleave() -> None:
    """Since 1.33 every line names its pod."""
    logs = []
    for name in ("a", "b", "c"):
        log = Log(Style((1, 36), 5))
        log.say("topology_manager.go", "Topology manager admission check", pod=f"ns/{name}")
        admit(log, f"ns/{name}", "main", {"cpu": "1! 0-1", "memory": "0!"}, "nil", stored=False)
        log.say(
            "allocation_manager.go",
            "Pod admission denied",
            podUID=name,
            pod=f"ns/{name}",
            reason="TopologyAffinityError",
            message="m",
        )
        logs.append(log.lines)
    mixed = interleaved(logs, random.Random(7))
    found, _, _ = admissions_in(framed("plain", mixed))
    assert sorted((one.pod.name, one.pod.uid, one.verdict, len(one.rounds)) for one in found) == [
        ("a", "a", "rejected", 1), ("b", "b", "rejected", 1), ("c", "c", "rejected", 1),
    ]  # fmt: skip
    assert all(set(one.rounds[0].hints) == {"cpu", "memory"} for one in found)


@pytest.mark.parametrize("release", [(1, 20), (1, 24), (1, 29)])
def test_kubelets_may_interleave(release: tuple[int, int]) -> None:
    """Lines of old releases that name no pod go to the kubelet that wrote them."""
    logs = []
    for host in ("node1", "node2", "node3"):
        log = Log(Style(release), pid=100 + len(logs))
        for number in range(3):
            pod = {
                "metadata": {"name": f"{host}-{number}", "uid": f"{host}{number}"},
                "spec": {"containers": [{"name": "main"}]},
            }
            round_ = {
                "container": "main",
                "hints": {"device": None, "cpu": {"cpu": [[[1], True]]}, "memory": {"memory": [[[0], True]]}},
                "merged": {"numa": None, "preferred": False, "admit": False},
            }
            write_admission(
                log,
                pod,
                {
                    "admitted": False,
                    "reason": "TopologyAffinityError",
                    "message": "m",
                    "hint_rounds": [round_],
                },
            )
        log.say("kubelet.go", "SyncLoop (housekeeping)")
        logs.append([f"Aug 15 00:00:00 {host} kubelet[1]: {line}" for line in log.lines])
    found, kubelets, _ = admissions_in(framed("plain", interleaved(logs, random.Random(3))))
    assert len(found) == 9
    assert all(one.rejected and set(one.rounds[0].hints) == {"cpu", "memory"} for one in found)
    assert all(one.pod.name.startswith(one.origin.host) for one in found)
    assert [one.policy for one in kubelets.all] == ["single-numa-node"] * 3


def test_any_lines_may_be_missing() -> None:
    chance = random.Random(5)
    log = Log(Style((1, 36), 5))
    for turn in range(6):
        rejected_again(log, f"db/store-{turn % 2}", f"u{turn}")
        admit(log, "ns/fits", "main", {"cpu": "1! 0-1"}, "1!", stored=True)
    for _ in range(60):
        lines = [line for line in log.lines if chance.random() < 0.6]
        found, kubelets, _ = admissions_in(framed("plain", lines))
        for one in found:
            assert one.verdict in ("admitted", "rejected", "unfinished")
            assert not (one.pod.name == "fits" and one.stated and one.rejected)
            assert explained(one, kubelets.of(one.origin)).answer


def test_a_pod_made_anew_does_not_inherit_the_verdict() -> None:
    log = Log(Style((1, 29), 4))
    who = "db/store-7"
    rejected_again(log, who, "u1")
    log.say("config.go", "Receiving a new pod", pod=who)
    log.say(
        "topology_manager.go", "Topology Admit Handler", podUID="u2", podNamespace="db", podName="store-7"
    )
    admit(log, who, "main", {"cpu": "1! 0-1"}, "1!", stored=True)
    status = {"phase": "Failed", "reason": "TopologyAffinityError", "message": "Pod was rejected: x"}
    log.say("status_manager.go", "Status for pod updated successfully", pod=who, podUID="u1", status=status)
    found, _, _ = admissions_in(framed("plain", log.lines))
    assert [(one.pod.uid, one.verdict, one.likely) for one in found] == [
        ("u1", "rejected", ""), ("u2", "unfinished", "admitted"),
    ]  # fmt: skip


def test_containers_of_one_pod_are_one_admission() -> None:
    log = Log(Style((1, 29)))
    for name in ("init", "main", "side"):
        admit(log, "ns/p", name, {"cpu": "1! 0-1"}, "1!", stored=True)
    admit(log, "ns/p", "init", {"cpu": "0! 0-1"}, "0!", stored=True)
    found, _, _ = admissions_in(framed("plain", log.lines))
    assert [[each.container for each in one.rounds] for one in found] == [["init", "main", "side"], ["init"]]
    log = Log(Style((1, 29)))
    admit(log, "ns/p", "init", {"cpu": "1! 0-1"}, "1!", stored=True)
    admit(log, "ns/p", "main", {"cpu": "1!", "memory": "0!"}, "nil", stored=False)
    log.say("kubelet.go", "SyncLoop (housekeeping)")
    found, kubelets, _ = admissions_in(framed("plain", log.lines))
    told = explained(found[0], kubelets.of(found[0].origin))
    assert told.answer.startswith(
        "Rejected: container main: CPU hints only on NUMA 1, memory hints only on NUMA 0"
    )


# --- which are asked for --------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "expected"), [
    ("store-7", True), ("db/store-7", True), ("store", True), ("db/store", True), ("sto*", True), ("db/*", True), ("u1", True),
    ("store-8", False), ("other/store-7", False), ("stor", False),
])  # fmt: skip
def test_pods_by_name(asked: str, expected: bool) -> None:  # noqa: FBT001 - a column
    assert LogFilter(asked).named(PodRef("store-7", "db", "u1")) == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("10m", "2024-08-16T09:50:00"), ("-2h", "2024-08-16T08:00:00"), ("1d", "2024-08-15T10:00:00"),
    ("2024-08-15 22:24:53", "2024-08-15T22:24:53"), ("2024-08-15T22:24", "2024-08-15T22:24:00"), ("2024-08-15", "2024-08-15T00:00:00"),
    ("08-15 22:24", f"{YEARLESS}-08-15T22:24:00"), ("Aug 15 22:24:53", f"{YEARLESS}-08-15T22:24:53"), ("09:30", "2024-08-16T09:30:00"),
])  # fmt: skip
def test_since(text: str, expected: str) -> None:
    assert parse_since(text, NOW) == datetime.fromisoformat(expected)


@pytest.mark.parametrize("text", ["", "soon", "25:00", "08-32", "10x"])
def test_since_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not a time"):
        parse_since(text, NOW)


@pytest.mark.parametrize(("since", "time", "expected"), [
    ("2024-08-15", "2024-08-15T00:00:01", True), ("2024-08-15", "2024-08-14T23:59:59", False),
    ("08-15",      "2024-08-15T00:00:01", True), ("08-15",      "2024-08-14T23:59:59", False),
    ("2024-08-15", "1904-08-15T00:00:01", True), ("2024-08-15", "1904-08-14T23:59:59", False),
    ("02-29",      "2023-03-01T00:00:00", True), ("12-31",      "1904-01-01T00:00:00", True),
])  # fmt: skip
def test_years_that_are_not_told(since: str, time: str, expected: bool) -> None:  # noqa: FBT001 - a column
    assert LogFilter(since=parse_since(since, NOW)).timely(datetime.fromisoformat(time)) == expected


def test_only_from_then_on(tmp_path: Path) -> None:
    log = Log(Style((1, 29)))
    for turn in range(3):
        rejected_again(log, f"db/p{turn}", f"u{turn}", wait=3600)
    since = parse_since("08-15 02:00", NOW)
    report = report_of(tmp_path, log.lines, LogFilter(since=since))
    assert [one.admission.pod.name for one in report.findings] == ["p1", "p2"]
    assert report.early == 1


# --- what the kubelet's words mean ----------------------------------------------------------


@pytest.mark.parametrize(("message", "resource", "text"), [
    ("Allocate failed due to not enough cpus available to satisfy request: requested=16, available=1, which is unexpected", "cpu", "cpu: 16 CPUs are asked for and 1 is free"),
    ("SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2", "cpu", "cpu: 3 CPUs are asked for, which is not a multiple of the two threads of a core, and full-pcpus-only hands out whole cores"),
    ("Allocate failed due to requested number of devices unavailable for nvidia.com/gpu. Requested: 2, Available: 0, which is unexpected", "nvidia.com/gpu", "nvidia.com/gpu: 2 are asked for and none is free"),
    ("Allocate failed due to [memorymanager] failed to get the default NUMA affinity, no NUMA nodes with enough memory is available, which is unexpected", "memory", "memory: no set of NUMA nodes has enough free memory"),
    ("Node didn't have enough resource: cpu, requested: 4000, used: 8500, capacity: 12000", "cpu", "cpu: 4 CPUs are asked for, 8.5 CPUs of 12 CPUs are taken"),
    ("Node didn't have enough resource: memory, requested: 1073741824, used: 0, capacity: 536870912", "memory", "memory: 1 GiB is asked for, 0 bytes of 512 MiB are taken"),
    ("something new.", "", "something new"),
])  # fmt: skip
def test_causes(message: str, resource: str, text: str) -> None:
    assert cause_of(message) == (resource, text)
