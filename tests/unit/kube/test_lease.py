"""Who leads, by clocks that the test turns."""

from typing import Any

from numawise.kube.lease import LENGTH, USABLE, Election

STOPS = LENGTH * USABLE


def lease(holder: str, version: int, length: object = 15, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"resourceVersion": str(version)},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": length, **spec},
    }


def leader(now: float = 100.0) -> Election:
    one = Election("me")
    one.observe(None, now)
    one.took(lease("me", 1), now)
    return one


def test_nobody_holds_it() -> None:
    one = Election("me")
    one.observe(None, 5.0)
    assert one.may_take(5.0)
    assert not one.leads(5.0), "not before the server has accepted it"


def test_a_leader_stops_before_anybody_else_may_begin() -> None:
    mine, other = leader(100.0), Election("other")
    other.observe(lease("me", 1), 100.0)
    times = [100.0 + step / 10 for step in range(300)]
    assert [now for now in times if mine.leads(now)][-1] < 100.0 + STOPS
    first = next(now for now in times if other.may_take(now))
    assert first == 100.0 + LENGTH
    assert not any(mine.leads(now) and other.may_take(now) for now in times)


def test_the_clock_of_the_holder_does_not_count() -> None:
    other = Election("other")
    other.observe(lease("me", 1, renewTime="1999-01-01T00:00:00Z"), 100.0)
    assert not other.may_take(114.9)


def test_a_lease_that_is_renewed_is_not_old() -> None:
    other = Election("other")
    for step in range(10):
        other.observe(lease("me", step), 100.0 + 10 * step)
        assert not other.may_take(100.0 + 10 * step + 9)


def test_a_length_of_another_holder_counts_within_reason() -> None:
    for length, first in (
        (60, 60.0),
        (0, LENGTH),
        (-5, LENGTH),
        ("x", LENGTH),
        (10**9, LENGTH),
        (None, LENGTH),
    ):
        other = Election("other")
        other.observe(lease("me", 1, length), 100.0)
        assert not other.may_take(100.0 + first - 0.1), length
        assert other.may_take(100.0 + first), length


def test_whoever_sees_another_holder_leads_no_longer() -> None:
    one = leader()
    one.observe(lease("other", 2), 101.0)
    assert not one.leads(101.0)


def test_a_leader_that_was_quicker_is_obeyed() -> None:
    one = leader()
    one.lost()
    assert not one.leads(100.1)


def test_time_counts_from_before_the_request() -> None:
    one = Election("me")
    one.observe(None, 100.0)
    one.took(lease("me", 1), 100.0)  # answered much later
    assert not one.leads(100.0 + STOPS)


def test_a_change_of_holder_is_counted() -> None:
    one = Election("me")
    one.observe(lease("other", 7, leaseTransitions=3), 0.0)
    spec = one.spec(1_000_000.0)
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("me", 4)
    assert "acquireTime" in spec
    kept = leader()
    assert kept.spec(1_000_000.0)["leaseTransitions"] == 0
    assert "acquireTime" not in kept.spec(1_000_000.0)
