"""How long an answer may take."""

from contextlib import suppress

import pytest

from numawise.errors import InputError
from numawise.patience import look, looking, within


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def asked(clock: Clock, *, caught: bool = False, instead: InputError | None = None) -> None:
    """An answer that takes longer than it may."""
    with within(20, clock=clock):
        look()
        clock.now = 21.0
        try:
            look()
        except InputError:
            if instead is not None:
                raise instead from None
            if not caught:
                raise


def test_commands_have_no_limit() -> None:
    look()


def test_whoever_looks_too_late_is_told() -> None:
    with pytest.raises(InputError, match="takes longer than 20 seconds"):
        asked(Clock())
    look()


def test_nobody_hides_that_it_took_too_long() -> None:
    with pytest.raises(InputError, match="takes longer than 20 seconds"):
        asked(Clock(), caught=True)
    with pytest.raises(InputError, match="takes longer than 20 seconds"):
        asked(Clock(), instead=InputError("a suggestion does not help"))


def test_nobody_waits_any_more() -> None:
    with pytest.raises(InputError), within(20, ended=lambda: True):
        look()


def test_a_listener_looks_and_hears() -> None:
    heard: list[int] = []
    looking(heard.append)(1)
    clock = Clock()
    with suppress(InputError), within(20, clock=clock):
        hear = looking(heard.append)
        hear(2)
        clock.now = 21.0
        hear(3)
    assert heard == [1, 2]
