"""A switch where a platform writes the kubelet's configuration: its own object, and its own way.

Rules kept here:

1. The platform is the one that is named; else that of the old configuration's form; else what the whole
   configuration, the node's labels or the kubelet's version give away.
2. The object holds the fields of the managers that the new configuration names and the platform lets people
   set.  It is read back by our own loader: a field that does not come back as planned is named as one that
   cannot be set.
3. Nodes that are replaced have no state files.  Where they stay, the files that the new configuration would
   not start on are removed by a step.
4. kubeadm's file may be edited on the node; what is written beside is the patch that an upgrade needs.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from numawise.apps.plan.kubelet import GOVERNED
from numawise.codec.bundle.archive import is_bundle
from numawise.codec.document import read_documents
from numawise.codec.infile import read_raw
from numawise.codec.kubelet.config import decode_kubelet_config
from numawise.codec.kubelet.platforms import Platform, platform_of_node, platforms
from numawise.codec.kubelet.userdata import plain_text
from numawise.codec.kubelet.written import DEFAULTS, Wanted, Written, write_platform
from numawise.datafile import data_text
from numawise.errors import InputError, quoted, suggestion
from numawise.inputs.config import ConfigInput, config_in
from numawise.inputs.spec import RESERVATIONS, NodeInput
from numawise.results.plan import KubeletPlace, PlatformPlan, SwitchPlan, SwitchStep
from numawise.rules.check import Refusal
from numawise.rules.versions import Version
from numawise.values import dataclass

Raw = Mapping[str, Any]
AUTO, NO_PLATFORM, EDITED = "auto", "none", "kubeadm"
MANAGED = (
    *(field for policy, fields in GOVERNED.items() for field in (policy, *fields)),
    "cpuManagerReconcilePeriod",
    "reservedSystemCPUs",
    "kubeReserved",
    "systemReserved",
    "evictionHard",
    "featureGates",
)
"""The fields of the managers, in the order in which they are written."""
OPTIONS = ("cpuManagerPolicyOptions", "topologyManagerPolicyOptions", "reservedMemory")
"""Of these an empty one is as good as none."""
POOL = re.compile(
    r"^\s+(?:pools\.operator\.machineconfiguration\.openshift\.io|node-role\.kubernetes\.io)/([\w.-]+):",
    re.MULTILINE,
)
NOT_MANAGED = "it is not a field of the managers, and is left to the platform"
LOST = "it does not come back when the object is read: something else in it has the last word"


@dataclass(frozen=True, slots=True)
class NodePlatform:
    """A node's platform, and how it is known."""

    platform: Platform
    found: str


def platform_named(name: str, old: ConfigInput, node: NodeInput) -> NodePlatform | None:
    """The platform of a node (rule 1); None: its file can be edited."""
    if name == NO_PLATFORM:
        return None
    if name != AUTO:
        known = platforms()
        if name not in known:
            advice = suggestion(name, (AUTO, NO_PLATFORM, *known))
            raise InputError(f"unknown platform {quoted(name)}", field="--platform", advice=advice)
        return NodePlatform(known[name], "it was named")
    configuration = old.configuration(node.version)
    if configuration.platform is not None:
        return NodePlatform(configuration.platform, f"{configuration.name} has its form")
    labels = dict(node.description.labels) if node.description is not None else {}
    version = node.bundle.kube if node.bundle is not None else node.spec.kube
    platform = platform_of_node(configuration.raw, labels, version)
    if platform is None:
        return None
    return NodePlatform(platform, "the node's configuration, labels or version show it")


# --- the object -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OldObject:
    """The old configuration as the platform has it: an object, a text, or neither."""

    value: Raw | None = None
    text: str = ""


def platform_object(
    known: NodePlatform, before: Raw, after: Raw, given: Raw, old: str, node: NodeInput, pool: str
) -> Written:
    """The platform's object for a node; ``old``: the file of its configuration today."""
    machine = node.machine_input.machine if node.machine_input is not None else None
    cpus = 0
    for own in machine.layout.numas.values() if machine is not None else ():
        cpus |= own
    name = known.platform.name
    return written_for(name, before, after, given, old_object(old, name), node.version, pool, cpus)


def written_for(
    platform: str,
    before: Raw,
    after: Raw,
    given: Raw,
    old: OldObject,
    version: Version,
    pool: str = "",
    cpus: int = 0,
) -> Written:
    """The object with the fields that the new configuration names (rule 2); ``cpus``: all of the machine."""
    empty = {name for name in OPTIONS if not after.get(name)}
    fields = {name: after[name] for name in MANAGED if name in after and name in given and name not in empty}
    dropped = tuple(name for name in MANAGED if name in before and (name not in after or name in empty))
    written = write_platform(platform, Wanted(fields, dropped, old.value, old.text, pool, cpus))
    refused = {**written.refused, **_lost(written, fields, version), **_others(before, given)}
    return Written(written.file, written.text, refused, written.remarks)


