"""A check as a page shows it: the report and which file its findings are about; a suggested configuration."""

from numawise.results.correction import AppliedCorrection
from numawise.results.finding import CheckReport
from numawise.results.forms import KubeletPlanForm, SwitchPlanForm
from numawise.results.plain import optional
from numawise.values import dataclass


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file that was checked, by its number among those that were given."""

    name: str
    """What findings and edits call it."""
    kind: str
    """What it was recognised as, in words."""
    findings: tuple[int, ...]
    """Numbers of the report's findings that are about it, by line."""
    text: str | None = optional(None)
    """Its text after the corrections, where there were any."""


@dataclass(frozen=True, slots=True)
class CheckPage:
    """What a check of dropped files says."""

    report: CheckReport
    """As ``check -o json`` has it; after the corrections, where these were asked for."""
    files: tuple[CheckedFile, ...]
    elsewhere: tuple[int, ...] = ()
    """Numbers of findings that are about no file: the machine, a member of a bundle."""
    applied: tuple[AppliedCorrection, ...] = ()
    release: str = ""
    """The release that it was judged by."""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanPage:
    """A configuration for a node, as a file, and the way there."""

    plan: KubeletPlanForm
    """As ``plan kubelet -o json`` has it."""
    text: str
    """The file: YAML with the reasons as comments."""
    switch: SwitchPlanForm | None = None
    """As ``plan switch -o json`` has it, where the node's present configuration is known."""
    remarks: tuple[str, ...] = ()
