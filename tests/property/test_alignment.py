"""The sentence about an admitted pod against its placement, over random machines, configurations and pods.

What the rows of an alignment say is worked out again here, from the state alone and the plain way.
"""

import re
from collections.abc import Iterator

from hypothesis import given

from numawise.node.node import Files, SimulatedNode, boot, simulate
from numawise.render.alignment import alignment_text, alignment_verdict, noteworthy
from numawise.results.plain import plain
from numawise.results.simulation import Simulated
from numawise.sets import ids_of
from tests.property.strategies import Case, cases, laws

EVERYTHING = re.compile(r"Admitted: everything on NUMA (\d+)")


def outcomes(case: Case) -> Iterator[tuple[SimulatedNode, Simulated]]:
    """Every pod of a case that is admitted."""
    node = boot(case.machine, case.config, Files())
    assert isinstance(node, SimulatedNode), node
    node.plugins_registered(case.machine.plugins)
    came: list[str] = []
    for event in case.events:
        if isinstance(event, int):
            if event < len(came):
                node.remove(came[event])
            continue
        came.append(event.uid)
        (outcome,) = simulate(node, [event])
        if outcome.admitted:
            yield node, outcome
        elif not hasattr(outcome.decision, "state"):
            return


def homes(node: SimulatedNode, outcome: Simulated) -> dict[tuple[str, str], set[int] | None]:
    """Container and resource → NUMA nodes each of which alone has all that is asked for; None: not known."""
    pod, state, machine = outcome.pod, outcome.granted, node.machine
    every = {numa.id for numa in machine.numa}
    found: dict[tuple[str, str], set[int] | None] = {}
    for container in pod.containers:
        name = container.name
        cpus = set(ids_of(state.cpu.assignments.get(pod.uid, {}).get(name, 0)))
        nodes = {cpu.numa for cpu in machine.cpus if cpu.cpu in cpus or not cpus}
        found[name, "cpu"] = nodes if len(nodes) == 1 else set()
        blocks = state.memory.assignments.get(pod.uid, {}).get(name, ())
        kinds = {
            "memory",
            *(kind for kind, size in container.requests.items() if "hugepages" in kind and size.nano),
        }
        for kind in kinds:
            pinned = [set(ids_of(block.numa)) for block in blocks if block.type == kind]
            if not pinned:
                pinned = [{numa.id for numa in machine.numa if numa.memory} or every]
            found[name, kind] = set.intersection(*pinned) if all(len(one) == 1 for one in pinned) else set()
        grants = state.devices.grants.get(pod.uid, {}).get(name, {})
        for resource, count in container.devices:
            if not count:
                continue
            if resource not in grants:
                found[name, resource] = set()
                continue
            (plugin,) = [one for one in machine.plugins if one.resource == resource]
            places = [set(one.numa or ()) for one in plugin.devices if one.id in grants[resource].ids]
            if not all(places):
                found[name, resource] = every if len(every) == 1 else None
            else:
                found[name, resource] = set.intersection(*places)
    return found


@laws(200)
@given(cases())
def test_everything_on_a_numa_node_is_there(case: Case) -> None:
    """The sentence is said when and only when every amount of every container is on that NUMA node."""
    for node, outcome in outcomes(case):
        alignment = outcome.alignment
        assert alignment is not None
        placed = homes(node, outcome)
        common = {numa.id for numa in node.machine.numa}
        for nodes in placed.values():
            common &= nodes or set()
        said = EVERYTHING.match(alignment_text(alignment))
        assert bool(said) == bool(common), (alignment_text(alignment), placed)
        if said:
            assert int(said[1]) in common
            assert alignment.everything_on == int(said[1])
            assert alignment.aligned
        else:
            assert alignment.everything_on is None


@laws(200)
@given(cases())
def test_rows_are_about_the_placement(case: Case) -> None:
    """Every amount has one row; what floats or is not known is never called aligned."""
    for node, outcome in outcomes(case):
        alignment = outcome.alignment
        assert alignment is not None
        placed = homes(node, outcome)
        rows = {(row.container, row.resource): row for row in alignment.resources}
        assert len(rows) == len(alignment.resources)
        assert placed.keys() <= rows.keys()
        for key, row in rows.items():
            several = "several-numa-nodes" in row.reasons or "other-numa-nodes" in row.reasons
            if row.aligned and key in placed and not several:
                assert placed[key], (key, row)
            if key in placed and placed[key] is None:
                assert row.aligned is not True
            assert row.aligned or row.reasons, row
            if row.aligned is None:
                assert row.reasons in (("no-numa-node",), ("chosen-at-start",)), row
        hints = outcome.decision.affinity  # type: ignore[union-attr]
        for row in alignment.resources:
            if "several-numa-nodes" in row.reasons:
                assert hints[row.container].preferred
                assert row.numa.bits & hints[row.container].numa.bits


@laws(300)
@given(cases())
def test_the_first_sentence_names_what_is_not_aligned(case: Case) -> None:
    for _, outcome in outcomes(case):
        alignment = outcome.alignment
        assert alignment is not None
        text, verdict = alignment_text(alignment), alignment_verdict(alignment)
        assert text.startswith(verdict)
        assert (verdict.startswith("Admitted, but ")) == (
            alignment.aligned is not True or bool(alignment.errors)
        )
        failing = [row for row in alignment.resources if not row.aligned]
        for row in failing:
            name = "CPUs" if row.resource == "cpu" else row.resource
            assert name in verdict or "nothing is " in verdict, (verdict, row)
        if not noteworthy(alignment):
            assert EVERYTHING.match(verdict)
        assert "  " not in text
        assert not re.search(r"[:;,] *[:;,]|\(\)|None|: *$", text), text
        data = plain(alignment)
        assert data["aligned"] == alignment.aligned
        assert [row["resource"] for row in data["resources"]] == [row.resource for row in alignment.resources]
