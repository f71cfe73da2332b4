"""In which order Go leaves a list whose comparison contradicts itself.

Counterpart: ``pdqsort`` of Go's sort package.

Where a comparison is sound, every sort gives the same answer.  Kubelets up to 1.21 compare cores by a
chain of "or" (``engine.cpu.early``), so that of two cores each can come before the other; then the answer
is whatever the sort makes of it, and the sort itself is part of the kubelet's behaviour.

Rules kept here (pattern-defeating quicksort with the constants of Go 1.19 and later, which the
recordings of 1.20 were built with):

1. Up to 12 elements are sorted by insertion.
2. Longer lists are split around a pivot: the middle of three elements, from 50 elements on of three
   such middles.  How many of these were out of order says whether the list looks sorted or reversed; a
   reversed one is turned around, a sorted one is looked over for a few misplaced elements first.
3. A pivot no greater than the element before the list splits off those equal to it.
4. After a lopsided split three elements are swapped with others, chosen by a generator that is seeded
   with the length; when that was necessary too often, a heap takes over.
"""

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

Item = TypeVar("Item")

INSERTION_UP_TO = 12
LONG = 50
SWAPS_OF_REVERSED = 12
REPAIRS = 5
WORD = 2**64 - 1


def go_sorted(items: Iterable[Item], less: Callable[[Item, Item], bool]) -> list[Item]:
    """The items as Go's ``sort.Slice`` leaves them."""
    sorting = _Sorting(list(items), less)
    sorting.sort(0, len(sorting.items), len(sorting.items).bit_length())
    return sorting.items


class _Sorting(Generic[Item]):
    """A list while it is sorted; all methods work on the part from ``start`` to before ``end``."""

    def __init__(self, items: list[Item], less: Callable[[Item, Item], bool]) -> None:
        self.items = items
        self.less = less

    def before(self, one: int, other: int) -> bool:
        return self.less(self.items[one], self.items[other])

    def swap(self, one: int, other: int) -> None:
        items = self.items
        items[one], items[other] = items[other], items[one]

    def sort(self, start: int, end: int, patience: int) -> None:
        balanced = split_already = True
        while (length := end - start) > INSERTION_UP_TO:
            if patience == 0:
                self.heap(start, end)
                return
            if not balanced:
                self.shuffle(start, length)
                patience -= 1
            pivot, swaps = self.pivot(start, length)
            if swaps == SWAPS_OF_REVERSED:
                self.items[start:end] = self.items[start:end][::-1]
                pivot, swaps = start + end - 1 - pivot, 0
            if balanced and split_already and swaps == 0 and self.repair(start, end):
                return
            if start > 0 and not self.before(start - 1, pivot):
                start = self.split_off_equals(start, end, pivot)
                continue
            middle, split_already = self.split(start, end, pivot)
            left, right = middle - start, end - middle
            balanced = min(left, right) >= length // 8
            if left < right:
                self.sort(start, middle, patience)
                start = middle + 1
            else:
                self.sort(middle + 1, end, patience)
                end = middle
        for at in range(start + 1, end):
            self.sink(at, start)

    def sink(self, at: int, lowest: int) -> None:
        """Move an element down for as long as it comes before its neighbour."""
        while at > lowest and self.before(at, at - 1):
            self.swap(at, at - 1)
            at -= 1

    def pivot(self, start: int, length: int) -> tuple[int, int]:
        """Where the pivot is, and how many of the elements looked at were out of order."""
        self.swaps = 0
        quarter = length // 4
        at = [start + quarter, start + 2 * quarter, start + 3 * quarter]
        if length >= LONG:
            at = [self.middle_of(i - 1, i, i + 1) for i in at]
        return self.middle_of(*at), self.swaps

    def middle_of(self, one: int, two: int, three: int) -> int:
        one, two = self.ordered(one, two)
        two, three = self.ordered(two, three)
        return self.ordered(one, two)[1]

    def ordered(self, one: int, other: int) -> tuple[int, int]:
        if self.before(other, one):
            self.swaps += 1
            return other, one
        return one, other

    def split(self, start: int, end: int, pivot: int) -> tuple[int, bool]:
        """Smaller elements to the left of the pivot; where that is then, and whether none had to move."""
        self.swap(start, pivot)
        low, high = start + 1, end - 1
        moved = False
        while True:
            while low <= high and self.before(low, start):
                low += 1
            while low <= high and not self.before(high, start):
                high -= 1
            if low > high:
                self.swap(high, start)
                return high, not moved
            self.swap(low, high)
            low, high, moved = low + 1, high - 1, True

    def split_off_equals(self, start: int, end: int, pivot: int) -> int:
        """Elements no greater than the pivot to the left; where the others begin."""
        self.swap(start, pivot)
        low, high = start + 1, end - 1
        while True:
            while low <= high and not self.before(start, low):
                low += 1
            while low <= high and self.before(start, high):
                high -= 1
            if low > high:
                return low
            self.swap(low, high)
            low, high = low + 1, high - 1

    def repair(self, start: int, end: int) -> bool:
        """True when the list is sorted, perhaps after a few neighbours changed places."""
        at = start + 1
        for _ in range(REPAIRS):
            while at < end and not self.before(at, at - 1):
                at += 1
            if at == end:
                return True
            if end - start < LONG:
                return False
            self.swap(at, at - 1)
            if at - start >= 2:
                self.sink(at - 1, 0)
            if end - at >= 2:
                above = at + 1
                while above < end and self.before(above, above - 1):
                    self.swap(above, above - 1)
                    above += 1
        return False

    def shuffle(self, start: int, length: int) -> None:
        """Swap the three middle elements with others."""
        seed = length
        mask = (1 << length.bit_length()) - 1
        centre = start + length // 4 * 2
        for near in (centre - 1, centre, centre + 1):
            seed ^= seed << 13 & WORD
            seed ^= seed >> 7
            seed ^= seed << 17 & WORD
            far = seed & mask
            self.swap(near, start + (far - length if far >= length else far))

    def heap(self, start: int, end: int) -> None:
        length = end - start
        for root in range((length - 1) // 2, -1, -1):
            self.sift(root, length, start)
        for last in range(length - 1, -1, -1):
            self.swap(start, start + last)
            self.sift(0, last, start)

    def sift(self, root: int, length: int, start: int) -> None:
        while (child := 2 * root + 1) < length:
            if child + 1 < length and self.before(start + child, start + child + 1):
                child += 1
            if not self.before(start + root, start + child):
                return
            self.swap(start + root, start + child)
            root = child
