"""Which node a person means: what was named of it, and the values that come of it.

Rules kept here:

1. A node is named part by part (machine, configuration, state files, release), or by a bundle that has all of
   them; what is named beside a bundle takes the place of its part.
2. The release is the one that is named, else the bundle's own, else the one default of all commands.
3. A part that was not named is missing only where a command asks for it; the error then names its option.
4. Pods of a bundle run, unless they have ended: what they asked for counts, also without a state file.
   What state files record of pods that are gone does not (``inputs.podresources``).
5. A kubelet that would not start is ``KubeletRefused`` with its own words, at the file it refuses.
6. Standard input can be read once.
7. Where a platform reserves CPUs and memory by itself and its form does not say how much, whether the kubelet
   would start is not known.
8. A NodeResourceTopology with the exact state of its node is all parts in one, as a bundle is.
9. What its state records is matched with the machine, or named.  Where nobody knows what of the machine is
   held, no kubelet is started on it (``node.state.matching``).
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from numawise.errors import InputError, KubeletRefused
from numawise.inputs.config import ConfigInput, read_config, shown_config
from numawise.inputs.machine import MachineInput, Named, read_machine
from numawise.inputs.pods import Holders, PodNamed, PodsInput, read_pods
from numawise.machine.description import NodeDescription
from numawise.machine.hardware import Hardware
from numawise.machine.model import Machine
from numawise.node.node import SimulatedNode, started
from numawise.request.defaults import RawPod
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import DEFAULT, Profile, Version, profile_of
from numawise.values import dataclass, field, replace

if TYPE_CHECKING:
    from numawise.codec.hardware.nrt import NodeTopology
    from numawise.codec.podresources import PodResources
    from numawise.inputs.bundle import Bundle
    from numawise.inputs.plugin import PluginNamed
    from numawise.node.state.folder import StateFolder
    from numawise.results.publication import Publication
    from numawise.results.state import Unmatched

STATIC = "static"
MACHINE_ADVICE = "give --machine: a file, a folder, a name, a description or 'this'; or give --bundle"
LISTS_ACTIVE = (1, 34)
"""From this release on PodResources lists no pods that have ended."""
RESERVATIONS = ("NW201", "NW221", "NW223")
"""Refusals that hang on what is reserved."""
CONFIG_ADVICE = "give --kubelet-config, --config-dir or --kubelet-flags; or give --bundle"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """What was named of a node: words as on a command line, or values that are made already."""

    machine: Named = ()
    kubelet_config: tuple[str, ...] | Mapping[str, object] | ConfigInput = ()
    config_dir: str = ""
    """The kubelet's drop-in directory."""
    kubelet_flags: str = ""
    """Its command line, or a file that has it."""
    state: tuple[str, ...] = ()
    bundle: str = ""
    kube: str = ""
    node_object: str | Mapping[str, object] = ""
    """Its Node object: a file, or the object itself."""
    node_name: str = ""
    """The node's name in the cluster, by which its pods are known."""
    pod_resources: str = ""
    """A file with what the kubelet's PodResources socket answers."""
    device_plugin_config: "PluginNamed" = ""
    """The configuration of NVIDIA's device plugin."""
    match_devices: bool = False
    """Devices of the state that the machine names otherwise are mapped by number."""

    @property
    def has_config(self) -> bool:
        """Whether a configuration was named, by any of its parts."""
        return bool(self.kubelet_config or self.config_dir or self.kubelet_flags)

    @property
    def words(self) -> tuple[str, ...]:
        """All that may be standard input."""
        parts: list[str] = [self.kubelet_flags, self.pod_resources]
        parts += [one for one in (self.node_object, self.device_plugin_config) if isinstance(one, str)]
        for one in (self.machine, self.kubelet_config):
            parts += map(str, one) if isinstance(one, tuple) else [one] if isinstance(one, str) else []
        return tuple(parts)


