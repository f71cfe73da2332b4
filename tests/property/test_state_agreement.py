"""One linter for state files: ``state verify`` and ``check --state`` report the same errors."""

import json
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.codec.checkpoint.look import encoded, look
from numawise.codec.machine import encode_machine
from numawise.codec.output import to_json
from numawise.engine.state import CpuState
from numawise.sets import ids_of, parse_ids
from tests.cli.run import numawise
from tests.unit.nodes import CONFIG, at_work, machine, memory_changed, pod, without_cpus, written

Capture = pytest.CaptureFixture[str]
Random = random.Random
FILES = (CPU_FILE, MEMORY_FILE, DEVICE_FILE)
POD = "{kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, resources: {limits: {cpu: 1}}}]}}"
HEAD = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}


def cut(text: str, rng: Random) -> str:
    return text[: rng.randrange(len(text))]


def digit(text: str, rng: Random) -> str:
    """One digit is another: a checksum, a CPU, an amount."""
    at = rng.choice([i for i, char in enumerate(text) if char.isdigit()])
    return text[:at] + rng.choice("0123456789") + text[at + 1 :]


def two_on_one(text: str, rng: Random) -> str:
    """A third pod has CPUs of another; the checksum is right, wrong or missing."""
    content = look(CPU_FILE, text)
    if content.cpu is None:
        return text
    cpu = rng.choice(list(ids_of(content.cpu.shared)))
    owned = [cpus for inner in content.cpu.assignments.values() for cpus in inner.values()]
    stolen = rng.choice([*owned, 1 << cpu])
    state = CpuState(
        content.cpu.shared & ~(1 << cpu), {**content.cpu.assignments, "uid-x": {"main": stolen}}, {}
    )
    new = encoded(replace(content, cpu=state))
    if rng.random() < 0.5:
        members = json.loads(new)
        return json.dumps({**members, "checksum": rng.choice([1, members["checksum"]]), "dataChecksum": 7})
    return new


def empty_pool(text: str, rng: Random) -> str:  # noqa: ARG001 - the shape of a damage
    content = look(CPU_FILE, text)
    state = replace(content.cpu, shared=0) if content.cpu else None
    return encoded(replace(content, cpu=state)) if state else text


def other_policy(text: str, rng: Random) -> str:
    return text.replace('"static"', '"none"').replace('"Static"', '"None"') if rng.random() < 0.8 else text


DAMAGES: tuple[Callable[[str, Random], str], ...] = (cut, digit, digit, two_on_one, empty_pool, other_policy)


def errors(capsys: Capture, *words: object) -> tuple[int, list[tuple[str, str, str]]]:
    ran = numawise(capsys, *words, "-o", "json")
    findings = json.loads(ran.out)["findings"]
    found = [
        (one["code"], one.get("file", ""), one["message"]) for one in findings if one["severity"] == "error"
    ]
    return ran.status, sorted(found)


def damaged(rng: Random, release: tuple[int, int]) -> dict[str, str]:
    """The state files of a node with two pods, some of them damaged."""
    node = at_work(pod("train", 4, "6Gi", 1), pod("serve", 2, "2Gi", 1), version=release)
    texts = dict(node.files.texts)
    for _ in range(rng.randrange(4)):
        name = rng.choice(FILES)
        damage = rng.choice(DAMAGES[:3] if name != CPU_FILE else DAMAGES)
        texts[name] = damage(texts[name], rng) if texts[name] else texts[name]
    return texts


