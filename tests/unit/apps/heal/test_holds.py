"""Whose pods wait, and which of them go; with a clock that the test turns."""

import pytest

from numawise.apps.heal.holds import (
    EndHold,
    HoldBook,
    HoldDecision,
    HoldSettings,
    LetGo,
    OwnerHold,
    Prospect,
    PutHold,
    WaitingPod,
)
from numawise.apps.heal.refused import OwnerRevision
from tests.unit.apps.heal.pods import refused

OF = OwnerRevision("u-web", "abc")
SETTINGS = HoldSettings(first=10, longest=100, calm=60, forget=300)
NOWHERE = Prospect((), exact=True, reason="1 short")
UNKNOWN = Prospect()
SOMEWHERE = Prospect(("n2", "n3"), exact=True)


def waiting(number: int = 0, of: OwnerRevision | None = OF) -> WaitingPod:
    return WaitingPod(f"w{number}", "default", f"web-w{number}", of, f"2026-01-01T00:00:{number:02}Z")


def book_with_hold(settings: HoldSettings = SETTINGS) -> HoldBook:
    book = HoldBook(settings)
    assert book.refuse(refused(), 0.0, steered=False) is not None
    return book


def decide(book: HoldBook, prospect: Prospect, now: float, *pods: WaitingPod) -> list[HoldDecision]:
    return list(book.decide(pods, [pod.uid for pod in pods], lambda _: prospect, now))


def hold_of(book: HoldBook) -> OwnerHold:
    return book.holds[OF]


@pytest.mark.parametrize(("kind", "held"), [
    ("ReplicaSet", True), ("StatefulSet", True), ("ReplicationController", True), ("Job", True), ("DaemonSet", False),
])  # fmt: skip
def test_the_first_refused_pod_holds_owners_that_do_not_wait_themselves(kind: str, *, held: bool) -> None:
    book = HoldBook(SETTINGS)
    assert isinstance(book.refuse(refused(owner=(kind, "u")), 0.0, steered=False), PutHold) == held
    assert book.refuse(refused("again", owner=(kind, "u")), 0.1, steered=False) is None


def test_pods_without_owner_hold_nobody() -> None:
    assert HoldBook().refuse(refused(owner=None), 0.0, steered=False) is None


def test_a_pod_goes_as_soon_as_a_node_would_let_it_in_and_only_there() -> None:
    book = book_with_hold()
    assert decide(book, NOWHERE, 2.0, waiting()) == []
    (going,) = decide(book, SOMEWHERE, 3.0, waiting())
    assert isinstance(going, LetGo)
    assert going.nodes == ("n2", "n3")


def test_the_next_goes_when_the_last_is_bound() -> None:
    book = book_with_hold()
    decide(book, SOMEWHERE, 2.0, waiting(1), waiting(2))
    unbound = [waiting(1).uid, waiting(2).uid]
    assert list(book.decide([waiting(2)], unbound, lambda _: SOMEWHERE, 2.1)) == [], (
        "the first has no node yet"
    )
    (going,) = book.decide([waiting(2)], [waiting(2).uid], lambda _: SOMEWHERE, 2.2)
    assert isinstance(going, LetGo)
    assert going.pod == waiting(2)


def test_a_pod_that_is_never_bound_keeps_others_for_five_seconds() -> None:
    book = book_with_hold()
    decide(book, SOMEWHERE, 2.0, waiting(1))
    both = [waiting(1).uid, waiting(2).uid]
    assert list(book.decide([waiting(2)], both, lambda _: SOMEWHERE, 6.9)) == []
    assert len(list(book.decide([waiting(2)], both, lambda _: SOMEWHERE, 7.0))) == 1


def played(book: HoldBook, prospect: Prospect, seconds: int) -> list[tuple[int, HoldDecision]]:
    """A decision a second, while whatever is let go is refused at once and made anew."""
    decisions: list[tuple[int, HoldDecision]] = []
    number = 0
    for now in range(1, seconds):
        for decision in decide(book, prospect, float(now), waiting(number)):
            decisions.append((now, decision))
            if isinstance(decision, LetGo):
                steered = bool(decision.nodes)
                book.refuse(refused(f"r{number}", uid=decision.pod.uid), now + 0.1, steered=steered)
                number += 1
    return decisions


