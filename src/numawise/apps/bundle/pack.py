"""A bundle out of what was gathered: names replaced, the rest written as files that every command takes.

Rules kept here:

1. ``machine.yaml``, ``kubelet.yaml`` and ``state/`` are what ``simulate`` takes, also when somebody unpacks
   them.  ``hardware.json`` is a saved discovery; ``kubelet/`` holds the parts of the configuration.
2. What was replaced or taken out is listed in the manifest and in ``README.md``, in words.
"""

from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

from numawise.apps.bundle.model import Collected
from numawise.codec.bundle import manifest as parts
from numawise.codec.bundle.allowed import version_text
from numawise.codec.bundle.archive import MANIFEST, pack
from numawise.codec.bundle.config import identities, reduced_config, reduced_flags, without_identity
from numawise.codec.bundle.manifest import Manifest, Names, key_of, manifest_document, manifest_text
from numawise.codec.bundle.node import reduced_node
from numawise.codec.bundle.pods import reduced
from numawise.codec.bundle.state import renamed_state
from numawise.codec.checkpoint import DEVICE_FILE
from numawise.codec.checkpoint.look import look
from numawise.codec.document import Document
from numawise.codec.hardware.encode import hardware_data
from numawise.codec.kubelet import effective
from numawise.codec.machine import encode_machine
from numawise.codec.output import to_json, to_yaml
from numawise.codec.podresources import (
    DeviceNodes,
    ListedContainer,
    ListedPod,
    PodResources,
    pod_resources_data,
)
from numawise.codec.workload import decode_pods
from numawise.engine.state import DeviceFile
from numawise.errors import InputError, visible
from numawise.inputs.bundle import Bundle
from numawise.inputs.devices import device_ids
from numawise.machine.model import Machine
from numawise.results.bundle import AbsentPart, BundledState, BundleSummary
from numawise.values import dataclass, replace
from numawise.version import __version__

REPLACED = (
    (
        "names of pods, namespaces, containers, owners, images, volumes and of the node: replaced by words "
        "that are always the same for the same name on this machine"
    ),
    "uids of pods and UUIDs of devices: replaced, in the same form",
    "what device plugins answered: replaced by the ids of the devices alone",
)
DROPPED = (
    "of pods: labels, annotations, commands, environment, volumes, probes and everything else that has no "
    "part in placement; variables that choose GPUs, CPUs or numbers of threads stay"
)


@dataclass(frozen=True, slots=True)
class Packed:
    """A bundle, ready to be written."""

    data: bytes
    manifest: Manifest
    members: dict[str, bytes]
    absent: tuple[AbsentPart, ...] = ()
    """What is not inside, for whoever made it: with names, which the bundle has not."""
    remarks: tuple[str, ...] = ()


def packed(collected: Collected, *, keep_names: bool, when: datetime) -> Packed:
    """The bundle of a node."""
    names = Names(None if keep_names else key_of(collected.machine_id))
    record = look(DEVICE_FILE, collected.state.get(DEVICE_FILE, "")).devices or DeviceFile()
    groups = device_ids(record)
    for resource, one in _answered_devices(collected.answers):
        groups.setdefault(resource, set()).add(one)
    names = names.with_devices((identities(collected.hardware), *groups.values()))
    node = names.name("node", collected.node)
    members: dict[str, bytes] = {}
    gone: list[str] = []
    notes = collected.notes
    _machine(collected, names, members)
    gone += _configuration(collected, names, members)
    for name, text in collected.state.items():
        renamed = text if keep_names else renamed_state(name, text, names)
        members[f"{parts.STATE}/{name}"] = renamed.encode(errors="replace")
    _pods(collected, names, members)
    if collected.node_object is not None:
        members[parts.NODE] = to_json(reduced_node(collected.node_object, names)).encode()
    if collected.answers is not None:
        data = pod_resources_data(renamed_answers(collected.answers, names))
        members[parts.POD_RESOURCES] = to_json(data).encode()
    if keep_names:
        removed: tuple[str, ...] = (DROPPED,)
    else:
        removed = (*REPLACED, DROPPED)
    if gone:
        removed += (f"of the kubelet's configuration: {', '.join(dict.fromkeys(gone))}",)
    manifest = Manifest(
        collected=when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        by=__version__,
        node=node,
        versions={what: version_text(version) for what, version in collected.versions.items()},
        key=names.fingerprint,
        sources={
            what: ", ".join(place.packed(names) for place in places) for what, places in notes.sources.items()
        },
        absent=tuple(AbsentPart(what, why.packed(names)) for what, why in notes.absent),
        remarks=tuple(remark.packed(names) for remark in notes.remarks),
        removed=removed,
        all_pods=collected.all_pods,
    )
    members[parts.README] = visible(readme(manifest, members)).encode()
    members[MANIFEST] = manifest_text(manifest, members).encode()
    absent = tuple(AbsentPart(what, why.said) for what, why in notes.absent)
    remarks = tuple(remark.said for remark in notes.remarks)
    return Packed(pack(members, int(when.timestamp())), manifest, members, absent, remarks)


def _machine(collected: Collected, names: Names, members: dict[str, bytes]) -> None:
    hardware = without_identity(collected.hardware, names)
    members[parts.HARDWARE] = to_json(hardware_data(hardware)).encode()
    if collected.machine is not None:
        members[parts.MACHINE] = to_yaml(encode_machine(_renamed(collected.machine, names))).encode()


def _renamed(machine: Machine, names: Names) -> Machine:
    plugins = tuple(
        replace(
            plugin,
            resource=names.resource(plugin.resource),
            devices=tuple(replace(one, id=names.device(one.id)) for one in plugin.devices),
        )
        for plugin in machine.plugins
    )
    return replace(machine, plugins=plugins)