@dataclass(frozen=True, slots=True)
class NodePods:
    """Pods of a node that have not ended, as somebody listed them."""

    running: tuple[RawPod, ...] = ()
    complete: bool = False
    """No pod of the node is missing."""
    names: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Uid → namespace and name of others, where they are known."""


@dataclass(frozen=True)
class NodeInput:
    """A node, read as far as it was named."""

    spec: NodeSpec
    profile: Profile
    machine_input: MachineInput | None = None
    config_input: ConfigInput | None = None
    state: "StateFolder | None" = None
    bundle: "Bundle | None" = None
    description: NodeDescription | None = None
    """What the Node object says; None: there is none."""
    published: "NodeTopology | None" = None
    """What a NodeResourceTopology, given in the place of state files, publishes as free."""
    answers: "PodResources | None" = None
    """What the kubelet's PodResources socket answered; None: it was not asked."""
    listed: "NodePods | None" = None
    """The pods that an API server lists, where that was asked; else a bundle's."""
    publication: "Publication | None" = None
    """What a NodeResourceTopology that has the exact state of its node says (rule 8)."""
    published_holders: Holders | None = None
    """Who runs there by it; None: state files or a bundle say that."""
    exact: bool = False
    """Nothing takes the place of a part of it: the node is the one that was published."""
    ended: frozenset[str] = frozenset()
    """Uids of pods that hold nothing any more, whatever the state files record."""

    @property
    def version(self) -> Version:
        """The kubelet's release."""
        return self.profile.version

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """What a person should know: what is not matched, about the release, and what was assumed.

        What forbids a start (rule 9) is the error of the start, and not said twice.
        """
        forbids = any(one.decides for one in self.unmatched)
        return (*(one.sentence for one in self.unmatched if not forbids), *self.assumed)

    @property
    def assumed(self) -> tuple[str, ...]:
        """The same without what is not matched."""
        parts = [self.profile.remark]
        parts += self.machine_input.remarks if self.machine_input is not None else ()
        parts += [self.config_input.remark] if self.config_input is not None else []
        parts += self.holders.remarks
        parts += self.state.remarks if self.state is not None else ()
        return tuple(filter(None, parts))

    @property
    def remarks_of_start(self) -> tuple[str, ...]:
        """Likewise where its kubelet is started: with what a NodeResourceTopology made of its settings."""
        return (*self.remarks, *filter(None, [self._config.fit if self._config is not None else ""]))

    @property
    def name(self) -> str:
        """The node's name in the cluster; '' when it is not known."""
        machine = self.machine_input.node if self.machine_input is not None else ""
        described = self.description.name if self.description is not None else ""
        return (
            self.spec.node_name
            or (self.bundle.node if self.bundle is not None else "")
            or machine
            or described
        )

    @cached_property
    def machine(self) -> Machine:
        """The machine as the kubelet sees it."""
        machine = self.named_machine.machine
        if self.answers is None or (self.spec.machine and not self.spec.pod_resources):
            return machine
        from numawise.inputs.podresources import located  # noqa: PLC0415 - few have answers

        return located(machine, self.answers, self.state)

    @property
    def hardware(self) -> Hardware:
        """All that is known about the machine."""
        return self.named_machine.hardware

    @property
    def named_machine(self) -> MachineInput:
        """The machine as it was read."""
        if self.machine_input is None:
            if self.bundle is not None:
                return self.bundle.machine_input()
            raise InputError("is missing", field="--machine", advice=MACHINE_ADVICE)
        return self.machine_input

    @cached_property
    def config(self) -> KubeletConfig:
        """What the release makes of the configuration."""
        return self.configuration.config(self.version)

    @property
    def configuration(self) -> ConfigInput:
        """The configuration, in its parts."""
        if self._config is None:
            if self.bundle is not None:
                return self.bundle.config_input()
            what = "is missing"
            if self.machine_input is not None and self.machine_input.published is not None:
                what += f", and {self.machine_input.name} does not have the topology policy"
            raise InputError(what, field="--kubelet-config", advice=CONFIG_ADVICE)
        return self._config

    @cached_property
    def _config(self) -> ConfigInput | None:
        """The configuration that was named, or else what the machine's NodeResourceTopology shows."""
        machine = self.machine_input
        if machine is None or machine.published is None:
            if self.config_input is None and self.publication is not None and self.bundle is None:
                from numawise.inputs.published import published_config  # noqa: PLC0415 - few have it

                return published_config(self.publication, self.state_place)
            return self.config_input
        if self.config_input is not None:
            return replace(self.config_input, published=machine.published)
        return shown_config(machine.published, machine.name) if self.bundle is None else None

    @property
    def has_config(self) -> bool:
        """Whether a configuration is known."""
        return self._config is not None

    @property
    def texts(self) -> dict[str, str]:
        """State file → text."""
        if self.published is not None:
            raise not_who(self.state_place)
        return self.start_texts

    @property
    def start_texts(self) -> dict[str, str]:
        """What its kubelet finds when it starts: state file → text; an error where rule 9 forbids that."""
        deciding = [one for one in self.unmatched if one.decides]
        if deciding:
            every = dict.fromkeys(one.text for one in (*deciding, *self.unmatched))
            raise InputError("; ".join(every), file=self.state_place, advice=deciding[0].advice)
        return self.state.texts if self.state is not None else {}

    @cached_property
    def unmatched(self) -> "tuple[Unmatched, ...]":
        """What is recorded of the node and is not on its machine, or is of pods that run no more (rule 9)."""
        if self.state is None and self.published is None and self.answers is None:
            return ()
        from numawise.inputs.matching import unmatched_parts  # noqa: PLC0415 - few have state

        return unmatched_parts(self)

    def hold_published(self, kubelet: SimulatedNode) -> None:
        """Let what a NodeResourceTopology does not publish as free be in use, and what PodResources lists."""
        if self.published is not None:
            from numawise.node.rebuild import place_by_free  # noqa: PLC0415 - few ask for it

            place_by_free(kubelet, self.running, self.published.available)
        listed = self.answers is not None and (self.spec.pod_resources or self.bundle is not None)
        if listed and (self.state is None or self.version >= LISTS_ACTIVE):
            from numawise.inputs.podresources import hold_listed  # noqa: PLC0415 - few have answers

            hold_listed(self, kubelet)

    @property
    def state_place(self) -> str:
        """What to call the state files in messages."""
        if self.spec.state:
            return self.spec.state[0]
        if self.publication is not None and self.machine_input is not None:
            return self.machine_input.name
        return self.bundle.path if self.bundle is not None else ""

    @cached_property
    def holders(self) -> Holders:
        """Who runs there, and who is recorded and gone (rule 4)."""
        if self.published_holders is not None:
            return self.published_holders
        if self.state is None and self.bundle is None and self.listed is None:
            return Holders()
        from numawise.inputs.podresources import RECORD_GATE, Evidence, holders_of  # noqa: PLC0415 - few have any

        listed = self.listed or NodePods()
        if self.bundle is not None and not self.spec.state:
            listed = NodePods(self.bundle.running(), self.bundle.manifest.all_pods)
        seen = Evidence(
            state=self.state,
            pods=listed.running,
            all_pods=listed.complete,
            names=listed.names,
            answers=self.answers,
            static_cpus=self.config_input is not None and self.config.cpu_manager_policy == STATIC,
            records=self.config_input is None or self.config.feature_gates.get(RECORD_GATE, True),
        )
        return holders_of(seen)

    @property
    def running(self) -> tuple[RawPod, ...]:
        """Pods that run there, as far as a bundle or a record of allocations says."""
        return self.holders.running

    def pods(self, words: Sequence[PodNamed], *, refused: bool = False) -> PodsInput:
        """The pods that the words mean: files, folders, ``-``, or names out of the bundle."""
        read = read_pods(words, node=self.name, bundle=self.bundle, refused=refused)
        record = self.state.allocated if self.state is not None else None
        if not record:
            return read
        from numawise.inputs.podresources import recorded_sizes  # noqa: PLC0415 - few have a record

        return replace(read, pods=tuple(recorded_sizes(pod, record) for pod in read.pods))


