"""What a waiter asks for: every field comes back as it was written, and nonsense is no request."""

import json

import pytest

from numawise.apps.launch.asked import FIELDS, asks_of, request_in, request_text
from numawise.apps.launch.request import JobRequest, read_request
from numawise.results.allotment import Allotment
from numawise.sets import CpuSet

FULL = read_request(
    cpus="8",
    memory="64g",
    gpu_ids="0,GPU1",
    devices=("nvme=1", "moon=2"),
    nics=2,
    policy="restricted",
    full_cores=True,
    name="train",
    numa="1",
    memory_policy="interleave",
)


def test_every_field_of_a_request_can_be_written_and_read() -> None:
    assert set(FIELDS) == set(JobRequest.__match_args__), "a field that others cannot read could be passed"


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(JobRequest(), id="nothing"),
        pytest.param(FULL, id="everything"),
        pytest.param(read_request(cpus="1500m", gpus=3), id="a fraction"),
        pytest.param(read_request(cpu_ids="2-3,8", gpus="all"), id="CPUs by number"),
        pytest.param(read_request(exclusive="machine"), id="the machine"),
        pytest.param(JobRequest(cpus=1000, within=Allotment(cpus=0b1100, mems=1)), id="within a mask"),
    ],
)
def test_it_comes_back_as_it_was_written(request_: JobRequest) -> None:
    assert request_in(asks_of(request_)) == request_


def test_what_is_left_out_has_its_default_and_what_is_not_known_is_passed_over() -> None:
    assert request_in("{}") == JobRequest()
    assert request_in('{"gpus": 2, "of a later program": [1, {"a": 2}]}') == JobRequest(gpus=2)
    assert asks_of(JobRequest(gpus=2)) == '{"gpus": 2}'


@pytest.mark.parametrize("asks", [
    {"cpus": -1}, {"cpus": True}, {"cpus": 1.5}, {"cpus": 1 << 80}, {"memory": "64g"}, {"gpus": 1001}, {"gpu_ids": "0"},
    {"gpu_ids": [0]}, {"gpu_ids": ["\x1b[2J"]}, {"devices": {"nvme": 1}}, {"devices": [["nvme"]]}, {"policy": "mine"},
    {"devices": [["nvme", "1"]]}, {"full_cores": 1}, {"name": "x" * 300}, {"name": None}, {"policy": []}, [], 7, None, {"numa": 1}, {"numa": ""},
    {"numa": "1-"}, {"cpu_ids": "0-99999999"}, {"exclusive": "all"}, {"memory_policy": "mine"}, {"within": 1},
])  # fmt: skip
def test_nonsense_is_no_request(asks: object) -> None:
    assert request_in(json.dumps(asks)) is None


def test_no_text_is_no_request() -> None:
    assert request_in("") is None
    assert request_in("{") is None


def test_words_for_people() -> None:
    assert request_text(FULL) == "8 CPUs, 64 GiB, GPU0-1, 2 NICs, 1 nvme, 2 moon on NUMA 1"
    assert request_text(JobRequest()) == "a place in the shared pool"


def test_an_allotment_without_limits_is_not_written() -> None:
    assert asks_of(JobRequest(cpus=1000, within=Allotment())) == '{"cpus": 1000}'


def test_what_is_named_is_said() -> None:
    assert request_text(JobRequest(cpus=4000, cpu_ids=CpuSet(0xF0))) == "CPUs 4-7"
    assert request_text(JobRequest(gpu_ids=("all",))) == "all GPUs"
    assert request_text(JobRequest(gpu_ids=("0", "1", "2", "5"))) == "GPU0-2,5"
    assert request_text(JobRequest(gpu_ids=("GPU-" + "1" * 60,))) == "1 named GPUs"


def test_a_long_list_of_cpus_is_read_back() -> None:
    scattered = JobRequest(cpus=128000, cpu_ids=CpuSet(int("01" * 128, 2)))
    assert request_in(asks_of(scattered)) == scattered