def _answered_devices(answers: PodResources | None) -> Iterator[tuple[str, str]]:
    if answers is not None:
        yield from answers.allocatable or ()
        yield from answers.held


def renamed_answers(answers: PodResources, names: Names) -> PodResources:
    """What PodResources answered, with other names."""

    def nodes(devices: DeviceNodes) -> DeviceNodes:
        return {
            (names.resource(resource), names.device(one)): numa for (resource, one), numa in devices.items()
        }

    def container(own: ListedContainer) -> ListedContainer:
        devices = {
            names.resource(resource): frozenset(map(names.device, ids))
            for resource, ids in own.devices.items()
        }
        return ListedContainer(own.cpus, devices, own.memory)

    pods = None
    if answers.pods is not None:
        pods = tuple(
            ListedPod(
                names.name("namespace", pod.namespace),
                names.name("pod", pod.name),
                {names.name("container", name): container(own) for name, own in pod.containers.items()},
            )
            for pod in answers.pods
        )
    allocatable = nodes(answers.allocatable) if answers.allocatable is not None else None
    return PodResources(pods, allocatable, nodes(answers.held))


def _configuration(collected: Collected, names: Names, members: dict[str, bytes]) -> list[str]:
    """The configuration, whole and in parts; returns what was taken out."""
    gone: list[str] = []
    source = collected.parts
    version = effective.version_of(collected.versions.get("kubelet", ""))
    whole = effective.by_kubelet(collected.configz, version) or source.together(version)

    def put(name: str, value: dict[str, Any], *, as_json: bool = False) -> None:
        kept, taken = reduced_config(value, names)
        gone.extend(taken)
        members[name] = (to_json({"kubeletconfig": kept}) if as_json else to_yaml(kept)).encode()

    if whole is not None:
        put(parts.CONFIG, whole)
    if source.base is not None:
        put(parts.BASE, dict(source.base.root.mapping()))
    for at, document in enumerate(() if source.broken else source.drop_ins):
        put(f"{parts.DROP_INS}/{at:02}.conf", dict(document.root.mapping()))
    if collected.configz is not None:
        put(parts.CONFIGZ, dict(collected.configz), as_json=True)
    if source.flags and not source.broken:
        text, taken = reduced_flags(source.flags, names)
        gone += taken
        members[parts.FLAGS] = text.encode()
    return gone


def _pods(collected: Collected, names: Names, members: dict[str, bytes]) -> None:
    items = []
    for part in collected.pods:
        try:
            kept = reduced(part, names)
        except InputError as problem:
            collected.notes.missing("a pod", problem.message, detail=str(problem))
            continue
        try:
            decode_pods(Document(kept, part.document.file))
        except InputError as problem:  # whoever opens the bundle could read none of the pods
            collected.notes.missing("a pod", "is not one that an API server takes", detail=str(problem))
            continue
        items.append(kept)
    if items:
        members[parts.PODS] = to_json({"apiVersion": "v1", "kind": "List", "items": items}).encode()


def readme(manifest: Manifest, members: dict[str, bytes]) -> str:
    """What is inside, for whoever unpacks it."""
    kubelet = manifest.kubelet or "unknown version"
    lines = [
        f"# Node {manifest.node or 'without a name'}",
        "",
        f"Collected {manifest.collected} by numawise {manifest.by}; kubelet {kubelet}.",
        "numawise takes it packed or unpacked: `numawise why --bundle FILE pod.yaml`.",
        "",
        "## Inside",
        "",
        *(f"- `{name}`: {what_is(name)}" for name in sorted(members)),
        "",
        "## Replaced or taken out",
        "",
        *(f"- {one}" for one in manifest.removed),
        "- kept: names of resources such as `nvidia.com/gpu`, models of hardware, versions, times",
    ]
    if manifest.absent:
        lines += ["", "## Not inside", "", *(f"- {one.what}: {one.why}" for one in manifest.absent)]
    if manifest.remarks:
        lines += ["", "## To know", "", *(f"- {one}" for one in manifest.remarks)]
    return "\n".join(lines) + "\n"


def what_is(name: str) -> str:
    """What a member is."""
    descriptions = {
        parts.HARDWARE: "all that is known about the hardware, as `numawise discover -o json` writes it",
        parts.MACHINE: "the machine as the kubelet sees it, with its devices",
        parts.CONFIG: "the kubelet's configuration, all parts together",
        parts.BASE: "its file",
        parts.FLAGS: "its command line",
        parts.CONFIGZ: "what the running kubelet says its configuration is",
        parts.PODS: "the pods: resources, class, what the kubelet said",
        parts.NODE: "the Node object: what is allocatable, and conditions",
        parts.POD_RESOURCES: "what the kubelet's PodResources socket answers: devices, and who has them",
    }
    if name.startswith(f"{parts.DROP_INS}/"):
        return "a drop-in of its configuration"
    return descriptions.get(name, "a state file of the kubelet, checksum as right or wrong as it was")


def summary(bundle: Bundle) -> BundleSummary:
    """What is in a bundle, with the number of pods and verdicts on the state files."""
    manifest = manifest_document(bundle.manifest, bundle.members)
    looks = {name: look(name, text) for name, text in bundle.texts.items()}
    given = {each.name: getattr(manifest, each.name) for each in fields(manifest)}
    members = tuple(replace(member, about=what_is(member.name)) for member in manifest.members)
    return BundleSummary(
        **{**given, "members": members},
        pods=len(bundle.pods()),
        refused=tuple(pod.name for pod in bundle.refused()),
        state={
            name: BundledState(found.policy, found.format, found.fits, found.problem)
            for name, found in looks.items()
        },
    )
