"""A switch of policies: which files go, who is refused, and a script that is run for real."""

import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from numawise.apps.plan.switch import Request, plan_switch, switch_script
from numawise.codec.checkpoint import CPU_FILE, MEMORY_FILE
from numawise.inputs.state import read_state
from numawise.node.node import Files, SimulatedNode, boot
from numawise.render.plan import steps_of, switch_lines, switch_plan_data
from numawise.results.plan import KubeletPlace, SwitchPlan
from numawise.rules.versions import NEWEST
from tests.unit.nodes import CONFIG, at_work, machine, pod, written

NONE: Mapping[str, object] = {}
SHELLS = [shell for shell in ("dash", "busybox", "bash", "sh") if shutil.which(shell)]
TRAIN, SERVE = pod("train", 4, "6Gi", 1), pod("serve", 2, "2Gi", 1)
PINNED = {**CONFIG, "topologyManagerPolicy": "single-numa-node"}


def but(**more: object) -> dict[str, object]:
    return {**CONFIG, **more}


def switched(
    tmp_path: Path, old: Mapping[str, object], new: Mapping[str, object], *pods: Any, **more: Any
) -> SwitchPlan:
    node = at_work(*pods, kubelet=old)
    folder = read_state(str(written(tmp_path, node.files.texts)))
    return plan_switch(Request(old, new, machine=node.machine, state=folder, pods=pods, **more))


# --- deciding ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("old", "new", "pods", "removed", "drain"), [
    pytest.param(NONE,   CONFIG, (),      {CPU_FILE, MEMORY_FILE}, True,  id="both policies change"),
    pytest.param(CONFIG, NONE,   (TRAIN,), {CPU_FILE, MEMORY_FILE}, True,  id="and back"),
    pytest.param(CONFIG, but(memoryManagerPolicy="None"), (TRAIN,), {MEMORY_FILE}, True, id="memory alone"),
    pytest.param(CONFIG, PINNED, (TRAIN, SERVE), set(), False, id="topology has no file"),
    pytest.param(CONFIG, but(cpuManagerPolicyOptions={"full-pcpus-only": "true"}), (TRAIN,), set(), False, id="an option without a file"),
    pytest.param(CONFIG, but(cpuManagerPolicyOptions={"strict-cpu-reservation": "true"}), (), {CPU_FILE}, True, id="an option that the file knows"),
    pytest.param(CONFIG, but(reservedSystemCPUs="0-1,8-9"), (), set(), False, id="more reserved CPUs, all in the pool"),
    pytest.param(CONFIG, but(reservedSystemCPUs="0-1,8-9"), (TRAIN,), {CPU_FILE}, True, id="more reserved CPUs, given away"),
    pytest.param(CONFIG, but(reservedMemory=[{"numaNode": 0, "limits": {"memory": "1124Mi"}}]), (), {MEMORY_FILE}, True, id="another reservation of memory"),
    pytest.param(CONFIG, but(maxPods=200), (TRAIN,), set(), False, id="something else"),
])  # fmt: skip
def test_which_files_go(
    tmp_path: Path,
    old: Mapping[str, object],
    new: Mapping[str, object],
    pods: tuple[Any, ...],
    removed: set[str],
    drain: bool,  # noqa: FBT001
) -> None:
    found = switched(tmp_path, old, new, *pods)
    assert set(found.removed) == removed
    assert bool(found.drain) == drain
    kept = {file.name: file.text for file in read_state(str(tmp_path)).files if file.name not in removed}
    assert isinstance(boot(machine(), new, Files(kept), version=NEWEST), SimulatedNode)
    for name in removed:  # each of them would have stopped it
        text = (tmp_path / name).read_text()
        assert not isinstance(boot(machine(), new, Files({name: text}), version=NEWEST), SimulatedNode)


