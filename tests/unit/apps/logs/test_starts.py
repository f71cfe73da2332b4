"""Kubelets that do not start, in the forms of all releases; resizes; pods with different reasons."""

from pathlib import Path

import pytest

from numawise.apps.logs.groups import LogFilter
from numawise.apps.logs.read import Source, read_log
from numawise.results.log import LogReport
from tests.logwriting import Log, Style, framed, write_boot

POLICY = (
    'could not restore state from checkpoint: configured policy "static" differs from state checkpoint policy "none", '
    'please drain this node and delete the CPU manager checkpoint file "/var/lib/kubelet/cpu_manager_state" before '
    "restarting Kubelet"
)
SUM = 'the total amount "1Gi" of type "memory" is not equal to the value "1124Mi" determined by Node Allocatable feature'
HEAD = "E0815 00:16:40.000111    1021 "
FATAL = "F0815 00:16:40.000111    1021 "


def report_of(tmp_path: Path, lines: list[str], frame: str = "plain") -> LogReport:
    path = tmp_path / "kubelet.log"
    path.write_bytes(framed(frame, lines))
    return read_log(Source([str(path)]), LogFilter(all=True))


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


FORMS = [
    # 1.20 and before: klog's fatal lines
    (f"{FATAL}server.go:269] failed to run Kubelet: [cpumanager] unable to determine reserved CPU resources for static policy", "cpu-manager", "NW201"),
    (f"{FATAL}kubelet.go:1367] Failed to start ContainerManager start cpu manager error: {POLICY}", "cpu-manager-start", "NW301"),
    (f"{HEAD}cpu_manager.go:203] [cpumanager] could not initialize checkpoint manager: {POLICY}, please drain node and remove policy state file", "cpu-manager-start", "NW301"),
    (f"{FATAL}server.go:198] failed to load Kubelet config file /etc/k.yaml, error failed to decode: yaml: line 3: x", "decode-config", "NW101"),
    (f"{FATAL}server.go:215] [invalid configuration: topologyManagerPolicy non-allowable value: strict, invalid configuration: x]", "validate-config", "NW121"),
    (f"{FATAL}server.go:187] unrecognized feature gate: Magic", "feature-gates", "NW111"),
    # 1.21 and 1.22
    (f'{HEAD}server.go:294] "Failed to run kubelet" err={quoted(f"failed to run Kubelet: {SUM}")}', "memory-manager", "NW221"),
    (f'{HEAD}server.go:226] "Failed to validate kubelet configuration" err="invalid configuration: topologyManagerScope non-allowable value: node" path="x"', "validate-config", "NW121"),
    (f'{HEAD}server.go:218] "Failed to set feature gates from initial flags-based config" err="unrecognized feature gate: Magic"', "feature-gates", "NW111"),
    (f'{HEAD}server.go:206] "Failed to load kubelet config file" err="failed to load Kubelet config file /k, error failed to decode: x" path="/k"', "decode-config", "NW101"),
    (f'{HEAD}kubelet.go:1423] "Failed to start ContainerManager" err={quoted(f"start cpu manager error: {POLICY}")}', "cpu-manager-start", "NW301"),
    # 1.23 to 1.25: without a head
    (f"Error: failed to run Kubelet: {SUM}", "memory-manager", "NW221"),
    # 1.26 and later
    (f'{HEAD}run.go:74] "command failed" err={quoted(f"failed to run Kubelet: {SUM}")}', "memory-manager", "NW221"),
    # the line of the manager alone
    (f'{HEAD}container_manager_linux.go:355] "Failed to initialize memory manager" err={quoted(SUM)}', "memory-manager", "NW221"),
    (f'{HEAD}container_manager_linux.go:340] "Failed to initialize cpu manager" err={quoted(chr(34).join(["unknown policy: ", "x", ""]))}', "cpu-manager", "NW122"),
    (f'{HEAD}cpu_manager.go:245] "Policy start error" err="default cpuset cannot be empty"', "cpu-manager-start", "NW309"),
    (f'{HEAD}memory_manager.go:225] "Policy start error" err="[memorymanager] the expected machine state is different from the real one"', "memory-manager-start", "NW310"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "stage", "code"), FORMS)
@pytest.mark.parametrize("frame", ["plain", "journal", "docker", "containerd", "journal json"])
def test_forms(line: str, stage: str, code: str, frame: str, tmp_path: Path) -> None:
    report = report_of(tmp_path, [line], frame)
    (start,) = report.starts
    assert (start.failure.stage, start.failure.code, start.failure.count) == (stage, code, 1)
    assert report.refused


def test_an_error_over_several_lines(tmp_path: Path) -> None:
    error = "failed to run Kubelet: --kube-reserved value failed to parse: cannot reserve"
    lines = [f'{HEAD}run.go:74] "command failed" err=<', f"\t{error}", "\tresource", " >", f"{HEAD}x.go:1] y"]
    (start,) = report_of(tmp_path, lines).starts
    assert (start.failure.stage, start.failure.code) == ("kube-reserved", "NW205")
    assert start.failure.message.endswith("cannot reserve\nresource")


def test_a_crash_loop_is_one(tmp_path: Path) -> None:
    """Each process has another number; what a manager says and the last words are one failure."""
    lines = []
    for turn in range(400):
        head = f"E0815 {turn // 60 % 24:02}:{turn % 60:02}:00.000111 {2000 + turn} "
        lines.append(f'{head}cpu_manager.go:245] "Could not initialize checkpoint manager, please drain node and remove policy state file" err={quoted(POLICY)}')  # fmt: skip
        lines.append(f'{head}kubelet.go:1821] "Failed to start ContainerManager" err={quoted(f"start cpu manager error: {POLICY}")}')  # fmt: skip
    report = report_of(tmp_path, lines)
    (start,) = report.starts
    assert (start.failure.count, start.failure.seconds) == (400, 399 * 60)
    assert start.explanation.remarks[0] == (
        "It failed 400 times for this reason in 7 hours (every 60 seconds), since Aug 15 00:00:00"
    )
    assert len(report.kubelets) == 0


