"""A NodeResourceTopology that has the exact state of its node: all that a command needs, in one object.

Rules kept here:

1. Where an object has our attributes, nothing of it is assumed.  An attribute that is broken or of a newer
   form is an error, because an answer would be taken for exact that is not; taken out of the object, the rest
   is read as any exporter's.
2. What is named beside the object takes the place of its part, as beside a bundle: another configuration,
   another release, other state files.  Where nothing is, the node decides as the one that published it.
3. Agents publish no names of pods; where an object does not tell them, a pod is called by the beginning of
   its uid.
"""

from pathlib import Path

from numawise.codec.checkpoint.look import look
from numawise.codec.hardware.nrt import NodeTopology
from numawise.codec.publication import publication_from
from numawise.errors import InputError
from numawise.inputs.config import ConfigInput, read_config
from numawise.inputs.machine import MachineInput
from numawise.inputs.pods import Holders
from numawise.inputs.spec import NodeInput
from numawise.machine.hardware import Hardware, hardware_of
from numawise.node.publication import state_texts
from numawise.node.state.folder import StateFile, StateFolder
from numawise.request.defaults import RawContainer, RawPod
from numawise.request.model import PodRequest
from numawise.results.publication import Publication
from numawise.rules.versions import Profile, profile_of
from numawise.values import replace


def publication_in(topology: NodeTopology, file: str) -> Publication | None:
    """The exact state that an object has; None: it has none (rule 1)."""
    try:
        return publication_from(topology.attributes)
    except InputError as problem:
        raise InputError(problem.message, file=file, field=problem.field, advice=problem.advice) from None


def with_publication(node: NodeInput) -> NodeInput:
    """A node with what its NodeResourceTopologies know exactly (rules 1 and 2)."""
    spec, machine, published = node.spec, node.machine_input, node.published
    current = publication_in(published, node.state_place) if published is not None else None
    if current is not None and published is not None:  # who holds what, and all that is not named
        node = replace(node, published=None)
        machine = machine or machine_in(current, published.node, node.state_place)
    elif not spec.state and node.bundle is None and machine is not None:
        current = machine.publication
    known = current or (machine.publication if machine is not None else None)
    if known is None or machine is None:
        return node
    profile, description = node.profile, node.description
    if not spec.kube and node.bundle is None:
        profile = published_release(known, machine.name)
    if description is None and node.bundle is None:
        description = known.description
        if description is not None and spec.has_config:  # what is allocatable depends on it
            description = description.reconfigured()
    node = replace(node, machine_input=machine, profile=profile, description=description, publication=known)
    if current is None:
        return node
    return replace(
        node,
        state=published_state(current, spec.state[0] if spec.state else machine.name),
        published_holders=published_holders(current, spec.state[0] if spec.state else machine.name),
        exact=node.config_input is None
        and node.bundle is None
        and not spec.device_plugin_config
        and not spec.pod_resources
        and profile.version == published_release(current, machine.name).version
        and machine.exact == current.machine,
    )


def machine_in(publication: Publication, node: str, name: str) -> MachineInput:
    """The machine of an object that was given as the state of a node."""
    hardware = published_hardware(publication, node)
    return MachineInput(hardware, name, publication.machine, node, publication=publication)


def published_release(publication: Publication, file: str) -> Profile:
    """The release of the node's kubelet."""
    try:
        return profile_of(publication.kubelet)
    except ValueError as problem:
        raise InputError(str(problem), file=file) from None


def published_hardware(publication: Publication, title: str) -> Hardware:
    """The machine of an object, nothing of which is assumed."""
    return replace(hardware_of(publication.machine, title), sources=("NodeResourceTopology",))


def published_config(publication: Publication, name: str) -> ConfigInput:
    """The configuration of the node; its kubelet runs with it."""
    return replace(read_config(publication.config), name=name, tolerant=True)


def published_state(publication: Publication, path: str) -> StateFolder:
    """The state files that the node's kubelet would have written."""
    texts = state_texts(publication)
    files = (StateFile(name, Path(path), text.encode(), look(name, text)) for name, text in texts.items())
    return StateFolder(Path(path).parent, tuple(files))


def published_holders(publication: Publication, name: str) -> Holders:
    """Who runs there, who is gone, and what the node's agent could not learn."""
    state = publication.state
    running = tuple(_raw(pod) for pod in state.active.values() if pod is not None)
    remarks = [f"{name}: {sentence}" for sentence in publication.missing]
    unknown = len(state.active) - len(running)
    if unknown:
        what = "1 pod asks for is" if unknown == 1 else f"{unknown} pods ask for is"
        remarks.append(f"{name}: what {what} not published; what is held counts for it")
    return Holders(running, state.departed, tuple(remarks))


def _raw(pod: PodRequest) -> RawPod:
    """A pod as a manifest would have it, nothing of which is left to be filled in."""
    containers = tuple(
        RawContainer(one.name, one.role, one.requests, one.limits, one.restarts_for, one.claimed)
        for one in pod.containers
    )
    return RawPod(
        uid=pod.uid,
        name=pod.name,
        namespace=pod.namespace,
        containers=containers,
        requests=pod.requests,
        limits=pod.limits,
        overhead=pod.overhead,
        qos=pod.qos,
        constraints=pod.constraints,
    )
