"""A switch out of files: two configurations, state files, a machine and pods."""

from collections.abc import Sequence
from pathlib import Path

from numawise.apps.plan.switch import Request, plan_switch
from numawise.codec.bundle.archive import is_bundle
from numawise.codec.output import to_yaml
from numawise.errors import InputError
from numawise.inputs.config import ConfigInput, read_config
from numawise.inputs.pods import PodsInput
from numawise.inputs.spec import NodeInput
from numawise.results.plan import SwitchPlan
from numawise.rules.versions import Version
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class LoadedSwitch:
    """A switch, and the texts of the two configurations."""

    switch: SwitchPlan
    old_text: str
    new_text: str
    remarks: tuple[str, ...] = ()
    """What was left out of a list of pods."""


def load_switch(old: str, new: str, node: NodeInput, pods: Sequence[str]) -> LoadedSwitch:
    """Read all files, and think the switch out."""
    if "-" in (old, new):
        raise InputError("the two configurations must be files", advice="save them first")
    if is_bundle(new):
        advice = "give the new configuration as a file"
        raise InputError("a bundle does not have all of a configuration", file=new, advice=advice)
    version = node.version
    configs = [read_config(path) for path in (old, new)]
    for config in configs:
        config.config(version)  # what the kubelet would refuse is refused here
    read = node.pods(pods) if pods else PodsInput(node.running)
    request = Request(
        old=configs[0].raw(version),
        new=configs[1].raw(version),
        version=version,
        machine=node.machine if node.machine_input is not None else None,
        state=node.state,
        pods=read.pods,
    )
    texts = [_text(config, path, version) for config, path in zip(configs, (old, new), strict=True)]
    return LoadedSwitch(plan_switch(request), texts[0], texts[1], read.remarks)


def _text(config: ConfigInput, path: str, version: Version) -> str:
    """The file as it is, when it is a KubeletConfiguration; else what it amounts to."""
    plain = config.base is not None and config.base.part is not None and not config.base.part.steps
    if plain and not is_bundle(path):
        return Path(path).read_text(encoding="utf-8-sig")
    return to_yaml(dict(config.raw(version)))