def test_a_pod_that_the_restart_refuses_has_the_node_drained(tmp_path: Path) -> None:
    """Up to 1.36 whole cores are demanded of those that run, too; from 1.37 on, of new ones alone."""
    odd = pod("odd", 3, "1Gi")
    whole = but(cpuManagerPolicyOptions={"full-pcpus-only": "true"})
    for version, drain, restart in (
        ((1, 36), "the restart would refuse default/odd", "rejected"),
        ((1, 37), "", "admitted"),
    ):
        found = switched(tmp_path, CONFIG, whole, odd, SERVE, version=version)
        assert found.removed == ()
        assert found.drain == drain
        assert [(one.name, one.restart, one.created_again, one.refused) for one in found.pods] == [
            ("odd", restart, "rejected", True),
            ("serve", "admitted", "admitted", False),
        ]
        assert found.pods[0].words.startswith("SMTAlignmentError: ")


def test_a_pod_that_nobody_gave_has_the_node_drained(tmp_path: Path) -> None:
    node = at_work(TRAIN)
    folder = read_state(str(written(tmp_path, node.files.texts)))
    found = plan_switch(Request(CONFIG, PINNED, machine=node.machine, state=folder))
    assert "uid-train is recorded" in found.drain


def test_a_configuration_that_does_not_start_has_no_steps(tmp_path: Path) -> None:
    bad = but(reservedMemory=[{"numaNode": 0, "limits": {"memory": "1Gi"}}])
    found = switched(tmp_path, CONFIG, bad)
    assert "determined by Node Allocatable feature" in found.refusal
    assert switch_plan_data(found, KubeletPlace(), "new.yaml")["steps"] == []


def test_without_state_the_old_kubelet_is_asked() -> None:
    found = plan_switch(Request(NONE, CONFIG, machine=machine()))
    assert set(found.removed) == {CPU_FILE, MEMORY_FILE}
    assert any("--state" in remark for remark in found.remarks)


def test_without_state_nobody_knows_what_a_restart_does() -> None:
    found = plan_switch(Request(CONFIG, PINNED, machine=machine(), pods=(TRAIN,)))
    assert found.removed == ()
    assert found.drain == "whether the restart would refuse a pod is not known without --state"
    assert [(one.restart, one.created_again) for one in found.pods] == [("", "admitted")]


def test_without_a_machine_policies_are_compared() -> None:
    found = plan_switch(Request(NONE, CONFIG))
    assert set(found.removed) == {CPU_FILE, MEMORY_FILE}
    assert any("--machine" in remark for remark in found.remarks)
    assert plan_switch(Request(CONFIG, PINNED)).removed == ()


def test_a_file_that_was_not_given_is_thought_of(tmp_path: Path) -> None:
    node = at_work(kubelet={**CONFIG, "memoryManagerPolicy": "None"})
    folder = read_state(str(written(tmp_path, {CPU_FILE: node.files.texts[CPU_FILE]})))
    found = plan_switch(Request(but(memoryManagerPolicy="None"), CONFIG, machine=machine(), state=folder))
    assert found.removed == (MEMORY_FILE,)


def test_a_kubelet_that_is_down_already_is_told(tmp_path: Path) -> None:
    folder = read_state(str(written(tmp_path, at_work(kubelet=NONE).files.texts)))
    found = plan_switch(Request(CONFIG, CONFIG, machine=machine(), state=folder))
    assert any("does not start with the old configuration either" in remark for remark in found.remarks)


def test_daemon_sets_stay(tmp_path: Path) -> None:
    daemon = pod("proxy", 1, "1Gi", owner="DaemonSet kube-proxy")
    found = switched(tmp_path, CONFIG, NONE, daemon)
    assert any("DaemonSets stay" in remark and "proxy" in remark for remark in found.remarks)


def test_steps_are_in_order(tmp_path: Path) -> None:
    found = switched(tmp_path, NONE, CONFIG)
    titles = [step.title for step in steps_of(found, KubeletPlace("n1"), "new.yaml")]
    assert titles == [
        "Cordon the node",
        "Drain it",
        "Stop the kubelet",
        "Keep the old files",
        f"Remove {CPU_FILE}",
        f"Remove {MEMORY_FILE}",
        "Write the new configuration",
        "Start the kubelet",
        "Verify",
        "Uncordon the node",
    ]
    assert "10. Uncordon the node" in switch_lines(found, KubeletPlace("n1"), "new.yaml")


