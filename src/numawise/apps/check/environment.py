"""What a pod does to its own placement: variables, commands, privileges, host paths.

Rules kept here:

1. Variables are those written in the manifest, and assignments at the start of shell commands in it; what
   comes from elsewhere is not known.  Where a variable stands twice the last counts.
2. A container sees the GPUs it was given as 0, 1 and so on.  Naming exactly those is idle talk, naming
   others or fewer fights.
3. CPUs by number are wrong for sure when there are more than the container has, or when the machine cannot
   give them; else they are wrong by chance.
"""

import re
from collections.abc import Iterator, Mapping

from numawise.apps.check.commands import bindings
from numawise.apps.check.context import Context
from numawise.apps.check.corrections import Ways
from numawise.apps.check.pod_corrections import entry_removed, entry_set, part_removed
from numawise.apps.check.pods import requested
from numawise.apps.check.reserved import cpus_are
from numawise.codec.document import Part
from numawise.inputs.pods import PodSource, gpus_of, has_accelerators
from numawise.request.defaults import RawContainer
from numawise.request.model import CPU
from numawise.results.finding import Finding, Place, Severity, found
from numawise.sets import bits_of, format_ids
from numawise.strconv import whole_number
from numawise.values import dataclass

BY_NUMBER = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "ZE_AFFINITY_MASK",
    "ASCEND_RT_VISIBLE_DEVICES",
)
BY_PLUGIN = ("NVIDIA_VISIBLE_DEVICES", "AMD_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES")
HIDING = frozenset({"", "none", "void", "NoDevFiles", "-1"})
CPU_LISTS = (
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "OMP_PLACES",
    "I_MPI_PIN_PROCESSOR_LIST",
    "MV2_CPU_MAPPING",
    "SLURM_CPU_BIND",
    "GOTOBLAS_CPU_AFFINITY",
    "VLLM_CPU_OMP_THREADS_BIND",
)
THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "BLIS_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "TORCH_NUM_THREADS",
    "GOMAXPROCS",
    "NUMBA_NUM_THREADS",
)
ASSIGNED = re.compile(r"(?:^|[\s;&|(])(?:export\s+)?([A-Z][A-Z0-9_]{3,})=(\"[^\"]*\"|'[^']*'|[^\s;&|]*)")
ID = re.compile(r"(?<![\w-])(\d+)(?:-(\d+)(?::(\d+))?)?")
UUID = re.compile(r"(GPU|MIG)-", re.IGNORECASE)
DEVICE_FILES = re.compile(r"/dev(/(nvidia|dri|kfd|accel|davinci|neuron|infiniband)|/?$)")
NVIDIA_RUNTIME = re.compile(r"^nvidia(-|$)")


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a container, and where it is set."""

    name: str
    value: str
    place: Place
    entry: Part | None = None
    """Its entry of ``env``; None: a command sets it."""

    @property
    def removed(self) -> Ways:
        """The container without it, for somebody to choose."""
        return [entry_removed(self.entry, self.name)]


def environment_findings(source: PodSource, context: Context | None) -> Iterator[Finding]:
    """Everything in a pod that fights its placement."""
    asks = any(raw is not None and has_accelerators(raw) for raw, _ in source.parts)
    for raw, part in source.parts:
        variables = {one.name: one for one in _variables(source, part)}
        yield from _visible(raw, variables)
        yield from _cpu_lists(source, raw, variables, context)
        yield from _threads(source, raw, variables, context)
        yield from _commands(source, raw, part, context)
        privileged = part.at("securityContext", "privileged")
        if privileged.value is True and asks:
            ways = [part_removed(privileged, "privileged")]
            message = f"container {_name(part)} is privileged"
            yield found("NW506", source.place(privileged), message, corrections=ways)
    yield from _pod_wide(source, asks=asks)


def _name(part: Part) -> str:
    name = part.at("name").value
    return name if isinstance(name, str) else ""


def _variables(source: PodSource, part: Part) -> Iterator[Variable]:
    listed = part.at("env").value
    for i, one in enumerate(listed) if isinstance(listed, list) else ():
        if isinstance(one, Mapping) and isinstance(one.get("name"), str) and one.get("value") is not None:
            place = source.place(part, "env", i, "name")
            yield Variable(one["name"], str(one["value"]), place, part.at("env", i))
    for text, place in _texts(source, part):
        for name, value in ASSIGNED.findall(text):
            yield Variable(name, value.strip("\"'"), place)


def _texts(source: PodSource, part: Part) -> Iterator[tuple[str, Place]]:
    """A container's command and arguments as one text each; those of a shell are scripts."""
    for words, place in _words(source, part):
        yield "\n".join(words), place


