"""What every test starts with, however the tests were started: plain surroundings, no deadlines, a tier.

Rules kept here:

1. Nothing of the caller's terminal or of earlier jobs is in the environment.
2. Signals that ``nohup`` or ``&`` left ignored are not ignored by the programs that tests start.  A handler that does
   nothing stands in for "ignored", since a program started from here begins with the default action then.
3. Examples of hypothesis are the same at every run and may take as long as they take.
4. The tier of a test is the folder it lies in; ``-m fast`` and the like choose by it.  Recipes need packages of their own
   and run only when they are chosen.
5. What was compiled is kept, even where the caller wants that nothing is: every program that a test starts would compile
   hundreds of modules again, which takes longer than what it does.
6. The collector of garbage leaves alone what is there before the first test, and comes seldom: the tests themselves are a
   million objects, none of which goes.
7. ``-n auto`` means half as many workers more than there are CPUs: many tests wait for programs, disks and timers.
"""

import gc
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TIERS = {
    "check": "fast",
    "cli": "fast",
    "unit": "fast",
    "property": "property",
    "fuzz": "property",
    "machines": "recorded",
    "recorded": "recorded",
    "host": "host",
    "ledger": "host",
    "browser": "browser",
    "kube": "kube",
    "web": "web",
    "vm": "vm",
    "docs": "docs",
    "recipes": "recipes",
}
"""The first folder below ``tests/``, and the tier of what lies there."""
TERMINAL = ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR")
KEEPS_NOTHING = "PYTHONDONTWRITEBYTECODE"
NEW_OBJECTS = 50_000
"""So many more objects than before, and the collector of garbage looks at them; Python's own number is 700."""

for name in [name for name in os.environ if name.startswith("NUMAWISE_") or name in TERMINAL]:
    del os.environ[name]  # pytest-xdist sets COLUMNS, too
os.environ.pop(KEEPS_NOTHING, None)
sys.dont_write_bytecode = False

for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    if signal.getsignal(number) == signal.SIG_IGN:
        signal.signal(number, lambda *_: None)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "numawise",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=(
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ),
)
settings.load_profile("numawise")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark every test with its tier (rule 4)."""
    tests = config.rootpath / "tests"
    for item in items:
        folder = Path(item.path).relative_to(tests).parts[0]
        item.add_marker(TIERS[folder])
        if folder == "recipes" and "recipes" not in config.option.markexpr:
            item.add_marker(pytest.mark.skip(reason="make recipes runs these"))


def pytest_collection_finish() -> None:
    """Rule 6."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Rule 7."""
    cpus = len(os.sched_getaffinity(0))
    return cpus + (cpus + 1) // 2
