"""Every refusal that a kubelet of ours can make is recognised in a log, with its stage and its words."""

import ast
import gzip
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from numawise.apps.logs.starts import OTHERS, explain_start
from numawise.engine.start import CPU_STAGE, CPU_START, MEMORY_STAGE, MEMORY_START, TOPOLOGY
from numawise.explain.start import refusal_answer
from numawise.node.refusal_codes import DECODING, MARKS, ROWS, VALIDATION, code_of, refusal_in
from numawise.results.log import Origin, StartFailure
from numawise.rules.check import BEGINNINGS, Refusal
from tests.cli.run import ROOT

SOURCE = ROOT / "src" / "numawise"
RECORDED = ROOT / "tests" / "recorded"
AMBIGUOUS = 'unknown policy: "'
"""Only the line before shows whose policy it is."""


def refusals_in(value: Any) -> Iterator[Refusal]:
    if isinstance(value, dict):
        if {"stage", "message"} <= value.keys():
            yield Refusal(value["stage"], value["message"])
        for inner in value.values():
            yield from refusals_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from refusals_in(inner)


@cache
def recorded() -> tuple[Refusal, ...]:
    """Refusals of real kubelets, each once."""
    found: dict[Refusal, None] = {}
    for path in sorted(RECORDED.glob("**/*.jsonl.gz")):
        for line in gzip.decompress(path.read_bytes()).splitlines():
            if b'"stage"' in line:
                found.update(dict.fromkeys(refusals_in(json.loads(line).get("result"))))
    return tuple(found)


def wrapped(refusal: Refusal) -> Iterator[str]:
    """The error of the last line, as releases print it."""
    match refusal.stage:
        case "decode-config":
            inner = f"failed to load Kubelet config file /etc/k.yaml, error {refusal.message}"
            yield f"failed to load kubelet config file, path: /etc/k.yaml, error: {inner}"
            yield f"failed to load kubelet config file, error: {inner}, path: /etc/k.yaml"
            drop_in = "failed to load kubelet dropin file, path: /etc/k.d/1.conf, error: "
            yield f"failed to merge kubelet configs: {drop_in}{refusal.message}"
            yield inner
        case "validate-config":
            yield f"failed to validate kubelet configuration, error: {refusal.message}, path: &TypeMeta{{Kind:,}}"
            yield f"failed to validate kubelet configuration, error: {refusal.message}, path: /etc/k.yaml"
        case "decode-config-panic" | "feature-gates" | "cpu-manager-start" | "memory-manager-start":
            yield refusal.message
        case _:
            yield f"failed to run Kubelet: {refusal.message}"


def test_recorded_refusals_are_read_back() -> None:
    assert len(recorded()) > 60
    assert {one.stage for one in recorded()} >= {CPU_STAGE, CPU_START, MEMORY_STAGE, MEMORY_START, TOPOLOGY}
    for refusal in recorded():
        for error in wrapped(refusal):
            if AMBIGUOUS in refusal.message:
                assert refusal_in(error) == Refusal("", refusal.message)
                assert refusal_in(error, refusal.stage) == refusal
            else:
                assert refusal_in(error) == refusal


def literals(node: ast.AST) -> Iterator[str]:
    """Texts that a part of a program makes, with 7 for what is not known before."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(part.value) if isinstance(part, ast.Constant) else "7" for part in node.values)
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for inner in ast.iter_child_nodes(node):
        yield from literals(inner)


def said(path: str, names: str) -> set[str]:
    """The sentences that functions of a module can say; what documents them is none."""
    found: set[str] = set()
    for function in ast.walk(ast.parse((SOURCE / path).read_text())):
        if isinstance(function, ast.FunctionDef) and function.name in names.split():
            body = function.body[1:] if ast.get_docstring(function) else function.body
            found.update(text for line in body for text in literals(line) if len(text.split()) > 3)
    return found


@pytest.mark.parametrize(("path", "functions", "stage", "before"), [
    ("engine/start.py",         "_topology",                TOPOLOGY,         ""),
    ("engine/start.py",         "_cpus",                    CPU_STAGE,        ""),
    ("engine/start.py",         "_hardware_check",          CPU_STAGE,        "new static policy error: "),
    ("engine/start.py",         "_memory _reserved_memory", MEMORY_STAGE,     ""),
    ("engine/start.py",         "_cpu_state",               CPU_START,        BEGINNINGS[CPU_START]),
    ("engine/start.py",         "_memory_state",            MEMORY_START,     BEGINNINGS[MEMORY_START]),
    ("engine/memory/tables.py", "replayed",                 MEMORY_START,     BEGINNINGS[MEMORY_START]),
    ("rules/options.py",        "ungated",                  "policy-options", ""),
    ("rules/options.py",        "cpu_options",              CPU_STAGE,        "new static policy error: "),
    ("rules/options.py",        "topology_options",         TOPOLOGY,         ""),
    ("rules/eviction.py",       "thresholds _amount _share _number", "eviction-hard", ""),
])  # fmt: skip
def test_no_sentence_is_forgotten(path: str, functions: str, stage: str, before: str) -> None:
    """What the source can say is known; ``before``: what its stage puts before all of it."""
    texts = said(path, functions)
    assert texts
    parts = ("require feature gates", "not enabled, but option", "Options", "NUMA Nodes")
    whole = [text for text in texts if not text.startswith(parts)]
    assert [text for text in whole if refusal_in(before + text).stage != stage] == []


def test_every_stage_has_words_and_codes() -> None:
    stages = {stage for stage, _, _ in ROWS}
    known = {*BEGINNINGS, *(stage for stage, _ in MARKS), DECODING, VALIDATION}
    assert stages == known
    made = set()
    for path in SOURCE.glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Refusal", "refusal") and node.args:
                first = node.args[0]
                made.update([first.value] if isinstance(first, ast.Constant) else [])
    assert made <= stages


def test_the_same_sentence_as_why() -> None:
    for refusal in recorded():
        failure = StartFailure(
            Origin(), refusal.stage, refusal.message, code_of(refusal.stage, refusal.message)
        )
        explanation = explain_start(failure)
        assert explanation.answer == refusal_answer(refusal)
        assert explanation.remarks[0].startswith(failure.code)


@pytest.mark.parametrize(("message", "words"), [
    ("running with swap on is not supported, please disable swap or set --fail-swap-on flag to false", "Swap is on"),
    ("running with swap on is not supported, please disable swap! or set --fail-swap-on flag to false. /proc/swaps contained: [x]", "Swap is on"),
    ('misconfiguration: kubelet cgroup driver: "cgroupfs" is different from docker cgroup driver: "systemd"', "cgroupDriver"),
    ("unable to load bootstrap kubeconfig: stat /etc/kubernetes/bootstrap-kubelet.conf: no such file or directory", "credentials"),
    ("failed to parse kubelet flag: unknown flag: --network-plugin", "flag"),
])  # fmt: skip
def test_what_only_a_node_can_show(message: str, words: str) -> None:
    refusal = refusal_in(f"failed to run Kubelet: {message}")
    assert refusal == Refusal("", message)
    (remark,) = explain_start(StartFailure(Origin(), "", message)).remarks
    assert words in remark
    assert remark in [advice for _, advice in OTHERS]
