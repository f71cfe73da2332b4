"""Why a kubelet turns pods away: the reasons it gives, and where they are told."""

import json
import re
from collections.abc import Mapping

from numawise.codec.kubeletlog.fields import Printed
from numawise.engine.failure import EMPTY_SHARED_POOL, SMT_ALIGNMENT, TOPOLOGY_AFFINITY, UNEXPECTED

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
PHASE = re.compile(r"\bPhase:(\w+)")
REASON = re.compile(r"\bReason:([\w ]*?) (?=\w+:)")
MESSAGE = re.compile(r"\bMessage:(.*?) Reason:")
LACKING = re.compile(r"Node didn't have enough resource: ([^\s,]+)")


def reason_of(text: str) -> str:
    """A reason as it is spelt today; '' when it is none that an admission gives."""
    text = OLD_NAMES.get(text, text)
    return text if text in ADMISSION or text.startswith(OUT_OF) else ""


def reason_in(message: str) -> str:
    """The reason that goes with a message, where only the message is told; '' when it is not known."""
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
    """Reason and message of a pod's status that tells of a rejection; None: it tells of none."""
    if isinstance(status, Printed):
        phase, reason, message = (found.search(status.text) for found in (PHASE, REASON, MESSAGE))
        told = [one[1] if one else "" for one in (phase, reason, message)]
    elif isinstance(status, Mapping):
        told = [str(status.get(key) or "") for key in ("phase", "reason", "message")]
    else:
        return None
    phase_text, reason_text, message_text = told
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
    except ValueError:
        return None
    return data.get("status") if isinstance(data, dict) else None
