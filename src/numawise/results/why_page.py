"""A decision as a page shows it: the pods, one of them in full, and the map before and after."""

from collections.abc import Mapping

from numawise.results.forms_why import ExplanationForm, KubeletLogForm, SuggestionForm
from numawise.results.machine_map import MapForm
from numawise.values import dataclass, field

GIVEN, RUNNING, REFUSED = "given", "running", "refused"


@dataclass(frozen=True, slots=True)
class JudgedPod:
    """A pod with its verdict."""

    namespace: str
    name: str
    uid: str
    verdict: str
    answer: str
    """The answer in one sentence."""
    origin: str
    """``given`` by whoever asks, ``running`` on the node, or ``refused`` by its kubelet before."""


@dataclass(frozen=True, slots=True)
class WhyPage:
    """What became of pods, and one of them in full."""

    pods: tuple[JudgedPod, ...] = ()
    chosen: int | None = None
    """Number of the pod that is explained; null: none, such as of a log."""
    explanation: ExplanationForm | None = None
    """As ``why -o json`` has it."""
    tries: int = 0
    """How many of its suggestions can be tried: all of them, or none."""
    before: MapForm | None = None
    """The node before the pod came."""
    after: MapForm | None = None
    """The node with the pod; null: it is not let in."""
    drawn: Mapping[str, str] = field(default_factory=dict)
    """Device that a step names → its name on the map."""
    others: tuple[ExplanationForm, ...] = ()
    """Explanations of what was pasted, where no node is known to simulate."""
    log: KubeletLogForm | None = None
    """What a log says, where one was given: as ``why --log -o json`` has it."""
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TriedPage:
    """What a suggestion leads to."""

    suggestion: SuggestionForm
    explanation: ExplanationForm | None
    """Of the pod after the change; null: the kubelet starts, and no pod was given."""
    after: MapForm
    """The node then."""
    drawn: Mapping[str, str] = field(default_factory=dict)
    """Device that a step names → its name on the map."""
