"""``numawise why --log``: what is printed, and how it ends."""

import gzip
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs
from tests.cli.run import ROOT, numawise, program, refused

LOGS = ROOT / "tests" / "recorded" / "kubelet-logs"
INCIDENT, RUN, FINE = LOGS / "incident.log", LOGS / "run-1.36.4.log.gz", LOGS / "two-gpus-16-cpus.log"
SERVER = ROOT / "examples" / "incident-server"


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "why", "--log", INCIDENT, "--width", 100)
    assert ran.status == 1
    assert not ran.err
    place, name, answer, *rest = ran.out.splitlines()
    assert place == "Aug 15 22:24:53, node8.example, lines 3 to 15"
    assert name == "vm-cluster-common/vmstorage-common-15"
    assert (
        answer == "Rejected: CPU hints only on NUMA 1, memory hints only on NUMA 0: no NUMA node serves both."
    )
    assert "  memory    yes!    no      -" in rest
    assert "1 rejected, 0 admitted." in rest
    assert all(len(line) <= 100 for line in rest)


@pytest.mark.parametrize("width", [40, 60, 200])
def test_no_line_is_wider_than_asked_for(capsys: pytest.CaptureFixture[str], width: int) -> None:
    ran = numawise(capsys, "why", "--log", INCIDENT, "--width", width)
    assert max(map(len, ran.out.splitlines())) <= width


def test_compressed_and_piped(capsys: pytest.CaptureFixture[str]) -> None:
    plain = numawise(capsys, "why", "--log", INCIDENT).out
    packed = gzip.compress(INCIDENT.read_bytes())
    for data in (INCIDENT.read_bytes(), packed):
        piped = program("why", "--log", "-", stdin=data)
        assert (piped.status, piped.out) == (1, plain)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "why", "--log", RUN, "--all", "-o", "json")
    assert ran.status == 1
    data = json.loads(ran.out)
    assert (data["kind"], data["admitted"], data["rejected"]) == ("KubeletLog", 3, 1)
    assert [(pod["name"], pod["verdict"]) for pod in data["pods"]] == [
        ("a-n1", "admitted"), ("b-n1", "admitted"), ("c-n1", "rejected"), ("d-n1", "admitted"),
    ]  # fmt: skip
    assert data["pods"][2]["answer"] == "Rejected: example.com/gpu: 1 is asked for and none is free"
    assert data["pods"][0]["log"]["cpus"] == {"c": "2-3"}
    assert data["read"]["skippedLines"] == 184
    (kubelet,) = data["kubelets"]
    assert (kubelet["release"], kubelet["policy"], kubelet["policyStated"]) == (
        "v1.36.4",
        "single-numa-node",
        True,
    )


def test_nothing_was_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    ran = numawise(capsys, "why", "--log", FINE, "--width", 100)
    assert ran.status == 0
    assert "0 rejected, 0 admitted, 1 not decided in this log." in ran.out
    lines = ran.out.splitlines()
    assert lines[2] == (
        "Probably admitted on NUMA 0-1, but not as preferred: nvidia.com/gpu: none of its hints is preferred."
    )
    assert (
        "The policy is best-effort: not named in the log, but no other policy accepts such nodes." in ran.out
    )
    assert "  best: NUMA 0-1, not preferred: accepted" in lines


