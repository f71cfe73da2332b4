"""The page of the scheduler extender says what the program has."""

from pathlib import Path

from numawise.apps.scheduler.capacity import CAPACITY_METRICS
from numawise.apps.scheduler.configuration import HIGHEST_OF_PLUGIN, STOCK_WEIGHTS, WEIGHT
from numawise.apps.scheduler.run import SCHEDULER
from numawise.apps.scheduler.serving import SERVING_METRICS
from numawise.apps.scheduler.web import REQUESTS, SECONDS, VERBS
from numawise.inputs.live import FEED_METRICS
from numawise.service.duty import SUFFIXES

PAGE = (Path(__file__).parents[2] / "docs/reference/scheduler.md").read_text()


def test_every_metric_has_its_line() -> None:
    for about in (SCHEDULER, REQUESTS, SECONDS, *SERVING_METRICS, *CAPACITY_METRICS, *FEED_METRICS):
        assert f"| `{about.name}{SUFFIXES.get(about.kind, '')}` |" in PAGE


def test_every_path_is_there() -> None:
    for verb in VERBS:
        assert f"/{verb}`" in PAGE


def test_the_weight_is_the_one_that_is_written() -> None:
    assert f"`weight: {WEIGHT}`" in PAGE
    total = sum(STOCK_WEIGHTS.values())
    assert f"sum up to {total}" in PAGE
    assert f"more than {total * HIGHEST_OF_PLUGIN:,}" in PAGE
