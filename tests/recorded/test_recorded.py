"""Every recorded scenario comes out the same; and the comparer that says so notices damage."""

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from numawise.node.replay import replay
from tests.fidelity import compare_line, trace_files, trace_lines
from tests.recorded.compare import differences

ROOT = Path(__file__).parents[2]
HERE = ROOT / "tests" / "recorded" / "v1.36.4"
VERSIONS = ROOT / "tests" / "recorded" / "versions"
SHARED = ROOT.parent / "shared" / "traces"
CHUNK = 20


@cache
def lines_of(path: Path) -> tuple[bytes, ...]:
    return tuple(trace_lines(path))


def chunks(folder: Path) -> list[Any]:
    """Twenty scenarios a test, so that they spread over processes."""
    if not folder.is_dir():
        return [pytest.param(None, 0, marks=pytest.mark.skip(reason=f"there is no {folder}"))]
    found = []
    for path in trace_files([folder]):
        name = path.name.removesuffix(".gz").removesuffix(".jsonl")
        copied = HERE / f"{name}.jsonl.gz"
        if folder != HERE and copied.exists() and lines_of(copied) == lines_of(path):
            skip = pytest.mark.skip(reason=f"{path} is the same as {copied.relative_to(HERE.parents[2])}")
            found.append(pytest.param(path, 0, id=name, marks=skip))
            continue
        found += [pytest.param(path, at, id=f"{name}-{at}") for at in range(0, len(lines_of(path)), CHUNK)]
    return found


def problems(path: Path, start: int) -> list[str]:
    found = []
    for line in lines_of(path)[start : start + CHUNK]:
        name, unlike = compare_line(line)
        found += [f"{name}: {one}" for one in unlike]
    return found


@pytest.mark.parametrize(("path", "start"), chunks(HERE))
def test_recorded(path: Path, start: int) -> None:
    assert not (found := problems(path, start)), "\n".join(found)


@pytest.mark.parametrize(("path", "start"), chunks(VERSIONS))
def test_recorded_releases(path: Path, start: int) -> None:
    assert not (found := problems(path, start)), "\n".join(found)


@pytest.mark.parametrize(("path", "start"), chunks(SHARED))
def test_shared_recordings(path: Path, start: int) -> None:
    assert not (found := problems(path, start)), "\n".join(found)


def test_all_recordings_are_there() -> None:
    counts = {path.name: len(lines_of(path)) for path in trace_files([HERE])}
    assert (
        counts.items()
        >= {
            "bad-config.jsonl.gz": 113,
            "doc-cases.jsonl.gz": 196,
            "quirks.jsonl.gz": 33,
            "returning-pods.jsonl.gz": 8,
            "traces-dev.jsonl.gz": 1550,
        }.items()
    )


# --- the comparer itself ------------------------------------------------------------------------


@cache
def case(file: str, name: str) -> tuple[Any, Any]:
    """A recorded result and ours."""
    for line in lines_of(HERE / f"{file}.jsonl.gz"):
        recorded = json.loads(line)
        if recorded["scenario"]["id"] == name:
            return recorded["result"], json.loads(json.dumps(replay(recorded["scenario"])))
    raise KeyError(name)


DEVICES = "kubelet_internal_checkpoint"
GPU_POD = "doc-28cpu-best-effort-3c1g"


def first_state(result: Any) -> Any:
    return result["steps"][0]["state"]


def edit(result: Any, file: str, old: str, new: str) -> None:
    files = first_state(result)["checkpoints"]
    assert old in files[file]
    files[file] = files[file].replace(old, new)


def drop(key: str) -> Callable[[Any], None]:
    return lambda result: result["steps"][0].pop(key)


def reorder_members(result: Any) -> None:
    """The same device file in another order, with the checksum of the old one."""
    file = json.loads(first_state(result)["checkpoints"][DEVICES])
    file["Data"]["RegisteredDevices"]["nvidia.com/gpu"].reverse()
    first_state(result)["checkpoints"][DEVICES] = json.dumps(file, separators=(",", ":"))


