"""Which drifts are news: they must stay for a while, are reported once, and again when they had gone.

Rules kept here:

1. A drift counts when two looks in a row show it, the second at least ``wait`` seconds after the first: a
   container that is just being made, or ends, is between two states.  How long is said by who looks: a
   kubelet needs its own period to push a new shared pool.
2. What it is judged by (``basis``) must stay the same meanwhile: a new grant begins anew.
3. A drift that was reported is not reported again while it stays.  When a look does not show it, it is gone;
   a container that is gone takes its drifts along, and nobody needs to be told.
4. One that comes and goes is reported ever more rarely: after ``FIRST_REST`` seconds at the earliest, then
   twice as long, up to ``LONGEST_REST``.
5. No clock in here: times are given.
"""

from collections.abc import Collection, Iterable, Mapping

from numawise.results.finding import Finding
from numawise.values import dataclass

FIRST_REST, LONGEST_REST = 60.0, 3600.0
MOST_KEPT = 10_000
"""Drifts that are remembered."""


@dataclass(frozen=True, slots=True)
class DriftKey:
    """One kind of drift of one container; of the node itself where it has no container."""

    uid: str
    container: str
    id: str
    """The container's id: one that was made again is another."""
    code: str
    about: str = ""
    """What it is about, where one container may have several of a kind."""


@dataclass(frozen=True, slots=True)
class SeenDrift:
    """What a look showed."""

    finding: Finding
    basis: object = None
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class DriftChange:
    """A drift that has become news, or has gone."""

    key: DriftKey
    finding: Finding
    quiet: bool = False
    """It counts, but was reported too recently to be reported again (rule 4)."""


class _Kept:
    __slots__ = ("basis", "finding", "first", "last_report", "present", "rest", "stands")

    def __init__(self, seen: SeenDrift, now: float) -> None:
        self.finding, self.basis, self.first = seen.finding, seen.basis, now
        self.present, self.stands = True, False
        self.last_report: float | None = None
        self.rest = FIRST_REST


class DriftBook:
    """What has drifted on a node."""

    def __init__(self) -> None:
        self._kept: dict[DriftKey, _Kept] = {}

    def look(
        self, now: float, seen: Mapping[DriftKey, SeenDrift], codes: Collection[str], alive: Collection[str]
    ) -> tuple[tuple[DriftChange, ...], tuple[DriftChange, ...]]:
        """What has risen and what has gone by a look.

        ``codes``: the kinds that were looked for; ``alive``: ids of the containers that were looked at.
        """
        risen = [change for key, one in seen.items() if (change := self._saw(key, one, now)) is not None]
        gone = []
        for key, kept in list(self._kept.items()):
            if key in seen or key.code not in codes:
                continue
            if key.id and key.id not in alive:
                del self._kept[key]
            elif kept.present:
                kept.present = False
                if kept.stands:
                    kept.stands = False
                    gone.append(DriftChange(key, kept.finding))
                elif kept.last_report is None:
                    del self._kept[key]
            elif kept.last_report is not None and now - kept.last_report > LONGEST_REST:
                del self._kept[key]
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return tuple(risen), tuple(gone)

    def _saw(self, key: DriftKey, seen: SeenDrift, now: float) -> DriftChange | None:
        kept = self._kept.get(key)
        if kept is None:
            self._kept[key] = _Kept(seen, now)
            return None
        if not kept.present or (kept.basis != seen.basis and not kept.stands):
            kept.present, kept.basis, kept.first, kept.finding = True, seen.basis, now, seen.finding
            return None
        changed = kept.basis != seen.basis
        kept.finding, kept.basis = seen.finding, seen.basis
        if kept.stands and not changed:
            return None
        if not kept.stands and now - kept.first < seen.wait:
            return None
        kept.stands = True
        if changed:
            return None  # it goes on, by another measure
        quiet = kept.last_report is not None and now - kept.last_report < kept.rest
        if not quiet:
            if kept.last_report is not None:
                kept.rest = min(kept.rest * 2, LONGEST_REST)
            kept.last_report = now
        return DriftChange(key, seen.finding, quiet=quiet)

    def standing(self) -> Iterable[tuple[DriftKey, Finding]]:
        """What has drifted now."""
        return [(key, kept.finding) for key, kept in self._kept.items() if kept.stands]

    def remembered(self) -> Iterable[DriftKey]:
        """What is remembered, whether it stands or not."""
        return self._kept.keys()

    def waiting(self) -> bool:
        """Whether a look soon would tell more than a look later (rule 1)."""
        return any(kept.present and not kept.stands for kept in self._kept.values())
