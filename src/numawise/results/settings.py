"""Settings of a kubelet as values: what a form shows of each, and what came of a change."""

from numawise.results.finding import Finding
from numawise.results.plain import optional
from numawise.values import dataclass

CHOICE, TRUTH, NUMBER, TEXT, AMOUNTS, TEXTS, MEMORY, OPTIONS, GATES = (
    "choice",  # one of the values
    "truth",  # true or false
    "number",
    "text",
    "amounts",  # a mapping from names to texts
    "texts",  # a list of texts
    "memory",  # entries of NUMA node and limits
    "options",  # a mapping whose members are settings of their own
    "gates",
)


@dataclass(frozen=True, slots=True)
class SettingValue:
    """A value that a setting may have."""

    value: str
    words: str = optional("")


@dataclass(frozen=True, slots=True)
class KubeletSetting:
    """A setting that decides where a pod goes, or whether it is admitted."""

    path: tuple[str, ...]
    """Where it stands in a KubeletConfiguration."""
    kind: str
    """``choice``, ``truth``, ``number``, ``text``, ``amounts``, ``texts``, ``memory``, ``options`` or
    ``gates``."""
    group: str
    words: str = optional("")
    """What it decides."""
    rules: tuple[str, ...] = optional(())
    """What the kubelet demands of it in this release, a sentence each."""
    default: str = optional("")
    """What is taken when it is not set."""
    values: tuple[SettingValue, ...] = optional(())
    """Those it may have; empty: any."""
    names: tuple[str, ...] = optional(())
    """Names that the members of a mapping usually have."""
    quoted: bool = optional(False)
    """It is written as text, whatever it looks like."""
    level: str = optional("")
    """``alpha``, ``beta``, ``stable`` or ``deprecated``; '' for fields."""
    excludes: tuple[str, ...] = optional(())
    """Options that cannot be set together with it."""
    needs: tuple[str, ...] = optional(())
    """Feature gates that must be on."""
    locked: bool = optional(False)
    """It cannot be set to anything but its default."""
    minor: bool = optional(False)
    """Nothing here depends on it: any other gate of the release."""


@dataclass(frozen=True, slots=True)
class SettingList:
    """All settings of a release."""

    release: str
    settings: tuple[KubeletSetting, ...]


@dataclass(frozen=True, slots=True)
class EditedConfig:
    """A configuration, after a change if there was one: its text, and what it says."""

    text: str
    values: dict[str, object]
    """The fields that are written, by name."""
    problems: tuple[Finding, ...] = ()
    """What ``check`` has against it; the kubelet's own refusals are among them."""
    starts: bool = True
    """A kubelet would start with it, and pass over nothing."""
    refusal: str = optional("")
    """Why it is not used: how the kubelet refuses it, or what is taken for a mistake."""
    rewritten: bool = optional(False)
    """The change could not be made in the text as it was: comments and layout are lost."""