def not_who(file: str) -> InputError:
    """A published amount stands where it is asked who holds it."""
    what = "is a NodeResourceTopology, which says how much is in use and not by whom"
    return InputError(what, file=file, advice="give the kubelet's state files, or a bundle")


def read_node(spec: NodeSpec) -> NodeInput:
    """Read all that is named (rule 1)."""
    bundle = None
    if spec.bundle:
        from numawise.inputs.bundle import open_bundle  # noqa: PLC0415 - few ask for it

        bundle = open_bundle(spec.bundle)
    machine: MachineInput | None = None
    if not isinstance(spec.machine, tuple | list) or spec.machine:
        machine = read_machine(spec.machine, node=spec.node_name)
    elif bundle is not None and bundle.has_machine:
        machine = bundle.machine_input()
    config: ConfigInput | None = None
    if spec.has_config:
        config = _config(spec)
    elif bundle is not None and bundle.has_config:
        config = bundle.config_input()
    state: StateFolder | None = None
    published: NodeTopology | None = None
    if spec.state:
        from numawise.inputs.state import read_published, read_state  # noqa: PLC0415 - few ask for it

        published = read_published(spec.state, spec.node_name)
        state = read_state(spec.state) if published is None else None
    elif bundle is not None and bundle.texts:
        state = bundle.state()
    answers: PodResources | None = None
    if spec.pod_resources:
        from numawise.codec.podresources import read_pod_resources  # noqa: PLC0415 - few ask for it

        answers = read_pod_resources(spec.pod_resources)
    elif bundle is not None and not spec.state:
        answers = bundle.pod_resources()
    description = description_of(spec)
    if description is None and bundle is not None and not spec.machine:
        description = bundle.description()
        if description is not None and spec.has_config:  # what is allocatable depends on it
            description = description.reconfigured()
    if machine is not None and spec.device_plugin_config:
        machine, description = with_plugin_of(spec, machine, description)
    node = NodeInput(
        spec, read_release(spec.kube, bundle), machine, config, state, bundle, description, published, answers
    )
    if published is not None or (machine is not None and machine.publication is not None):
        from numawise.inputs.published import with_publication  # noqa: PLC0415 - few have it

        node = with_publication(node)
    if spec.match_devices:
        from numawise.inputs.matching import matched_by_number  # noqa: PLC0415 - few ask for it

        return matched_by_number(node)
    return node


