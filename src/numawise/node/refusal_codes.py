"""Which code a refusal of the kubelet has.

The kubelet has many words for a few mistakes.  A row is a stage, words that its message must have, and the
code; the first row that fits counts, and the last row of a stage takes what is left.
"""

from numawise.engine.start import CPU_STAGE, CPU_START, MEMORY_STAGE, MEMORY_START, TOPOLOGY

GATE_STAGES = ("decode-config-panic", "feature-gates")
VALIDATION = "validate-config"
ROWS: tuple[tuple[str, str, str], ...] = (
    ("decode-config",   "", "NW101"),
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
