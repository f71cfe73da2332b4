"""What our device plugin prefers, as a value: the launcher's choice, and nothing where a question cannot be answered."""

import msgspec
import pytest

from numawise.codec.published.node_part import PublishedPlugin, encode_plugin, plugin_of
from numawise.gpus.choose import choices
from numawise.gpus.links import GpuLinks
from numawise.gpus.preference import LauncherPreference
from numawise.machine.hardware import Gpu, Hardware
from numawise.machine.model import Device, DevicePlugin
from numawise.sets import bits_of, ids_of

IDS = tuple(f"gpu{number}" for number in range(8))
GPUS = [Gpu(name, numa=(number // 4,)) for number, name in enumerate(IDS)]
LINKS = GpuLinks.of(Hardware(gpus=tuple(GPUS)), GPUS)
PREFERENCE = LauncherPreference.of(IDS, LINKS)


@pytest.mark.parametrize(
    ("available", "must", "size"),
    [
        (IDS, (), 1),
        (IDS, (), 4),
        (IDS[2:], (), 2),
        (IDS, ("gpu6",), 2),
        (IDS[3:], ("gpu3",), 3),
        (IDS, (), 5),
    ],
)
def test_it_is_what_the_launcher_chooses(
    available: tuple[str, ...], must: tuple[str, ...], size: int
) -> None:
    best = choices(LINKS, bits_of(map(IDS.index, available)), size, bits_of(map(IDS.index, must)))
    expected = frozenset(IDS[at] for at in ids_of(best[0].gpus))
    assert PREFERENCE.answer(IDS, available, must, size).ids == expected


@pytest.mark.parametrize(
    ("available", "must", "size"),
    [(IDS[:2], (), 3), (IDS, ("other",), 2), (IDS, ("gpu0", "gpu1"), 1), (("other",), (), 1), (IDS, (), 0)],
)
def test_what_cannot_be_answered_is_left_to_the_kubelet(
    available: tuple[str, ...], must: tuple[str, ...], size: int
) -> None:
    answer = PREFERENCE.answer(IDS, available, must, size)
    assert (answer.ids, answer.error) == (frozenset(), "")


def test_it_is_published_and_read_back() -> None:
    far = LauncherPreference(IDS, PREFERENCE.homes, PREFERENCE.points, {0b101: 21, 0b11: 12})
    bare = LauncherPreference(("a", "b"), (0, 0), ((0, 0), (0, 0)))
    for preference in (far, bare):
        devices = tuple(Device(name, (0,)) for name in preference.devices)
        written = msgspec.json.encode(encode_plugin(DevicePlugin("a/b", devices, preference)))
        assert plugin_of("a/b", msgspec.json.decode(written, type=PublishedPlugin)).preference == preference


@pytest.mark.parametrize(
    "links",
    [
        {"gpus": [0, 1], "points": [[0, 0], [0, 0]], "homes": [0]},
        {"gpus": [0, 0], "points": [[0, 0], [0, 0]], "homes": [0, 0]},
    ],
)
def test_one_that_does_not_fit_its_devices_is_refused(links: dict[str, object]) -> None:
    part = msgspec.convert({"ids": ["a", "b"], "numa": [0, 0], "preference": links}, PublishedPlugin)
    with pytest.raises(ValueError, match="links of a/b"):
        plugin_of("a/b", part)
