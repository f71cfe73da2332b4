"""Fields of the managers as a platform's own object: what ``codec.kubelet.objects`` reads, written.

Rules kept here:

1. Where the old configuration is such an object, the new one is that object with the fields in it; flags that
   would override them go.  Else it is a new object with nothing but the fields.
2. Status, and what the API server adds, is left out.  What may hold secrets (Talos, k3s) is not copied: a
   patch is written.
3. A field that the platform cannot set is not written, and named with the reason.
4. What is written is read back by our own loader as the same configuration.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any

from numawise.codec.kubelet import native
from numawise.codec.kubelet.config import API_VERSION, KIND
from numawise.codec.kubelet.flags import flags_for, known_flags
from numawise.codec.kubelet.platforms import platforms
from numawise.codec.kubelet.userdata import EXTRA, mime_parts
from numawise.codec.output import manifest_yaml, toml_text
from numawise.rules.model import RESTRICTED, SINGLE
from numawise.rules.versions import NEWEST
from numawise.sets import format_ids, parse_ids
from numawise.values import dataclass, field

Fields = Mapping[str, Any]
Object = dict[str, Any]
NAME = "numawise"
SERVER_SIDE = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink")
DEFAULTS = {
    "cpuManagerPolicy": "none",
    "cpuManagerReconcilePeriod": "10s",
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
    "memoryManagerPolicy": "None",
}
"""What a kubelet does when a field is not set; there is nothing to say about such a value."""
OLDER_KARPENTER = ("kubeReserved", "systemReserved", "evictionHard")
"""Fields that every release of Karpenter takes in ``spec.kubelet``; it counts with them, too."""
PATCHES = "/etc/kubernetes/patches"
ARGUMENT = re.compile(rf"{EXTRA}[ =]\s*('[^']*'|\"[^\"]*\"|\S+)")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be written."""

    fields: Fields
    dropped: tuple[str, ...] = ()
    """Fields of the old object that go."""
    old: Mapping[str, Any] | None = None
    """The old object, where it is of the platform's form."""
    text: str = ""
    """Likewise, where that is a text."""
    pool: str = ""
    """A pool of nodes by name."""
    cpus: int = 0
    """All CPUs of the machine; 0: not known."""


@dataclass(frozen=True, slots=True)
class Written:
    """An object of a platform."""

    file: str
    """What to call the file."""
    text: str
    refused: Mapping[str, str] = field(default_factory=dict)
    """Fields that cannot be set there → why."""
    remarks: tuple[str, ...] = ()


def write_platform(platform: str, wanted: Wanted) -> Written:
    """The object of a platform with these fields."""
    facts = platforms()[platform]
    settable: Object = {}
    refused: dict[str, str] = {}
    for name, value in wanted.fields.items():
        why = facts.refused(name)
        if not why:
            settable[name] = value
        elif DEFAULTS.get(name) != value:
            refused[name] = why
    draft = Wanted(settable, wanted.dropped, wanted.old, wanted.text, wanted.pool, wanted.cpus)
    written = WRITERS[platform](draft)
    return Written(written.file, written.text, {**refused, **written.refused}, written.remarks)


# --- pieces -----------------------------------------------------------------------------------


def _copy(wanted: Wanted, kind: str) -> Object | None:
    """The old object without what the server added; None when it is another."""
    if wanted.old is None or wanted.old.get("kind") != kind:
        return None
    copied: Object = deepcopy(dict(wanted.old))
    copied.pop("status", None)
    for name in SERVER_SIDE:
        _at(copied, "metadata").pop(name, None)
    return copied


def _at(value: Object, *steps: str) -> Object:
    """The mapping inside, made where there is none."""
    for step in steps:
        below = value.get(step)
        if not isinstance(below, dict):
            below = value[step] = {}
        value = below
    return value


def _put(place: Object, wanted: Wanted, fields: Fields | None = None) -> None:
    """The fields in place of the old ones."""
    for name in (*wanted.dropped, *wanted.fields):
        place.pop(name, None)
    place.update(wanted.fields if fields is None else fields)


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list) else []