def test_several_files_are_one_log(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    lines = INCIDENT.read_text().splitlines(keepends=True)
    older, newer = tmp_path / "kubelet.log.1.gz", tmp_path / "kubelet.log"
    older.write_bytes(gzip.compress("".join(lines[:9]).encode()))
    newer.write_text("".join(lines[9:]))
    ran = numawise(capsys, "why", "--log", older, "--log", newer)
    assert ran.out == numawise(capsys, "why", "--log", INCIDENT).out


def test_pods_and_times(capsys: pytest.CaptureFixture[str]) -> None:
    assert numawise(capsys, "why", "--log", INCIDENT, "--pod", "vmstorage-common").status == 1
    ran = numawise(capsys, "why", "--log", INCIDENT, "--pod", "web")
    assert ran.status == 0
    assert ran.out.startswith(
        "No such admission; the log has those of vm-cluster-common/vmstorage-common-15.\n"
    )
    ran = numawise(capsys, "why", "--log", INCIDENT, "--since", "08-16")
    assert (ran.status, ran.out.splitlines()[0]) == (0, "No admission since then; 1 admission before.")


def test_beside_the_node(capsys: pytest.CaptureFixture[str]) -> None:
    node = ("--machine", SERVER / "machine.yaml", "--kubelet-config", SERVER / "kubelet.yaml")
    ran = numawise(
        capsys, "why", "--log", INCIDENT, *node, *sorted((SERVER / "pods").glob("*.yaml")), "--width", 200
    )
    assert ran.status == 1
    assert "(NUMA 0 lacks 2 of 4 CPUs and NUMA 1 lacks 53 GiB of 120 GiB of memory)." in " ".join(
        ran.out.split()
    )
    assert "With these files the engine finds the same hints and the same answer." in ran.out
    assert "What would help" in ran.out


@pytest.mark.parametrize(("data", "words"), [
    (b"",                                         ["is empty"]),
    (b"hello\nworld\n",                           ["is not a kubelet log", "2 lines", "'hello'"]),
    (b'I0101 00:00:00.000000 1 schedule_one.go:1] "Successfully bound pod to node"\n', ["log of a program other than the kubelet"]),
    (b"\x1f\x8bgarbage",                          ["is damaged"]),
    (gzip.compress(b"x" * 100_000, mtime=0)[:60],  ["is damaged"]),
    ("I0101 10:00:00.0 kubelet\n".encode("utf-16"), ["is UTF-16", "save it as UTF-8"]),
    (bytes(range(256)) * 100,                     ["is not a kubelet log"]),
])  # fmt: skip
def test_what_is_no_log(
    tmp_path: Path, data: bytes, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.log"
    path.write_bytes(data)
    refused(numawise(capsys, "why", "--log", path), str(path), *words)


@pytest.mark.parametrize(("arguments", "words"), [
    (["--log", "/nowhere"],                             ["/nowhere", "there is no such file"]),
    (["--log", "/tmp"],                                 ["/tmp", "is a directory"]),
    (["--log", "-", "--log", "-"],                      ["standard input"]),
    (["--log", INCIDENT, "--since", "soon"],            ["--since", "'soon' is not a time"]),
    (["--log", INCIDENT, "pod.yaml"],                   ["--machine", "is missing"]),
    (["--log", INCIDENT, "--hints", "cpu=1!"],          ["--log goes with neither"]),
    (["--log", INCIDENT, "--kube", "x"],                ["--kube"]),
    (["--pod", "x"],                                    ["go with --log"]),
])  # fmt: skip
def test_bad_input(arguments: list[object], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    refused(numawise(capsys, "why", *arguments), *words)


@needs.TERMINALS
def test_a_bar_on_a_terminal_alone(tmp_path: Path) -> None:
    """Standard error is a terminal, and the log comes slowly: then there is a bar, and it goes again."""
    main, other = pty.openpty()
    code = (
        "import sys, time\n"
        "from numawise.render.logs import reading\n"
        "with reading(sys.stderr, 100, shown=sys.stderr.isatty()) as done:\n"
        "    done(1); time.sleep(1.5); done(50)\n"
    )
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    subprocess.run([sys.executable, "-c", code], stderr=other, check=True, env=environment, cwd=tmp_path)
    os.close(other)
    drawn = os.read(main, 65536).decode()
    os.close(main)
    assert "reading" in drawn
    assert "50 bytes/100 bytes" in drawn
    silent = program("why", "--log", INCIDENT)
    assert silent.err == ""


def test_a_kubelet_that_does_not_start(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    loop = LOGS / "crash-loop.log"
    ran = numawise(capsys, "why", "--log", loop, "--width", 80)
    assert ran.status == 1
    lines = ran.out.splitlines()
    assert lines[1].startswith("The kubelet does not start (cpu-manager-start): ")
    assert "It failed 3 times for this reason" in ran.out
    assert "Kubelet not started 3 times, 0 rejected, 0 admitted." in lines
    data = json.loads(numawise(capsys, "why", "--log", loop, "-o", "json").out)
    (start,) = data["starts"]
    assert (start["stage"], start["code"], start["times"]) == ("cpu-manager-start", "NW301", 3)
    state = tmp_path / "state"
    state.mkdir()
    (state / "cpu_manager_state").write_text('{"policyName":"none","defaultCpuSet":"","checksum":1353318690}')
    (tmp_path / "kubelet.yaml").write_text("cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n")
    node = ["--machine", SERVER / "machine.yaml", "--kubelet-config", tmp_path / "kubelet.yaml"]
    beside = numawise(capsys, "why", "--log", loop, *node, "--state", state, "--width", 200)
    assert beside.status == 1
    assert "With these files the engine fails with the same words." in beside.out
    assert "What would help: after each of these the kubelet starts, as simulated" in beside.out
    assert "/var/lib/kubelet/cpu_manager_state, start it" in beside.out
    fine = numawise(capsys, "why", "--log", loop, *node, "--width", 200)
    assert "With these files the kubelet would start" in fine.out


def test_the_same_sentence_as_why_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What a log says of a start that failed is what ``why`` says of the files that make it fail."""
    (tmp_path / "kubelet.yaml").write_text("cpuManagerPolicy: static\n")
    log = tmp_path / "kubelet.log"
    error = "failed to run Kubelet: [cpumanager] unable to determine reserved CPU resources for static policy"
    log.write_text(f'E0815 22:24:53.000001 7 run.go:74] "command failed" err="{error}"\n')
    node = ["--machine", SERVER / "machine.yaml", "--kubelet-config", tmp_path / "kubelet.yaml"]
    (pod, *_) = sorted((SERVER / "pods").glob("*.yaml"))
    itself = numawise(capsys, "why", *node, pod, "--width", 200)
    logged = numawise(capsys, "why", "--log", log, "--width", 200)
    assert logged.out.splitlines()[1] == itself.out.splitlines()[0]
