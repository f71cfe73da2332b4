"""What ``numawise agent`` makes of a configuration of NVIDIA's device plugin.

Rules kept here:

1. All forms that ``codec.nvidia_forms`` knows are taken: the file itself, a ConfigMap, Helm values, a
   ClusterPolicy.
2. What the plugin itself would refuse is refused, and so are fields that nobody knows, MPS and Tegra.
3. Each field that is set and not acted on is named in a sentence.
"""

from collections.abc import Iterator, Mapping

from numawise.codec.agent_values import UUID, AgentConfig, AnswerForm, ResourceRule
from numawise.codec.document import Part, field_name
from numawise.codec.nvidia_forms import PluginSource
from numawise.codec.nvidia_plugin import SHARED_SUFFIX, PluginReading
from numawise.errors import InputError
from numawise.gpus.nvidia_plugin import GPU_NAME, MPS, PluginConfig

NVIDIA_VARIABLE = "NVIDIA_VISIBLE_DEVICES"
NVIDIA_KIND = "nvidia.com/gpu"
CDI_PREFIX = "cdi.k8s.io/"
LIST_FOLDER = "/var/run/nvidia-container-devices"
FILES = "its device files are not passed; 'nodes' in a configuration of the agent can list them"


NOT_ACTED_ON: Mapping[str, str] = {
    "mpsRoot": "GPUs are not shared by MPS",
    "gdrcopyEnabled": FILES,
    "gdsEnabled": FILES,
    "mofedEnabled": FILES,
    "useNodeFeatureAPI": "labels are NVIDIA's GPU feature discovery's affair",
    "nvidiaCTKPath": "no CDI files are made; 'nvidia-ctk cdi generate' makes them",
    "containerDriverRoot": "the driver's library is looked for where the system keeps it",
}
"""Fields without effect here, and what there is to say."""


def nvidia_config(source: PluginSource, label: str) -> AgentConfig:
    """What the agent makes of a configuration of NVIDIA's plugin; ``label``: which of several."""
    _, reading = source.selected(label)
    findings = (*source.findings, *(reading.findings if reading is not None else ()))
    for finding in findings:
        if finding.code in ("NW701", "NW702"):
            raise InputError(
                finding.message, file=finding.file, line=finding.line, field=finding.field, advice=finding.fix
            )
    remarks = [_said(one.file, one.line, one.field, one.message) for one in findings if one.code == "NW703"]
    if reading is not None:
        remarks += _not_acted_on(reading)
    config = source.config(reading)
    if config.sharing == MPS:
        assert reading is not None
        raise (
            reading.part.at("sharing")
            .at("mps")
            .error(
                "GPUs are not shared by MPS here",
                "share them by timeSlicing, or let NVIDIA's own plugin run on this node",
            )
        )
    flags = {**(reading.flags if reading is not None else {}), **source.over}
    if flags.get("deviceDiscoveryStrategy") == "tegra":
        assert reading is not None
        raise reading.part.at("flags", "deviceDiscoveryStrategy").error(
            "Tegra's GPUs are not known here", "write nvml, or let NVIDIA's own plugin run on this node"
        )
    rule = ResourceRule(
        GPU_NAME,
        _nvidia_answer(config, flags),
        nvidia=config,
        fails_without=flags.get("failOnInitError") is not False,
    )
    return AgentConfig((rule,), remarks=tuple(remarks))


def _nvidia_answer(config: PluginConfig, flags: Mapping[str, object]) -> AnswerForm:
    ways = config.strategies or ("envvar",)
    root = str(flags.get("nvidiaDevRoot") or flags.get("nvidiaDriverRoot") or "/")
    mounts = "volume-mounts" in ways
    cdi = "cdi-cri" in ways or "cdi-annotations" in ways
    prefix = str(flags.get("cdiAnnotationPrefix") or CDI_PREFIX)
    return AnswerForm(
        env=NVIDIA_VARIABLE if mounts or "envvar" in ways else "",
        ids=str(flags.get("deviceIDStrategy") or UUID),
        listed_below=LIST_FOLDER if mounts else "",
        cdi_kind=NVIDIA_KIND if cdi else "",
        cdi_field="cdi-annotations" not in ways or "cdi-cri" in ways,
        cdi_annotations=prefix if "cdi-annotations" in ways else "",
        own_nodes=config.pass_device_specs,
        dev_root=root.rstrip("/"),
    )


def _not_acted_on(reading: PluginReading) -> Iterator[str]:
    """Fields that have a value and no effect."""
    flags = reading.part.at("flags")
    for section in (flags, flags.at("plugin")):
        for key, value in section.value.items() if isinstance(section.value, Mapping) else ():
            known = next((name for name in NOT_ACTED_ON if name.lower() == key.lower()), "")
            if known and value not in (None, False, ""):
                yield _about(section.at(key), f"is not acted on: {NOT_ACTED_ON[known]}")
    gfd = flags.at("gfd")
    if isinstance(gfd.value, Mapping) and gfd.value:
        yield _about(gfd, "is not acted on: labels are NVIDIA's GPU feature discovery's affair")
    imex = reading.part.at("imex")
    if isinstance(imex.value, Mapping) and imex.value:
        yield _about(imex, "is not acted on: no IMEX channels are passed")


def _about(part: Part, message: str) -> str:
    return _said(part.document.file, part.document.line(part.steps), field_name(part.steps), message)


def _said(file: str, line: int | None, name: str, message: str) -> str:
    return str(InputError(message, file=file, line=line, field=name))


def offered_name(rule: ResourceRule, resource: str) -> str:
    """The name under which a resource of NVIDIA's plugin is offered, where the rule has another one."""
    if rule.name == GPU_NAME or resource not in (GPU_NAME, GPU_NAME + SHARED_SUFFIX):
        return resource
    return rule.name + resource.removeprefix(GPU_NAME)
