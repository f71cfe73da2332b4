"""Hints pasted on the command line, explained without a machine."""

from collections.abc import Sequence

from numawise.codec.hints import parse_hints
from numawise.engine.hint import Family
from numawise.errors import InputError
from numawise.explain.explain import explain_hints
from numawise.results.explanation import Explanation
from numawise.rules.versions import REFERENCE, Version

OPTION = "--hints"


def explain_pasted(
    policy: str, texts: Sequence[str], count: int | None = None, version: Version = REFERENCE
) -> Explanation:
    """Explain ``cpu=1! 0-1`` and the like; without a ``count`` the NUMA nodes are those that are named."""
    hints: dict[str, Family | None] = {}
    for text in texts:
        resource, equals, told = text.partition("=")
        if not equals or not resource.strip():
            raise InputError(f"{text!r} names no resource", field=OPTION, advice="write it like cpu='1! 0-1'")
        resource = resource.strip()
        if resource in hints:
            raise InputError(f"{resource} is given twice", field=OPTION, advice="give each resource once")
        try:
            hints[resource] = parse_hints(told)
        except ValueError as problem:
            raise InputError(f"{resource}: {problem}", field=OPTION) from None
    named = 0
    for family in hints.values():
        named |= family.reach if family is not None else 0
    if count is not None and named.bit_length() > count:
        raise InputError(
            f"there are hints for NUMA {named.bit_length() - 1}",
            field="--numa",
            advice=f"give at least {named.bit_length()}",
        )
    return explain_hints(policy, hints, range(count or max(1, named.bit_length())), version=version)
