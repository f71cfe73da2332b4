"""Explanations on a node that was named: part by part, or by a bundle.

Rules kept here:

1. Pods are admitted in the order given, and each is explained before it comes.
2. With a bundle and without pods that somebody names, those are explained that the kubelet refused and the
   bundle still lists, each on what was held when the bundle was made.
3. Pods that run are known by name, so that a suggestion can name them; a refused one holds nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from numawise.engine.admit import Admitted, Crashed
from numawise.errors import InputError
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.explain.node_changes import Elsewhere
from numawise.explain.start import explain_refusal
from numawise.inputs.spec import NodeInput, NodeSpec, folder_spec, read_node
from numawise.machine.model import Machine
from numawise.node.node import Files, Node, boot
from numawise.request.defaults import RawPod
from numawise.results.explanation import Explanation
from numawise.rules.check import Refusal
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import Version
from numawise.values import dataclass, replace

ADMITTED_NOW = "The kubelet refused it, but with what was held when the bundle was made it is admitted"


@dataclass(frozen=True, slots=True)
class Explained:
    """What came of all pods, and what to warn about."""

    found: tuple[Explanation, ...]
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def admitted(self) -> bool:
        """True when the answer is yes for all of them."""
        return all(one.admitted for one in self.found)


def explain_on(source: NodeInput, pods: Sequence[str], others: Sequence[str]) -> Explained:
    """Explain pods on a node; ``others``: folders or bundles of nodes they could go to."""
    bundle, version = source.bundle, source.version
    node = started_node(source.machine, source.config, source.texts, version, source.running)
    if isinstance(node, Explanation):
        return Explained((node,))
    refused = bundle.refused() if bundle is not None else ()
    for raw in refused:
        node.remove(raw.uid)
    remarks: tuple[str, ...] = ()
    if pods or bundle is None:
        read = source.pods(pods, refused=True)
        wanted, remarks = read.pods, read.remarks
    else:
        wanted = bundle.refused_or_error()
    elsewhere = [_other_node(folder, version) for folder in others]
    found = []
    for raw in wanted:
        case = case_of(node, raw)
        told = explain(case, [Elsewhere(name, case_of(one, raw)) for name, one in elsewhere])
        if told.admitted and raw in refused:
            told = replace(told, remarks=(ADMITTED_NOW, *told.remarks))
        found.append(told)
        if raw in refused or (bundle is not None and raw.uid in node.state.active):
            continue
        decision = node.admit(case.pod)
        if isinstance(decision, Admitted):
            node.start(case.pod, decision)
        if isinstance(decision, Crashed):
            break
    forgotten = node.files.forgotten
    warnings = (f"{source.state_place}: {forgotten}",) if forgotten else ()
    return Explained(tuple(found), warnings, remarks)


def started_node(
    machine: Machine,
    config: KubeletConfig,
    texts: Mapping[str, str],
    version: Version,
    running: Iterable[RawPod] = (),
) -> Node | Explanation:
    """A kubelet started on state files; ``running``: pods that it knows (rule 3)."""
    node = boot(machine, config, Files(dict(texts)), version=version)
    if isinstance(node, Refusal):
        return explain_refusal(node, machine, config, Files(dict(texts)), version)
    node.write_files = False
    node.plugins_registered(machine.plugins)
    node.run_already(running)
    return node


def _other_node(folder: str, version: Version) -> tuple[str, Node]:
    """Another node that a pod could go to, with its name."""
    source = read_node(folder_spec(folder, NodeSpec()))
    node = started_node(source.machine, source.config, source.texts, version)
    if isinstance(node, Explanation):
        raise InputError(f"the kubelet there would not start: {node.message}", file=folder)
    return source.bundle.name if source.bundle is not None else Path(folder).resolve().name, node