def _unflagged(flags: Iterable[Any], wanted: Wanted) -> list[Any]:
    """A list of flags without those that set one of the fields."""
    return [one for one in flags if _field_of(one) not in {*wanted.fields, *wanted.dropped}]


def _field_of(flag: object) -> str:
    name = flag.get("name", "") if isinstance(flag, Mapping) else str(flag).partition("=")[0]
    kind = known_flags(NEWEST).get(str(name).lstrip("-").rstrip("+").replace("_", "-"))
    return kind.field[0] if kind is not None and kind.field else ""


# --- OpenShift --------------------------------------------------------------------------------


def _openshift(wanted: Wanted) -> Written:
    value = _copy(wanted, "KubeletConfig")
    if value is None:
        label = f"pools.operator.machineconfiguration.openshift.io/{wanted.pool or 'worker'}"
        value = {
            "apiVersion": "machineconfiguration.openshift.io/v1",
            "kind": "KubeletConfig",
            "metadata": {"name": NAME},
            "spec": {"machineConfigPoolSelector": {"matchLabels": {label: ""}}},
        }
    _put(_at(value, "spec", "kubeletConfig"), wanted)
    remarks: tuple[str, ...] = ()
    if "systemReserved" in wanted.fields and _at(value, "spec").pop("autoSizingReserved", None):
        remarks = ("spec.autoSizingReserved is left out: it may not stand beside systemReserved.",)
    return Written("kubeletconfig.yaml", manifest_yaml(value), remarks=remarks)


def _performance(wanted: Wanted) -> Written:
    value = _copy(wanted, "PerformanceProfile")
    if value is None:
        role = f"node-role.kubernetes.io/{wanted.pool or 'worker'}"
        value = {
            "apiVersion": "performance.openshift.io/v2",
            "kind": "PerformanceProfile",
            "metadata": {"name": NAME},
            "spec": {"nodeSelector": {role: ""}},
        }
    fields, refused = dict(wanted.fields), {}
    if fields.pop("cpuManagerPolicy", "static") != "static":
        refused["cpuManagerPolicy"] = "the operator sets it to static"
    spec, metadata = _at(value, "spec"), _at(value, "metadata")
    reserved = fields.pop("reservedSystemCPUs", None)
    if reserved is not None:
        cpu = _at(spec, "cpu")
        every = wanted.cpus or _ids(cpu.get("isolated")) | _ids(cpu.get("reserved"))
        if every:
            cpu["reserved"], cpu["isolated"] = str(reserved), format_ids(every & ~parse_ids(str(reserved)))
        else:
            refused["reservedSystemCPUs"] = "which CPUs would be isolated is not known: give --machine"
    policy = fields.pop("topologyManagerPolicy", None) or _at(spec, "numa").get("topologyPolicy")
    if policy:
        _at(spec, "numa")["topologyPolicy"] = policy
    if policy in (RESTRICTED, SINGLE):
        if fields.pop("memoryManagerPolicy", "Static") != "Static":
            refused["memoryManagerPolicy"] = f"the operator sets it to Static beside {policy}"
        if policy == SINGLE:
            options = fields.get("cpuManagerPolicyOptions") or {}
            fields["cpuManagerPolicyOptions"] = {native.FULL_CORES: "false", **options}
    annotations = _at(metadata, "annotations")
    snippet = json.loads(annotations.get(native.SNIPPET) or "{}")
    _put(snippet, wanted, {name: one for name, one in fields.items() if name not in refused})
    annotations[native.SNIPPET] = json.dumps(snippet, separators=(",", ":"))
    return Written("performanceprofile.yaml", manifest_yaml(value), refused)


def _ids(value: object) -> int:
    try:
        return parse_ids(str(value)) if value is not None else 0
    except ValueError:
        return 0


# --- EKS --------------------------------------------------------------------------------------


def _node_config(fields: Fields) -> Object:
    return {
        "apiVersion": "node.eks.aws/v1alpha1",
        "kind": "NodeConfig",
        "spec": {"kubelet": {"config": dict(fields)}},
    }


