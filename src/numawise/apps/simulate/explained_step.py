"""Why a pod of a scenario was let in or not: the decision of its step, on the node as it was then."""

from numawise.apps.simulate.playing import Played
from numawise.codec.steps import Timed
from numawise.errors import InputError, quoted
from numawise.explain.case import case_of
from numawise.explain.explain import Proven, explain_case
from numawise.node.node import SimulatedNode
from numawise.results.explanation import Explanation
from numawise.results.simulation import Add
from numawise.values import dataclass, replace


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """A pod that came, explained."""

    explanation: Explanation
    before: SimulatedNode
    """The node when it came."""
    after: SimulatedNode | None
    """The node after its step; None: it was not let in."""
    proven: tuple[Proven, ...] = ()
    """What its suggestions lead to."""


def explained_step(played: Played, number: int, uid: str = "") -> ExplainedStep:
    """Explain a pod of a step; ``uid``: which one, where several came."""
    if not 0 < number < len(played.moments):
        raise InputError(
            f"there is no step {number}", field="at", advice=f"there are {len(played.moments) - 1}"
        )
    moment = played.moments[number]
    stage = played.moments[number - 1].stage.copy()
    for result in moment.results:
        step, act = result.step, result.step.act
        pods = act.pods[: len(result.pods)] if isinstance(act, Add) else ()
        place = next((at for at, pod in enumerate(pods) if uid in ("", pod.uid)), None)
        if place is None or not isinstance(act, Add):
            continue
        if place and isinstance(step, Timed):  # those that came with it, before it
            stage.act(replace(step, act=replace(act, pods=pods[:place])))
        found = explain_case(case_of(stage.node, pods[place]), walk=True)
        after = moment.node if result.pods[place].admitted else None
        return ExplainedStep(found.explanation, stage.node, after, found.proven)
    what = f"no pod {quoted(uid)} came at step {number}" if uid else f"no pod came at step {number}"
    raise InputError(what, field="pod" if uid else "at", advice="choose a step at which a pod comes")
