"""Everything that numawise reads from outside: for each reader good inputs to start from, and what reads them.

Rules kept here:

1. A reader is driven by the commands that lead to it, so that what parses is also decided upon, explained and
   printed; what no command reaches with a file of its own is called by a function of ``drivers``.
2. Good inputs come from the tests' own data; where the larger collection lies beside the repository
   (``../shared``), from there as well.
3. Run *n* of a reader is made of the reader's name, *n* and the seed alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from random import Random

from tests.fuzz import seeds
from tests.fuzz.case import Case
from tests.fuzz.mutate import mutated
from tests.fuzz.seeds import Files

MACHINE = ("--machine", "{case}/machine")
NODE = (*MACHINE, "--kubelet-config", "{case}/kubelet.yaml")
PODS = ("{case}/pods.yaml",)
PUBLISHED = ("--machine", "{case}/nrt.yaml", "--node-name", "n1")
FORMS = ("text", "json")
Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reader:
    """One kind of input."""

    name: str
    inputs: Callable[[bool], Sequence[Files]]
    """Good inputs; with or without those beside the repository."""
    commands: tuple[Words, ...] = ()
    damaged: tuple[str, ...] = ()
    """The files that are damaged; none: any."""
    finished: Callable[[Files], Files] = field(default=lambda files: files)
    """What is put right again after the damage, such as a checksum."""
    made: Callable[[Random, Files], Case] | None = None
    """Makes a case out of nothing."""
    acts: bool = False
    """Its commands start jobs, write files and talk to others."""
    share: float = 1.0
    """Of the runs."""


def case_of(reader: Reader, number: int, seed: int, *, shared: bool = True) -> Case:
    """The input of one run (rule 3)."""
    random = Random(f"{seed} {reader.name} {number}")
    inputs = _inputs(reader, shared)
    first = inputs[number // 16 % len(inputs)]  # neighbours are alike, so that few files are written
    if reader.made is not None:
        return reader.made(random, first)
    files = dict(first)
    names = [name for name in files if name.startswith(reader.damaged or "") and name != seeds.COMMAND]
    for name in random.sample(names, min(len(names), random.choice((1, 1, 1, 2)))):
        others = [other[name] for other in inputs[:40] if name in other]
        files[name] = mutated(files[name], random, others)
    if random.random() < 0.8:
        files = dict(reader.finished(files))
    return Case(random.choice(reader.commands), files)


@cache
def _inputs(reader: Reader, shared: bool) -> Sequence[Files]:  # noqa: FBT001 - cached by position
    found = list(reader.inputs(shared))
    assert found, reader.name
    return found


# --- machines -------------------------------------------------------------------------------

OF_A_MACHINE: tuple[Words, ...] = (
    ("discover", "{case}/machine", "-o", "json"),
    ("discover", "{case}/machine", "-o", "text"),
    ("discover", "{case}/machine", "--assume", "--machine"),
    ("show", "{case}/machine"),
    ("show", "{case}/machine", "-o", "json"),
    ("show", "{case}/machine", "-o", "svg", "--out", "{work}/machine.svg"),
    ("show", "{case}/machine", "-o", "html", "--advice", "--out", "{work}/machine.html"),
    ("simulate", *NODE, *PODS),
    ("why", *NODE, *PODS, "-o", "json"),
    ("check", *MACHINE, "--kubelet-config", "{case}/kubelet.yaml"),
    ("plan", "kubelet", *MACHINE),
    ("plan", "pod", *MACHINE, "--gpus", "1", "--cpus", "2"),
    ("flags", *MACHINE, "--cpus", "2", "--gpus", "1"),
    ("bind", "--dry-run", *MACHINE),
    ("run", "--dry-run", *MACHINE, "--cpus", "2", "--memory", "1Gi", "--", "true"),
    ("docker", "--print", *MACHINE, "--gpus", "1", "run", "debian"),
)  # fmt: skip


def _prints(name: str, *patterns: str, share: float = 0.7) -> Reader:
    """A reader of what a tool prints."""

    def inputs(shared: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
        node = seeds.small_node()
        return [{**node, "machine": content} for content in seeds.found(patterns, shared=shared)]

    return Reader(name, inputs, OF_A_MACHINE, damaged=("machine",), share=share)


def _machines(name: str, contents: Callable[[], Sequence[bytes]], share: float = 0.7) -> Reader:
    def inputs(_: bool) -> list[Files]:  # noqa: FBT001 - as Reader.inputs
        return [{**seeds.small_node(), "machine": content} for content in contents()]

    return Reader(name, inputs, OF_A_MACHINE, damaged=("machine",), share=share)


# --- nodes ----------------------------------------------------------------------------------

OF_A_NODE: tuple[Words, ...] = (
    ("simulate", *NODE, *PODS),
    ("simulate", *NODE, *PODS, "-o", "json"),
    ("simulate", *NODE, *PODS, "--map"),
    ("simulate", *NODE, "--fill", *PODS, "--most", "20", "-o", "json"),
    ("simulate", *NODE, *PODS, "--compare-kube", "1.30,1.36"),
    ("simulate", *NODE, *PODS, "-o", "html", "--out", "{work}/x.html"),
    ("simulate", "--nodes", "{case}/machine:2", "--kubelet-config", "{case}/kubelet.yaml", *PODS),
    ("check", *NODE, *PODS),
    ("check", *NODE, *PODS, "-o", "json", "--kube", "1.28"),
    ("check", *NODE, *PODS, "-o", "sarif", "--upgrade", "1.34:1.37"),
    ("check", "--fix", "--dry-run", *NODE, *PODS),
    ("why", *NODE, *PODS),
    ("why", *NODE, *PODS, "-o", "json", "--kube", "1.33"),
    ("plan", "pod", *NODE, "--gpus", "1", *PODS),
    ("plan", "switch", "{case}/kubelet.yaml", "{case}/kubelet.yaml", *PODS, *MACHINE),
)  # fmt: skip
OF_A_CONFIG: tuple[Words, ...] = (
    *OF_A_NODE,
    ("check", "--kubelet-config", "{case}/kubelet.yaml"),
    ("check", "--kubelet-config", "{case}/kubelet.yaml", "-o", "json"),
    ("check", "--fix", "--dry-run", "--kubelet-config", "{case}/kubelet.yaml"),
    ("check", "--kubelet-config", "{case}/kubelet.yaml", "--kube", "1.22", "-o", "github"),
    ("simulate", *NODE, *PODS, "--compare", "{case}/kubelet.yaml"),
)  # fmt: skip
FLAGS = ("--kubelet-flags", "{case}/flags")
DROP_INS = ("--config-dir", "{case}/conf.d")
STATE = ("--state", "{case}/state")
OF_STATE: tuple[Words, ...] = (
    ("state", "show", "{case}/state"),
    ("state", "show", "{case}/state", "-o", "json", *NODE),
    ("state", "show", "{case}/state", "-o", "table", "--pods", *PODS),
    ("state", "verify", "{case}/state"),
    ("state", "verify", "{case}/state", *NODE, "-o", "json"),
    ("state", "verify", "{case}/state", *NODE, "--pods", *PODS),
    ("state", "repair", "{case}/state", "--recompute-checksum", "--recompute-tables"),
    ("state", "repair", "{case}/state", "--remove-stale", "--pods", *PODS, *NODE, "-o", "json"),
    ("state", "repair", "{case}/state", "--adapt-memory", "--adapt-cpus", *NODE),
    ("state", "repair", "{case}/state", "--reset", "all", "--write", "--even-if-running"),
    ("state", "convert", "{case}/state", "--to", "1.37"),
    ("state", "convert", "{case}/state", "--to", "1.19", *MACHINE, "-o", "json"),
    ("state", "convert", "{case}/state", "--to", "1.36", "--pod-level-managers", "--out", "{work}/new"),
    ("simulate", *NODE, *STATE, *PODS),
    ("why", *NODE, *STATE, *PODS),
    ("check", *NODE, *STATE, *PODS, "-o", "json"),
    ("check", "--fix", "--dry-run", *NODE, *STATE, *PODS),
)  # fmt: skip
LOG = ("why", "--log", "{case}/log")
PACKED, UNPACKED = "{work}/b.tgz", "{case}/members"
OF_A_BUNDLE: tuple[Words, ...] = (
    ("bundle", "show", PACKED), ("bundle", "show", PACKED, "-o", "json"), ("bundle", "show", UNPACKED),
    ("check", "--bundle", PACKED), ("check", "--bundle", UNPACKED, "-o", "json"), ("why", "--bundle", PACKED),
    ("why", "--bundle", UNPACKED, "-o", "json"), ("state", "verify", PACKED), ("state", "show", UNPACKED, "-o", "json"),
    ("simulate", "--bundle", PACKED, *PODS), ("simulate", "--bundle", UNPACKED, *PODS, "-o", "json"),
    ("simulate", "--nodes", f"{PACKED}:2", *PODS), ("plan", "kubelet", "--bundle", PACKED), ("show", UNPACKED),
    ("plan", "switch", UNPACKED, UNPACKED, "--bundle", PACKED), ("plan", "pod", "--bundle", PACKED, "--gpus", "1"),
)  # fmt: skip

READERS: dict[str, Reader] = {
    one.name: one
    for one in (
        _machines("machine-file", seeds.machine_files, 1.0),
        _machines("hardware", seeds.hardware_files),
        _machines("node-resource-topology", seeds.topologies),
        _machines("cadvisor", seeds.cadvisor),
        _machines("lspci", seeds.pci_lists),
        _prints("hwloc", "machines/data/hwloc/*/*.xml", "../shared/data/hwloc-xml/*/*.xml"),
        _prints("lscpu", "machines/data/texts/lscpu/*.txt", "host/recorded/h200-lscpu.txt", "../shared/data/lscpu/*.txt"),
        _prints("numactl", "machines/data/texts/numactl/*.txt", "../shared/data/numa*/*.txt"),
        _prints("nvidia-topo", "machines/data/texts/nvidia-topo/*.txt", "host/recorded/h200-[tl]*.txt", "../shared/data/nvidia-topo/*.txt"),
        _prints("rocm-topo", "machines/data/texts/rocm-topo/*.txt", "../shared/data/rocm-topo/*.txt"),
        _machines("nccl", seeds.nccl),
        Reader("prints-together", seeds.together, (
            ("discover", "{case}/a", "{case}/b", "-o", "json"),
            ("discover", "{case}/a", "{case}/b", "--assume", "--machine"),
            ("show", "--from", "{case}/a", "--from", "{case}/b"),
            ("flags", "--machine", "{case}/a", "--machine", "{case}/b", "--gpus", "1"),
        ), damaged=("a", "b"), share=0.7),
        Reader("sysfs", seeds.trees, (
            ("discover", "--root", "{case}/root", "-o", "json"),
            ("discover", "--root", "{case}/root", "--machine"),
            ("show", "--root", "{case}/root"),
            ("show", "{case}/root", "-o", "json", "--advice"),
            ("doctor", "--root", "{case}/root"),
            ("doctor", "--root", "{case}/root", "-o", "json"),
            ("run", "--dry-run", "--machine", "{case}/root", "--cpus", "1", "--", "true"),
            ("@host", "{case}/root"),
        ), share=1.5),
        Reader("kubelet-config", seeds.configs, OF_A_CONFIG, damaged=("kubelet.yaml",), share=1.5),
        Reader("drop-ins", seeds.drop_ins, tuple((*words, *DROP_INS) for words in OF_A_NODE[:6] + OF_A_NODE[7:9]), damaged=("conf.d/",), share=0.5),
        Reader("kubelet-flags", seeds.flags, (
            ("check", *FLAGS), ("check", *FLAGS, "--kubelet-config", "{case}/kubelet.yaml", "-o", "json"),
            ("simulate", *MACHINE, *FLAGS, *PODS), ("why", *NODE, *FLAGS, *PODS), ("@flags", "{case}/flags"),
        ), damaged=("flags",)),
        Reader("state-files", seeds.states, OF_STATE, damaged=("state/",), finished=seeds.with_checksums, share=2.0),
        Reader("pods", seeds.pods, OF_A_NODE, damaged=("pods.yaml",), share=2.0),
        Reader("kubectl-text", seeds.printed_pods, (*OF_A_NODE, ("why", *PODS), ("why", *PODS, "-o", "json"), ("check", *PODS), ("plan", "pod", *MACHINE, *PODS)), damaged=("pods.yaml",)),
        Reader("published-node", seeds.published, (
            ("simulate", *PUBLISHED, *PODS), ("why", *PUBLISHED, *PODS, "-o", "json"), ("plan", "pod", *PUBLISHED, *PODS),
            ("simulate", *PUBLISHED, "--state", "{case}/nrt.yaml", *PODS), ("why", *NODE, "--state", "{case}/nrt.yaml", *PODS),
            ("simulate", *PUBLISHED, "--kubelet-config", "{case}/kubelet.yaml", *PODS, "-o", "json"),
            ("check", "{case}/nrt.yaml"), ("check", "{case}/nrt.yaml", "{case}/kubelet.yaml", "{case}/node.yaml", *PODS),
            ("check", *PUBLISHED, "-o", "json"),
        ), damaged=("nrt.yaml",)),
        Reader("exact-state", seeds.exact_nodes, (
            ("simulate", *PUBLISHED, *PODS), ("why", *PUBLISHED, *PODS, "-o", "json"), ("plan", "pod", *PUBLISHED, *PODS),
            ("simulate", "--state", "{case}/nrt.yaml", *PODS), ("why", *NODE, "--state", "{case}/nrt.yaml", *PODS),
            ("simulate", *PUBLISHED, "--kubelet-config", "{case}/kubelet.yaml", *PODS, "-o", "json"),
            ("check", "{case}/nrt.yaml", *PODS), ("state", "show", "{case}/nrt.yaml"), ("show", "{case}/nrt.yaml"),
        ), damaged=("machine.json", "state.json", "names.json", "nrt.yaml"), finished=seeds.with_exact, share=2.0),
        Reader("workloads", seeds.workloads, OF_A_NODE, damaged=("pods.yaml",)),
        Reader("check-examples", seeds.check_examples, (
            ("@check",), ("@check", "-o", "json"), ("@check", "--fix", "--dry-run"),
        )),
        Reader("node-object", seeds.node_objects, (
            ("simulate", *NODE, "--node-object", "{case}/node.yaml", *PODS),
            ("why", *NODE, "--node-object", "{case}/node.yaml", *PODS, "-o", "json"),
            ("check", *NODE, "--node-object", "{case}/node.yaml", *PODS),
        ), damaged=("node.yaml", "pods.yaml")),
        Reader("scenario", seeds.scenarios, (
            ("simulate", *NODE, "--steps", "{case}/steps.yaml"),
            ("simulate", *NODE, "--steps", "{case}/steps.yaml", "-o", "json"),
        ), damaged=("steps.yaml",)),
        Reader("arrivals", seeds.arrivals, (
            ("simulate", "--nodes", "{case}/machine:2", "--kubelet-config", "{case}/kubelet.yaml", "--cluster", "{case}/day.jsonl"),
            ("simulate", "--nodes", "{case}/machine:1", "--kubelet-config", "{case}/kubelet.yaml", "--cluster", "{case}/day.jsonl",
             "-o", "svg", "--out", "{work}/day.svg"),
        ), damaged=("day.jsonl",)),
        Reader("kubelet-log", seeds.logs, (
            LOG, (*LOG, "-o", "json"), (*LOG, "--all"), (*LOG, "--since", "10m", "--pod", "train"),
            (*LOG, *NODE), (*LOG, "--policy", "restricted", "--numa", "2"), ("@log", "{case}/log"),
        ), damaged=("log",)),
        Reader("hints", seeds.hints, (("@hints", "{case}/hints"), ("@words", "{case}/hints")), damaged=("hints",), share=0.3),
        Reader("trace", seeds.traces, (("replay", "--jobs", "1", "{case}/trace.jsonl"), ("replay", "--jobs", "1", "-")), damaged=("trace.jsonl", "stdin"), share=1.5),
        Reader("bundle-members", seeds.bundles, tuple(("@bundle", *words) for words in OF_A_BUNDLE), damaged=("members/",), finished=seeds.sealed, share=1.5),
        Reader("bundle-archive", seeds.archives, (
            ("bundle", "show", "{case}/b.tgz"), ("simulate", "--bundle", "{case}/b.tgz"), ("check", "--bundle", "{case}/b.tgz"),
            ("state", "verify", "--bundle", "{case}/b.tgz"), ("@archive", "{case}/b.tgz"), ("@archive", "{case}/b.tgz"),
        )),
        Reader("bundle-node", seeds.nodes, (
            ("bundle", "--root", "{case}/root", "-o", "{work}/b.tgz"),
            ("bundle", "--root", "{case}/root", "-o", "{work}/b.tgz", "--keep-names", "--pods", "{case}/pods.json"),
        )),
        Reader("agent", seeds.agents, (
            ("agent", "--device-plugin", "--dry-run", "--root", "{case}", "--config", "{case}/agent.yaml"),
            ("agent", "--device-plugin", "--dry-run", "--root", "{case}", "--config", "{case}/agent.yaml", "-o", "json"),
            ("agent", "--device-plugin", "--dry-run", "--fake", "{case}/fake.yaml"),
            ("agent", "--device-plugin", "--dry-run", "--fake", "{case}/fake.yaml", "-o", "json"),
        ), damaged=("agent.yaml", "fake.yaml"), share=0.5),
        Reader("watched-node", seeds.watched_nodes, (
            ("@watched", "{case}"),
            ("verify", "--pods", "--root", "{case}/root", "--kubelet-dir", "{case}/root/var/lib/kubelet"),
            ("verify", "--pods", "a-n1", "--root", "{case}/root", "--kubelet-dir", "{case}/root/var/lib/kubelet", "-o", "json"),
        ), acts=True),
        Reader("settings", seeds.settings, (("@settings", "{case}"),), share=0.5),
        Reader("kubeconfig", seeds.kubeconfigs, (("@kubeconfig", "{case}/config"),), acts=True, share=0.2),
        Reader("api-answers", seeds.api_answers, (("@api", "{case}"), ("@api", "{case}", "-o", "json"))),
        Reader("refused-pods", seeds.refused_pods, (("@healed", "{case}/seen.json"),), share=0.5),
        Reader("cluster-dump", seeds.cluster_dumps, (
            ("nodes", "--nodes", "{case}/dump.json"), ("nodes", "--nodes", "{case}/dump.json", "-o", "wide"),
            ("capacity", "--nodes", "{case}/dump.json", "-o", "json"), ("@dump", "{case}"), ("@dump", "{case}"),
        )),
        Reader("container-engine", seeds.engines, (("@engine", "{case}/inspect"),), share=0.5),
        Reader("cdi", seeds.cdi, (("@cdi", "{case}"),), share=0.3),
        Reader("proc", seeds.processes, (("@processes", "{case}/root"),), share=1.5),
        Reader("numa-maps", seeds.maps, (("@maps", "{case}"),), share=0.5),
        Reader("nvml", seeds.nvml, (("@nvml", "{case}/recording"),), damaged=("recording",), share=0.7),
        Reader("ranks", seeds.ranks, (
            ("bind", "--dry-run"), ("bind", "--dry-run", "-o", "json"), ("bind", "--dry-run", "--by", "core-complex"),
            ("run", "--dry-run", "--cpus", "1", "-o", "json", "--", "true"), ("docker", "--print", "--cpus", "1", "run", "x"),
        ), damaged=("environment",)),
        Reader("ledger", seeds.ledgers, (
            ("ps",), ("ps", "-o", "json"), ("ps", "-o", "name"), ("verify",), ("verify", "bcd23", "-o", "json"), ("reap",),
            ("release", "bcd23"), ("release", "train", "--kill", "--force"), ("run", "--dry-run", "--cpus", "1", "--", "true"),
            ("show", "--holds"), ("flags", "--hold", "train"), ("bind", "--dry-run"), ("run", "--cpus", "1", "--", "true"), ("@ledger", "{case}/ledger"),
        ), damaged=("ledger/",), acts=True, share=1.5),
        Reader("words", seeds.words, (("@words", "{case}/words"),), share=2.0),
        Reader("descriptions", seeds.descriptions, (("@described", "{case}/words"),)),
        Reader("command-lines", seeds.whole_nodes, made=seeds.command_line, acts=True, share=3.0),
    )
}  # fmt: skip
