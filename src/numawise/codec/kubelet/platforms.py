"""Platforms that write a kubelet's configuration by themselves: what they reserve, allow, and give away.

The facts are ``data/platforms.toml``.

Rules kept here:

1. What a platform adds to a configuration is not in what people paste: whether CPUs are reserved is said as
   yes, no or not known, with the reason.
2. A platform is known by the form of what was read; else by fields of a configuration from a node, all of
   them; else by a node's labels; else by the kubelet's version.
"""

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from numawise.datafile import data_text
from numawise.values import dataclass, field


@dataclass(frozen=True, slots=True)
class Platform:
    """What is known of a platform."""

    name: str
    title: str
    file: str
    """What it writes on the node."""
    reserves_cpus: bool | None = None
    """Whether CPUs are reserved though nobody asked for it; None: not known."""
    reserves: str = ""
    """Who reserves them, or why it is not known."""
    unless: str = ""
    """A field that takes the place of what it would reserve."""
    never: Mapping[str, str] = field(default_factory=dict)
    """Fields that cannot be set there → why."""
    only: tuple[str, ...] = ()
    """The fields of the managers that can be set; none: all can, but for ``never``."""
    signs: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    labels: tuple[str, ...] = ()

    def refused(self, name: str) -> str:
        """Why a field of the managers cannot be set there; '' when it can."""
        if name in self.never:
            return self.never[name]
        return f"{self.title} has no setting for it" if self.only and name not in self.only else ""


@cache
def platforms() -> Mapping[str, Platform]:
    """All platforms, by name."""
    import tomllib  # noqa: PLC0415 - few need it

    tables = tomllib.loads(data_text(__file__, "platforms.toml"))
    return {name: _platform(name, facts) for name, facts in tables.items()}


def _platform(name: str, facts: Mapping[str, Any]) -> Platform:
    lists = {key: tuple(facts.get(key, ())) for key in ("only", "labels")}
    return Platform(name=name, **{**facts, **lists})


def platform_of_node(
    config: Mapping[str, object], labels: Collection[str] = (), version: str = ""
) -> Platform | None:
    """The platform of a node, by its whole configuration, its labels and its version (rule 2)."""
    everywhere = tuple(platforms().values())
    by_fields = [one for one in everywhere if one.signs and _has_all(config, one.signs)]
    if by_fields:
        return max(by_fields, key=lambda one: len(one.signs))
    for one in everywhere:
        if set(one.labels) & set(labels):
            return one
    return next((one for one in everywhere if one.version and re.search(one.version, version)), None)


def _has_all(config: Mapping[str, object], signs: Mapping[str, str]) -> bool:
    for name, pattern in signs.items():
        value: object = config
        for step in name.split("."):
            value = value.get(step) if isinstance(value, Mapping) else None
        if not isinstance(value, str) or not re.fullmatch(pattern, value):
            return False
    return True
