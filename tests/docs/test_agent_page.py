"""The agent's pages say what is in the code."""

import re
from pathlib import Path

from tests.cli.run import program

from numawise.apps.agent.export import EXPORT_METRICS
from numawise.apps.agent.offering import OFFER_METRICS
from numawise.apps.agent.rights import RIGHTS
from numawise.apps.agent.run import AGENT
from numawise.apps.agent.watching import WATCH_METRICS
from numawise.codec.agent_nvidia import NOT_ACTED_ON
from numawise.codec.agent_values import IGNORED_XIDS
from numawise.codec.nvidia_plugin import FLAG_FIELDS, GFD_FIELDS, PLUGIN_FIELDS
from numawise.service.pages import OWN_METRICS

ROOT = Path(__file__).parents[2]
METRICS = (AGENT, *OWN_METRICS, *OFFER_METRICS, *EXPORT_METRICS, *WATCH_METRICS)
PAGE = (ROOT / "docs/reference/agent.md").read_text()
RIGHTS_PAGE = (ROOT / "docs/reference/agent-rights.md").read_text()


def test_every_metric_has_its_line() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| (\w+) \|.*\| (.+) \|$", PAGE, re.MULTILINE)
    assert set(rows) == {(one.name, one.kind, one.words) for one in METRICS}


def test_every_field_of_nvidias_configuration_is_judged() -> None:
    table = PAGE.partition("## NVIDIA's configuration")[2].partition("##")[0]
    for name in {*FLAG_FIELDS, *PLUGIN_FIELDS, "timeSlicing", "mps", "imex", "resources"} - {"plugin"}:
        assert name in table, name
    assert GFD_FIELDS
    assert set(NOT_ACTED_ON) <= {*FLAG_FIELDS, *PLUGIN_FIELDS}


def test_every_right_has_its_line() -> None:
    def rows(title: str) -> set[tuple[str, ...]]:
        table = RIGHTS_PAGE.partition(f"## {title}")[2].partition("\n## ")[0]
        lines = re.findall(r"^\| (`--.*) \|$", table, re.MULTILINE)
        return {tuple(line.replace("`", "").split(" | ")) for line in lines}

    assert rows("Mounts") == {
        (f"--{feature}", mount.path, "writes" if mount.writes else "reads", mount.why)
        for feature, rights in RIGHTS.items()
        for mount in rights.mounts
    }
    assert rows("Rights at the API server") == {
        (f"--{feature}", right.group or "core", right.resource, ", ".join(right.verbs), right.why)
        for feature, rights in RIGHTS.items()
        for right in rights.api
    }


def test_the_manifest_is_the_file() -> None:
    lines = re.findall(r"^\$ numawise (agent .*--manifest.*) > (\S+)$", RIGHTS_PAGE, re.MULTILINE)
    assert [file for _, file in lines] == ["manifest.yaml", "manifest-everything.yaml"]
    for words, file in lines:
        ran = program(*words.split())
        assert ran.status == 0
        assert ran.out == (ROOT / "examples/agent" / file).read_text()


def test_xids() -> None:
    assert ", ".join(map(str, IGNORED_XIDS)) in PAGE


def test_the_example_is_the_file() -> None:
    page = (ROOT / "docs/how-to/run-the-agent.md").read_text()
    (shown,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert (ROOT / "examples/agent/agent.yaml").read_text().startswith(shown)
