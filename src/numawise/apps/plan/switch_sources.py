"""A switch out of files: two configurations, state files, a machine and pods."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from numawise.apps.plan.node_input import NodeGiven
from numawise.apps.plan.switch import Request, plan_switch
from numawise.codec.bundle.archive import is_bundle
from numawise.codec.output import to_yaml
from numawise.errors import InputError
from numawise.inputs.files import config_of, load_config_file, refuse_unknown
from numawise.results.plan import SwitchPlan


@dataclass(frozen=True, slots=True)
class LoadedSwitch:
    """A switch, and the texts of the two configurations."""

    switch: SwitchPlan
    old_text: str
    new_text: str


def load_switch(old: str, new: str, node: NodeGiven, pods: Sequence[str]) -> LoadedSwitch:
    """Read all files, and think the switch out."""
    if "-" in (old, new):
        raise InputError("the two configurations must be files", advice="save them first")
    if sum(path == "-" for path in (node.named.machine, *pods)) > 1:
        raise InputError("standard input (-) can be read only once", advice="save one of them to a file")
    if is_bundle(new):
        advice = "give the new configuration as a file"
        raise InputError("a bundle does not have all of a configuration", file=new, advice=advice)
    version = node.profile.version
    files = [load_config_file(path) for path in (old, new)]
    for file in files:
        refuse_unknown(file, (version,))
        config_of(file, version)
    machine = node.machine()
    request = Request(
        old=files[0].value,
        new=files[1].value,
        version=version,
        machine=machine.machine if machine is not None else None,
        state=node.state(),
        pods=node.pods(pods),
    )
    old_text = to_yaml(dict(files[0].value)) if is_bundle(old) else _text(old)
    return LoadedSwitch(plan_switch(request), old_text, _text(new))


def _text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8-sig")
