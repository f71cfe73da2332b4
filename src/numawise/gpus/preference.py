"""How numawise's own device plugin answers GetPreferredAllocation: with what the launcher would choose.

Rules kept here:

1. It is a value with all that the choice depends on, so that whoever predicts the kubelet can carry it along.
2. A question that cannot be answered has an empty answer, which leaves the choice to the kubelet.
"""

from collections.abc import Collection, Mapping

from numawise.gpus.choose import choices
from numawise.gpus.links import GpuLinks
from numawise.machine.hardware import Gpu
from numawise.machine.preference import PreferenceAnswer
from numawise.sets import bits_of, ids_of
from numawise.values import dataclass, field

MOST_LINKED = 64
"""Devices whose links are compared; of more, the kubelet is to choose."""


@dataclass(frozen=True, slots=True)
class LauncherPreference:
    """The devices that ``choices`` puts first."""

    devices: tuple[str, ...]
    """Ids, by position."""
    homes: tuple[int, ...]
    """The packed NUMA node of each, or 0."""
    points: tuple[tuple[int, ...], ...]
    """Of the link of every pair; the same both ways."""
    distances: Mapping[int, int] = field(default_factory=dict)
    """Two NUMA nodes, packed → distance."""

    @staticmethod
    def of(devices: tuple[str, ...], links: GpuLinks) -> "LauncherPreference":
        """That of devices whose links are known, in the same order."""
        return LauncherPreference(devices, links.numa, links.points, links.distances)

    def answer(
        self,
        listed: Collection[str],  # noqa: ARG002 - part of the protocol
        available: Collection[str],
        must: Collection[str],
        size: int,
    ) -> PreferenceAnswer:
        """The devices it prefers (rule 2)."""
        place = {name: at for at, name in enumerate(self.devices)}
        free = {*must, *(name for name in available if name in place)}
        if not set(must) <= place.keys() or not max(1, len(set(must))) <= size <= len(free):
            return PreferenceAnswer()
        blank = ("",) * len(self.devices)
        links = GpuLinks(
            gpus=tuple(map(Gpu, self.devices)),
            numa=self.homes,
            points=self.points,
            texts=(blank,) * len(self.devices),
            distances=self.distances,
        )
        best = choices(
            links, bits_of(place[name] for name in free), size, bits_of(place[name] for name in set(must))
        )
        return PreferenceAnswer(
            frozenset(self.devices[at] for at in ids_of(best[0].gpus)) if best else frozenset()
        )
