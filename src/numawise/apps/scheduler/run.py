"""The extender from start to stop.

Rules kept here:

1. What is going to be done is a value before anything is done (``SchedulerPlan``); ``--dry-run`` prints it.
2. How it goes on and ends is ``service.attending``'s.
"""

from collections.abc import Sequence

from numawise.apps.scheduler.capacity import FreePlaces
from numawise.apps.scheduler.questions import ExtenderSettings, Questions
from numawise.apps.scheduler.serving import Extender, ExtenderAddress
from numawise.apps.scheduler.web import WebQuestions
from numawise.cluster.live import LiveSettings
from numawise.cluster.live_places import LivePlaces
from numawise.codec.kubeconfig import ClusterAccess
from numawise.extras import needed
from numawise.inputs.live import LiveFeed
from numawise.service.attending import ServicePages, attend
from numawise.service.duty import INFO_METRIC, Duty, MetricName
from numawise.service.log import ServiceLog
from numawise.service.web_server import LIBRARIES, LOGGERS
from numawise.values import dataclass

SCHEDULER = MetricName("numawise_scheduler", INFO_METRIC, "The extender and its version.")


@dataclass(frozen=True, slots=True)
class SchedulerPlan:
    """What an extender is going to do."""

    access: ClusterAccess
    address: ExtenderAddress = ExtenderAddress()
    pages: tuple[str, int] | None = None
    live: LiveSettings = LiveSettings()
    settings: ExtenderSettings = ExtenderSettings()


def run(plan: SchedulerPlan, log: ServiceLog) -> int:
    """Be the extender until a signal ends it."""
    needed("cluster", *LIBRARIES, "lightkube", "xxhash")
    attend(lambda: duties_of(plan, log), ServicePages(SCHEDULER, plan.pages), log, LOGGERS)
    return 0


def duties_of(plan: SchedulerPlan, log: ServiceLog) -> Sequence[Duty]:
    """The duties of a plan, not yet started."""
    feed = LiveFeed(plan.access, log, plan.live)
    questions = Questions(feed.view, feed.lock, plan.settings)
    places = FreePlaces(LivePlaces(feed.view, feed.lock), feed.was_synced, log)
    extender = Extender(plan.address, WebQuestions(questions, places.answer, feed.was_synced, log), log)
    return extender, feed, places  # it answers while the cluster is read