def _words(source: PodSource, part: Part) -> Iterator[tuple[list[str], Place]]:
    for key in ("command", "args"):
        words = part.at(key).value
        if isinstance(words, list) and words:
            yield [str(word) for word in words], source.place(part, key)


# --- GPUs -----------------------------------------------------------------------------------


def _visible(raw: RawContainer | None, variables: Mapping[str, Variable]) -> Iterator[Finding]:
    count = gpus_of(raw) if raw is not None else 0
    for name in BY_NUMBER:
        if name in variables:
            yield from _numbered(variables[name], count, asks=raw is not None and has_accelerators(raw))
    for name in BY_PLUGIN:
        variable = variables.get(name)
        if variable is None:
            continue
        if variable.value in HIDING:
            if count:
                message = f"{name}={variable.value or '(empty)'} hides the {count} GPUs that were asked for"
                yield found("NW502", variable.place, message, corrections=variable.removed)
        elif raw is not None and not has_accelerators(raw):
            message = f"{name}={variable.value} without asking for a GPU"
            yield found("NW508", variable.place, message, corrections=variable.removed)
        else:
            message = f"{name}={variable.value} overrides the device plugin"
            yield found("NW502", variable.place, message, corrections=variable.removed)


def _numbered(variable: Variable, count: int, *, asks: bool) -> Iterator[Finding]:
    setting = f"{variable.name}={variable.value}"
    numbers = [word.strip() for word in variable.value.split(",")]
    if variable.value.strip() in HIDING:
        if count:
            message = f"{setting} hides the {count} GPUs that were asked for"
            yield found("NW501", variable.place, message, corrections=variable.removed)
        return
    if "$" in variable.value:
        return
    if any(UUID.match(word) for word in numbers):
        why = "which GPU the pod is given is decided when it starts; if it is another one, it cannot be used"
        message = f"{setting} names one card"
        yield found("NW501", variable.place, message, why=why, corrections=variable.removed)
        return
    if not all(word.isdecimal() for word in numbers):
        return
    if not count:
        what = "no GPU is asked for" if not asks else "no whole GPU is asked for"
        yield found("NW501", variable.place, f"{setting}, and {what}", corrections=variable.removed)
        return
    named = set(map(whole_number, numbers))
    beyond = sorted({word for word in numbers if whole_number(word) >= count})
    beyond.sort(key=len)
    if len(named) == count and not beyond:
        why = (
            "the container sees just these; the line does nothing, and breaks when the number of GPUs changes"
        )
        message = (
            f"{setting} names the {'GPU' if count == 1 else f'{count} GPUs'} that the container sees anyway"
        )
        yield found(
            "NW501",
            variable.place,
            message,
            why=why,
            severity=Severity.INFO,
            corrections=variable.removed,
        )
    elif beyond:
        message = f"{setting}: the container sees GPUs 0 to {count - 1} and no {', '.join(beyond)}"
        yield found("NW501", variable.place, message, corrections=variable.removed)
    else:
        message = f"{setting} leaves {count - len(named)} of the {count} GPUs unused"
        yield found("NW501", variable.place, message, corrections=variable.removed)


# --- CPUs -----------------------------------------------------------------------------------


def _cpu_lists(
    source: PodSource, raw: RawContainer | None, variables: Mapping[str, Variable], context: Context | None
) -> Iterator[Finding]:
    for name in CPU_LISTS:
        variable = variables.get(name)
        if variable is None or "$" in variable.value:
            continue
        cpus = _cpus(variable)
        if not cpus:
            continue
        whole = _whole_cpus(source, raw, context)
        message = f"{name}={variable.value}: {_judged(cpus, whole, context)}"
        yield found("NW503", variable.place, message, corrections=variable.removed)


def _judged(cpus: int, whole: int, context: Context | None) -> str:
    """How sure it is that the CPUs are not the container's (rule 3)."""
    count = cpus.bit_count()
    if whole and count > whole:
        return f"{count} CPUs are named, and the container gets {whole}"
    if context is not None and context.known:
        missing = cpus & ~context.machine.layout.all
        if missing:
            return f"the machine has no CPUs {format_ids(missing)}"
        node = context.start.node
        reserved = cpus & (node.rules.reserved_cpus if node is not None else 0)
        if reserved:
            return f"{cpus_are(reserved)} reserved for the system"
    if not whole:
        return "the container has no CPUs of its own; these belong to all, or to another pod"
    return "which CPUs the container gets is decided when it starts"