def with_plugin_of(
    spec: NodeSpec, machine: MachineInput, description: NodeDescription | None
) -> tuple[MachineInput, NodeDescription | None]:
    """The machine under the configuration of the device plugin that is named.

    What the Node object says of the plugin's resources is of the configuration before.
    """
    from numawise.gpus.nvidia_plugin import is_own  # noqa: PLC0415 - few ask for it
    from numawise.inputs.plugin import read_plugin  # noqa: PLC0415

    made = replace(machine, plugin=read_plugin(spec.device_plugin_config, description))
    if description is None:
        return made, None
    return made, description.without(*filter(is_own, description.allocatable))


def description_of(spec: NodeSpec) -> NodeDescription | None:
    """What the Node object says that is named; None: none is."""
    if not spec.node_object:
        return None
    from numawise.codec.node import node_from, read_node_file  # noqa: PLC0415 - few ask for it

    if isinstance(spec.node_object, str):
        return read_node_file(spec.node_object, spec.node_name)
    return node_from(spec.node_object)


def _config(spec: NodeSpec) -> ConfigInput:
    named = spec.kubelet_config
    if not isinstance(named, tuple):
        return read_config(named, spec.config_dir, spec.kubelet_flags)
    if len(named) > 1:
        advice = "give one; its drop-ins with --config-dir"
        raise InputError(
            f"{named[0]} and {named[1]} are two kubelets", field="--kubelet-config", advice=advice
        )
    return read_config(named[0] if named else None, spec.config_dir, spec.kubelet_flags)


def read_release(kube: str, bundle: "Bundle | None" = None, field: str = "--kube") -> Profile:
    """The release that is named, or that of the bundle, or the default (rule 2)."""
    if not kube:
        return bundle.profile() if bundle is not None else Profile(DEFAULT)
    try:
        return profile_of(kube)
    except ValueError as error:
        raise InputError(str(error), field=field) from None


def check_stdin(*words: str | None) -> None:
    """Refuse to read standard input twice (rule 6)."""
    if sum(word == "-" for word in words) > 1:
        raise InputError("standard input (-) can be read only once", advice="save one of them to a file")


# --- a kubelet on it ------------------------------------------------------------------------


def start_node(node: NodeInput) -> SimulatedNode:
    """Start a kubelet; device plugins have registered, and pods that are known run (rules 4 and 5)."""
    if node.exact and node.publication is not None:
        from numawise.node.publication import published_node  # noqa: PLC0415 - few have it

        kubelet = published_node(node.publication)
        kubelet.describe(node.description)
        return _left(kubelet, node.ended)
    try:
        kubelet = started(
            node.machine,
            node.config,
            node.version,
            node.start_texts,
            file=node.configuration.name,
            state_file=node.state_place,
        )
    except KubeletRefused as refusal:
        from numawise.inputs.state import refusal_with_fix  # noqa: PLC0415 - a refusal is rare
        from numawise.node.state.folder import Against  # noqa: PLC0415

        against = Against(node.machine, node.config, None, node.version)
        raise _not_known(node, refusal) or refusal_with_fix(refusal, node.state, against) from None
    kubelet.describe(node.description)
    kubelet.run_already(node.running, node.holders.gone)
    node.hold_published(kubelet)
    return _left(kubelet, node.ended)


def _left(kubelet: SimulatedNode, uids: frozenset[str]) -> SimulatedNode:
    for uid in uids:
        kubelet.remove(uid)
    return kubelet


def _not_known(node: NodeInput, refusal: KubeletRefused) -> InputError | None:
    """A refusal for want of what the node's platform reserves by itself, which is no answer (rule 7)."""
    from numawise.node.refusal_codes import code_of  # noqa: PLC0415 - a refusal is rare

    platform = node.configuration.configuration(node.version).reserved_by
    if platform is None:
        return None
    if code_of(refusal.stage, refusal.reason) not in RESERVATIONS:
        return None
    return InputError(
        f"what {platform.title} reserves is not in this file ({platform.reserves}), so what its kubelet does "
        "is not known",
        file=node.configuration.name,
        advice="give what the node's /configz answers, or add kubeReserved, systemReserved and "
        "reservedMemory as they are there",
    )
