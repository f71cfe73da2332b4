"""Recorded scenarios come out the same when the node is published and read back before every step.

The node that goes on is made of the two attributes alone.  What is put back beside them is what they leave out
on purpose: labels and taints, which a scheduler has from the Node object, and the CPU sets that were last pushed
to containers, which no decision depends on.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from numawise.codec.decision import Data
from numawise.codec.publication import attributes_of, publication_from
from numawise.node.publication import publication_of, published_node
from numawise.node.replay import ScenarioReplay, replay
from numawise.values import replace
from tests.fidelity import trace_files, trace_lines

HERE = Path(__file__).parent
FOLDERS = [HERE / name for name in ("v1.36.4", "versions", "resize", "predicates", "claims")]
FEW, EACH = 40, 25
"""Of files with more scenarios than ``FEW``, one of 25."""


class PublishedReplay(ScenarioReplay):
    """A replay in which every step meets a node that was read back."""

    def step(self, name: str, argument: Any) -> Data:
        node = self.node
        publication = publication_from(attributes_of(publication_of(node, "n1")))
        assert publication is not None
        copy = published_node(publication)
        copy.files, copy.write_files, copy.predicates = node.files, True, node.predicates
        copy.describe(node.description)
        copy.keep(replace(copy.state, pushed=node.state.pushed))
        self.node = copy
        return super().step(name, argument)


@pytest.mark.parametrize("path", trace_files(FOLDERS), ids=lambda path: f"{path.parent.name}-{path.name}")
def test_read_back_before_every_step(path: Path) -> None:
    lines = list(trace_lines(path))
    for line in lines[:: EACH if len(lines) > FEW else 1]:
        scenario = json.loads(line)["scenario"]
        published = PublishedReplay(scenario).run()
        assert (scenario["id"], published) == (scenario["id"], replay(scenario))
