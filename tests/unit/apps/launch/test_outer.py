"""What a job was started with: masks, memory policies and variables from outside that it keeps within."""

import pytest

from numawise.apps.launch.capacity import capacity_of
from numawise.apps.launch.decide import place
from numawise.apps.launch.outer import StartedWith, within_outer
from numawise.apps.launch.request import JobRequest, read_request
from numawise.apps.launch.where import where_labels
from numawise.errors import InputError
from numawise.host.mempolicy import BIND, INTERLEAVE, PREFERRED, Policy
from numawise.machine.synthetic import synthetic
from numawise.results.allotment import Allotment, allotment_of, kept_within, read_allotment, shared_cpus
from numawise.results.placement import Capacity, Grant, Hold, NoRoom, Owner, Placement, pool_of
from numawise.sets import format_ids, parse_ids

SITE = capacity_of(synthetic("2s 4n 32c 1t 4gpu 64g"))
"""CPUs 0-7, 8-15, 16-23 and 24-31, a GPU and 16 GiB on each node; CPU 0 is kept for the system."""
EVERY = SITE.machine.layout.all


def asked(text: str) -> JobRequest:
    """``cpus=8 numa=1``: the options of a request."""
    given: dict[str, object] = dict(word.partition("=")[::2] for word in text.split())
    return read_request(**given)  # type: ignore[arg-type]


def started(
    text: str,
    cpus: str = "",
    policy: Policy | None = None,
    *,
    default: bool = False,
    in_hold: bool = False,
    **variables: str,
) -> tuple[Capacity, JobRequest]:
    mask = parse_ids(cpus) if cpus else EVERY
    return within_outer(SITE, asked(text), variables, StartedWith(mask, default, policy or Policy(), in_hold))


def placed(text: str, *holds: Hold, **outer: object) -> Placement | NoRoom:
    capacity, request = started(text, **outer)  # type: ignore[arg-type]
    return place(capacity, holds, request, "x")


def hold(name: str, cpus: str = "", within: str = "") -> Hold:
    labels = (("within", within),) if within else ()
    return Hold(name, name, Owner(1, "alice", "b", 7, 1), Grant(cpus=parse_ids(cpus)), labels=labels)


@pytest.mark.parametrize(("text", "cpus", "given"), [
    pytest.param("cpus=4",               "9-14",    "9-12",  id="exclusive CPUs"),
    pytest.param("cpus=4",               "6,7,16-20", "16-19", id="on one node where that fits"),
    pytest.param("",                     "9-14",    "9-14",  id="a place in the shared pool"),
    pytest.param("cpus=0.5",             "9-14",    "9-14",  id="a number in the shared pool"),
    pytest.param("memory=1g",            "9-14,30", "9-14",  id="near to its memory"),
    pytest.param("gpus=1",               "18,30",   "18",    id="near to its GPU"),
    pytest.param("cpus=2 numa=1",        "6-9",     "8-9",   id="with a node named"),
    pytest.param("cpu_ids=9,10",         "9-14",    "9-10",  id="with CPUs named"),
    pytest.param("cpus=2 exclusive=numa", "6-18",   "8-15",  id="a whole node of it"),
    pytest.param("cpus=4",               "0-31",    "1-4",   id="nothing left out"),
    pytest.param("cpus=4",               "0-63",    "1-4",   id="a mask with CPUs that are not there"),
])  # fmt: skip
def test_a_job_stays_within_the_mask(text: str, cpus: str, given: str) -> None:
    found = placed(text, cpus=cpus)
    assert isinstance(found, Placement), found
    assert format_ids(found.cpus) == given
    said = [remark for remark in found.remarks if "started with" in remark]
    assert bool(said) == bool(EVERY & ~parse_ids(cpus))


