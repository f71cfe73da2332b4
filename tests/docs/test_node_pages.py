"""The pages about planning nodes and their state files: commands print what is shown there."""

import json
import re
from pathlib import Path

import pytest
from tests.cli.run import program

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "docs/how-to" / name for name in ("plan-a-node.md", "state-files.md", "switch-policy.md")]
SESSION = re.compile(r"```console\n\$ (numawise [^\n]*)\n((?!\$ ).+?)```", re.DOTALL)


def sessions() -> list[tuple[str, str]]:
    return [found for page in PAGES for found in SESSION.findall(page.read_text())]


@pytest.mark.parametrize(
    ("command", "output"), sessions(), ids=lambda text: text.split()[2] if "--machine" in text else ""
)
def test_pages_show_real_output(command: str, output: str) -> None:
    assert program(*command.split()[1:], COLUMNS="200").out == output


def test_every_page_has_some() -> None:
    assert len(sessions()) == 8
    assert all(SESSION.search(page.read_text()) for page in PAGES)


STATE = "examples/8gpu-server/state/after-reboot"
MACHINE = "--machine examples/8gpu-server/machine.yaml"
CONFIGS = "examples/8gpu-server/kubelet-before.yaml examples/8gpu-server/kubelet.yaml"


@pytest.mark.parametrize(("command", "kind"), [
    (f"state show {STATE}",                                                 "KubeletState"),
    (f"state verify {STATE} {MACHINE}",                                     "KubeletStateReport"),
    (f"state repair {STATE} {MACHINE} --adapt-memory",                      "KubeletStateChange"),
    (f"plan kubelet {MACHINE}",                                             "KubeletPlan"),
    (f"plan switch {CONFIGS} {MACHINE} examples/8gpu-server/pods/05-affinity-check.yaml", "SwitchPlan"),
    (f"plan pod {MACHINE} examples/8gpu-server/pods/04-five-gpu-training.yaml", "PodPlan"),
])  # fmt: skip
def test_every_field_is_in_the_reference(command: str, kind: str) -> None:
    data = json.loads(program(*command.split(), "-o", "json").out)
    assert data["kind"] == kind
    page = (ROOT / "docs/reference/node-output.md").read_text()
    (section,) = [part for part in page.split("\n## ") if part.partition("\n")[0].endswith(f": {kind}")]
    if kind == "KubeletStateReport":
        section += page
    named = set(re.findall(r"`(\w+)(?:\[\])?`", section)) | {
        "apiVersion",
        "kind",
        "directory",
        "kubernetes",
        "node",
    }
    inner = {
        key
        for value in data.values()
        if isinstance(value, list)
        for one in value[:1]
        if isinstance(one, dict)
        for key in one
    }
    if kind == "PodPlan":
        inner -= set(data["manifests"][0])
    assert set(data) | inner <= named | {"numa"}
