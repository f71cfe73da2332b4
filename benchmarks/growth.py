"""CPU time of inputs that grow, for what C does over long texts: the law counts lines of Python alone.

    python -m benchmarks.growth [--times N] [NAME…]

Each input of ``tests.property.growth`` is tried ``N`` times (8) as large as there, twice and four times that;
printed are the CPU times (best of three) and how much more the second half of the largest took than the one
before: about 2 where time grows with the size, 4 where it grows with its square.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

GROWTH, LAW = (import_module(f"tests.property.{name}") for name in ("growth", "test_growth"))
INPUTS: dict[str, tuple[Callable[[int], object], int]] = GROWTH.INPUTS
MOST, ROUNDS, NOISE = 3.0, 3, 0.02


def seconds(name: str, size: int) -> float:
    """CPU time of one command over an input of that size."""
    with tempfile.TemporaryDirectory() as folder:
        words = LAW.laid(INPUTS[name][0](size), Path(folder))
        best = float("inf")
        for _ in range(ROUNDS):
            begin = time.process_time()
            LAW.ended(words, Path(folder))
            best = min(best, time.process_time() - begin)
    return best


def main() -> None:
    """Measure what was named, or everything."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth", description="CPU time of inputs that grow."
    )
    parser.add_argument("names", nargs="*", choices=[*INPUTS, []], help="only these")
    parser.add_argument("--times", type=int, default=8, help="as large as the law's inputs")
    options = parser.parse_args()
    for name in options.names or INPUTS:
        size = INPUTS[name][1] * options.times
        small, middle, large = (seconds(name, times * size) for times in (1, 2, 4))
        grown = (large - middle) / max(middle - small, NOISE)
        mark = "  <- more than it may" if grown > MOST and large - middle > NOISE else ""
        print(
            f"{name:40} {size:7,} {small:7.2f} {middle:7.2f} {large:7.2f} s  {grown:5.1f}{mark}", flush=True
        )


if __name__ == "__main__":
    main()
