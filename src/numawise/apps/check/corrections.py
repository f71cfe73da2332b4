"""How what is found in a kubelet's configuration is mended in the file that says it.

Rules kept here:

1. A field is changed where it was set last.  What a flag sets, or a platform's own form, is not changed here.
2. Certain is what leaves nothing to choose: a name or a value with one near meaning, a type, what the kubelet
   ignores or refuses whatever else is written, and amounts that follow from others.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from numawise.apps.check.context import Context
from numawise.codec.document import field_name
from numawise.codec.edits import correction, remove, rename_key, set_value, written_as
from numawise.codec.lines import Steps
from numawise.errors import meant, quoted
from numawise.results.correction import Correction
from numawise.rules.check import RESERVABLE
from numawise.rules.eviction import SIGNALS
from numawise.rules.versions import at
from numawise.sets import parse_ids

Ways = Sequence[Correction | None]
TRUTH = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}
TYPES = re.compile(r"cannot unmarshal (\w+) .*of type (\w+)")
EVICTION = "evictionHard"
STRICTEST_LAST = ("best-effort", "restricted", "single-numa-node")


def field_set(context: Context, steps: Steps, value: object, *, certain: bool = True) -> Correction | None:
    """Set a field; where nobody has written it, it is added."""
    there = context.configuration.written(*steps)
    part = context.configuration.writer(*steps) if there else context.configuration.room(*steps)
    if part is None:
        return None
    shown = "" if isinstance(value, Mapping | list | tuple) else f" {_written(value)}"
    title = f"set {field_name(steps)}{' to' if shown else ''}{shown}"
    return correction(title, set_value(part, steps, value), certain=certain)


def field_removed(context: Context, steps: Steps, *, certain: bool = True) -> Correction | None:
    """Take a field out."""
    part = context.configuration.writer(*steps)
    if part is None:
        return None
    return correction(f"remove {field_name(steps)}", remove(part, steps), certain=certain)


def field_renamed(context: Context, steps: Steps, name: str) -> Correction | None:
    """Give an entry the name that is meant."""
    part = context.configuration.writer(*steps)
    if part is None or not name:
        return None
    return correction(f"rename {steps[-1]} to {name}", rename_key(part, steps, name))


def _written(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else quoted(str(value), '"')


# --- types and values -----------------------------------------------------------------------------


def retyped(context: Context, steps: Steps, message: str) -> Correction | None:
    """A value of the wrong type, as the type that it must have."""
    part = context.configuration.writer(*steps) if steps else None
    types = TYPES.search(message)
    if part is None or types is None:
        return None
    value, text = part.at(*steps).value, written_as(part, steps)
    kind = types[2]
    if kind == "string" and isinstance(value, bool | int | float) and text:
        return correction(f"put {text} in quotes", set_value(part, steps, text))
    if not isinstance(value, str):
        return None
    if kind == "bool" and value.lower() in ("true", "false"):
        plain = value.lower() == "true"
        return correction(f"write {value.lower()} without quotes", set_value(part, steps, plain))
    if kind.startswith(("int", "uint")) and re.fullmatch(r"-?[0-9]{1,18}", value):
        return correction(f"write {value} without quotes", set_value(part, steps, int(value)))
    return None


def plain_list(context: Context) -> Correction | None:
    """``reservedSystemCPUs`` without the blanks that the kubelet does not take."""
    value = context.configuration.raw.get("reservedSystemCPUs")
    if not isinstance(value, str):
        return None
    listed = re.sub(r"\s+", "", value).strip(",")
    try:
        fits = bool(parse_ids(listed)) and listed != value
    except ValueError:
        return None
    return field_set(context, ("reservedSystemCPUs",), listed) if fits else None


def unknown_entry(context: Context, steps: Steps) -> Ways:
    """A resource or a signal that there is not: the one that is meant, or none."""
    known = RESERVABLE if steps[0] != EVICTION else frozenset(at(context.version, SIGNALS))
    name = str(steps[-1])
    if name in known:
        return ()
    near = field_renamed(context, steps, meant(name, known))
    return [near, field_removed(context, steps, certain=False)]


# --- policies, options and gates ------------------------------------------------------------------


def option_ways(context: Context, field: str, name: str, near: str) -> Iterator[Correction | None]:
    """An option that is refused: the one that is meant, or a truth that Go can read."""
    value = context.configuration.raw.get(field)
    given = value.get(name) if isinstance(value, Mapping) else None
    if near and near != name:
        yield field_renamed(context, (field, name), near)
    elif not near and isinstance(given, str) and given.lower() in TRUTH:
        yield field_set(context, (field, name), TRUTH[given.lower()])
    yield field_removed(context, (field, name), certain=False)


def gate_ways(context: Context, gate: str, option: Steps) -> Iterator[Correction | None]:
    """An option that needs a gate: the gate, unless somebody switched it off."""
    if not context.configuration.written("featureGates", gate):
        yield field_set(context, ("featureGates", gate), True)
    yield field_removed(context, option, certain=False)


def excluding_ways(context: Context, message: str) -> Iterator[Correction | None]:
    """Options that exclude each other: keep any one of them."""
    for field in ("cpuManagerPolicyOptions", "topologyManagerPolicyOptions"):
        options = context.configuration.raw.get(field)
        for name in sorted(options) if isinstance(options, Mapping) else ():
            if name in message:
                yield field_removed(context, (field, name), certain=False)


def topology_ways(context: Context) -> Iterator[Correction | None]:
    """A topology policy to choose."""
    for policy in STRICTEST_LAST:
        yield field_set(context, ("topologyManagerPolicy",), policy, certain=False)
