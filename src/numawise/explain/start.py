"""Why a kubelet does not start, and the smallest changes after which it does.

Rules kept here:

1. Nothing is suggested that the kubelet did not start with, on the same machine and state files.
2. Smallest first: a value that was meant, an amount that does not add up, one entry, one field, a state file,
   a policy.  Several changes together only where no single one is enough.
3. State files are mended by what ``node.state.remedies`` has: first what takes nothing from a pod, last that
   they are deleted.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from numawise.codec.checkpoint import CPU_FILE, MEMORY_FILE
from numawise.codec.checkpoint.look import look
from numawise.engine.trace import DEFECTS
from numawise.errors import meant
from numawise.explain.change import CONFIG_FIELDS, Setting, setting_patches, with_settings
from numawise.machine.model import Machine
from numawise.node.node import Files, boot
from numawise.node.state.folder import Against, StateFile, StateFolder
from numawise.node.state.memory_tables import amount, undercharged
from numawise.node.state.remedies import Remedy, remedies
from numawise.quantity import Quantity
from numawise.render.words import both
from numawise.request.model import CPU, MEMORY
from numawise.results.explanation import NOT_STARTED, Explanation, Suggestion
from numawise.rules import eviction
from numawise.rules.check import Refusal, Settings, check
from numawise.rules.model import BEST_EFFORT, NONE, RESTRICTED, SINGLE, KubeletConfig
from numawise.rules.options import CPU_MATURITY, MOST_NUMA, TOPOLOGY_MATURITY
from numawise.rules.versions import DEFAULT, Version
from numawise.sets import CpuSet, ids_of
from numawise.values import dataclass, replace

SHOWN = 4
MOST_TOGETHER = 6
FOLDER = "/var/lib/kubelet"
WORDS = {
    "cpuManagerPolicy": ("none", "static"),
    "memoryManagerPolicy": ("None", "Static"),
    "topologyManagerPolicy": (NONE, BEST_EFFORT, RESTRICTED, SINGLE),
    "topologyManagerScope": ("container", "pod"),
}
OPTIONS = {"cpuManagerPolicyOptions": CPU_MATURITY, "topologyManagerPolicyOptions": TOPOLOGY_MATURITY}
LEVEL_GATES = (
    "CPUManagerPolicyAlphaOptions",
    "CPUManagerPolicyBetaOptions",
    "TopologyManagerPolicyAlphaOptions",
    "TopologyManagerPolicyBetaOptions",
    "PodLevelResources",
)
EVICTION = "evictionHard"
MAPS = (
    "cpuManagerPolicyOptions",
    "topologyManagerPolicyOptions",
    "featureGates",
    "systemReserved",
    "kubeReserved",
    EVICTION,
)
UNLIKE = "the expected machine state is different from the real one"
MOST_HOLDERS = 4


@dataclass(frozen=True, slots=True)
class StartCase:
    """A kubelet about to start."""

    machine: Machine
    config: KubeletConfig
    files: Files
    version: Version = DEFAULT

    @property
    def defaults(self) -> KubeletConfig:
        """What an empty configuration means in this release."""
        return KubeletConfig(eviction_hard=eviction.defaults(self.version))

    def attempt(
        self, settings: Sequence[Setting] = (), texts: Mapping[str, str] | None = None
    ) -> Refusal | None:
        """Why it does not start after a change; None: it does.  ``texts``: the state files afterwards."""
        config = with_settings(self.config, settings, self.defaults)
        files = Files(dict(self.files.texts if texts is None else texts))
        node = boot(self.machine, config, files, version=self.version)
        return node if isinstance(node, Refusal) else None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A change worth trying."""

    text: str
    settings: tuple[Setting, ...] = ()
    remedy: Remedy | None = None
    price: str = ""

    @property
    def texts(self) -> Mapping[str, str] | None:
        """The state files afterwards; None: as they are."""
        return self.remedy.folder.texts if self.remedy is not None else None


def refusal_answer(refusal: Refusal) -> str:
    """The sentence for a kubelet that refuses to start; its stage is '' where a log does not show it."""
    stage = f" ({refusal.stage})" if refusal.stage else ""
    return f"The kubelet does not start{stage}: {refusal.message}"


def explain_refusal(
    refusal: Refusal, machine: Machine, config: KubeletConfig, files: Files, version: Version = DEFAULT
) -> Explanation:
    """Why a kubelet refuses to start, and what would help."""
    start = StartCase(machine, config, files, version)
    return Explanation(
        name="kubelet",
        verdict=NOT_STARTED,
        answer=refusal_answer(refusal),
        reason=refusal.stage,
        message=refusal.message,
        remarks=tuple(_remarks(start, refusal)),
        suggestions=_suggestions(start, refusal),
        searched=True,
        findings=tuple(_defects(start, refusal)),
    )