@pytest.mark.parametrize(("damage", "aspects"), [
    pytest.param(lambda _: None,                                                     set(),                  id="nothing"),
    pytest.param(lambda r: r["start"].update(reserved_cpus="1"),                     {"start"},              id="reserved CPUs"),
    pytest.param(lambda r: r.pop("start"),                                           {"start", "cpus", "devices", "memory", "files", "checksums"}, id="no start"),
    pytest.param(lambda r: r["steps"][0].update(admitted=False),                     {"verdict"},            id="verdict"),
    pytest.param(lambda r: r["steps"][0].update(qos="Burstable"),                    {"verdict"},            id="class"),
    pytest.param(lambda r: r["steps"][0].update(panic="?"),                          {"verdict"},            id="crash"),
    pytest.param(lambda r: r["steps"][0].update(message="?"),                        {"message"},            id="message"),
    pytest.param(lambda r: r["steps"][0]["hint_rounds"][0]["hints"].pop("memory"),   {"hints"},              id="absent is not null"),
    pytest.param(lambda r: r["steps"][0]["hint_rounds"][0]["hints"]["cpu"]["cpu"].pop(), {"hints"},          id="a hint"),
    pytest.param(lambda r: r["steps"][0]["hint_rounds"][0]["merged"].update(preferred=False), {"merge"},     id="merged"),
    pytest.param(drop("affinity"),                                                   {"merge"},              id="affinity"),
    pytest.param(lambda r: first_state(r)["cpu"].update(default="0"),                {"cpus"},               id="shared pool"),
    pytest.param(lambda r: first_state(r).pop("devices"),                            {"devices"},            id="devices"),
    pytest.param(drop("runtime"),                                                    {"runtime"},            id="runtime"),
    pytest.param(drop("state"),                                      {"cpus", "memory", "devices", "files", "checksums"}, id="state"),
    pytest.param(lambda r: r["steps"].pop(),     {"verdict", "message", "hints", "merge", "cpus", "memory", "devices", "runtime", "files", "checksums"}, id="a step"),
    pytest.param(lambda r: edit(r, "cpu_manager_state", ":{", ": {"),                {"files"},              id="a blank in the CPU file"),
    pytest.param(lambda r: edit(r, "cpu_manager_state", '"1-3"', '"1-4"'),           {"files", "checksums"}, id="CPU file"),
    pytest.param(lambda r: edit(r, DEVICES, "gpu0", "gpu9"),                         {"files", "checksums"}, id="device file"),
    pytest.param(lambda r: edit(r, DEVICES, '"Checksum":', '"Checksum":1'),          {"checksums"},          id="device file's checksum"),
    pytest.param(lambda r: edit(r, DEVICES, "}", ""),                                {"files", "checksums"}, id="device file is not JSON"),
    pytest.param(reorder_members,                                                    {"checksums"},          id="order is chance, its checksum is not"),
    pytest.param(lambda r: r.update(steps=[1]),                                      {"start"},              id="malformed"),
])  # fmt: skip
def test_damage_is_noticed(damage: Callable[[Any], None], aspects: set[str]) -> None:
    recorded, ours = copy.deepcopy(case("doc-cases", GPU_POD))
    damage(ours)
    assert {one.aspect for one in differences(recorded, ours)} == aspects


def test_a_start_that_holds_its_state_alone_is_compared_by_that_and_the_steps() -> None:
    recorded, ours = copy.deepcopy(case("returning-pods", "back-plain"))
    assert recorded["start"].keys() == {"state"}
    assert not differences(recorded, ours)
    ours["start"]["state"]["cpu"]["default"] = "0"
    assert {one.aspect for one in differences(recorded, ours)} == {"cpus"}
    told = {
        **recorded,
        "start": {**recorded["start"], "reserved_cpus": "0"},
    }  # a start that tells more counts whole
    found = differences(told, {**ours, "start": {**ours["start"], "reserved_cpus": "7"}})
    assert "start" in {one.aspect for one in found}


def test_a_refused_start_is_compared_by_its_words() -> None:
    recorded, ours = (
        {"error": {"stage": "cpu-manager", "message": "a"}},
        {"error": {"stage": "cpu-manager", "message": "b"}},
    )
    (found,) = differences(recorded, ours)
    assert (found.aspect, found.path, found.recorded, found.ours) == ("start", "error.message", "a", "b")


