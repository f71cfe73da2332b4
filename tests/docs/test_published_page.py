"""The page about the published state names every field, and its figures hold."""

import re
from pathlib import Path

import msgspec
import pytest

from numawise.codec.published import envelope, node_part, shapes, state_part
from numawise.codec.published.node_part import MOST_CPU_IDS, MOST_DEVICES
from numawise.codec.published.state_part import MOST_PODS

PAGE = (Path(__file__).parents[2] / "docs/reference/published-state.md").read_text()
FIELDS = sorted(
    {
        (struct.__name__, field.encode_name)
        for module in (node_part, shapes, state_part)
        for struct in vars(module).values()
        if isinstance(struct, type) and issubclass(struct, msgspec.Struct)
        for field in msgspec.structs.fields(struct)
    }
)


@pytest.mark.parametrize(("struct", "field"), FIELDS)
def test_every_field_is_there(struct: str, field: str) -> None:
    words = set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]*)`", PAGE))))
    assert field in words, struct


@pytest.mark.parametrize("figure", [envelope.LARGEST_TEXT, MOST_CPU_IDS, MOST_DEVICES, MOST_PODS])
def test_the_limits_are_the_real_ones(figure: int) -> None:
    assert f"{figure:,}" in PAGE


def test_the_version_is_the_one_that_is_written() -> None:
    assert f"`{envelope.VERSION}:HASH:DATA`" in PAGE
    assert f"expands to {envelope.LARGEST_JSON >> 20} MiB" in PAGE