@pytest.mark.parametrize("seed", range(60))
def test_both_commands_report_the_same_errors(seed: int, tmp_path: Path, capsys: Capture) -> None:
    rng = Random(seed)
    release = rng.choice([(1, 24), (1, 31), (1, 35), (1, 36), (1, 37)])
    state = written(tmp_path / "state", damaged(rng, release))
    words: list[object] = ["--kube", f"1.{release[1]}"]
    if rng.random() < 0.6:
        now = rng.choice(
            [machine(), without_cpus(machine(), 15), memory_changed(machine(), 4096, -(1 << 30))]
        )
        (tmp_path / "machine.yaml").write_text(to_json(encode_machine(now)))
        words += ["--machine", tmp_path / "machine.yaml"]
    if rng.random() < 0.6:
        more = rng.choice([{}, {"reservedSystemCPUs": "0-1,8"}, {"cpuManagerPolicy": "none"}])
        (tmp_path / "kubelet.yaml").write_text(json.dumps({**HEAD, **CONFIG, **more}))
        words += ["--kubelet-config", tmp_path / "kubelet.yaml"]
    status, verified = errors(capsys, "state", "verify", state, *words)
    checked_status, checked = errors(capsys, "check", "--state", state, *words)
    of_state = [one for one in checked if one[0].startswith("NW3")]
    assert verified == of_state
    assert (status, checked_status) == (int(bool(verified)), int(bool(checked)))


KEEPS = "pods keep what they have"
LIKE_REBOOTS = (machine(), without_cpus(machine(), 15), memory_changed(machine(), 4096, -4096))


@pytest.mark.parametrize("seed", range(60))
def test_the_way_out_is_the_same_everywhere(seed: int, tmp_path: Path, capsys: Capture) -> None:
    """A kubelet that does not start on its state files: what keeps all that pods have is said first by all commands."""
    rng = Random(seed)
    release = rng.choice([(1, 31), (1, 35), (1, 37)])
    state = written(tmp_path / "state", damaged(rng, release))
    (tmp_path / "machine.yaml").write_text(to_json(encode_machine(rng.choice(LIKE_REBOOTS))))
    (tmp_path / "kubelet.yaml").write_text(json.dumps({**HEAD, **CONFIG}))
    (tmp_path / "pod.yaml").write_text(POD)
    node = ["--kube", f"1.{release[1]}", "--machine", tmp_path / "machine.yaml"]
    node += ["--kubelet-config", tmp_path / "kubelet.yaml"]
    simulated = numawise(capsys, "simulate", *node, "--state", state, tmp_path / "pod.yaml")
    explained = json.loads(
        numawise(capsys, "why", *node, "--state", state, tmp_path / "pod.yaml", "-o", "json").out
    )["pods"][0]
    if simulated.status != 2:
        assert explained["verdict"] != "not started"
        return
    assert explained["verdict"] == "not started"
    for command in (["state", "verify", state], ["check", "--state", state]):
        findings = json.loads(numawise(capsys, *command, *node, "-o", "json").out)["findings"]
        (fix,) = (one["fix"] for one in findings if one.get("kubelet") == explained["message"])
        assert simulated.err.endswith(f"{explained['message']}; {fix}\n")
        first, *others = explained["suggestions"]
        assert all("repair" not in one for one in others)
        if KEEPS in fix:
            (option,) = re.findall(r"^numawise state repair (--[a-z-]+); ", fix)
            assert option in first["repair"]
        if KEEPS in first.get("price", ""):
            assert any(option in fix for option in first["repair"])


@pytest.mark.parametrize("wrong_checksum", [False, True])
def test_two_pods_on_one_cpu_is_an_error_everywhere(
    wrong_checksum: bool,  # noqa: FBT001 - a parameter
    tmp_path: Path,
    capsys: Capture,
) -> None:
    content = look(CPU_FILE, at_work(pod("a", 2), version=(1, 36)).files.texts[CPU_FILE])
    assert content.cpu is not None
    (own,) = content.cpu.assignments["uid-a"].values()
    state = CpuState(content.cpu.shared, {**content.cpu.assignments, "uid-b": {"main": own}}, {})
    text = encoded(replace(content, cpu=state))
    if wrong_checksum:
        text = json.dumps({**json.loads(text), "checksum": 12345})
    folder = written(tmp_path / "state", {CPU_FILE: text})
    verify = errors(capsys, "state", "verify", folder, "--kube", "1.36")
    check = errors(capsys, "check", "--state", folder, "--kube", "1.36")
    assert verify == check
    assert verify[0] == 1
    assert {code for code, _, _ in verify[1]} == ({"NW302", "NW308"} if wrong_checksum else {"NW308"})
    assert parse_ids("1,9") == own
