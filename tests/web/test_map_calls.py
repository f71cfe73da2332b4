"""The map over the API: what is served, any machine that is named, and the catalogue."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from numawise.codec.checkpoint import CPU_FILE, DEVICE_FILE, MEMORY_FILE
from numawise.inputs.machine import THIS
from numawise.inputs.spec import NodeSpec
from numawise.ledger.place import boot_id, machine_id
from numawise.ledger.store import Ledger
from numawise.machine.catalog import CATALOG
from numawise.results.placement import Grant, Hold, MemoryPart, Owner
from numawise.results.schema import schema
from numawise.sets import parse_ids
from numawise.web.desk import Served
from numawise.web.served import served_by
from tests import needs
from tests.nodetree import grow_node
from tests.web.calls import Page, named

EIGHT = Path(__file__).parent.parent.parent / "examples/8gpu-server"


@pytest.fixture
def page() -> Iterator[Page]:
    page = Page(named("dgx-h100"))
    yield page
    page.close()


def test_what_is_served(page: Page) -> None:
    answer = page.get("map?width=900")
    assert answer.status == 200
    jsonschema.Draft202012Validator(schema("Map")).validate(answer.data)
    assert answer.data["width"] <= 900
    assert answer.data["holders"] == []
    assert [table["title"] for table in answer.data["tables"]] == ["Links", "NUMA distances"]
    again = page.get("map?width=900", if_none_match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_any_machine_by_name_words_and_files(page: Page) -> None:
    for given, cpus in (
        ({"machine": "2s 4n 64c 2t 8gpu"}, "0-127"),
        ({"machine": "small-vm"}, "0-1"),
        ({"files": [{"name": "m.yaml", "text": (EIGHT / "machine.yaml").read_text()}]}, "0-127"),
    ):
        answer = page.post("map", {"node": given, "width": 500})
        assert answer.status == 200, answer.body
        assert answer.data["cpus"] == cpus


def test_hardware_of_which_little_is_known_is_drawn_all_the_same(page: Page) -> None:
    texts = (
        "        GPU0 GPU1\nGPU0 X NV18\nGPU1 NV18 X\n",
        "available: 1 nodes (0)\nnode 0 cpus: 0 1\nnode 0 size: 9 MB\n",
    )
    for text, summary in zip(texts, ("2 GPUs", "1 NUMA node, 2 CPUs, 9 MiB"), strict=True):
        answer = page.post("map", {"node": {"files": [{"name": "print.txt", "text": text}]}})
        assert answer.status == 200, answer.body
        assert answer.data["summary"] == summary


def test_a_node_by_its_files(page: Page) -> None:
    names = ("machine.yaml", "kubelet-single-numa-node.yaml", "state/after-reboot/cpu_manager_state")
    files = [{"name": Path(name).name, "text": (EIGHT / name).read_text()} for name in names]
    answer = page.post("map", {"node": {"files": files}})
    assert answer.status == 200, answer.body
    kinds = [one["kind"] for one in answer.data["holders"]]
    assert kinds.count("system") == 1
    assert "pod" in kinds
    assert answer.data["reserved"]
    alone = page.post("map", {"node": {"files": [files[0], files[2]]}})
    pods = [one["cpus"] for one in alone.data["holders"]]
    assert pods == [one["cpus"] for one in answer.data["holders"] if one["kind"] == "pod"]


def test_used_wrongly(page: Page) -> None:
    assert page.post("map", {"node": {"machine": "9s"}}).problem["field"] == "$.node.machine"
    assert page.post("map", {"node": {"machine": "/etc/passwd"}}).status in (400, 422)
    assert page.post("map", {"node": {}, "width": 5}).problem["field"] == "$.width"
    assert page.get("map?width=99999").problem["field"] == "width"
    assert page.post("map", {"node": {}}).status in (400, 422)


def test_nothing_is_served() -> None:
    page = Page(Served(None))
    assert page.get("map").problem["detail"].startswith("no node is served here")
    page.close()


def test_catalogue(page: Page) -> None:
    assert [one["name"] for one in page.get("machines").data["machines"]] == list(CATALOG)


@needs.PROC
@needs.SYS
def test_this_host_with_its_jobs_and_its_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMAWISE_LEDGER", str(tmp_path / "ledger"))
    start = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    owner = Owner(os.geteuid(), "me", boot_id(), os.getpid(), start)
    with Ledger.open(tmp_path / "ledger", machine_id()) as ledger, ledger.change() as change:
        change.add(Hold("h1", "mine", owner, Grant(mems=1, memory=(MemoryPart(1, 1 << 30),)), since=1.0))
    page = Page(Served(NodeSpec(machine=(THIS,))))
    host = page.get("map")
    assert host.status == 200, host.body
    jobs = [one for one in host.data["holders"] if one["kind"] == "job"]
    assert [(one["name"], one["memory"][0]["text"]) for one in jobs] == [("mine", "1 GiB")]
    page.close()
    state = tmp_path / "cpu_manager_state"
    state.write_text('{"policyName":"static","defaultCpuSet":"0","entries":{"u1":{"c":"1"}},"checksum":1}')
    page = Page(Served(NodeSpec(machine=(THIS,), state=(str(state),))))
    both = page.get("map").data
    assert [one["kind"] for one in both["holders"]] == ["pod", "job"]
    page.close()


def test_the_style_of_pictures_is_for_both_themes(page: Page) -> None:
    style = page.get("/picture.css").body.decode()
    drawing = page.get("map").data["svg"]
    classes = {name for group in ET.fromstring(drawing).iter() for name in group.get("class", "").split()}
    without = {name for name in classes if not re.search(rf"\.{re.escape(name)}\b", style)}
    assert without <= {"picture", "drawing", "machine"}
    assert "light-dark(" in style


def test_a_kubelet_of_a_host_with_its_devices(tmp_path: Path) -> None:
    page = Page(served_by(NodeSpec(), str(grow_node(tmp_path / "root"))))
    data = page.get("map").data
    pods = [one for one in data["holders"] if one["kind"] == "pod"]
    assert [one["devices"] for one in pods] == [["gpu1"], ["gpu0"]]
    assert {part["label"] for part in data["parts"] if part["kind"] == "gpu" and not part["free"]} == {
        "gpu0",
        "gpu1",
    }
    assert all(one["name"].startswith("pod ") for one in pods)
    page.close()


def test_a_kubelet_that_does_not_start_is_said_once(page: Page) -> None:
    config = (
        "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
        "cpuManagerPolicy: static\nreservedSystemCPUs: '4000'\n"
    )
    data = page.post("map", {"node": {"machine": "8gpu-server", "config": config}}).data
    (notice,) = data["notices"]
    assert "the kubelet would not start" in notice
    assert notice.count(" start") == 1
    assert data["svg"]


def state_files() -> dict[str, str]:
    every = (EIGHT / "state/after-reboot").rglob("*_*")
    return {path.name: path.read_text() for path in every if path.is_file()}


CUT = "cannot be read: unexpected end of JSON input"


@pytest.mark.parametrize(("dropped", "unknown", "notices"), [
    pytest.param({}, [], [], id="right"),
    pytest.param({CPU_FILE: "cut"}, ["cpus"], [f"{CPU_FILE}: {CUT}; who has CPUs is not known"], id="CPUs, cut off"),
    pytest.param({CPU_FILE: ""}, ["cpus"], [f"there is no {CPU_FILE}: who has CPUs is not known"], id="no record of CPUs"),
    pytest.param({DEVICE_FILE: "cut"}, ["devices"], [f"{DEVICE_FILE}: {CUT}; who has devices is not known"], id="devices, cut off"),
    pytest.param({DEVICE_FILE: ""}, ["devices"], [f"there is no {DEVICE_FILE}: who has devices is not known"], id="no record of devices"),
    pytest.param({MEMORY_FILE: "cut"}, [], [f"{MEMORY_FILE}: {CUT}; who has memory is not known"], id="memory, cut off"),
])  # fmt: skip
def test_what_a_damaged_file_does_not_say_is_not_free(
    page: Page, dropped: dict[str, str], unknown: list[str], notices: list[str]
) -> None:
    texts = state_files()
    for name, how in dropped.items():
        texts[name] = texts[name][:-20] if how else ""
    files = [{"name": name, "text": text} for name, text in texts.items() if text]
    files.append({"name": "machine.yaml", "text": (EIGHT / "machine.yaml").read_text()})
    data = page.post("map", {"node": {"files": files}}).data
    assert (data["unknown"], data["notices"]) == (unknown, notices)
    assert bool(data["free"]) is ("cpus" not in unknown)
    free = {
        kind: any(part["free"] for part in data["parts"] if part["kind"] == kind) for kind in ("core", "gpu")
    }
    assert free == {"core": "cpus" not in unknown, "gpu": "devices" not in unknown}
    pods = [one for one in data["holders"] if one["kind"] == "pod"]
    assert all("runs in the shared pool" not in one["lines"] for one in pods if "cpus" in unknown)


def test_a_published_node_has_in_use_what_it_publishes_so(page: Page) -> None:
    sizes = {"capacity": "8", "allocatable": "7", "available": "3"}
    zones = [{"name": f"node-{i}", "type": "Node", "resources": [{"name": "cpu", **sizes}]} for i in range(2)]
    value: dict[str, object] = {"kind": "NodeResourceTopology", "metadata": {"name": "n1"}, "zones": zones}
    value["apiVersion"] = "topology.node.k8s.io/v1alpha2"
    node = {"files": [{"name": "nrt.json", "text": json.dumps(value)}]}
    data = page.post("map", {"node": node}).data
    said = "A NodeResourceTopology says how much is in use, not which CPUs and devices"
    assert (data["unknown"], data["free"], data["notices"]) == (["cpus", "devices"], "", [f"{said}."])
    value["attributes"] = [{"name": "topologyManagerPolicy", "value": "restricted"}]
    node = {"files": [{"name": "nrt.json", "text": json.dumps(value)}]}
    data = page.post("map", {"node": node}).data
    assert (data["unknown"], data["notices"]) == ([], [f"{said}: as much as is in use is drawn."])
    assert parse_ids(data["free"]).bit_count() == 6
    assert [(one["name"], parse_ids(one["cpus"]).bit_count()) for one in data["holders"]] == [
        ("(not known)", 8),
        ("the system (reserved)", 2),
    ]


def test_a_wrong_checksum_is_said_beside_what_the_file_says(page: Page) -> None:
    texts = {name: re.sub(r'("[Cc]hecksum": *)\d+', r"\g<1>7", text) for name, text in state_files().items()}
    machine = {"name": "machine.yaml", "text": (EIGHT / "machine.yaml").read_text()}
    files = [machine, *({"name": name, "text": text} for name, text in texts.items())]
    data = page.post("map", {"node": {"files": files}}).data
    assert all("hecksum is 7, but should be" in notice for notice in data["notices"])
    assert len(data["notices"]) == len(texts)
    assert [one["cpus"] for one in data["holders"] if one["kind"] == "pod"]
    config = {"name": "kubelet.yaml", "text": (EIGHT / "kubelet-single-numa-node.yaml").read_text()}
    texts = {CPU_FILE: state_files()[CPU_FILE], DEVICE_FILE: texts[DEVICE_FILE]}
    files = [machine, config, *({"name": name, "text": text} for name, text in texts.items())]
    (notice,) = page.post("map", {"node": {"files": files}}).data["notices"]
    assert notice.startswith(f"{DEVICE_FILE}: the Checksum is 7, but should be ")
    assert notice.endswith("The kubelet starts as if no device were allocated, and may give one out twice.")


def test_of_two_machines_neither_is_taken(page: Page) -> None:
    machine = (EIGHT / "machine.yaml").read_text()
    files = [{"name": name, "text": machine} for name in ("a.yaml", "b.yaml")]
    problem = page.post("map", {"node": {"files": files}}).problem
    assert (problem["field"], problem["detail"]) == ("$.node.files", "a.yaml and b.yaml are 2 machines")
    assert problem["advice"] == "drop one of them"