# --- the script ----------------------------------------------------------------------------------

KUBECTL = """#!/bin/sh
echo "kubectl $*" >>"$LOG"
case $1 in
cordon) echo true >"$STUB/unschedulable" ;;
uncordon) rm -f "$STUB/unschedulable" ;;
annotate)
    case $* in
    *numawise.dev/cordoned-by=*) printf %s "${*##*=}" >"$STUB/by" ;;
    *) rm -f "$STUB/by" ;;
    esac
    ;;
get)
    case $* in
    *--raw*) test -e "$STUB/active" && cat "$STUB/configz" ;;
    *unschedulable*) echo "$(cat "$STUB/unschedulable" 2>/dev/null) $(cat "$STUB/by" 2>/dev/null)" ;;
    *) cat "$STUB/by" 2>/dev/null || true ;;
    esac
    ;;
esac
"""
SYSTEMCTL = """#!/bin/sh
echo "systemctl $*" >>"$LOG"
case $1 in
stop) rm -f "$STUB/active" ;;
start)
    "$STUB/start" && touch "$STUB/active"
    exit 0
    ;;
is-active) test -e "$STUB/active" ;;
esac
"""
# A kubelet that makes new state files with the policies of its configuration, and refuses old ones.
START = """#!/bin/sh
policy=$(sed -n 's/^cpuManagerPolicy: //p' "$CONFIG")
memory=$(sed -n 's/^memoryManagerPolicy: //p' "$CONFIG")
for pair in "cpu_manager_state:${policy:-none}" "memory_manager_state:${memory:-None}"; do
    file=$KUBELET_DIR/${pair%%:*}
    if [ -e "$file" ]; then
        grep -q "\\"policyName\\":\\"${pair#*:}\\"" "$file" || exit 1
    else
        printf '{"policyName":"%s"}' "${pair#*:}" >"$file"
    fi
done
case $policy in
static) cp "$STUB/new.json" "$STUB/configz" ;;
*) cp "$STUB/old.json" "$STUB/configz" ;;
esac
"""
OLD_TEXT = "kind: KubeletConfiguration\n"
NEW_TEXT = 'kind: KubeletConfiguration\ncpuManagerPolicy: static\nmemoryManagerPolicy: Static\n# it\'s "quoted" $HOME `id`\n'


TOOLS = (
    "sh",
    "cat",
    "cp",
    "mv",
    "rm",
    "touch",
    "mkdir",
    "grep",
    "sed",
    "cut",
    "sha256sum",
    "cmp",
    "date",
    "sleep",
    "tr",
    "hostname",
)
"""All that the script may use besides the programs of the node."""


class Host:
    """A folder that stands for a node, with commands that write down what they were told."""

    def __init__(self, folder: Path, script: str) -> None:
        self.folder = folder
        self.kubelet = folder / "kubelet dir"
        self.log = folder / "log"
        for name, text in (
            ("kubectl", KUBECTL),
            ("systemctl", SYSTEMCTL),
            ("journalctl", "#!/bin/sh\necho tail\n"),
        ):
            self.program(folder / "bin" / name, text)
        self.program(folder / "stub" / "start", START)
        for name in TOOLS:
            (folder / "bin" / name).symlink_to(shutil.which(name) or "/nowhere")
        for name, config in (("old", NONE), ("configz", NONE), ("new", CONFIG)):
            text = json.dumps({"kubeletconfig": config}, separators=(",", ":"))
            (folder / "stub" / ("configz" if name == "configz" else f"{name}.json")).write_text(text)
        self.program(folder / "switch.sh", script)
        written(self.kubelet, at_work(kubelet=NONE).files.texts)
        (self.kubelet / "config.yaml").write_text(OLD_TEXT)
        (self.kubelet / "config.yaml").chmod(0o640)
        (folder / "stub" / "active").touch()

    @staticmethod
    def program(path: Path, text: str) -> None:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run(self, shell: str, *words: str) -> subprocess.CompletedProcess[str]:
        self.log.write_text("")
        program = shutil.which(shell) or shell
        command = [program, "sh"] if shell == "busybox" else [program]
        return subprocess.run(
            [*command, str(self.folder / "switch.sh"), *words],
            capture_output=True,
            text=True,
            check=False,
            env={
                "PATH": str(self.folder / "bin"),
                "LOG": str(self.log),
                "STUB": str(self.folder / "stub"),
                "KUBELET_DIR": str(self.kubelet),
                "CONFIG": str(self.kubelet / "config.yaml"),
                "TRIES": "2",
                "PAUSE": "0",
                "SETTLE": "0",
            },
        )

    @property
    def calls(self) -> list[str]:
        """What was called, questions left out."""
        lines = self.log.read_text().splitlines()
        return [line for line in lines if "is-active" not in line and not line.startswith("kubectl get")]

    def policy(self, name: str) -> str:
        found: str = json.loads((self.kubelet / name).read_text())["policyName"]
        return found