def changed_start(start: StartCase, refusal: Refusal, number: int) -> tuple[KubeletConfig, dict[str, str]]:
    """Configuration and state files after the suggestion of that number."""
    one = _helpful(start, refusal)[number]
    texts = start.files.texts if one.texts is None else one.texts
    return with_settings(start.config, one.settings, start.defaults), dict(texts)


def _suggestions(start: StartCase, refusal: Refusal) -> tuple[Suggestion, ...]:
    return tuple(
        Suggestion(
            "configuration" if one.remedy is None else "state file",
            one.text,
            one.price,
            kubelet=setting_patches(start.config, one.settings),
            delete=one.remedy.delete if one.remedy is not None else (),
            repair=one.remedy.options if one.remedy is not None and not one.remedy.delete else (),
        )
        for one in _helpful(start, refusal)
    )


def _helpful(start: StartCase, refusal: Refusal) -> list[Attempt]:
    """The changes after which the kubelet starts."""
    attempts = list(_attempts(start, refusal))
    found: list[Attempt] = []
    for one in attempts:
        if len(found) < SHOWN and not _covered(one, found) and start.attempt(one.settings, one.texts) is None:
            found.append(one)
    return found or _several(start, refusal, attempts)


def _covered(one: Attempt, found: Sequence[Attempt]) -> bool:
    """True when a smaller change of the same thing was found before."""
    if one.remedy is not None:
        mine = one.remedy
        gentler = [other.remedy for other in found if other.remedy is not None]
        if mine.delete:
            return any(set(other.delete) < set(mine.delete) for other in gentler if other.delete)
        return bool(gentler)
    paths = {setting.path for setting in one.settings}
    for other in found:
        others = {setting.path for setting in other.settings}
        if others and all(any(path == them[: len(path)] for path in paths) for them in others):
            return True
    return False


def _several(start: StartCase, refusal: Refusal, attempts: Sequence[Attempt]) -> list[Attempt]:
    """Changes that each remove a complaint, until none is left."""
    chosen: list[Attempt] = []
    now: Refusal | None = refusal
    for _ in range(MOST_TOGETHER):
        for one in attempts:
            if one in chosen or one.remedy is not None:
                continue
            after = start.attempt([s for each in (*chosen, one) for s in each.settings])
            if after is None or (now is not None and _fewer(after, now)):
                chosen.append(one)
                now = after
                break
        else:
            return []
        if now is None:
            text = "; ".join(one.text if at == 0 else _lower(one.text) for at, one in enumerate(chosen))
            return [Attempt(text, tuple(s for one in chosen for s in one.settings))]
    return []


def _fewer(after: Refusal, before: Refusal) -> bool:
    """True when a complaint is gone and none has come."""
    return after != before and (after.stage != before.stage or len(after.message) < len(before.message))


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


# --- what may help --------------------------------------------------------------------------


def _attempts(start: StartCase, refusal: Refusal) -> Iterator[Attempt]:
    state_files = list(_state_files(start)) if refusal.stage.endswith("-start") else []
    yield from (one for one in state_files if one.remedy is not None and one.remedy.lossless)
    yield from _meant(start)
    yield from _reserved_memory(start)
    yield from _gates(start)
    yield from _reserved_cpus(start)
    yield from _most_numa(start)
    if refusal.stage.endswith("-start"):
        yield from _other_policies(start)
        yield from (one for one in state_files if one.remedy is None or not one.remedy.lossless)
    yield from _entries(start, refusal)
    yield from _fields(start, refusal)
    yield from _weaker(start)
    if not refusal.stage.endswith("-start"):
        yield from _state_files(start)


def _meant(start: StartCase) -> Iterator[Attempt]:
    """Values and names that are almost right."""
    for field, words in WORDS.items():
        value = getattr(start.config, CONFIG_FIELDS[field])
        if value in words:
            continue
        same = [word for word in words if word.lower() == str(value).lower()]
        near = same[0] if same else meant(str(value), words)
        if near == "Static":
            memory = [setting for one in _reserved_memory(start) for setting in one.settings]
            if memory:
                text = f"Set {field} to {near} instead of {value}, and reservedMemory so that it adds up"
                yield Attempt(text, (Setting((field,), near), *memory))
        if near:
            yield Attempt(f"Set {field} to {near} instead of {value}", (Setting((field,), near),))
    for field, known in OPTIONS.items():
        given = getattr(start.config, CONFIG_FIELDS[field])
        for name, value in given.items():
            near = meant(name, tuple(known)) if name not in known else ""
            if near and near not in given:
                settings = (Setting((field, name)), Setting((field, near), value))
                yield Attempt(f"Write {near} instead of {name} in {field}", settings)
            if name in known and name != MOST_NUMA and value.lower() not in ("true", "false"):
                yield Attempt(f'Set {name} to "true" instead of "{value}"', (Setting((field, name), "true"),))


