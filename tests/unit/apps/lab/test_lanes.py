"""Requests in lanes: in order for each object, joined while they wait, tried until done."""

import asyncio
import io
import threading
from collections.abc import Callable

from numawise.apps.lab.floor import PodJob, joined
from numawise.apps.lab.lanes import DONE, DROPPED, FAILED, Lane
from numawise.errors import ClusterError
from numawise.kube.client import ApiConflict
from numawise.kube.events import ObjectReference
from numawise.service.log import ServiceLog

Work = Callable[[str], None]


def worked(width: int, work: Work, jobs: list[tuple[str, str]]) -> tuple[Lane[str], str]:
    """A lane that has done these jobs, and what it said."""
    text = io.StringIO()

    async def run() -> Lane[str]:
        lane = Lane("pods", width, work, ServiceLog(text, structured=False), join=lambda a, b: f"{a}+{b}")
        for key, job in jobs:
            lane.put(key, job)
        tasks = [asyncio.create_task(one) for one in lane.tasks()]
        await lane.empty()
        for task in tasks:
            task.cancel()
        lane.stop()
        return lane

    return asyncio.run(run()), text.getvalue()


def test_what_waits_for_one_object_is_joined() -> None:
    done: list[str] = []
    lane, _ = worked(1, done.append, [("a", "1"), ("b", "2"), ("a", "3"), ("c", "4")])
    assert done == ["1+3", "2", "4"]
    assert (lane.counts[DONE], lane.length) == (3, 0)


def test_one_object_is_never_worked_on_twice_at_a_time() -> None:
    """What comes while something is under way is done after it, by whichever worker."""
    begun, go, other, done = threading.Event(), threading.Event(), threading.Event(), list[str]()

    def work(job: str) -> None:
        if job == "first":
            begun.set()
            go.wait()
        done.append(job)
        if job == "other":
            other.set()

    async def run() -> None:
        lane: Lane[str] = Lane("pods", 3, work, ServiceLog(io.StringIO(), structured=False))
        tasks = [asyncio.create_task(one) for one in lane.tasks()]
        lane.put("a", "first")
        await asyncio.to_thread(begun.wait)
        lane.put("a", "second")
        lane.put("b", "other")
        await asyncio.to_thread(other.wait)
        assert done == ["other"]
        go.set()
        await lane.empty()
        for task in tasks:
            task.cancel()
        lane.stop()

    asyncio.run(run())
    assert done == ["other", "first", "second"]


def test_what_fails_is_tried_again_and_said_once() -> None:
    tries: list[str] = []

    def work(job: str) -> None:
        tries.append(job)
        if len(tries) < 3:
            raise ClusterError("the server is gone")

    lane, text = worked(1, work, [("a", "1")])
    assert tries == ["1", "1", "1"]
    assert (lane.counts[FAILED], lane.counts[DONE], lane.problem) == (2, 1, "")
    assert text.count("the server is gone") == 1
    assert "pods: goes on" in text


def test_what_others_did_is_not_done_over() -> None:
    def work(_: str) -> None:
        raise ApiConflict("another pod of that name")

    lane, text = worked(2, work, [("a", "1"), ("b", "2")])
    assert (lane.counts[DROPPED], text) == (2, "")


def test_a_pod_gets_its_last_status_and_is_then_removed() -> None:
    pod = ObjectReference("Pod", "a", "default", "u")
    first, last = PodJob(pod, {"phase": "Running"}), PodJob(pod, {"phase": "Failed"})
    assert joined(joined(first, last), PodJob(pod, remove=True)) == PodJob(
        pod, {"phase": "Failed"}, remove=True
    )
