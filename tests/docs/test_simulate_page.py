"""The page about ``simulate`` shows what the command really prints, and its fields and steps are told."""

import json
import re
import shlex
from pathlib import Path

import pytest
from tests.cli.run import program

from numawise.codec.steps import HEALTH, STATE_FILES, WORDS

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "how-to" / "simulate-your-node.md"
RESIZE_PAGE = ROOT / "docs" / "how-to" / "resize-a-pod.md"
FIELDS = ROOT / "docs" / "reference" / "simulation-output.md"
EIGHT = ROOT / "examples" / "8gpu-server"
BLOCK = re.compile(r"```console\n\$ (numawise simulate (?:[^\n]*\\\n)*[^\n]*\n)(.*?)```", re.DOTALL)
TOLD_TOGETHER = {"uid", "namespace", "numa", "preferred", "type", "size", "code", "text", "nvidia.com/gpu"}
ANYTHING = {"cpu", "memory", "device", "unhealthy", "back", "gone", "pod", "container"}
"""Names of providers, devices and resources, which are values more than fields."""


@pytest.mark.parametrize(
    ("command", "output"), BLOCK.findall(PAGE.read_text()) + BLOCK.findall(RESIZE_PAGE.read_text())
)
def test_output_is_real(command: str, output: str) -> None:
    words: list[str] = []
    for word in shlex.split(command.replace("\\\n", " "))[1:]:
        words += sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(word)) if "*" in word else [word]
    ran = program(*words, COLUMNS="100", NO_COLOR="1")
    assert ran.out + ran.err == output


def test_every_way_has_its_example() -> None:
    shown = " ".join(command for command, _ in BLOCK.findall(PAGE.read_text()))
    for option in ("--fill", "--map", "--steps", "--compare", "--nodes", "--cluster"):
        assert option in shown


def test_the_scenario_on_the_page_is_the_example() -> None:
    kept = "".join(
        line for line in (EIGHT / "day.yaml").read_text().splitlines(True) if not line.startswith("#")
    )
    assert f"```yaml\n{kept}```" in PAGE.read_text()


@pytest.mark.parametrize(
    "word", [*WORDS, *HEALTH, STATE_FILES[0], "at", "after", "count", "most", "after-pods"]
)
def test_every_word_of_a_scenario_is_told(word: str) -> None:
    assert re.search(rf"\| .*`[^`]*\b{word}\b|`{word}: ", PAGE.read_text())


@pytest.mark.parametrize("words", [
    ["--steps", EIGHT / "day.yaml", "--fill", EIGHT / "pods" / "05-affinity-check.yaml"],
    ["--compare", EIGHT / "kubelet-single-numa-node.yaml", EIGHT / "pods" / "04-five-gpu-training.yaml"],
    ["--nodes", "8gpu-server:2", "--cluster", EIGHT / "arrivals.jsonl"],
    ["--nodes", "8gpu-server:2", EIGHT / "pods" / "04-five-gpu-training.yaml", EIGHT / "pods" / "02-four-gpu-training.yaml"],
])  # fmt: skip
def test_every_field_is_told(words: list[object]) -> None:
    files = ["--machine", EIGHT / "machine.yaml", "--kubelet-config", EIGHT / "kubelet.yaml"]
    page = FIELDS.read_text()
    for name in names(json.loads(program("simulate", *files, *words, "-o", "json").out)):
        if name not in TOLD_TOGETHER | ANYTHING:
            assert re.search(rf"[`.,{{ ]{name}[`,}}\[. ]", page), name


def names(value: object) -> set[str]:
    """Every key, but those of mappings by container, resource or provider."""
    if isinstance(value, dict):
        found = set()
        for key, inner in value.items():
            found.add(key)
            if key not in ("devices", "hints", "resources", "changes"):
                found |= names(inner)
        return found
    return {name for one in value for name in names(one)} if isinstance(value, list) else set()


def test_the_resizes_on_the_page_are_the_example() -> None:
    steps = (ROOT / "examples" / "resize" / "steps.yaml").read_text().partition("\n")[2]
    assert f"```yaml\n{steps}```" in RESIZE_PAGE.read_text()