def _others(before: Raw, given: Raw) -> dict[str, str]:
    """Fields that the new configuration changes and that are not the managers'."""
    left = [name for name in given if name not in (*MANAGED, "apiVersion", "kind")]
    return {name: NOT_MANAGED for name in left if given[name] != before.get(name)}


def unreserved(known: NodePlatform, refusal: Refusal) -> bool:
    """Whether a kubelet would not start for want of what the platform reserves by itself."""
    from numawise.node.refusal_codes import code_of  # noqa: PLC0415 - few ask for it

    return bool(known.platform.reserves_cpus) and code_of(refusal.stage, refusal.message) in RESERVATIONS


def old_object(path: str, platform: str) -> OldObject:
    """The old object or text, where it is of the platform's form."""
    if is_bundle(path):
        return OldObject()
    raw, name = read_raw(path)
    text = plain_text(raw.decode("utf-8-sig", errors="replace"))
    try:
        config = config_in(text, name)
    except InputError:
        return OldObject()
    if config.base is None or config.base.platform != platform:
        return OldObject()
    try:
        documents = read_documents(text, name)
    except InputError:
        return OldObject(text=text)
    if len(documents) == 1 and isinstance(documents[0].value, Mapping):
        return OldObject(documents[0].value)
    return OldObject(text=text)


def _lost(written: Written, fields: Raw, version: Version) -> dict[str, str]:
    """Fields that the object does not give back as planned."""
    try:
        read = config_in(written.text, written.file).raw(version)
    except InputError:  # nothing is left to be set
        read = {}
    return {
        name: LOST
        for name, value in fields.items()
        if name not in written.refused and not _same(name, value, read, version)
    }


def _same(name: str, value: object, read: Raw, version: Version) -> bool:
    """Whether a field means the same, or more where the platform adds to a mapping."""
    now = read.get(name, DEFAULTS.get(name))
    if isinstance(value, Mapping):
        inside = now if isinstance(now, Mapping) else {}
        now = {key: inside.get(key, "false" if str(one) == "false" else None) for key, one in value.items()}
    configs = [decode_kubelet_config({name: one}, version) for one in (value, now)]
    if any(isinstance(config, Refusal) for config in configs):
        return bool(value == now)
    return bool(configs[0] == configs[1])


# --- the way ----------------------------------------------------------------------------------


def pool_of(text: str) -> str:
    """The pool that an object of OpenShift is for; '' when it does not say."""
    pool = POOL.search(text)
    return pool[1] if pool else ""


@cache
def _ways() -> Mapping[str, Any]:
    import tomllib  # noqa: PLC0415 - few need it

    return tomllib.loads(data_text(__file__, "platforms.toml"))


def platform_plan(
    known: NodePlatform, written: Written, switch: SwitchPlan, place: KubeletPlace, pool: str
) -> PlatformPlan:
    """All that is to be said and done there."""
    name = known.platform.name
    way = _ways()[name]
    pool = pool or pool_of(written.text)
    steps = tuple(_steps(way, switch, place, pool, written.file)) if name != EDITED else ()
    return PlatformPlan(
        name,
        known.platform.title,
        known.found,
        way["regenerates"],
        written.file,
        written.text,
        tuple(written.refused.items()),
        steps,
        bool(way.get("in_place")),
        written.remarks,
    )


def _steps(way: Raw, switch: SwitchPlan, place: KubeletPlace, pool: str, file: str) -> Iterator[SwitchStep]:
    node = shlex.quote(place.node) if place.node else "NODE"
    words = {
        "file": shlex.quote(file),
        "node": node,
        "pool": shlex.quote(pool) if pool else "POOL",
        "service": way.get("service", place.service) if place.service == "kubelet" else place.service,
        "directory": place.directory,
    }
    if way.get("in_place"):
        yield SwitchStep(
            "Cordon the node", (f"kubectl cordon {node}",), "no new pod comes while the kubelet is down"
        )
        if switch.drain:
            drain = f"kubectl drain {node} --ignore-daemonsets --delete-emptydir-data"
            yield SwitchStep("Drain it", (f"{drain} --timeout={place.drain_timeout}",), switch.drain)
        if "stop" in way:
            yield SwitchStep("Stop the kubelet", (way["stop"].format(**words),), "on the node")
        for name in switch.removed:
            path = shlex.quote(f"{place.directory}/{name}")
            yield SwitchStep(
                f"Remove {name}", (way["remove"].format(**words, path=path),), way.get("remove_why", "")
            )
    for step in way["steps"]:
        commands = tuple(command.format(**words) for command in step.get("commands", ()))
        yield SwitchStep(step["title"].format(**words), commands, step.get("why", ""))
    if way.get("in_place"):
        yield SwitchStep("Uncordon the node", (f"kubectl uncordon {node}",))
