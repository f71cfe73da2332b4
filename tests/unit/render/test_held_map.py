"""The map for a page: who has what, as a drawing and as data."""

import xml.etree.ElementTree as ET

import jsonschema
import pytest

from numawise.engine.state import Block, CpuState, DeviceGrant, DeviceState, MemoryState, NodeState
from numawise.machine.catalog import machine_named
from numawise.machine.hardware import Gpu, Hardware, MemoryNode, Thread
from numawise.machine.synthetic import synthetic
from numawise.render.held_map import JOB, MapHolder, MapSource, map_data, map_of_state
from numawise.render.picture.arrange import arrange
from numawise.render.picture.boxes import Marked, Marks
from numawise.render.picture.inline import PAGE_METRICS
from numawise.render.picture.layout import picture
from numawise.results.machine_map import MapForm
from numawise.results.plain import document
from numawise.results.schema import schema
from numawise.rules.model import Rules
from numawise.sets import parse_ids
from tests.unit.render.geometry import MACHINES, faults

SVG = "{http://www.w3.org/2000/svg}"
HELD = (
    MapHolder("u1", "web", cpus=parse_ids("0-1"), memory={0: 1 << 30}),
    MapHolder("u2", "team/train", cpus=parse_ids("1-3"), devices=("GPU0",)),
    MapHolder("u3", "idle"),
)


def groups(form: MapForm) -> dict[str, ET.Element]:
    """What the drawing names, by ``data-id``."""
    every = [group for group in ET.fromstring(form.svg).iter(f"{SVG}g") if group.get("data-id")]
    found = {group.attrib["data-id"]: group for group in every}
    assert len(found) == len(every), "names are unique"
    return found


@pytest.mark.parametrize("hardware", MACHINES)
@pytest.mark.parametrize("width", [320, 1240])
def test_drawing_and_data_name_the_same_parts(hardware: Hardware, width: int) -> None:
    form = map_data(MapSource(hardware, HELD), width)
    assert list(groups(form)) == [part.id for part in form.parts]
    assert form.width <= width or width == 320
    jsonschema.Draft202012Validator(schema("Map")).validate(document("Map", form))


@pytest.mark.parametrize("hardware", MACHINES)
@pytest.mark.parametrize("width", [320, 700, 1192])
def test_nothing_overlaps_or_leaves_its_frame(hardware: Hardware, width: int) -> None:
    marks = Marks({"u1": Marked("AB", "web")}, {"GPU0": "u1"}, {0: (("u1", 1 << 30),)})
    drawn = picture(hardware, dict.fromkeys(range(0, 64, 3), "u1"), marks)
    placed, _ = arrange(drawn.box, PAGE_METRICS, width)
    assert placed.width <= width
    assert faults(placed, PAGE_METRICS.line) == []


def test_the_drawing_brings_no_style_and_no_ids() -> None:
    form = map_data(MapSource(machine_named("dgx-h100"), HELD), 1240)
    assert form.svg.isascii()
    for element in ET.fromstring(form.svg).iter():
        assert element.tag.removeprefix(SVG) in {"svg", "g", "rect", "line", "text"}
        assert not {"style", "id", "fill", "href"} & set(element.attrib)


def test_who_has_what_stands_on_it() -> None:
    form = map_data(MapSource(synthetic("1n 4c 2t 2gpu"), HELD, shared=parse_ids("4-7")), 800)
    drawn, parts = groups(form), {part.id: part for part in form.parts}
    assert [drawn[f"cpu-{cpu}"].get("data-holder") for cpu in range(4)] == ["u1", "several", "u2", "u2"]
    assert drawn["cpu-0"].get("data-cpus") == "0,4"
    assert [text.text for text in drawn["cpu-0"].iter(f"{SVG}text")] == ["0 4 A"]
    assert drawn["gpu-0"].get("data-device") == "GPU0"
    assert drawn["gpu-0"].get("data-holder") == "u2"
    assert [text.text for text in drawn["gpu-0"].iter(f"{SVG}text")] == ["B", "GPU0"]
    assert drawn["gpu-0"].get("aria-label") == "GPU0, held by team/train"
    assert parts["gpu-1"].free
    assert parts["numa-0"].holders == ("u1", "u2")
    assert {"web: CPUs 0-1", "team/train: CPUs 1-3", "1 GiB of its memory: web"} <= set(parts["numa-0"].lines)
    assert parts["cpu-1"].holders == ("u1", "u2")
    assert parts["cpu-1"].lines == ("CPU 1: web and team/train", "CPU 5: shared pool")
    assert drawn["cpu-1"].get("aria-label") == "core with CPUs 1,5: 1 web and team/train, 5 free"
    assert [(one.mark, str(one.cpus), one.devices) for one in form.holders] == [
        ("A", "0-1", ()),
        ("B", "1-3", ("GPU0",)),
        ("C", "", ()),
    ]
    assert (str(form.free), str(form.shared)) == ("4-7", "4-7")


