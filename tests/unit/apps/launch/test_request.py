"""Flags of a launcher, read and refused."""

import pytest

from numawise.apps.launch.request import JobRequest, parse_cpus, read_request
from numawise.errors import InputError


@pytest.mark.parametrize(("text", "milli"), [
    ("8", 8000), ("0.5", 500), ("1500m", 1500), ("2.0", 2000), ("1000m", 1000),
])  # fmt: skip
def test_cpus(text: str, milli: int) -> None:
    assert parse_cpus(text) == milli


@pytest.mark.parametrize("text", ["", "0", "-1", "0m", "8x", "nan", "inf", "1e3", "٣", "99999999", " 8"])  # fmt: skip
def test_no_number_of_cpus(text: str) -> None:
    with pytest.raises(InputError, match="--cpus"):
        parse_cpus(text)


@pytest.mark.parametrize(("flags", "complaint"), [
    pytest.param({"policy": "strict"},              "--policy: unknown policy 'strict'", id="policy"),
    pytest.param({"gpus": 1, "gpu_ids": "0"},       "--gpus and --gpu-ids",      id="two ways to ask for GPUs"),
    pytest.param({"gpu_ids": "0,,1"},               "--gpu-ids: '0,,1'",         id="empty entry"),
    pytest.param({"devices": ["nvme"]},             "--device: 'nvme'",          id="device without number"),
    pytest.param({"devices": ["nvme=-1"]},          "--device: 'nvme=-1'",       id="device with a bad number"),
    pytest.param({"devices": ["=1"]},               "--device: '=1'",            id="device without name"),
    pytest.param({"full_cores": True},              "--full-cores",              id="whole cores of nothing"),
    pytest.param({"cpus": "0.5", "full_cores": True}, "--full-cores",            id="whole cores of half a CPU"),
    pytest.param({"memory": "64"},                  "--memory: '64' is 64 bytes.*64g\\?",      id="memory without a unit"),
    pytest.param({"memory": "512k"},                "--memory: '512k' is 524288 bytes.*512m\\?", id="memory in a small unit"),
    pytest.param({"memory_policy": "local"},        "--memory-policy: unknown memory policy 'local'", id="memory policy"),
    pytest.param({"memory_policy": ""},             "--memory-policy",           id="empty memory policy"),
    pytest.param({"name": "a b"},                   "--name: 'a b'",             id="name with a blank"),
    pytest.param({"name": "-x"},                    "--name: '-x'",              id="name like a flag"),
])  # fmt: skip
def test_refused(flags: dict[str, object], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        read_request(**flags)  # type: ignore[arg-type]


@pytest.mark.parametrize(("policy", "asked", "granted"), [
    ("none",             None,         "preferred"),
    ("best-effort",      None,         "preferred"),
    ("restricted",       None,         "bind"),
    ("single-numa-node", None,         "bind"),
    ("best-effort",      "bind",       "bind"),
    ("single-numa-node", "interleave", "interleave"),
])  # fmt: skip
def test_memory_is_strict_where_that_is_promised(policy: str, asked: str | None, granted: str) -> None:
    assert read_request(policy=policy, memory_policy=asked).granted_memory_policy == granted


def test_whole_cpus_are_to_have_alone() -> None:
    assert read_request(cpus="8").whole_cpus == 8
    assert read_request(cpus="8.5").whole_cpus == 0
    assert read_request() == JobRequest()
