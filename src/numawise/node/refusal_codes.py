"""Which code a refusal of the kubelet has, which refusal an error that it printed is, and what helps.

Rules kept here:

1. The kubelet has many words for a few mistakes.  A row of ``ROWS`` is a stage, words that its message must
   have, and the code; the first row that fits counts, and the last row of a stage takes what is left.
2. An error as it is logged has words around it that differ between releases (``WRAPPERS``); without them it
   is the message of a ``Refusal``, to the letter.
3. Its stage is what the line that has it says, or the wrapper, or the words with which all messages of the
   stage begin (``BEGINNINGS``, from which the messages are made), or words of a row or of ``MARKS``.
"""

import re

from numawise.engine.start import CPU_STAGE, CPU_START, MEMORY_STAGE, MEMORY_START, TOPOLOGY
from numawise.rules.check import BEGINNINGS, Refusal
from numawise.rules.options import MOST_NUMA, TOPOLOGY_MATURITY, maturity
from numawise.rules.validate.general import INVALID
from numawise.rules.versions import Version

DECODING = "decode-config"
GATE_STAGES = ("decode-config-panic", "feature-gates")
VALIDATION = "validate-config"
ROWS: tuple[tuple[str, str, str], ...] = (
    (DECODING,          "", "NW101"),
    *((stage, "unrecognized feature gate", "NW111") for stage in GATE_STAGES),
    *((stage, "locked to", "NW112") for stage in GATE_STAGES),
    *((stage, "", "NW113") for stage in GATE_STAGES),
    (VALIDATION,        "topologyManagerPolicy", "NW121"),
    (VALIDATION,        "topologyManagerScope", "NW121"),
    (VALIDATION,        "reservedSystemCPUs", "NW202"),
    (VALIDATION,        "for NUMA node", "NW222"),
    (VALIDATION,        "cgroup v1", "NW138"),
    (VALIDATION,        "", "NW120"),
    ("reserved-cpus",   "", "NW203"),
    ("kube-reserved",   "", "NW205"),
    ("system-reserved", "", "NW205"),
    ("eviction-hard",   "", "NW206"),
    ("policy-options",  "", "NW125"),
    (TOPOLOGY,          "not enabled, but option", "NW125"),
    (TOPOLOGY,          "unsupported on machines", "NW231"),
    (TOPOLOGY,          "NUMA distances", "NW235"),
    (TOPOLOGY,          "", "NW124"),
    (CPU_STAGE,         "unknown policy", "NW122"),
    (CPU_STAGE,         "unable to determine reserved CPU", "NW201"),
    (CPU_STAGE,         "unable to reserve", "NW204"),
    (CPU_STAGE,         "new none policy", "NW127"),
    (CPU_STAGE,         "not enabled, but option", "NW125"),
    (CPU_STAGE,         "at the same time", "NW126"),
    (CPU_STAGE,         "is incompatible with", "NW126"),
    (CPU_STAGE,         "number of sockets", "NW239"),
    (CPU_STAGE,         "", "NW124"),
    (MEMORY_STAGE,      "the total amount", "NW221"),
    (MEMORY_STAGE,      "does not exist on this machine", "NW222"),
    (MEMORY_STAGE,      "Quantity to int64", "NW222"),
    (MEMORY_STAGE,      "you should specify", "NW223"),
    (MEMORY_STAGE,      "", "NW123"),
    (CPU_START,         "differs from state checkpoint policy", "NW301"),
    (CPU_START,         "checkpoint is corrupted", "NW302"),
    (CPU_START,         "default cpuset cannot be empty", "NW309"),
    (CPU_START,         "reserved cpus", "NW306"),
    (CPU_START,         "overlaps with default cpuset", "NW307"),
    (CPU_START,         "doesn't match with CPUs in state", "NW305"),
    (CPU_START,         "", "NW303"),
    (MEMORY_START,      "differs from state checkpoint policy", "NW301"),
    (MEMORY_START,      "checkpoint is corrupted", "NW302"),
    (MEMORY_START,      "machine state", "NW310"),
    (MEMORY_START,      "that does not exist", "NW311"),
    (MEMORY_START,      "", "NW303"),
)  # fmt: skip


def code_of(stage: str, message: str) -> str:
    """The code of a refusal."""
    return next(code for known, words, code in ROWS if known == stage and words in message)


# --------------------------------------------------------------------------------------------------
# Errors as a kubelet logs them.


