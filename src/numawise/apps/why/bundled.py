"""Explanations on the node of a bundle.

Rules kept here:

1. Without pods that somebody names, those are explained that the kubelet refused and the bundle still lists,
   each on what was held when the bundle was made.
2. Pods that run are known by name, so that a suggestion can name them; a refused one holds nothing.
3. A configuration or a machine that is given beside the bundle is taken instead of the bundle's.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from numawise.apps.why.files import Explained
from numawise.engine.admit import Admitted
from numawise.errors import InputError
from numawise.explain.case import case_of
from numawise.explain.explain import explain
from numawise.explain.node_changes import Elsewhere
from numawise.explain.start import explain_refusal
from numawise.inputs.bundle import Bundle, open_bundle
from numawise.inputs.files import load_kubelet_config
from numawise.inputs.machine import read_machine
from numawise.inputs.node import running_pods
from numawise.machine.model import Machine
from numawise.node.node import Files, Node, boot
from numawise.request.defaults import RawPod
from numawise.results.explanation import Explanation
from numawise.rules.check import Refusal
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import Version


@dataclass(frozen=True, slots=True)
class Beside:
    """What is given beside a bundle (rule 3)."""

    machine: str | None = None
    config: str | None = None


NOTHING = Beside()


def explain_bundle(
    bundle: Bundle, pods: Sequence[str], others: Sequence[str], version: Version, beside: Beside = NOTHING
) -> Explained:
    """Explain pods on the node of a bundle; ``others``: bundles or folders of nodes they could go to."""
    running, refused = running_pods(bundle), bundle.refused()
    node = bundled_node(bundle, version, beside, running)
    if isinstance(node, Explanation):
        return Explained((node,))
    for raw in refused:
        node.remove(raw.uid)
    wanted = bundle.pods_meant(pods)
    elsewhere = [(folder, other_node(folder, version)) for folder in others]
    found = []
    for raw in wanted:
        case = case_of(node, raw)
        told = explain(case, [Elsewhere(_title(name), case_of(one, raw)) for name, one in elsewhere])
        if told.admitted and raw in refused:
            remark = "The kubelet refused it, but with what was held when the bundle was made it is admitted"
            told = replace(told, remarks=(remark, *told.remarks))
        found.append(told)
        if raw not in refused and raw.uid not in node.state.active:
            decision = node.admit(case.pod)
            if isinstance(decision, Admitted):
                node.start(case.pod, decision)
    forgotten = node.files.forgotten
    return Explained(tuple(found), (f"{bundle.path}: {forgotten}",) if forgotten else ())


def bundled_node(
    bundle: Bundle, version: Version, beside: Beside = NOTHING, running: Iterable[RawPod] = ()
) -> Node | Explanation:
    """The kubelet of a bundle, started on its state files; an explanation why it would not start."""
    machine = read_machine(beside.machine).machine if beside.machine else bundle.machine()
    config = load_kubelet_config(beside.config, version) if beside.config else bundle.config(version)
    return started_node(machine, config, bundle.texts, version, running)


def started_node(
    machine: Machine,
    config: KubeletConfig,
    texts: Mapping[str, str],
    version: Version,
    running: Iterable[RawPod] = (),
) -> Node | Explanation:
    """A kubelet started on state files; ``running``: pods that it knows (rule 2)."""
    node = boot(machine, config, Files(dict(texts)), version=version)
    if isinstance(node, Refusal):
        return explain_refusal(node, machine, config, Files(dict(texts)), version)
    node.write_files = False
    node.plugins_registered(machine.plugins)
    node.run_already(running)
    return node


def other_node(folder: str, version: Version) -> Node:
    """Another node that a pod could go to: a bundle, packed or not."""
    node = bundled_node(open_bundle(folder), version)
    if isinstance(node, Explanation):
        raise InputError(f"the kubelet there would not start: {node.message}", file=folder)
    return node


def _title(folder: str) -> str:
    return open_bundle(folder).name