def _eks(wanted: Wanted) -> Written:
    value = _copy(wanted, "NodeConfig")
    if value is not None:
        kubelet = _at(value, "spec", "kubelet")
        _put(_at(kubelet, "config"), wanted)
        if isinstance(kubelet.get("flags"), list):
            kubelet["flags"] = _unflagged(kubelet["flags"], wanted)
        return Written("nodeconfig.yaml", manifest_yaml(value))
    if wanted.text:
        return Written("user-data.txt", _with_part(wanted.text, wanted.fields))
    return Written("nodeconfig.yaml", manifest_yaml(_node_config(wanted.fields)))


def _with_part(text: str, fields: Fields) -> str:
    """User data with one more NodeConfig, which is laid over those before it."""
    part = f"Content-Type: application/node.eks.aws\n\n{manifest_yaml(_node_config(fields))}"
    if mime_parts(text, 1) is not None:
        mark = re.search(r"boundary=\"?([^\"\s;]+)\"?", text)
        end = text.rfind(f"--{mark[1]}--") if mark else -1
        if mark and end >= 0:
            return f"{text[:end]}--{mark[1]}\n{part}\n{text[end:]}"
    kind = "text/x-shellscript" if text.lstrip().startswith("#!") else "application/node.eks.aws"
    head = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="//"\n\n'
    own = f"--//\nContent-Type: {kind}\n\n{text.rstrip()}\n\n" if text.strip() else ""
    return f"{head}{own}--//\n{part}\n--//--\n"


def _eks_bootstrap(wanted: Wanted) -> Written:
    words = [f"--{name}={value}" for name, value in flags_for(wanted.fields)]
    old = ARGUMENT.search(wanted.text)
    if old is not None:
        kept = old[1].strip("'\"").replace("\\\n", " ").split()
        arguments = " ".join([*_unflagged(kept, wanted), *words])
        text = f"{wanted.text[: old.start()]}{EXTRA} '{arguments}'{wanted.text[old.end() :]}"
        return Written("user-data.sh", text)
    arguments = " ".join(words)
    return Written(
        "user-data.sh", f"#!/bin/bash\nset -e\n/etc/eks/bootstrap.sh CLUSTER {EXTRA} '{arguments}'\n"
    )


def _eksctl(wanted: Wanted) -> Written:
    value = _copy(wanted, "ClusterConfig") or {
        "apiVersion": "eksctl.io/v1alpha5",
        "kind": "ClusterConfig",
        "metadata": {"name": "CLUSTER", "region": "REGION"},
        "nodeGroups": [{"name": wanted.pool or NAME}],
    }
    groups = [
        (kind, group)
        for kind in ("nodeGroups", "managedNodeGroups")
        for group in _list(value.pop(kind, None))
        if isinstance(group, dict) and (wanted.old is None or "kubeletExtraConfig" in group)
    ]
    kind, group = groups[0] if groups else ("nodeGroups", {"name": wanted.pool or NAME})
    if wanted.old is not None:
        group["name"] = wanted.pool or f"{group.get('name', NAME)}-{NAME}"
    _put(_at(group, "kubeletExtraConfig"), wanted)
    value[kind] = [group]
    return Written("cluster.yaml", manifest_yaml(value))


def _karpenter(wanted: Wanted) -> Written:
    value = _copy(wanted, "EC2NodeClass") or {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": wanted.pool or NAME},
        "spec": {},
    }
    spec = _at(value, "spec")
    counted = {name: one for name, one in wanted.fields.items() if name in OLDER_KARPENTER}
    others = {name: one for name, one in wanted.fields.items() if name not in counted}
    _put(_at(spec, "kubelet"), wanted, counted)
    data = str(spec.get("userData") or "")
    refused: dict[str, str] = {}
    if others and re.search(r"^[ \t]*\[+settings", data, re.MULTILINE):
        inner = _bottlerocket(Wanted(others, wanted.dropped, text=data))
        spec["userData"], refused = inner.text, dict(inner.refused)
    elif others:
        spec["userData"] = _with_part(data, others)
    return Written("ec2nodeclass.yaml", manifest_yaml(value), refused)


