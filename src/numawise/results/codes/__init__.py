"""The registry of codes: what each finding is about, as data.

The hundreds are subjects: 0 the check itself, 1 configuration, 2 reservations and machine, 3 state files,
4 pods, 5 a pod's environment, 6 upgrades.  A number is never used again for something else.
"""

from collections.abc import Mapping
from types import MappingProxyType

from numawise.results.codes.configuration import CONFIGURATION
from numawise.results.codes.environment import ENVIRONMENT
from numawise.results.codes.model import Code
from numawise.results.codes.pods import PODS
from numawise.results.codes.reservation import RESERVATION
from numawise.results.codes.state import STATE
from numawise.results.codes.upgrades import UPGRADES

__all__ = ["CODES", "Code"]

CODES: Mapping[str, Code] = MappingProxyType({
    **CONFIGURATION, **RESERVATION, **STATE, **PODS, **ENVIRONMENT, **UPGRADES,
})  # fmt: skip