def _cpus(variable: Variable) -> int:
    """The CPUs that a list names; 0 for what is relative, such as ``cores``."""
    value = variable.value
    if variable.name == "KMP_AFFINITY":
        found_list = re.search(r"proclist=\[([^\]]*)\]", value)
        if not found_list:
            return 0
        value = found_list[1]
    if variable.name == "OMP_PLACES" and "{" not in value:
        return 0
    if variable.name == "OMP_PLACES":
        value = re.sub(
            r"\{(\d+):(\d+)\}", lambda m: f"{m[1]}-{whole_number(m[1]) + whole_number(m[2]) - 1}", value
        )
    cpus = 0
    for first, last, step in ID.findall(value):
        end = whole_number(last or first)
        if whole_number(first) <= end < 1 << 16:
            cpus |= bits_of(range(whole_number(first), end + 1, max(1, whole_number(step or "1"))))
    return cpus


def _whole_cpus(source: PodSource, raw: RawContainer | None, context: Context | None) -> int:
    if raw is None or source.raw is None:
        return 0
    pod = requested(source, context)
    own = next((one for one in pod.containers if one.name == raw.name), None)
    return own.whole_cpus if own is not None and pod.guaranteed else 0


def _threads(
    source: PodSource, raw: RawContainer | None, variables: Mapping[str, Variable], context: Context | None
) -> Iterator[Finding]:
    if raw is None or source.raw is None:
        return
    limit = raw.limits.get(CPU) or (raw.requests.get(CPU) if _whole_cpus(source, raw, context) else None)
    if limit is None or not limit.nano:
        return
    for name in THREADS:
        variable = variables.get(name)
        first = variable.value.split(",")[0].strip() if variable is not None else ""
        if variable is not None and first.isdecimal() and whole_number(first) * 1000 > limit.milli:
            message = f"{name}={variable.value}, and the container has {limit} CPUs"
            whole = limit.milli // 1000
            ways = [entry_set(variable.entry, variable.name, str(whole)) if whole else None]
            yield found("NW504", variable.place, message, corrections=[*ways, *variable.removed])


def _commands(
    source: PodSource, raw: RawContainer | None, part: Part, context: Context | None
) -> Iterator[Finding]:
    """The first command that binds; one that binds among what is allowed counts in the shared pool alone."""
    own = bool(_whole_cpus(source, raw, context))
    texts = list(_words(source, part))
    for one in bindings([word for words, _ in texts for word in words]):
        if one.relative and (own or raw is None):
            continue
        first = one.text.partition(" ")[0]
        place = next((place for words, place in texts if any(first in word for word in words)), texts[0][1])
        runs = f"container {_name(part)} runs {'with ' if one.launcher else ''}{one.text}"
        if one.relative:
            why = "It has no CPUs of its own: all such containers choose the same CPUs of the shared pool."
            fix = "Give it CPUs of its own (whole CPUs in a Guaranteed pod), or bind to none."
            yield found("NW505", place, runs, why=why, fix=fix)
        else:
            yield found("NW505", place, runs)
        return


# --- the pod as a whole ---------------------------------------------------------------------


def _pod_wide(source: PodSource, *, asks: bool) -> Iterator[Finding]:
    spec = source.spec
    host = spec.at("hostPID")
    if host.value is True:
        ways = [part_removed(host, "hostPID")]
        yield found("NW507", source.place(host), "hostPID is true", corrections=ways)
    runtime = spec.at("runtimeClassName")
    if isinstance(runtime.value, str) and NVIDIA_RUNTIME.match(runtime.value) and not asks and source.raw:
        severity = Severity.INFO if source.kind == "DaemonSet" else None
        message = f"runtimeClassName is {runtime.value}, and no container asks for a GPU"
        ways = [part_removed(runtime, "runtimeClassName")]
        yield found("NW508", source.place(runtime), message, severity=severity, corrections=ways)
    volumes = spec.at("volumes").value
    for i, volume in enumerate(volumes) if isinstance(volumes, list) else ():
        host_path = volume.get("hostPath") if isinstance(volume, Mapping) else None
        path = host_path.get("path") if isinstance(host_path, Mapping) else None
        if isinstance(path, str) and DEVICE_FILES.match(path.rstrip("/") or "/"):
            severity = Severity.INFO if source.kind == "DaemonSet" else None
            place = source.place(spec, "volumes", i, "hostPath")
            yield found("NW509", place, f"{path} is mounted from the host", severity=severity)
