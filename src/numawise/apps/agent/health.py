"""Which devices are healthy, for the kubelet: bad at once, good again when it has stayed so for a while.

Rules kept here:

1. A device is bad while one cause or more says so: it has gone, the driver reported an Xid, a file of made-up
   devices says so.  Causes come and go independently.
2. Bad is published at once.  Good is published after a wait that doubles with every fall, from ``FIRST_WAIT``
   to ``LONGEST_WAIT``: a device that comes and goes is not offered whenever it is there for a moment, and the
   kubelet hears of it ever more rarely.  After ``FORGIVEN`` seconds without a fall the wait is short again.
3. No clock in here: times are given, so that hours pass in a test.
"""

from collections.abc import Iterable, Mapping

FIRST_WAIT, LONGEST_WAIT, FORGIVEN = 1.0, 300.0, 3600.0


class _State:
    __slots__ = ("causes", "fallen", "falls", "good_since", "healthy")

    def __init__(self) -> None:
        self.causes: dict[str, str] = {}
        self.healthy = True
        self.falls = 0
        self.fallen = self.good_since = 0.0


class DeviceHealth:
    """The health of some devices."""

    def __init__(self, ids: Iterable[str]) -> None:
        self._states = {name: _State() for name in ids}

    def __contains__(self, device: object) -> bool:
        return device in self._states

    def add(self, device: str) -> None:
        """Know a device; it is good until something says otherwise."""
        self._states.setdefault(device, _State())

    def drop(self, device: str) -> None:
        """Know nothing of a device any more."""
        self._states.pop(device, None)

    def only(self, device: str, cause: str, reason: str, now: float) -> None:
        """A device is bad for this cause alone, whatever was wrong before."""
        self.report(device, cause, reason, now)
        self._states[device].causes = {cause: reason}

    def report(self, device: str, cause: str, reason: str, now: float) -> None:
        """A cause says something about a device: a reason why it is bad, or '' for good."""
        state = self._states.get(device)
        if state is None or state.causes.get(cause, "") == reason:
            return
        if reason:
            if not state.causes:
                state.falls = state.falls + 1 if now - state.fallen < FORGIVEN else 1
                state.fallen = now
            state.causes[cause] = reason
        else:
            del state.causes[cause]
            if not state.causes:
                state.good_since = now

    def settle(self, now: float) -> Mapping[str, str]:
        """Publish what is due by now; the devices whose health changed, with the reason, '' for good."""
        changed = {}
        for name, state in self._states.items():
            good = not state.causes and now - state.good_since >= self.wait(name)
            if state.healthy and state.causes:
                state.healthy = False
                changed[name] = "; ".join(state.causes.values())
            elif not state.healthy and good:
                state.healthy = True
                changed[name] = ""
        return changed

    def wait(self, device: str) -> float:
        """How long a device must stay good before it is published so (rule 2)."""
        falls = self._states[device].falls
        return min(FIRST_WAIT * 2 ** min(falls - 1, 20), LONGEST_WAIT) if falls else 0.0

    def due(self) -> float | None:
        """When the next device becomes good, if none falls before; None: none is waiting."""
        waiting = [
            state.good_since + self.wait(name)
            for name, state in self._states.items()
            if not state.healthy and not state.causes
        ]
        return min(waiting, default=None)

    def is_healthy(self, device: str) -> bool:
        """What is published of a device."""
        return self._states[device].healthy