# --- Bottlerocket -----------------------------------------------------------------------------


def _bottlerocket(wanted: Wanted) -> Written:
    import tomllib  # noqa: PLC0415 - few need it

    value: Object = tomllib.loads(wanted.text) if wanted.text else {}
    settings = _at(value, "settings", "kubernetes")
    names = {name: (setting, way) for setting, (name, way) in native.bottlerocket_settings().items()}
    for name in (*wanted.dropped, *wanted.fields):
        if name in names:
            settings.pop(names[name][0], None)
    refused: dict[str, str] = {}
    fields = dict(wanted.fields)
    if fields.get("memoryManagerPolicy") == "Static" and not fields.get("reservedMemory"):
        refused["memoryManagerPolicy"] = "Bottlerocket passes it on only beside reservedMemory"
        del fields["memoryManagerPolicy"]
    elif not fields.get("reservedMemory"):
        fields.pop("memoryManagerPolicy", None)
    for name, one in fields.items():
        if name not in names:
            refused[name] = "Bottlerocket has no setting for it"
        else:
            setting, way = names[name]
            settings[setting] = _bottlerocket_value(way, one)
    return Written("user-data.toml", toml_text(value), refused)


def _bottlerocket_value(way: str, value: Any) -> Any:  # noqa: ANN401 - as a configuration has it
    match way:
        case "set":
            return [name for name, on in value.items() if str(on).lower() == "true"]
        case "numa":
            return {str(one["numaNode"]): {"enabled": True, **one["limits"]} for one in value}
        case "texts" if all(str(one) in ("true", "false") or str(one).isdecimal() for one in value.values()):
            return {name: json.loads(str(one)) for name, one in value.items()}
        case "texts":
            return {name: str(one) for name, one in value.items()}
    return value


# --- GKE, AKS, Talos, k3s ---------------------------------------------------------------------


def _gke(wanted: Wanted) -> Written:
    value: Object = deepcopy(dict(wanted.old)) if wanted.old and "kubeletConfig" in wanted.old else {}
    place = _at(value, "kubeletConfig")
    for name in (*wanted.dropped, *wanted.fields):
        manager, _, part = name.partition("Manager")
        if f"{manager}Manager" in native.GKE_MANAGERS:
            _at(place, f"{manager}Manager").pop(part.lower(), None)
        place.pop(name, None)
    for name, one in wanted.fields.items():
        manager, _, part = name.partition("Manager")
        if f"{manager}Manager" in native.GKE_MANAGERS:
            _at(place, f"{manager}Manager")[part.lower()] = one
        else:
            place[name] = one
    for name in native.GKE_MANAGERS:
        if place.get(name) == {}:
            del place[name]
    return Written("system-config.yaml", manifest_yaml(value))


def _aks(wanted: Wanted) -> Written:
    old = wanted.old or {}
    value: Object = deepcopy(dict(old.get("kubeletConfig") or ({} if "kubeletConfig" in old else old)))
    _put(value, wanted)
    kept = {name: one for name, one in value.items() if one is not None}
    return Written("linuxkubeletconfig.json", json.dumps(kept, indent=2) + "\n")


def _talos(wanted: Wanted) -> Written:
    remarks = []
    kubelet = _at(deepcopy(dict(wanted.old or {})), "machine", "kubelet")
    flags = [name for name in _at(kubelet, "extraArgs") if _field_of(name) in wanted.fields]
    if flags:
        remarks.append(f"Remove {', '.join(flags)} from machine.kubelet.extraArgs: flags win over fields.")
    extra = _at(kubelet, "extraConfig")
    left = [name for name in wanted.dropped if name in extra]
    if isinstance(extra.get("reservedMemory"), list) and "reservedMemory" in wanted.fields:
        left.append("reservedMemory")
    if left:
        remarks.append(
            f"Remove {', '.join(left)} from machine.kubelet.extraConfig first: a patch adds to lists and "
            "removes nothing."
        )
    patch = {"machine": {"kubelet": {"extraConfig": dict(wanted.fields)}}}
    return Written("patch.yaml", manifest_yaml(patch), remarks=tuple(remarks))


