"""The page of the healer says what it counts, measures and is asked with."""

import re
from pathlib import Path

from numawise.apps.heal.run import HEAL, HEAL_METRICS
from numawise.cli.heal import command
from numawise.codec.kubeletlog.hints import ADMISSION
from numawise.service.duty import SUFFIXES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference/heal.md").read_text()
HOW = (DOCS / "how-to/end-runaway-pods.md").read_text()


def test_every_reason_is_named() -> None:
    assert {reason for reason in ADMISSION if f"`{reason}`" not in PAGE} == set()


def test_every_metric_is_named_and_no_other() -> None:
    names = {one.name + SUFFIXES.get(one.kind, "") for one in HEAL_METRICS if one is not HEAL}
    assert set(re.findall(r"`(numawise_heal_\w+)", PAGE)) == names


def test_options_that_are_named_are_there() -> None:
    known = {option for parameter in command.params for option in parameter.opts}
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", PAGE + HOW))
    assert named - known - {"--type"} == set(), "kubectl has --type"