def _reserved_memory(start: StartCase) -> Iterator[Attempt]:
    """A ``reservedMemory`` that adds up: the present one with the difference on one node, or a new one."""
    settings = _settings(replace(start, config=replace(start.config, reserved_memory=())))
    if start.config.memory_manager_policy.lower() != "static" or settings is None:
        return
    needed = settings.reservation.get(MEMORY)
    nodes = [numa for numa in start.machine.numa if numa.memory]
    if needed is None or not nodes or needed.nano <= 0:
        return
    entries: dict[int, int] = {}
    for entry in start.config.reserved_memory:
        for name, size in entry.limits:
            if name == MEMORY and any(numa.id == entry.numa for numa in nodes):
                entries[entry.numa] = entries.get(entry.numa, 0) + size.value
    missing = needed.value - sum(entries.values())
    first = max(entries, key=lambda numa: entries[numa]) if entries else nodes[0].id
    entries[first] = entries.get(first, 0) + missing
    if entries[first] <= 0 or any(size <= 0 for size in entries.values()):
        entries = {nodes[0].id: needed.value}
    value = [
        {"numaNode": numa, "limits": {MEMORY: str(Quantity.parse(str(Quantity.of(size))))}}
        for numa, size in sorted(entries.items())
    ]
    amounts = both([f"{entry['limits'][MEMORY]} on NUMA {entry['numaNode']}" for entry in value])  # type: ignore[index]
    yield Attempt(f"Set reservedMemory to {amounts}, {needed} in all", (Setting(("reservedMemory",), value),))


def _settings(start: StartCase) -> Settings | None:
    found = check(start.config, CpuSet(start.machine.layout.all), start.machine.capacity, start.version)
    return None if isinstance(found, Refusal) else found


def _gates(start: StartCase) -> Iterator[Attempt]:
    """A gate that an option or another gate needs."""
    for gate in LEVEL_GATES:
        if not start.config.feature_gates.get(gate):
            yield Attempt(f"Switch the feature gate {gate} on", (Setting(("featureGates", gate), True),))


def _reserved_cpus(start: StartCase) -> Iterator[Attempt]:
    """CPUs set aside for the system, which the static policy wants."""
    if start.config.cpu_manager_policy != "static":
        return
    now = start.config.reserved_system_cpus
    if now and _settings(start) is None:
        try:
            wanted = CpuSet.parse(now) & CpuSet(start.machine.layout.all)
        except ValueError:
            wanted = CpuSet()
        if len(wanted):
            text = f"Set reservedSystemCPUs to {wanted} instead of {now}"
            yield Attempt(text, (Setting(("reservedSystemCPUs",), str(wanted)),))
    first = str(CpuSet(next(iter(start.machine.layout.cores.values()), 1)))
    yield Attempt(
        "Reserve a CPU for the system: set systemReserved cpu to 1", (Setting(("systemReserved", CPU), "1"),)
    )
    instead = f" instead of {now}" if now else ""
    text = f"Reserve a core for the system: set reservedSystemCPUs to {first}{instead}"
    yield Attempt(text, (Setting(("reservedSystemCPUs",), first),))


def _most_numa(start: StartCase) -> Iterator[Attempt]:
    """More NUMA nodes than are allowed."""
    count = len(start.machine.numa)
    if count > 8:
        field = "topologyManagerPolicyOptions"
        yield Attempt(
            f'Set {MOST_NUMA} to "{count}" in {field}',
            (Setting((field, MOST_NUMA), str(count)),),
            price="admissions get slow: the number of hints doubles with every NUMA node",
        )


def _other_policies(start: StartCase) -> Iterator[Attempt]:
    """The policy that wrote the state file."""
    for file, field in ((CPU_FILE, "cpuManagerPolicy"), (MEMORY_FILE, "memoryManagerPolicy")):
        now = getattr(start.config, CONFIG_FIELDS[field])
        for word in WORDS[field] if file in start.files.texts else ():
            if word != now:
                text = f"Set {field} back to {word}, with which {file} was written"
                yield Attempt(text, (Setting((field,), word),))