def _k3s(wanted: Wanted) -> Written:
    own = [f"{name}={value}" for name, value in flags_for(wanted.fields)]
    old = [*_listed(wanted.old, "kubelet-arg"), *_listed(wanted.old, "kubelet-arg+")]
    kept = _unflagged(old, wanted)
    key = "kubelet-arg" if old else "kubelet-arg+"
    remarks = ("kubelet-arg here takes the place of the list in config.yaml.",) if old else ()
    return Written(f"90-{NAME}.yaml", manifest_yaml({key: [*kept, *own]}), remarks=remarks)


def _listed(value: Mapping[str, Any] | None, name: str) -> list[Any]:
    found = (value or {}).get(name)
    return [found] if isinstance(found, str) else _list(found)


# --- kubeadm ----------------------------------------------------------------------------------


def _kubeadm(wanted: Wanted) -> Written:
    value = {"apiVersion": API_VERSION, "kind": KIND, **wanted.fields}
    return Written("kubeletconfiguration0+merge.yaml", manifest_yaml(value))


CAPI_SPECS = {
    "KubeadmConfigTemplate": ("spec", "template", "spec"),
    "KubeadmConfig": ("spec",),
    "KubeadmControlPlane": ("spec", "kubeadmConfigSpec"),
    "KubeadmControlPlaneTemplate": ("spec", "template", "spec", "kubeadmConfigSpec"),
}


def _cluster_api(wanted: Wanted) -> Written:
    kind = str((wanted.old or {}).get("kind", ""))
    copied = _copy(wanted, kind) if kind in CAPI_SPECS else None
    value: Object = copied or {
        "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta1",
        "kind": "KubeadmConfigTemplate",
        "metadata": {"name": wanted.pool or "POOL"},
        "spec": {"template": {"spec": {"joinConfiguration": {}}}},
    }
    metadata = _at(value, "metadata")
    if value["kind"] == "KubeadmConfigTemplate":
        metadata["name"] = f"{metadata.get('name', 'POOL')}-{NAME}"
    spec = _at(value, *CAPI_SPECS[value["kind"]])
    for way in ("initConfiguration", "joinConfiguration"):
        if isinstance(spec.get(way), dict):
            registration = _at(spec[way], "nodeRegistration")
            flags = registration.get("kubeletExtraArgs")
            gone = {*wanted.fields, *wanted.dropped}
            if isinstance(flags, list):
                registration["kubeletExtraArgs"] = _unflagged(flags, wanted)
            elif isinstance(flags, dict):
                registration["kubeletExtraArgs"] = {
                    k: v for k, v in flags.items() if _field_of(k) not in gone
                }
            if not registration.get("kubeletExtraArgs"):
                registration.pop("kubeletExtraArgs", None)
            if not registration:
                del spec[way]["nodeRegistration"]
            _at(spec[way], "patches").setdefault("directory", PATCHES)
    ways = [
        spec[way] for way in ("joinConfiguration", "initConfiguration") if isinstance(spec.get(way), dict)
    ]
    directory = ways[0]["patches"]["directory"] if ways else PATCHES
    path = f"{directory}/kubeletconfiguration9+merge.yaml"
    files = [
        one for one in _list(spec.get("files")) if not (isinstance(one, Mapping) and one.get("path") == path)
    ]
    spec["files"] = [*files, {"path": path, "content": _kubeadm(wanted).text}]
    return Written(f"{value['kind'].lower()}.yaml", manifest_yaml(value))


WRITERS: Mapping[str, Callable[[Wanted], Written]] = {
    "openshift": _openshift,
    "openshift-performance": _performance,
    "eks": _eks,
    "eks-bootstrap": _eks_bootstrap,
    "eksctl": _eksctl,
    "karpenter": _karpenter,
    "bottlerocket": _bottlerocket,
    "gke": _gke,
    "aks": _aks,
    "talos": _talos,
    "k3s": _k3s,
    "rke2": _k3s,
    "cluster-api": _cluster_api,
    "kubeadm": _kubeadm,
}
