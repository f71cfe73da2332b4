"""Why a kubelet turns pods away, and the hints it prints, read out of its words."""

import json
import re
from collections.abc import Iterable, Mapping

from numawise.codec.kubeletlog.fields import Fields, PrintedField
from numawise.engine.failure import EMPTY_SHARED_POOL, SMT_ALIGNMENT, TOPOLOGY_AFFINITY, UNEXPECTED
from numawise.engine.hint import NOWHERE, Family, Hint, HintList
from numawise.rules.versions import Version
from numawise.sets import NumaSet
from numawise.values import dataclass, field

ADMISSION = frozenset(
    {
        TOPOLOGY_AFFINITY,
        UNEXPECTED,
        SMT_ALIGNMENT,
        EMPTY_SHARED_POOL,
        "PodLevelTopologyAffinityError",
        "InvalidNodeInfo",
        "PodOSSelectorNodeLabelDoesNotMatch",
        "PodOSNotSupported",
        "InitContainerRestartPolicyForbidden",
        "SupplementalGroupsPolicyNotSupported",
        "UnexpectedPredicateFailureType",
        "NodeAffinity",
        "NodePorts",
        "NodeName",
        "TaintToleration",
    }
)
OUT_OF = "OutOf"
OLD_NAMES = {"Topology Affinity Error": TOPOLOGY_AFFINITY}
"""1.16 put blanks into it."""
REJECTED_PREFIXES = ("Pod was rejected: ", "Pod ")
"""Before the message in a pod's status: since 1.26, and before."""
REJECTED_SINCE = (1, 26)
PHASE = re.compile(r"\bPhase:(\w+)")
REASON = re.compile(r"\bReason:([\w ]*?) (?=\w+:)")
MESSAGE = re.compile(r"\bMessage:(.*?) Reason:")
LACKING = re.compile(r"Node didn't have enough resource: ([^\s,]+)")


def rejected_prefix(version: Version) -> str:
    """What a release puts before the message of a refusal."""
    return REJECTED_PREFIXES[0] if version >= REJECTED_SINCE else REJECTED_PREFIXES[1]


def reason_of(text: str) -> str:
    """A reason as it is spelt today; '' when it is none that an admission gives."""
    text = OLD_NAMES.get(text, text)
    return text if text in ADMISSION or text.startswith(OUT_OF) else ""


def reason_in(message: str) -> str:
    """The reason that goes with a message, where only the message is known; '' when it is not known."""
    lacking = LACKING.search(message)
    if lacking:
        return f"{OUT_OF}{lacking[1]}"
    lowered = message.lower()
    if "topology locality" in lowered or "topology manager" in lowered:
        return TOPOLOGY_AFFINITY
    if message.startswith("SMT Alignment Error"):
        return SMT_ALIGNMENT
    if message.startswith(("Allocate failed due to", "Update plugin resources failed")):
        return UNEXPECTED
    return ""


def rejection_in(status: object) -> tuple[str, str] | None:
    """Reason and message of a pod's status that reports a rejection; None: it reports none."""
    if isinstance(status, PrintedField):
        phase, reason, message = (found.search(status.text) for found in (PHASE, REASON, MESSAGE))
        texts = [one[1] if one else "" for one in (phase, reason, message)]
    elif isinstance(status, Mapping):
        texts = [str(status.get(key) or "") for key in ("phase", "reason", "message")]
    else:
        return None
    phase_text, reason_text, message_text = texts
    known = reason_of(reason_text)
    if phase_text != "Failed" or not (known or message_text.startswith(REJECTED_PREFIXES[0])):
        return None
    for prefix in REJECTED_PREFIXES:
        if message_text.startswith(prefix):
            message_text = message_text.removeprefix(prefix)
            break
    return known or reason_text, message_text


def patched_status(patch: str) -> object:
    """The status that a patch sets."""
    try:
        data = json.loads(patch)
    except (ValueError, RecursionError):
        return None
    return data.get("status") if isinstance(data, dict) else None


# --------------------------------------------------------------------------------------------------
# Hints as a log prints them, read into families.
#
# Rules kept here:
#
# 1. Three prints: ``map[cpu:[{01 true}]]`` (to 1.20), ``map[cpu:[{NUMANodeAffinity:01 Preferred:true}]]``
#    (1.21 to 1.27), JSON (1.28 and later, and ``--logging-format=json`` before).  A mask is binary digits in
#    the first two, a number in JSON.
# 2. ``null`` means no preference and ``[]`` impossible; the prints of Go show both as ``[]``, so they leave
#    it open.
# 3. Of a list that is cut off nothing is taken.