def test_a_kubelet_that_came_up_later(tmp_path: Path) -> None:
    log = Log(Style((1, 36), 4))
    write_boot(log, "restricted")
    log.say("run.go", "command failed", error=True, err=f"failed to run Kubelet: {SUM}")
    failed = log.lines
    log = Log(Style((1, 36), 4), pid=1022)
    write_boot(log, "restricted")
    log.say("topology_manager.go", "Topology manager admission check", pod="ns/p")
    log.say("allocation_manager.go", "Pod admission denied", podUID="u", pod="ns/p", reason="OutOfcpu", message="m")  # fmt: skip
    report = report_of(tmp_path, [*failed, *log.lines])
    (start,) = report.starts
    assert start.failure.started_later == len(failed) + len(log.lines)
    assert (
        f"A kubelet of this node was up later, at line {start.failure.started_later}"
        in start.explanation.remarks
    )
    assert [(one.policy, one.origin.pid) for one in report.kubelets] == [("restricted", 1022)]


def test_other_programs_end_with_the_same_words(tmp_path: Path) -> None:
    log = Log(Style((1, 36), 4))
    log.say("kubelet.go", "SyncLoop (housekeeping)")
    log.say("run.go", "command failed", error=True, err="listen tcp :6443: bind: address already in use")
    assert report_of(tmp_path, log.lines).starts == ()


def test_only_since_then(tmp_path: Path) -> None:
    path = tmp_path / "kubelet.log"
    path.write_text(f'{HEAD}run.go:74] "command failed" err={quoted(f"failed to run Kubelet: {SUM}")}\n')
    from datetime import datetime  # noqa: PLC0415 - only here

    late = LogFilter(since=datetime(1904, 8, 16))  # noqa: DTZ001 - a log names no zone
    assert read_log(Source([str(path)]), late).starts == ()


# --- resizes --------------------------------------------------------------------------------


def denied(log: Log, pod: str, reason: str, message: str, operation: str = "add") -> None:
    told = {"podUID": f"uid-{pod}", "pod": f"ns/{pod}", "reason": reason, "message": message}
    log.say("allocation_manager.go", "Pod admission denied", **told, operation=operation)


@pytest.mark.parametrize(("reason", "message", "verdict", "answer"), [
    ("Infeasible", "In-place resize of containers with guaranteed QoS and static CPU Manager policy", "infeasible", "Infeasible: resize of a running pod: a Guaranteed pod keeps its CPUs beside a static CPU Manager"),
    ("OutOfcpu", "Node didn't have enough resource: cpu, requested: 8000, used: 4000, capacity: 10000", "deferred", "Deferred: resize of a running pod: cpu: 8 CPUs are asked for, 4 CPUs of 10 CPUs are taken"),
])  # fmt: skip
def test_a_refused_resize_is_not_a_rejection(
    reason: str, message: str, verdict: str, answer: str, tmp_path: Path
) -> None:
    log = Log(Style((1, 36), 4))
    denied(log, "p", reason, message, "resize")
    report = report_of(tmp_path, log.lines)
    assert (report.rejected, report.resizes, report.refused) == (0, 1, True)
    (finding,) = report.findings
    assert (finding.explanation.verdict, finding.explanation.answer) == (verdict, answer)
    assert finding.admission.resize


# --- different reasons ----------------------------------------------------------------------


def test_different_reasons_are_not_one(tmp_path: Path) -> None:
    log = Log(Style((1, 36), 4))
    devices = "Allocate failed due to requested number of devices unavailable for {}. Requested: 1, Available: 0, which is unexpected"
    for _ in range(3):
        denied(
            log,
            "web-0",
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 8000, used: 4000, capacity: 10000",
        )
        denied(log, "web-1", "UnexpectedAdmissionError", devices.format("nvidia.com/gpu"))
        denied(log, "web-2", "UnexpectedAdmissionError", devices.format("example.com/nic"))
        denied(log, "web-3", "UnexpectedAdmissionError", devices.format("example.com/nic"))
    report = report_of(tmp_path, log.lines)
    assert [(one.repeats.pods, one.admission.reason, one.repeats.names) for one in report.findings] == [
        (("web-0",), "OutOfcpu", 1),
        (("web-1",), "UnexpectedAdmissionError", 1),
        (("web-2", "web-3"), "UnexpectedAdmissionError", 2),
    ]  # fmt: skip
    assert len({one.explanation.answer for one in report.findings}) == 3


def test_reasons_without_number_are_counted(tmp_path: Path) -> None:
    lines = [f'{HEAD}run.go:74] "command failed" err="failed to run Kubelet: reason {n}"' for n in range(500)]
    report = report_of(tmp_path, lines)
    assert (len(report.starts), report.starts_left_out) == (200, 300)


def test_an_enormous_error(tmp_path: Path) -> None:
    """It is cut, and nothing of it takes much memory or time."""
    error = "failed to run Kubelet: " + "[invalid configuration: x, path: " * 200_000
    for line in (f'{HEAD}run.go:74] "command failed" err="{error}"', f"Error: {error}"):
        (start,) = report_of(tmp_path, [line]).starts
        assert len(start.failure.message) <= 4000
