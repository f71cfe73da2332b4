"""Which devices NVIDIA's plugin prefers, as its own library and its own code answered."""

import json
from pathlib import Path
from typing import Any

from numawise.machine.preference import CRASHED, LinkedGpus, SharedDevices, gpu_of
from tests.fidelity import trace_lines

HERE = Path(__file__).parent / "preference"


def recorded(name: str) -> list[Any]:
    return [json.loads(line) for line in trace_lines(HERE / name)]


def matrix(case: Any) -> tuple[tuple[int, ...], ...]:
    rows = [[0] * case["n"] for _ in range(case["n"])]
    numbers = iter(case["points"])
    for i in range(case["n"]):
        for j in range(i):
            rows[i][j] = rows[j][i] = 10 * next(numbers)
    return tuple(map(tuple, rows))


def test_whole_gpus_are_preferred_as_by_the_library() -> None:
    cases = recorded("linked.jsonl.gz")
    assert len(cases) > 1500
    wrong = []
    for case in cases:
        names = tuple(str(i) for i in range(case["n"]))
        must = frozenset(map(str, case["must"]))
        found = LinkedGpus(names, matrix(case)).answer(names, frozenset(names), must, case["size"])
        expected = frozenset(map(str, case.get("answer", ())))
        if (found.ids, found.error) != (expected, CRASHED if case.get("crash") else ""):
            wrong.append(f"{case}: {found}")
        possible = not found.open_to or expected <= found.open_to
        assert possible, case
    assert not wrong, "\n".join(wrong)
    assert sum("crash" in case for case in cases) >= 10


def test_shared_devices_are_preferred_as_by_the_plugin() -> None:
    """Which of several equal GPUs, and which replica, is chance there; how many of each is not."""
    cases = recorded("shared.jsonl.gz")
    assert len(cases) == 600
    for case in cases:
        devices, available, must = case["devices"], set(case["available"]), set(case["must"])
        found = SharedDevices(case["policy"]).answer(devices, available, must, case["size"])
        assert must <= found.ids <= available
        assert len(found.ids) == case["size"]
        counts = sorted(
            [sum(gpu_of(one) == gpu for one in ids) for ids in (devices, available - must, found.ids - must)]
            for gpu in {gpu_of(one) for one in devices}
        )
        assert counts == case["taken"], case
