"""Explanations out of files: a machine, a configuration, state files and pods, as ``simulate`` takes them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from numawise.engine.admit import Admitted, Crashed
from numawise.errors import InputError
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.explain.node_changes import Elsewhere
from numawise.explain.start import explain_refusal
from numawise.inputs.bundle import is_bundle
from numawise.inputs.files import load_kubelet_config, load_pods, load_state
from numawise.inputs.machine import read_machine
from numawise.node.node import Files, Node, boot
from numawise.request.defaults import RawPod
from numawise.results.explanation import Explanation
from numawise.rules.check import Refusal
from numawise.rules.versions import Version

MACHINE = ("machine.yaml", "machine.yml", "machine.json")
CONFIG = ("kubelet.yaml", "kubelet.yml", "kubelet.json", "config.yaml", "config.yml", "config.json")
STATE = ("cpu_manager_state", "memory_manager_state", "kubelet_internal_checkpoint", "device-plugins")


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """Where a node is described."""

    machine: str
    config: str
    state: str | None = None


@dataclass(frozen=True, slots=True)
class Explained:
    """What came of all pods, and what to warn about."""

    found: tuple[Explanation, ...]
    warnings: tuple[str, ...] = ()

    @property
    def admitted(self) -> bool:
        """True when the answer is yes for all of them."""
        return all(one.admitted for one in self.found)


def explain_files(
    source: NodeFiles, pods: Iterable[str], others: Sequence[str], version: Version
) -> Explained:
    """Admit the pods in order on a node, and explain each; ``others``: folders of nodes they could go to."""
    node = _booted(source, version)
    if isinstance(node, Explanation):
        return Explained((node,))
    elsewhere = [(folder, _elsewhere(folder, version)) for folder in others]
    found: list[Explanation] = []
    for raw in load_pods(pods):
        case = case_of(node, raw)
        found.append(explain(case, [_with(name, other, raw) for name, other in elsewhere]))
        decision = node.admit(case.pod)
        if isinstance(decision, Admitted):
            node.start(case.pod, decision)
        if isinstance(decision, Crashed):
            break
    forgotten = node.files.forgotten
    return Explained(tuple(found), (f"{source.state}: {forgotten}",) if forgotten else ())


def _booted(source: NodeFiles, version: Version) -> Node | Explanation:
    hardware = read_machine(source.machine).machine
    config = load_kubelet_config(source.config, version)
    files = load_state(source.state) if source.state else Files()
    texts = dict(files.texts)
    node = boot(hardware, config, files, version=version)
    if isinstance(node, Refusal):
        return explain_refusal(node, hardware, config, Files(texts), version)
    node.write_files = False
    node.plugins_registered(hardware.plugins)
    return node


def _elsewhere(folder: str, version: Version) -> Node:
    if is_bundle(folder):
        from numawise.apps.why.bundled import other_node  # noqa: PLC0415 - it explains with this module

        return other_node(folder, version)
    source = node_files(folder)
    node = _booted(source, version)
    if isinstance(node, Explanation):
        raise InputError(f"the kubelet there would not start: {node.message}", file=folder)
    return node


def _with(folder: str, node: Node, raw: RawPod) -> Elsewhere:
    return Elsewhere(Path(folder).resolve().name, case_of(node, raw))


def node_files(folder: str) -> NodeFiles:
    """The files of a node in a folder: machine.yaml, kubelet.yaml, and state files there or below state/."""
    root = Path(folder)
    if not root.is_dir():
        raise InputError("is not a directory", file=folder, advice="give a folder with machine.yaml")
    machine, config = _first(root, MACHINE), _first(root, CONFIG)
    for place in (root, root / "state"):
        if any((place / name).exists() for name in STATE):
            return NodeFiles(machine, config, str(place))
    return NodeFiles(machine, config)


def _first(root: Path, names: Sequence[str]) -> str:
    for name in names:
        if (root / name).is_file():
            return str(root / name)
    raise InputError(f"has no {names[0]}", file=str(root), advice=f"expected one of {', '.join(names)}")
