"""Changes of several kinds together, where none of one kind helps: an edit, devices that heal, pods that end.

Rules kept here:

1. The edit is the smallest with which the pod fits the machine once it is idle, with its devices healthy
   where they must be; then come the fewest pods that have to end for it.
2. Nothing of it can be left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from numawise.explain import words
from numawise.explain.case import ExplainCase, healed, idle, with_pod, without
from numawise.explain.change import with_amounts
from numawise.explain.node_changes import fewest_pods, pod_shares
from numawise.explain.pod_changes import few_edits
from numawise.explain.ranking import Level, Ranked
from numawise.explain.search import ChangeSearch, fewest
from numawise.results.explanation import Suggestion
from numawise.values import replace

MOST_TRIED = 2
NO_EDIT = Ranked(Level.WAIT, Suggestion("remove", ""), 0)


def combined_changes(
    search: ChangeSearch, changes: Callable[[ChangeSearch], Iterator[Ranked]] = few_edits
) -> Iterator[Ranked]:
    """The smallest edit that helps once the machine is idle, and what else it takes (rule 1).

    ``changes``: where edits come from.
    """
    shares = pod_shares(search)
    plugins = search.case.state.devices.plugins
    unhealthy = tuple(name for name, plugin in plugins.items() if plugin.healthy != plugin.devices.keys())
    for resources in dict.fromkeys(((), unhealthy)):
        alone = search.on(healed(idle(search.case), resources))
        if not shares and not resources:
            continue
        edits = [NO_EDIT]
        if not alone.works(alone.case):
            edits = sorted(changes(alone), key=lambda one: one.key)[:MOST_TRIED]
        elif not resources:
            return  # pods that end were tried alone
        for edit in edits:
            combined = _combined(search, edit, resources, shares)
            if combined is not None:
                yield combined
                return


def _combined(
    search: ChangeSearch, edit: Ranked, resources: Sequence[str], shares: Mapping[str, float]
) -> Ranked | None:
    """An edit with the devices and pods that it takes; None: there is more to it (rule 2)."""
    case = with_pod(search.case, with_amounts(search.case.raw, edit.changes))
    alone = idle(case)
    if resources and search.works(alone):
        resources = ()
    elif resources:
        resources = fewest(resources, lambda some: search.works(healed(alone, some)))
    well = search.on(healed(case, resources))
    gone: tuple[str, ...] | None = ()
    if not well.works(well.case):
        gone = fewest_pods(well, shares)
    if gone is None or not (gone or resources):
        return None
    unchanged = without(healed(search.case, resources), *gone)
    if (edit.edits and search.works(unchanged)) or search.trials.spent:
        return None
    texts = [edit.suggestion.text] if edit.suggestion.text else []
    texts += [words.healing_text(resource, _unhealthy(search.case, resource)) for resource in resources]
    texts += [words.removal_text(search.case, gone)] if gone else []
    suggestion = replace(edit.suggestion, text=words.joined_text(texts), remove=gone, heal=tuple(resources))
    level = max(edit.level, Level.PART if edit.edits else Level.WAIT)
    edits = edit.edits + len(gone) + len(resources)
    after = without(healed(case, resources), *gone)
    return replace(edit, level=level, suggestion=suggestion, edits=edits, after=after)


def _unhealthy(case: ExplainCase, resource: str) -> list[str]:
    plugin = case.state.devices.plugins[resource]
    return sorted(plugin.devices.keys() - plugin.healthy)