def test_a_node_with_what_is_reserved() -> None:
    state = NodeState(
        cpu=CpuState(shared=parse_ids("0-1,4-5"), assignments={"u1": {"main": parse_ids("2,6")}}),
        memory=MemoryState(assignments={"u1": {"main": (Block(0b11, "memory", 4 << 30),)}}),
        devices=DeviceState(
            grants={"u1": {"main": {"nvidia.com/gpu": DeviceGrant(((0, ("GPU1", "lost")),))}}}
        ),
        active={"u1": None, "u2": None},
        departed=frozenset({"u2"}),
    )
    rules = Rules(cpu_static=True, reserved_cpus=parse_ids("0"))
    source = map_of_state(
        synthetic("2n 4c 2t 2gpu"), state, rules, {"u1": "default/a", "u2": "x/b"}, {"u1": "Job j"}
    )
    form = map_data(source, 800)
    a, b, system = form.holders
    assert (a.name, a.mark, str(a.cpus), a.devices) == ("a", "A", "2,6", ("GPU1", "lost"))
    assert [(part.numa, part.text) for part in a.memory] == [(0, "2 GiB"), (1, "2 GiB")]
    assert a.lines == ("of Job j", "main: CPUs 2,6, 4Gi on NUMA 0-1, GPU1 lost")
    assert (b.name, b.lines) == (
        "x/b (gone)",
        ("what it had is not collected yet", "runs in the shared pool"),
    )
    assert (system.kind, system.mark, str(system.cpus)) == ("system", "r", "0")
    assert str(form.free) == "1,3-5,7"
    assert groups(form)["cpu-0"].get("class") == "core hold-2 part system"


def test_parts_of_a_gpu_and_replicas_count_as_the_gpu() -> None:
    gpus = (Gpu("GPU0", uuid="GPU-a"), Gpu("GPU0:0", uuid="MIG-1", parent="GPU0"), Gpu("GPU1", uuid="GPU-b"))
    hardware = Hardware(gpus=gpus)
    jobs = (MapHolder("1", "a", JOB, devices=("MIG-1",)), MapHolder("2", "b", JOB, devices=("GPU-b::0",)))
    form = map_data(MapSource(hardware, jobs), 800)
    assert [one.devices for one in form.holders] == [("GPU0",), ("GPU1",)]


def test_a_gpu_that_several_have_parts_of_is_of_each_of_them() -> None:
    gpus = (Gpu("GPU0"), *(Gpu(f"GPU0:{i}", uuid=f"MIG-{i}", parent="GPU0") for i in range(3)))
    jobs = [MapHolder(str(i), name, JOB, devices=(f"MIG-{i}",)) for i, name in enumerate(("a", "b"))]
    again = MapHolder("0'", "a", JOB, devices=("MIG-2",))
    form = map_data(MapSource(Hardware(gpus=gpus), (*jobs, again)), 800)
    assert [one.devices for one in form.holders] == [("GPU0",)] * 3
    (part,) = (one for one in form.parts if one.kind == "gpu")
    assert part.holders == ("0", "1", "0'")
    assert not part.free
    assert "held by a and b and a" in part.lines
    assert groups(form)["gpu-0"].get("data-holder") == "several"
    assert groups(form)["gpu-0"].get("aria-label") == "GPU0, held by a and b and a"


@pytest.mark.parametrize(("unknown", "free"), [
    ((),                  "0-3"),
    (("cpus",),           ""),
    (("devices",),        "0-3"),
    (("cpus", "devices"), ""),
])  # fmt: skip
def test_what_is_not_known_is_not_free(unknown: tuple[str, ...], free: str) -> None:
    core, gpu = "cpus" not in unknown, "devices" not in unknown
    form = map_data(MapSource(synthetic("4c 1gpu"), unknown=unknown), 400)
    parts = {part.id: part for part in form.parts}
    assert (parts["cpu-0"].free, parts["numa-0"].free, parts["gpu-0"].free) == (core, core, gpu)
    assert (str(form.free), form.unknown) == (free, unknown)
    assert parts["cpu-0"].lines == ("CPU 0: free" if core else "CPU 0: not known",)


def test_many_holders_have_marks_of_their_own() -> None:
    many = tuple(MapHolder(f"u{i}", "same", cpus=1 << i) for i in range(100))
    form = map_data(MapSource(synthetic("128c"), many), 1240)
    marks = [one.mark for one in form.holders]
    assert len(set(marks)) == 100
    assert (marks[35], marks[36], marks[99]) == ("9", "AA", "B1")
    texts = [text.text for text in groups(form)["cpu-99"].iter(f"{SVG}text")]
    assert texts == ["B1"]


def test_what_comes_from_outside_is_text() -> None:
    evil = "<script>alert(1)</script>\x1b]0;x"
    form = map_data(MapSource(synthetic("2c 1gpu"), (MapHolder(evil, evil, cpus=1, devices=("GPU0",)),)), 400)
    assert "<script" not in form.svg
    assert "\x1b" not in form.svg
    assert groups(form)["cpu-0"].get("data-holder") == form.holders[0].id


def test_nobody_passes_for_the_system() -> None:
    sly = tuple(MapHolder(name, "x", cpus=1 << i) for i, name in enumerate(["system", "several", "a", "a"]))
    form = map_data(
        MapSource(synthetic("4c"), (*sly, MapHolder("system", "reserved", "system", memory={0: 1}))), 400
    )
    assert [one.id for one in form.holders] == ["system'", "several'", "a", "a'", "system"]
    assert "system" not in groups(form)["cpu-0"].attrib["class"].split()


def test_a_cpu_that_two_numa_nodes_have_is_named_twice() -> None:
    hardware = Hardware(threads=(Thread(0),), numa=(MemoryNode(0, cpus=1), MemoryNode(1, cpus=1)))
    assert list(groups(map_data(MapSource(hardware), 400))) == ["numa-0", "cpu-0", "numa-1", "cpu-0-2"]