WRAPPERS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (stage, re.compile(pattern, re.DOTALL))
    for stage, pattern in (
        ("", r"failed to run [Kk]ubelet: (.*)"),
        (DECODING, r"failed to load kubelet config file, path: \S*, error: (.*)"),
        (DECODING, r"failed to load kubelet config file, error: (.*), path: \S*"),
        (DECODING, r"failed to merge kubelet configs: (.*)"),
        (DECODING, r"failed to load kubelet dropin file, path: \S*?, (?:error: )?(.*)"),
        (DECODING, r"failed to load Kubelet config file \S*, error:? (.*)"),
        (VALIDATION, r"failed to validate kubelet configuration, error: (.*?), path: (?:&|\S*$).*"),
        (VALIDATION, r"failed to validate kubelet configuration, error: (.*)"),
        (CPU_STAGE, r"failed to initialize cpu manager: (.*)"),
        (MEMORY_STAGE, r"failed to initialize memory manager: (.*)"),
        ("", r"Failed to start ContainerManager:? (.*)"),
    )
)
"""What stands around an error, and the stage that shows; some are around others."""
MARKS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (stage, re.compile(pattern))
    for stage, pattern in (
        (
            DECODING,
            r"failed to decode: |failed to cast object to KubeletConfiguration|failed to read kubelet config",
        ),
        (
            VALIDATION,
            rf"\[?{re.escape(INVALID)}|unable to parse reservedSystemCPUs|the reserved memory has a dup",
        ),
        (VALIDATION, r"reserved memory may not be zero|the limit type .* is not supported"),
        (VALIDATION, r"can't use reservedSystemCPUs"),
        ("feature-gates", r"\[?(?:unrecognized feature gate|cannot set feature gate)"),
        ("policy-options", r"(?:CPU Manager|topology manager) policy options "),
        (CPU_STAGE, r"new (?:none|static) policy error: |\[cpumanager\] "),
        (MEMORY_STAGE, r"\[memorymanager\] you should specify|policy \"BestEffort\" is not available"),
        (
            MEMORY_STAGE,
            r"the total amount .* determined by Node Allocatable|could not covert a variable of type",
        ),
        (MEMORY_STAGE, r"the reserved memory configuration references"),
        (
            TOPOLOGY,
            r"unsupported on machines with more than|cannot discover NUMA topology|.*Topology Manager Policy",
        ),
        (TOPOLOGY, r".* not enabled, but option |bad value for option "),
        (TOPOLOGY, r"unable to convert policy option to integer|the minimum value of .* should not be less"),
        ("eviction-hard", r"unsupported eviction signal|eviction (?:percentage )?threshold"),
        ("eviction-hard", r"quantities must match|unable to parse quantity's suffix|strconv\.ParseFloat"),
    )
)
"""How errors begin whose stage has no beginning of its own; the first that fits."""


def refusal_in(error: str, stage: str = "") -> Refusal:
    """The refusal that an error in a log is; its stage is '' where the words belong to none.

    ``stage``: what the line shows of it, such as "Failed to initialize cpu manager".
    """
    error = error.strip()
    for _ in WRAPPERS:
        for shown, pattern in WRAPPERS:
            wrapped = pattern.fullmatch(error)
            if wrapped:
                error, stage = wrapped[1].strip(), shown or stage
                break
        else:
            break
    for known, beginning in BEGINNINGS.items():
        if error.startswith(beginning):
            return Refusal(known, error)
    if stage in BEGINNINGS:
        return Refusal(stage, f"{BEGINNINGS[stage]}{error}")
    return Refusal(stage or _stage_of(error), error)


def _stage_of(error: str) -> str:
    return next((stage for stage, pattern in MARKS if pattern.match(error)), "")


def refusal_advice(refusal: Refusal, numas: int, version: Version) -> str:
    """What helps against a refusal, where that is not plain from it."""
    if not refusal.message.startswith("unsupported on machines with more than"):
        return ""
    if maturity(TOPOLOGY_MATURITY[MOST_NUMA], version) is None:
        return "this release has no option for more; set topologyManagerPolicy: none"
    return (
        f'set max-allowable-numa-nodes: "{numas}" in topologyManagerPolicyOptions; the kubelet then compares '
        f"up to {float(2**numas - 1) ** 3:.1e} combinations of hints for a container with CPUs, memory and "
        "one device"
    )