@pytest.mark.parametrize(("text", "cpus", "words"), [
    pytest.param("cpus=8",                 "9-14",  "8 CPUs asked for, 6 free",           id="more than the mask has"),
    pytest.param("cpus=7000m",             "9-14",  "7 CPUs asked for, 6 free",           id="in thousandths"),
    pytest.param("cpus=6500m",             "9-14",  "6.5 CPUs asked for",                 id="a fraction too large"),
    pytest.param("cpu_ids=8,9",            "9-14",  "CPU 8 of --cpu-ids would be outside", id="CPUs outside"),
    pytest.param("cpus=1 numa=0",          "9-14",  "none of CPUs 0-7 is inside",         id="a node outside"),
    pytest.param("exclusive=machine",      "9-14",  "--exclusive machine would reach",    id="the machine"),
    pytest.param("exclusive=numa",         "9-14",  "--exclusive numa would reach",       id="no whole node"),
    pytest.param("exclusive=numa numa=1-2", "8-15", "--exclusive numa would reach",       id="one of two nodes"),
    pytest.param("cpus=1",                 "40",    "none of CPUs 0-31 is inside",        id="nothing that could be given"),
])  # fmt: skip
def test_what_does_not_fit_names_the_mask(text: str, cpus: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        placed(text, cpus=cpus)
    assert f"CPUs {cpus} (affinity)" in refused.value.message
    assert words in refused.value.message
    assert "--ignore-affinity" in refused.value.advice


def test_not_now_names_it_too() -> None:
    found = placed("cpus=4", hold("t", "9-12"), cpus="9-14")
    assert isinstance(found, NoRoom)
    assert found.reason == "4 CPUs asked for, 2 free within CPUs 9-14 (affinity)"
    assert "--ignore-affinity" in found.advice
    pool = placed("", hold("t", "9-14"), cpus="9-14")
    assert isinstance(pool, NoRoom)
    assert [holder.id for holder in pool.holders] == ["t"]


def test_the_masks_of_others_are_not_ours() -> None:
    """Exclusive CPUs within a mask leave the shared pool outside of it alone, and the promises there."""
    sharing = Hold("p", "p", Owner(1, "a", "b", 7, 1), Grant(cpu_limit=20_000))
    assert isinstance(placed("cpus=6", sharing, cpus="9-14"), Placement)
    assert isinstance(placed("cpus=2.5", sharing, cpus="9-14"), Placement)


def test_it_is_dropped_on_request_and_that_is_said() -> None:
    request = read_request(cpus="8", ignore_affinity=True)
    capacity, request = within_outer(SITE, request, {}, StartedWith(parse_ids("9-14")))
    found = place(capacity, (), request, "x")
    assert isinstance(found, Placement)
    assert found.cpus.bit_count() == 8
    assert any("not kept within" in remark and "CPUs 9-14" in remark for remark in found.remarks)
    assert where_labels(request) == ()


def test_the_default_of_the_machine_and_the_mask_of_a_hold_are_no_allotment() -> None:
    assert started("cpus=8", "9-14", default=True)[1].within == Allotment()
    inside = started("cpus=8 gpus=1", "9-14", in_hold=True, CUDA_VISIBLE_DEVICES="0")
    assert inside[1].within == Allotment()


@pytest.mark.parametrize(("text", "policy", "mems", "kept"), [
    pytest.param("cpus=2",            Policy(BIND, 0b0010),       "1",   "bind",      id="one node"),
    pytest.param("cpus=2",            Policy(BIND, 0b0110),       "1-2", "bind",      id="as it was bound"),
    pytest.param("cpus=2 numa=0",     Policy(BIND, 0b0110),       "1",   "bind",      id="the nearest of them"),
    pytest.param("",                  Policy(BIND, 0b0110),       "1-2", "bind",      id="in the shared pool"),
    pytest.param("memory=20g",        Policy(BIND, 0b0110),       "1-2", "bind",      id="an amount"),
    pytest.param("cpus=2",            Policy(BIND, 0b1111),       "0",   "preferred", id="all nodes"),
    pytest.param("cpus=2",            Policy(PREFERRED, 0b0010),  "0",   "preferred", id="only preferred"),
    pytest.param("cpus=2",            Policy(INTERLEAVE, 0b0110), "0",   "preferred", id="interleaved"),
    pytest.param("cpus=2 policy=restricted", Policy(BIND, 0b10),  "1",   "bind",      id="under a strict policy"),
])  # fmt: skip
def test_memory_stays_where_it_was_bound(text: str, policy: Policy, mems: str, kept: str) -> None:
    found = placed(text, policy=policy)
    assert isinstance(found, Placement), found
    assert (format_ids(found.mems), found.grant.memory_policy) == (mems, kept)
    assert bool([one for one in found.remarks if "started with" in one]) == (policy.nodes != 0b1111)


@pytest.mark.parametrize(("text", "words"), [
    ("memory=40g",                           "40 GiB of memory asked for, 32 GiB free"),
    ("cpus=1 memory_policy=preferred",       "--memory-policy preferred may reach outside"),
    ("exclusive=numa",                       "--exclusive numa takes all memory and GPUs"),
])  # fmt: skip
def test_memory_that_would_leave_it(text: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        placed(text, policy=Policy(BIND, 0b0110))
    assert "memory of NUMA 1-2 (membind)" in refused.value.message
    assert words in refused.value.message


@pytest.mark.parametrize(("text", "variables", "gpus"), [
    pytest.param("gpus=1",        {"CUDA_VISIBLE_DEVICES": "2"},          "GPU2",      id="one"),
    pytest.param("gpus=2",        {"CUDA_VISIBLE_DEVICES": "3,1"},        "GPU1 GPU3", id="two"),
    pytest.param("gpu_ids=1",     {"CUDA_VISIBLE_DEVICES": "3,1"},        "GPU1",      id="by the machine's number"),
    pytest.param("gpus=all",      {"CUDA_VISIBLE_DEVICES": "3,1"},        "GPU1 GPU3", id="all of them"),
    pytest.param("gpus=1",        {"CUDA_VISIBLE_DEVICES": ""},           "GPU0",      id="an empty one"),
    pytest.param("gpus=1",        {"CUDA_VISIBLE_DEVICES": "0,1,2,3"},    "GPU0",      id="all of the machine"),
    pytest.param("gpus=1",        {"ROCR_VISIBLE_DEVICES": "2"},          "GPU0",      id="another maker's"),
    pytest.param("gpus=1",        {"SLURM_JOB_GPUS": "2,3"},              "GPU2",      id="Slurm's"),
    pytest.param("gpus=1",        {"SLURM_JOB_GPUS": "0-3", "SLURM_STEP_GPUS": "3"}, "GPU3", id="of a step"),
    pytest.param("gpus=1",        {"SLURM_JOB_GPUS": "3", "CUDA_VISIBLE_DEVICES": "1"}, "GPU1", id="what CUDA follows"),
    pytest.param("gpus=1",        {"SLURM_JOB_GPUS": "9"},                "GPU0",      id="a number that is not known"),
    pytest.param("gpus=1",        {"SLURM_JOB_GPUS": "4-7"},              "GPU0",      id="fenced and renumbered"),
])  # fmt: skip
def test_gpus_of_an_allotment(text: str, variables: dict[str, str], gpus: str) -> None:
    found = placed(text, **variables)
    assert isinstance(found, Placement), found
    assert " ".join(sorted(gpu.name for gpu in found.gpus)) == gpus


@pytest.mark.parametrize(("text", "value", "words"), [
    ("gpus=2",        "0",    "2 GPUs asked for, 1 of 1 free"),
    ("gpu_ids=3",     "0",    "GPU3 would be outside"),
    ("gpus=1",        "-1",   "1 GPU asked for, 0 of 0 free"),
])  # fmt: skip
def test_gpus_beyond_an_allotment(text: str, value: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        placed(text, CUDA_VISIBLE_DEVICES=value)
    assert f"CUDA_VISIBLE_DEVICES={value}" in refused.value.message
    assert words in refused.value.message
    assert "--ignore-affinity" in refused.value.advice


def test_without_gpus_their_variables_say_nothing() -> None:
    assert started("cpus=2", CUDA_VISIBLE_DEVICES="0")[1].within == Allotment()


def test_a_hold_remembers_what_it_keeps_within() -> None:
    _, request = started("gpus=1", "9-14", Policy(BIND, 2), CUDA_VISIBLE_DEVICES="2")
    (label,) = where_labels(request)
    assert label[0] == "within"
    assert label[1].startswith("cpus 9-14; mems 1; gpus ")
    found = read_allotment(label[1])
    assert request.within is not None
    assert (found.cpus, found.mems, found.gpus) == (
        request.within.cpus,
        request.within.mems,
        request.within.gpus,
    )


@pytest.mark.parametrize(
    "text", ["", "cpus", "cpus x", "cpus 9-1", "mems 99999999999", "nonsense; more", "cpus 1" + "," * 5000]
)
def test_a_label_that_makes_no_sense_limits_nothing(text: str) -> None:
    assert not allotment_of(hold("t", within=text)).limits
    assert kept_within(0b111, hold("t", within=text)) == 0b111


@pytest.mark.parametrize(("within", "others", "cpus"), [
    ("cpus 9-14",  "",      "9-14"),
    ("cpus 9-14",  "9-11",  "12-14"),
    ("cpus 9-14",  "9-14",  "0-8,15-31"),   # somebody took them all: it must run somewhere
    ("",           "9-31",  "0-8"),
])  # fmt: skip
def test_the_shared_pool_is_followed_within(within: str, others: str, cpus: str) -> None:
    one = hold("p", within=within)
    pool = pool_of(SITE, [one, hold("t", others)])
    assert format_ids(shared_cpus(SITE, pool, one)) == cpus


def test_nobody_takes_the_last_cpu_from_under_a_job_that_keeps_within() -> None:
    kept = hold("p", within="cpus 9-10")
    found = placed("cpu_ids=9,10", kept)
    assert isinstance(found, NoRoom)
    assert "p keeps within these" in found.reason
    assert isinstance(placed("cpu_ids=9,11", kept), Placement)


@pytest.mark.parametrize(("within", "text", "given"), [
    ("cpus 1",     "cpus=2",   "2-3"),
    ("cpus 1-2",   "cpus=2",   "1,3"),
    ("cpus 0-1",   "cpus=2",   "1-2"),   # CPU 0 is kept for the system, and stays in the pool anyway
    ("cpus 8-15",  "cpus=7 numa=1", "8-14"),
])  # fmt: skip
def test_others_are_placed_around_a_job_that_keeps_within(within: str, text: str, given: str) -> None:
    found = placed(text, hold("p", within=within))
    assert isinstance(found, Placement), found
    assert format_ids(found.cpus) == given
