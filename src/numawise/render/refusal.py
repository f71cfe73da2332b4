"""What a node lacks for a pod, in words that do not differ from node to node."""

import re

from numawise.engine.predicates import PODS, Insufficient
from numawise.render.words import amount_text, both, bytes_text, counted
from numawise.request.model import CPU, EPHEMERAL, HUGEPAGES, MEMORY
from numawise.results.explanation import BYTES, CPUS, NEVER, Explanation, ResourceHints
from numawise.rules.model import RESTRICTED, SINGLE
from numawise.strconv import whole_number

OUT_OF = "OutOf"
SUMS = re.compile(r"requested: (\d{1,18}), used: \d{1,18}, capacity: (\d{1,18})", re.ASCII)


def lacking_text(explanation: Explanation) -> str:
    """``no NUMA node has 4 nvidia.com/gpu free``: why a kubelet refuses a pod, the same for equal reasons."""
    never = explanation.outlook == NEVER
    idle = " even when idle" if never else " free"
    merged = explanation.round
    if explanation.reason.startswith(OUT_OF):
        name = explanation.reason.removeprefix(OUT_OF)
        if never:
            return f"it has too little {_title(name)} even when idle"
        sums = SUMS.search(explanation.message)
        if sums is None:
            return f"it has too little {_title(name)} left"
        return short_text(Insufficient(name, whole_number(sums[1]), 0, whole_number(sums[2])))
    if merged is None or merged.admitted or not explanation.resources:
        return explanation.cause or explanation.reason
    amounts = [_asked(hints) for hints in merged.hints if hints.resource in explanation.resources]
    if not all(amounts):
        return explanation.cause
    together = " together" if len(amounts) > 1 else ""
    if explanation.policy == SINGLE:
        return f"no NUMA node has {both(amounts)}{idle}{together}"
    if explanation.policy == RESTRICTED:
        return f"the NUMA nodes that restricted allows do not have {both(amounts)}{idle}{together}"
    return explanation.cause


def short_text(short: Insufficient) -> str:
    """``fewer than 4 nvidia.com/gpu are left``, by sums."""
    name, size = short.resource, short.requested
    if short.resource == PODS:
        return "it has as many pods as it takes"
    if name == CPU:
        return f"it has less than {amount_text(name, size)} CPU{'s' * (size > 1000)} left, by sums"
    if name in (MEMORY, EPHEMERAL) or name.startswith(HUGEPAGES):
        return f"it has less than {bytes_text(size)} of {name} left, by sums"
    return f"it has fewer than {size} {name} left" if short.capacity else f"it has no {name}"


def _title(name: str) -> str:
    return "CPU" if name == CPU else name


def _asked(hints: ResourceHints) -> str:
    if hints.asked is None:
        return ""
    if hints.unit == CPUS:
        return counted(hints.asked, "CPU")
    if hints.unit == BYTES:
        return f"{bytes_text(hints.asked)} of {hints.resource}"
    return f"{hints.asked} {hints.resource}"