ONE = re.compile(r"\{(?:NUMANodeAffinity:)?([01]+|<nil>) (?:Preferred:)?(true|false)\}", re.ASCII)
LIST = re.compile(rf"\[((?:{ONE.pattern} ?)*)\]", re.ASCII)
ENTRY = re.compile(rf"([^\s:\[\]{{}}]+):{LIST.pattern} ?", re.ASCII)
LARGEST = 64


@dataclass(frozen=True, slots=True)
class LoggedHints:
    """Hints by resource, what of that is open, and whether all of it is there."""

    hints: Mapping[str, Family | None] = field(default_factory=dict)
    unsure: frozenset[str] = frozenset()
    cut: bool = False


def logged_hints(fields: Fields, key: str) -> LoggedHints:
    """The hints of a provider, by resource."""
    value = fields.value(key)
    if isinstance(value, PrintedField):
        return printed_map(value.text)
    if isinstance(value, Mapping):
        return LoggedHints({str(name): json_family(one) for name, one in value.items()}, cut=fields.cut)
    return LoggedHints(cut=fields.cut or value is not None)


def logged_list(fields: Fields, key: str, resource: str) -> LoggedHints:
    """The hints of one resource."""
    value = fields.value(key)
    if isinstance(value, PrintedField):
        return printed_list(value.text, resource)
    if isinstance(value, list) or (value is None and key in fields):
        return LoggedHints({resource: json_family(value)}, cut=fields.cut)
    return LoggedHints(cut=True)


def printed_map(text: str) -> LoggedHints:
    """``map[cpu:[{01 true}] memory:[{01 true}]]``, or JSON that is cut off."""
    if not text.startswith("map["):
        return _cut_json(text)
    hints: dict[str, Family | None] = {}
    unsure = set()
    at = len("map[")
    while entry := ENTRY.match(text, at):
        hints[entry[1]] = _family(ONE.findall(entry[2]))
        if hints[entry[1]] is NOWHERE:
            unsure.add(entry[1])
        at = entry.end()
    return LoggedHints(hints, frozenset(unsure), cut=text[at : at + 1] != "]")


def printed_list(text: str, resource: str) -> LoggedHints:
    """``[{01 true} {11 false}]``."""
    found = LIST.match(text)
    if found is None:
        return LoggedHints(cut=True)
    family = _family(ONE.findall(found[1]))
    return LoggedHints({resource: family}, frozenset({resource}) if family is NOWHERE else frozenset())


def _cut_json(text: str) -> LoggedHints:
    """The resources of a JSON object whose lists are all there."""
    hints: dict[str, Family | None] = {}
    decoder = json.JSONDecoder()
    for found in re.finditer(r'"([^"\\]+)":(?=\[|null)', text):
        try:
            value, _ = decoder.raw_decode(text, found.end())
        except (ValueError, RecursionError):
            break
        hints[found[1]] = json_family(value)
    return LoggedHints(hints, cut=True)


def json_family(value: object) -> Family | None:
    """A list of hints as JSON has it; what is not a hint in it is passed over."""
    if not isinstance(value, list):
        return None
    hints = [hint for one in value if (hint := json_hint(one)) is not None]
    return _joined((None if h.numa is None else h.numa.bits, h.preferred) for h in hints)


def json_hint(value: object) -> Hint | None:
    """``{"NUMANodeAffinity":2,"Preferred":true}``."""
    if not isinstance(value, Mapping) or not isinstance(value.get("Preferred"), bool):
        return None
    mask = value.get("NUMANodeAffinity")
    if mask is None:
        return Hint(None, value["Preferred"])
    if not isinstance(mask, int) or isinstance(mask, bool) or not 0 <= mask < 1 << LARGEST:
        return None
    return Hint(NumaSet(mask), value["Preferred"])


def hint_in(fields: Fields, key: str) -> Hint | None:
    """One hint of a structured message."""
    value = fields.value(key)
    return printed_hint(value.text) if isinstance(value, PrintedField) else json_hint(value)


def printed_hint(text: str) -> Hint | None:
    """``{01 true}``."""
    found = ONE.match(text)
    if found is None:
        return None
    mask = _mask(found[1])
    return Hint(None if mask is None else NumaSet(mask), found[2] == "true")


def _family(pairs: Iterable[tuple[str, str]]) -> Family | None:
    return _joined((_mask(digits), liked == "true") for digits, liked in pairs)


def _joined(hints: Iterable[tuple[int | None, bool]]) -> Family | None:
    found = list(hints)
    masks = tuple((mask, liked) for mask, liked in found if mask)
    if masks:
        return HintList(masks)
    return None if any(mask is None and liked for mask, liked in found) else NOWHERE


def _mask(digits: str) -> int | None:
    return None if digits == "<nil>" else int(digits[-LARGEST:], 2)