def test_where_all_is_known_a_hold_goes_on_with_longer_limits_up_to_one_try() -> None:
    decisions = played(book_with_hold(), NOWHERE, 400)
    prolonged = [(now, one.seconds) for now, one in decisions if isinstance(one, PutHold) and one.again]
    tried = [now for now, one in decisions if isinstance(one, LetGo)]
    assert prolonged == [(10, 20.0), (30, 40.0), (70, 80.0)]
    assert tried == [150, 250, 350], "a hundred seconds at most, in any case"


def test_where_something_is_unknown_a_pod_is_tried_at_each_limit() -> None:
    tries = [
        (now, one.nodes) for now, one in played(book_with_hold(), UNKNOWN, 100) if isinstance(one, LetGo)
    ]
    assert tries == [(10, ()), (30, ()), (70, ())]


def test_a_judge_that_is_always_wrong_does_not_start_the_loop_again() -> None:
    tries = [
        now
        for now, one in played(book_with_hold(), Prospect(("n1",), exact=True), 3600)
        if isinstance(one, LetGo)
    ]
    assert len(tries) < 80, "36 of the longest limit, and as many of the node's own"


def test_after_a_try_that_stays_the_next_follows() -> None:
    book = book_with_hold()
    assert len(decide(book, UNKNOWN, 10.0, waiting(1))) == 1
    assert decide(book, UNKNOWN, 11.0, waiting(2)) == [], "just bound"
    assert len(decide(book, UNKNOWN, 16.0, waiting(2))) == 1


def test_a_try_that_is_refused_is_no_success() -> None:
    book = book_with_hold()
    assert len(decide(book, UNKNOWN, 10.0, waiting(1))) == 1
    book.refuse(refused("tried", uid="w1"), 10.2, steered=False)
    assert [decide(book, UNKNOWN, now, waiting(2)) for now in (11.0, 16.0, 29.0)] == [[], [], []]


def test_a_node_that_refuses_what_it_should_let_in_is_not_named_for_a_while() -> None:
    book = book_with_hold(HoldSettings(first=10, longest=10_000))
    hold_of(book).until = 1e9
    only = Prospect(("n1",), exact=True)
    named = [now for now, one in played(book, only, 200) if isinstance(one, LetGo)]
    assert named == [1, 12, 33, 74, 155], "10, 20, 40, 80 seconds later"


def test_one_wrong_node_does_not_keep_the_others() -> None:
    book = book_with_hold()
    book.refuse(refused("r", node="n2"), 1.0, steered=True)
    (going,) = decide(book, SOMEWHERE, 3.0, waiting())
    assert isinstance(going, LetGo)
    assert going.nodes == ("n3",)


def test_a_calm_owner_is_held_no_longer_and_remembered_for_a_while() -> None:
    book = book_with_hold()
    decide(book, SOMEWHERE, 2.0, waiting())
    assert decide(book, SOMEWHERE, 61.9) == []
    (end,) = decide(book, SOMEWHERE, 62.0)
    assert isinstance(end, EndHold)
    again = book.refuse(refused("later"), 100.0, steered=False)
    assert again is not None
    assert again.seconds == 20.0, "twice as long"
    book.end(OF, "", 100.0)
    much_later = book.refuse(refused("much-later"), 1000.0, steered=False)
    assert much_later is not None
    assert much_later.seconds == 10.0


def test_pods_that_nobody_holds_go() -> None:
    (going,) = decide(HoldBook(), NOWHERE, 0.0, waiting())
    assert isinstance(going, LetGo)
    assert going.nodes == ()


def test_an_adopted_hold_lasts_no_longer_than_its_own_limit() -> None:
    book = HoldBook(SETTINGS)
    owner = refused().owner
    assert owner is not None
    book.adopt(owner, 1, left=1e9, refused=3, now=0.0)
    assert hold_of(book).until == 20.0
    book.adopt(owner, 5, left=1, refused=3, now=0.0)
    assert hold_of(book).number == 1, "known already"


def test_no_more_than_so_many_are_held() -> None:
    book = HoldBook(HoldSettings(most=10))
    begun = [
        book.refuse(refused(owner=("ReplicaSet", f"u{number}")), 0.0, steered=False) for number in range(4)
    ]
    assert [one is not None for one in begun] == [True, True, False, False], (
        "a fifth of them in one namespace"
    )
    assert book.overfull == 2