def _state_files(start: StartCase) -> Iterator[Attempt]:
    """State files that do not fit (rule 3)."""
    files = tuple(
        StateFile(name, Path(FOLDER) / name, text.encode(errors="replace"), look(name, text))
        for name, text in start.files.texts.items()
    )
    against = Against(start.machine, start.config, None, start.version)
    for remedy in remedies(StateFolder(Path(FOLDER), files), against):
        if remedy.delete:
            what = f"delete {both([f'{FOLDER}/{file}' for file in remedy.delete])}"
        else:
            here = " --machine this" if any(one.startswith("--adapt") for one in remedy.options) else ""
            what = f"run '{remedy.command}{here} --write'"
        yield Attempt(f"Stop the kubelet, {what}, start it", remedy=remedy, price=remedy.price)


def _entries(start: StartCase, refusal: Refusal) -> Iterator[Attempt]:
    """One entry of a map less."""
    merged = "mergeDefaultEvictionSettings" in start.config.given
    for field in MAPS:
        if field == EVICTION and (
            merged or field not in start.config.given or refusal.stage != "eviction-hard"
        ):
            continue
        for name in getattr(start.config, CONFIG_FIELDS[field]):
            yield Attempt(f"Remove {name} from {field}", (Setting((field, name)),))


def _fields(start: StartCase, refusal: Refusal) -> Iterator[Attempt]:
    """One field less; of policies a weaker one is set instead."""
    defaults = start.defaults
    for field, name in CONFIG_FIELDS.items():
        given = getattr(start.config, name) != getattr(defaults, name)
        if given and field not in MAPS and not field.endswith("Policy"):
            yield Attempt(f"Remove {field}", (Setting((field,)),))
    for field in MAPS:
        if field == EVICTION and refusal.stage != "eviction-hard":
            continue
        if getattr(start.config, CONFIG_FIELDS[field]) and field in start.config.given:
            yield Attempt(f"Remove {field}", (Setting((field,)),))
    for field in start.config.other:
        yield Attempt(f"Remove {field}", (Setting((field,)),))


def _weaker(start: StartCase) -> Iterator[Attempt]:
    """Without a manager that complains."""
    for field, value in (
        ("topologyManagerPolicy", "none"),
        ("memoryManagerPolicy", "None"),
        ("cpuManagerPolicy", "none"),
    ):
        now = getattr(start.config, CONFIG_FIELDS[field])
        if now != value:
            yield Attempt(f"Set {field} to {value} instead of {now}", (Setting((field,), value),))


def _defects(start: StartCase, refusal: Refusal) -> Iterator[tuple[str, str]]:
    """The defect that may have left the state file so, where the file looks like it."""
    text = start.files.texts.get(MEMORY_FILE)
    if not refusal.message.endswith(UNLIKE) or text is None:
        return
    state = look(MEMORY_FILE, text).memory
    missing = undercharged(state) if state is not None else ()
    if state is None or not missing:
        return
    places = both([f"{amount(one.change)} of {one.kind} on NUMA {one.numa}" for one in missing])
    nodes = {one.numa for one in missing}
    holders = [
        uid
        for uid, containers in state.assignments.items()
        if any(nodes & set(ids_of(block.numa)) for blocks in containers.values() for block in blocks)
    ]
    pods = f"pod {holders[0]}" if len(holders) == 1 else f"one of {', '.join(holders[:MOST_HOLDERS])}"
    said = (
        f"{DEFECTS['reuse-outlives-pod']} That may have happened here to {pods}: {places} less is reserved "
        "than is held. With the kubelet stopped, numawise state repair --recompute-tables counts again and "
        "keeps what pods hold."
    )
    yield "reuse-outlives-pod", said


def _remarks(start: StartCase, refusal: Refusal) -> Iterator[str]:
    """How amounts that must be equal come about."""
    settings = _settings(start)
    if "determined by Node Allocatable" not in refusal.message or settings is None:
        return
    nothing = Quantity()
    parts = [
        f"systemReserved {settings.system_reserved.get(MEMORY, nothing)}",
        f"kubeReserved {settings.kube_reserved.get(MEMORY, nothing)}",
        f"evictionHard memory.available {start.config.eviction_hard.get('memory.available', '0')}",
    ]
    total = settings.reservation.get(MEMORY, nothing)
    yield f"reservedMemory must add up to {total}: {' + '.join(parts)}"