def script_of(tmp_path: Path, node: str = "gpu 7's", new: str = NEW_TEXT) -> str:
    found = switched(tmp_path / "state", NONE, CONFIG)
    old = hashlib.sha256(OLD_TEXT.encode()).hexdigest()
    return switch_script(found, KubeletPlace(node, "/var/lib/kubelet", "/etc/k.yaml", "kubelet"), new, old)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path, script_of(tmp_path))


DRAINED = [
    "kubectl annotate node gpu 7's --overwrite numawise.dev/cordoned-by=NUMBER",
    "kubectl cordon gpu 7's",
    "kubectl drain gpu 7's --ignore-daemonsets --delete-emptydir-data --timeout=15m",
]
RESTARTED = ["systemctl stop kubelet", "systemctl start kubelet"]
UNCORDONED = [
    "kubectl wait --for=condition=Ready node/gpu 7's --timeout=180s",
    "kubectl uncordon gpu 7's",
    "kubectl annotate node gpu 7's numawise.dev/cordoned-by-",
]


def numberless(calls: list[str]) -> list[str]:
    return [re.sub(r"by=[0-9a-f]{10}$", "by=NUMBER", call) for call in calls]


def left(host: Host) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in host.kubelet.rglob("*") if path.is_file()}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_switches(host: Host, shell: str) -> None:
    done = host.run(shell)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert numberless(host.calls) == DRAINED + RESTARTED + UNCORDONED
    assert "the kubelet has every new field" in done.stdout
    config = host.kubelet / "config.yaml"
    assert config.read_text() == NEW_TEXT
    assert config.stat().st_mode & 0o777 == 0o640
    assert (host.policy(CPU_FILE), host.policy(MEMORY_FILE)) == ("static", "Static")
    (kept,) = host.kubelet.glob("numawise-switch-*")
    assert (kept / "config.yaml").read_text() == OLD_TEXT
    assert json.loads((kept / CPU_FILE).read_text())["policyName"] == "none"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_parts_one_after_the_other(host: Host, shell: str) -> None:
    for part, calls in (("drain", DRAINED), ("switch", RESTARTED), ("uncordon", UNCORDONED)):
        done = host.run(shell, part)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert numberless(host.calls) == calls
    assert host.policy(CPU_FILE) == "static"


@pytest.mark.parametrize("shell", SHELLS)
def test_the_nodes_part_needs_no_kubectl(host: Host, shell: str) -> None:
    (host.folder / "bin" / "kubectl").unlink()
    done = host.run(shell)
    assert done.returncode == 1
    assert "kubectl is needed and not found; without it run the part" in done.stderr
    assert host.run(shell, "switch").returncode == 0
    assert host.calls == RESTARTED


@pytest.mark.parametrize("part", ["", "drain", "switch"])
def test_a_node_that_is_switched_is_left_alone(host: Host, part: str) -> None:
    assert host.run("sh").returncode == 0
    before = left(host)
    done = host.run("sh", *filter(None, [part]))
    assert (done.returncode, host.calls) == (0, [])
    assert "already; nothing is done" in done.stdout
    assert left(host) == before


