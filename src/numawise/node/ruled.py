"""How a kubelet decides on a machine: its configuration checked, its settings, its rules."""

from collections.abc import Mapping
from typing import Protocol

from numawise.codec.kubelet.config import decode_kubelet_config
from numawise.engine.start import build
from numawise.machine.model import Machine
from numawise.rules.behaviour import Behaviour, behaviour_of
from numawise.rules.check import Refusal, Settings, check
from numawise.rules.model import KubeletConfig, Rules
from numawise.rules.versions import DEFAULT, Version, check_known
from numawise.sets import CpuSet


class Tune(Protocol):
    """What may be changed about a release while it starts."""

    def config(self, kubelet: Mapping[str, object] | KubeletConfig, config: KubeletConfig) -> KubeletConfig:
        """The configuration to go on with; ``kubelet``: as it was given."""
        ...

    def settings(self, kubelet: Mapping[str, object] | KubeletConfig, settings: Settings) -> Settings:
        """The settings to go on with, its gates among them."""
        ...

    def behaviour(self, behaviour: Behaviour) -> Behaviour:
        """The behaviours to go on with."""
        ...


def ruled_by(
    machine: Machine,
    kubelet: Mapping[str, object] | KubeletConfig,
    version: Version = DEFAULT,
    tune: Tune | None = None,
) -> tuple[KubeletConfig, Settings, Rules] | Refusal:
    """How a kubelet decides on a machine, as far as it can be told before it reads any state."""
    check_known(version)
    config = kubelet if isinstance(kubelet, KubeletConfig) else decode_kubelet_config(kubelet, version)
    if isinstance(config, Refusal):
        return config
    behaviour = behaviour_of(version)
    if tune is not None:
        config = tune.config(kubelet, config)
    settings = check(config, CpuSet(machine.layout.all), machine.capacity, version)
    if isinstance(settings, Refusal):
        return settings
    if tune is not None:
        settings, behaviour = tune.settings(kubelet, settings), tune.behaviour(behaviour)
    rules = build(machine, config, settings, version, behaviour)
    return rules if isinstance(rules, Refusal) else (config, settings, rules)
