"""A simulated node out of files: a machine, a configuration, state files or a bundle with all of them.

Rules kept here:

1. A machine file is taken to the letter; a saved discovery, a name of the catalogue and words like
   ``2s 4n 64c 8gpu`` are taken as the kubelet would be told that machine, and ``this`` is the one we run on.
2. What stands beside a bundle takes the place of what is in it.
3. Pods of a bundle run, unless they have ended: what they asked for counts, also without a state file.
4. A kubelet that would not start is ``KubeletRefused`` with its own words, at the file it refuses.
"""

from dataclasses import dataclass, field

from numawise.codec.pod import pods_in, unique_uids
from numawise.errors import InputError
from numawise.inputs.bundle import Bundle, open_bundle
from numawise.inputs.files import load_kubelet_config, load_profile, load_state
from numawise.inputs.machine import read_machine
from numawise.machine.hardware import Hardware
from numawise.machine.model import Machine
from numawise.node.node import Node, started
from numawise.request.defaults import RawPod
from numawise.rules.model import KubeletConfig
from numawise.rules.versions import DEFAULT, Profile, Version

ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class NodeSource:
    """All that a kubelet is started with."""

    machine: Machine
    hardware: Hardware
    """For pictures."""
    config: KubeletConfig
    version: Version
    texts: dict[str, str] = field(default_factory=dict)
    """State file → text."""
    config_place: str = ""
    state_place: str = ""
    remark: str = ""
    """What to know about the release."""
    pods: tuple[RawPod, ...] = ()
    """Pods that run there, as far as a bundle tells."""


@dataclass(frozen=True, slots=True)
class Named:
    """What somebody named on the command line."""

    machine: str | None = None
    config: str | None = None
    state: str | None = None
    bundle: str | None = None
    kube: str | None = None


def source_of(named: Named) -> NodeSource:
    """Read all that is named (rule 2)."""
    bundle = open_bundle(named.bundle) if named.bundle else None
    profile = release_of(named.kube, bundle)
    if named.machine is not None or bundle is None:
        if named.machine is None:
            raise InputError("is missing", field="--machine", advice="give --machine, or --bundle")
        given = read_machine(named.machine)
        machine, hardware = given.machine, given.hardware
    else:
        machine, hardware = bundle.machine(), bundle.hardware()
    if named.config is not None or bundle is None:
        if named.config is None:
            raise InputError(
                "is missing", field="--kubelet-config", advice="give --kubelet-config, or --bundle"
            )
        config, place = load_kubelet_config(named.config, profile.version), named.config
    else:
        config, place = bundle.config(profile.version), bundle.path
    if named.state is not None:
        texts, state = load_state(named.state).texts, named.state
    elif bundle is not None:
        texts, state = bundle.texts, bundle.path
    else:
        texts, state = {}, ""
    pods = running_pods(bundle) if bundle is not None else ()
    return NodeSource(machine, hardware, config, profile.version, texts, place, state, profile.remark, pods)


def running_pods(bundle: Bundle) -> tuple[RawPod, ...]:
    """The pods of a bundle that have not ended."""
    document = bundle.pod_document()
    found: list[RawPod] = []
    for part in document.root.at("items").items() if document is not None else ():
        if part.at("status", "phase").value not in ENDED:
            found += pods_in(part, "Pod")
    return unique_uids(found)


def release_of(kube: str | None, bundle: Bundle | None = None) -> Profile:
    """The release that is asked for, or that of the bundle, or the newest."""
    if bundle is not None:
        return bundle.profile(kube)
    return load_profile(kube) if kube is not None else Profile(DEFAULT)


def booted(source: NodeSource) -> Node:
    """Start a kubelet; device plugins have registered (rule 4)."""
    node = started(
        source.machine,
        source.config,
        source.version,
        source.texts,
        file=source.config_place,
        state_file=source.state_place,
    )
    if source.pods:
        node.run_already(source.pods)
    return node