def test_another_configuration_on_the_node_ends_it(host: Host) -> None:
    (host.kubelet / "config.yaml").write_text(OLD_TEXT + "maxPods: 250\n")
    before = left(host)
    for words in ((), ("switch",)):
        done = host.run("sh", *words)
        assert (done.returncode, host.calls, left(host)) == (1, [], before)
        assert "is not the configuration that this was planned for" in done.stderr
    assert host.run("sh", "--force").returncode == 0


def test_a_wrong_node_ends_it(host: Host) -> None:
    shutil.rmtree(host.kubelet)
    done = host.run("sh")
    assert (done.returncode, host.calls) == (1, [])
    assert "does not exist; run this on the node" in done.stderr


def test_a_second_switch_after_a_way_back_by_hand(host: Host) -> None:
    assert host.run("sh").returncode == 0
    (host.kubelet / "config.yaml").write_text(OLD_TEXT)
    for name in (CPU_FILE, MEMORY_FILE):
        (host.kubelet / name).unlink()
    assert host.run("sh").returncode == 0
    assert host.policy(CPU_FILE) == "static"
    assert len(list(host.kubelet.glob("numawise-switch-*.before.*"))) == 1


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("words", [(), ("drain",), ("switch",), ("uncordon",), ("--rollback",)])
def test_a_dry_run_touches_nothing(host: Host, shell: str, words: tuple[str, ...]) -> None:
    before = left(host)
    done = host.run(shell, "--dry-run", *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert host.log.read_text() == ""
    assert left(host) == before
    if not words:
        assert "+ kubectl drain gpu 7's" in done.stdout
        assert f"+ rm -f {host.kubelet}/{CPU_FILE}" in done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_the_way_back(host: Host, shell: str) -> None:
    assert host.run(shell).returncode == 0
    done = host.run(shell, "--rollback")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert numberless(host.calls) == DRAINED + RESTARTED + UNCORDONED
    assert (host.kubelet / "config.yaml").read_text() == OLD_TEXT
    assert (host.policy(CPU_FILE), host.policy(MEMORY_FILE)) == ("none", "None")
    assert not [path for path in host.kubelet.glob("numawise-switch-*") if ".undone." not in path.name]
    twice = host.run(shell, "--rollback")
    assert (twice.returncode, host.calls) == (1, [])
    assert "nothing to bring back" in twice.stderr
    assert host.run(shell).returncode == 0  # and forth again
    assert host.policy(CPU_FILE) == "static"


def test_the_way_back_in_parts_after_somebody_changed_the_file(host: Host) -> None:
    assert host.run("sh").returncode == 0
    config = host.kubelet / "config.yaml"
    config.write_text(NEW_TEXT + "maxPods: 250\n")
    done = host.run("sh", "--rollback", "switch")
    assert (done.returncode, host.calls) == (1, [])
    assert "was changed since the switch" in done.stderr
    config.write_text(NEW_TEXT)
    assert host.run("sh", "--rollback", "switch").returncode == 0
    assert config.read_text() == OLD_TEXT


def test_a_kubelet_that_does_not_come_up_ends_it(host: Host) -> None:
    Host.program(host.folder / "stub" / "start", "#!/bin/sh\nexit 1\n")
    done = host.run("sh")
    assert done.returncode == 1
    assert "the kubelet does not come up:\ntail\nthe way back: sh " in done.stdout
    assert not any("uncordon" in call for call in host.calls)
    Host.program(host.folder / "stub" / "start", START)
    assert host.run("sh", "--rollback").returncode == 0
    assert "kubectl uncordon gpu 7's" in host.calls


@pytest.mark.parametrize(
    "missing", ["reservedMemory", "topologyManagerPolicy", "reservedSystemCPUs", "evictionHard"]
)
def test_a_kubelet_without_a_new_field_stays_cordoned(host: Host, missing: str) -> None:
    without = {name: value for name, value in CONFIG.items() if name != missing}
    (host.folder / "stub" / "new.json").write_text(
        json.dumps({"kubeletconfig": without}, separators=(",", ":"))
    )
    done = host.run("sh")
    assert done.returncode == 1
    assert f"does not have the new {missing}; the node stays cordoned" in done.stderr
    assert not any("uncordon" in call for call in host.calls)


def test_a_cluster_that_does_not_show_configurations(host: Host) -> None:
    (host.folder / "stub" / "new.json").unlink()
    Host.program(host.folder / "bin" / "kubectl", KUBECTL.replace('cat "$STUB/configz"', "false"))
    Host.program(host.folder / "stub" / "start", START.replace("cp ", "true "))
    done = host.run("sh")
    assert done.returncode == 0
    assert "cannot be seen: configz does not answer" in done.stdout


@pytest.mark.parametrize("at", ["drain", "stop", "start"])
def test_an_interrupted_run_is_taken_up_again(host: Host, at: str) -> None:
    """Ended before or behind each step that changes something."""
    name = "kubectl" if at == "drain" else "systemctl"
    text = KUBECTL if at == "drain" else SYSTEMCTL
    Host.program(
        host.folder / "bin" / name, text.replace("case $1 in", f'[ "$1" != {at} ] || exit 1\ncase $1 in', 1)
    )
    assert host.run("sh").returncode == 1
    Host.program(host.folder / "bin" / name, text)
    done = host.run("sh")
    assert done.returncode == 0, done.stderr
    assert "kubectl cordon gpu 7's" not in host.calls  # cordoned before, by the same script
    assert numberless(host.calls)[-2:] == UNCORDONED[1:]
    assert host.policy(CPU_FILE) == "static"
    (kept,) = host.kubelet.glob("numawise-switch-*")
    assert json.loads((kept / CPU_FILE).read_text())["policyName"] == "none"


def test_a_node_that_was_cordoned_stays_cordoned(host: Host) -> None:
    (host.folder / "stub" / "unschedulable").write_text("true")
    done = host.run("sh")
    assert done.returncode == 0
    assert "is cordoned already, and stays so" in done.stdout
    assert not any("cordon" in call for call in host.calls if "drain" not in call)


def test_wrong_words(host: Host) -> None:
    done = host.run("sh", "--dryrun")
    assert (done.returncode, done.stdout) == (2, "")
    assert "usage: " in done.stderr
    assert host.run("sh", "--help").returncode == 0


@pytest.mark.parametrize(
    "name", ["plain", "it's", "a b", "$(id)", "`id`", "}", '"', "\\", "*", "\u00e9", "-n"]
)
def test_names_are_quoted(tmp_path: Path, name: str) -> None:
    found = Host(tmp_path, script_of(tmp_path, name)).run("sh", "--dry-run")
    assert f"+ kubectl cordon {name}\n" in found.stdout


@pytest.mark.parametrize(
    "text", ["NUMAWISE_END_OF_CONFIGURATION\nx\n", "no newline", "'\"$`\\\n", "a\n\n\nb\n"]
)
def test_any_configuration_comes_out_whole(tmp_path: Path, text: str) -> None:
    host = Host(tmp_path, script_of(tmp_path, new=text))
    host.run("sh")
    assert (host.kubelet / "config.yaml").read_text() == (text if text.endswith("\n") else f"{text}\n")


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
@pytest.mark.parametrize("node", ["", "gpu7", "it's"])
def test_shellcheck_finds_nothing(tmp_path: Path, node: str) -> None:
    script = tmp_path / "switch.sh"
    script.write_text(script_of(tmp_path, node))
    done = subprocess.run(["shellcheck", str(script)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_name_of_the_host_is_asked_for(tmp_path: Path) -> None:
    found = Host(tmp_path, script_of(tmp_path, "")).run("sh", "--dry-run")
    name = subprocess.run(["hostname"], capture_output=True, text=True, check=True).stdout.strip().lower()
    assert f"+ kubectl cordon {name}\n" in found.stdout