def test_go_words_of_a_crash_do_not_count() -> None:
    step = {"op": "add", "uid": "p", "panic": "runtime error: index out of range [7] with length 3"}
    assert not differences(
        {"start": {}, "steps": [step]}, {"start": {}, "steps": [{**step, "panic": "it crashed"}]}
    )


def chose(ids: list[str], **more: Any) -> dict[str, Any]:
    """A result in which one container got these devices, all on NUMA node 0."""
    grant = {"ids": ids, "per_numa": {"0": len(ids)}}
    state = {"cpu": {"default": ""}, "devices": {"p": {"c": {"x/d": grant}}}}
    return {"start": {}, "steps": [{"op": "add", "uid": "p", "state": state, **more}]}


def offered(ids: list[str], determinism: str, candidates: list[str]) -> dict[str, Any]:
    choice = {
        "container": "c",
        "resource": "x/d",
        "ids": ids,
        "determinism": determinism,
        "candidates": candidates,
        "pick": 1,
    }
    return {**chose(ids, device_choices=[choice]), "device_choice": determinism}


@pytest.mark.parametrize(("ours", "determinism", "same"), [
    (["a", "b"], "exact", True),
    (["a", "c"], "exact", False),
    (["a", "c"], "numa",  True),   # c was as good as b
    (["a", "d"], "numa",  False),  # d was not offered
    (["b", "c"], "numa",  False),  # a had to be taken
    (["a"],      "numa",  False),
    (["a", "c"], "free",  True),
    (["a", "d"], "free",  False),
])  # fmt: skip
def test_devices_left_to_chance(*, ours: list[str], determinism: str, same: bool) -> None:
    recorded = offered(["a", "b"], determinism, ["b", "c"])
    if determinism == "free":
        recorded["device_choice_free_from_step"] = 0
    assert (not differences(recorded, chose(ours))) is same


def test_nothing_counts_after_a_free_choice() -> None:
    recorded = offered(["a"], "free", ["a", "b"])
    recorded["device_choice_free_from_step"] = 0
    recorded["steps"].append({"op": "remove", "uid": "p"})
    assert not differences(recorded, chose(["b"]))


def test_the_complaint_of_competing_devices_is_chance() -> None:
    step = {"op": "add", "uid": "p", "admitted": False, "reason": "UnexpectedAdmissionError", "message": "a"}
    recorded = {
        "start": {},
        "steps": [{**step, "message_unspecified": True}],
        "device_order_unspecified": ["p"],
    }
    left = {"state": {"devices": {"p": {"c": {"x/d": {"ids": ["a"], "per_numa": {"0": 1}}}}}}}
    recorded["steps"][0]["state"] = {}
    assert not differences(recorded, {"start": {}, "steps": [{**step, "message": "b", **left}]})
    found = differences(recorded, {"start": {}, "steps": [{**step, "reason": "other", **left}]})
    assert [one.path for one in found] == ["steps[0].reason"]


# --- the program --------------------------------------------------------------------------------


def fidelity(*arguments: object) -> tuple[int, str, str]:
    command = [sys.executable, "-m", "tests.fidelity", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return done.returncode, done.stdout, done.stderr


def test_fidelity_says_that_all_agree() -> None:
    status, told, _ = fidelity(HERE / "quirks.jsonl.gz")
    assert status == 0
    assert "all           33 of 33" in told


def test_fidelity_shows_what_differs(tmp_path: Path) -> None:
    recorded = json.loads(lines_of(HERE / "quirks.jsonl.gz")[0])
    recorded["result"]["start"]["reserved_cpus"] = "99"
    (tmp_path / "one.jsonl").write_text(json.dumps(recorded) + "\n")
    status, told, _ = fidelity(tmp_path)
    assert status == 1
    assert f"  {recorded['scenario']['id']}: start: start.reserved_cpus" in told
    assert 'kubelet: "99"' in told


def test_fidelity_wants_something_to_compare(tmp_path: Path) -> None:
    for arguments in ([tmp_path], [tmp_path / "none.jsonl"], []):
        status, _, complaint = fidelity(*arguments)
        assert status == 2
        assert complaint.startswith("no recorded scenarios in ")
