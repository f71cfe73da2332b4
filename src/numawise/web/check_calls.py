"""Files checked together with what mends them, and a configuration suggested for a node."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import cast

from numawise.apps.check.lint import lint
from numawise.apps.check.mend import CorrectedCheck, mended
from numawise.apps.plan.kubelet import plan_kubelet
from numawise.apps.plan.reserve import pages_given
from numawise.apps.plan.switch import load_switch
from numawise.codec.web.check import CheckAsked, PlanAsked
from numawise.codec.web.given import FileGiven, NodeGiven
from numawise.errors import InputError, NumawiseError, quoted
from numawise.inputs.bundle import open_bundle
from numawise.inputs.recognise import Recognised, recognised
from numawise.inputs.spec import NodeInput, NodeSpec, read_release
from numawise.quantity import parse_size
from numawise.render.plan import kubelet_plan_data, kubelet_plan_yaml, switch_plan_data
from numawise.results.check_page import CheckedFile, CheckPage, PlanPage
from numawise.results.finding import CheckReport
from numawise.results.forms import KubeletPlanForm, SwitchPlanForm
from numawise.results.plain import without_head
from numawise.results.plan import KubeletPlace, PlanGoal
from numawise.rules.versions import shown
from numawise.values import replace
from numawise.web.desk import Desk
from numawise.web.operations import POST, Asked, Operation
from numawise.web.page_words import all_said_here, said_here

FILES, NEW = "$.files", "new.yaml"
OTHER = "passed over"
PATIENCE = 20.0
"""Seconds that corrections may be tried for one call."""


def check(desk: Desk, asked: Asked) -> CheckPage:
    """Check files, and correct them where that is asked."""
    body: CheckAsked = asked.body
    if not body.files:
        raise InputError(
            "nothing to check", field=FILES, advice="give configurations, pods, state files or a machine"
        )
    spec = NodeSpec(kube=body.release)
    if body.machine:
        spec = replace(spec, machine=desk.machine_named(body.machine, "$.machine"))
    elif body.served:
        spec = replace(spec, machine=desk.machine(NodeGiven(served=True), "$"))
    with desk.files(body.files) as paths:
        _names(paths)
        given = recognised(spec, paths)
        bundle = open_bundle(given.spec.bundle) if given.spec.bundle else None
        profile = read_release(body.release, bundle, "$.release")

        def once() -> CheckReport:
            return lint(given.spec, given.objects, profile.version)

        done = _said(mended(once, patience=PATIENCE) if body.fix else CorrectedCheck(once()))
        remarks = (*given.remarks, *filter(None, (profile.remark,)), *done.report.remarks)
        return _page(paths, given, done, shown(profile.version), all_said_here(remarks))


def _said(done: CorrectedCheck) -> CorrectedCheck:
    """What to do, in the words of the page."""
    findings = tuple(replace(one, fix=said_here(one.fix)) for one in done.report.findings)
    return replace(done, report=replace(done.report, findings=findings))


def _names(paths: Sequence[str]) -> None:
    """Two files of one name could not be told apart in the answer."""
    seen: set[str] = set()
    for number, path in enumerate(paths):
        name = PurePath(path).name
        if name in seen:
            raise InputError(
                f"two files are called {quoted(name)}",
                field=f"{FILES}[{number}].name",
                advice="give them different names",
            )
        seen.add(name)


def _page(
    paths: Sequence[str], given: Recognised, done: CorrectedCheck, release: str, remarks: tuple[str, ...]
) -> CheckPage:
    texts = {one.file: one.text for one in done.files}
    numbers: dict[str, list[int]] = {}
    for number, finding in enumerate(done.report.findings):
        numbers.setdefault(finding.file, []).append(number)
    lines = [finding.line or 0 for finding in done.report.findings]
    kinds = _kinds(given)
    files = tuple(
        CheckedFile(
            PurePath(path).name,
            kinds.get(path, OTHER),
            tuple(sorted(numbers.pop(path, ()), key=lines.__getitem__)),
            texts.get(path),
        )
        for path in paths
    )
    elsewhere = tuple(number for some in numbers.values() for number in some)
    return CheckPage(done.report, files, elsewhere, done.applied, release, remarks)


def _kinds(given: Recognised) -> Mapping[str, str]:
    """Path → what the file is, in words."""
    spec = given.spec
    kinds: dict[str, str] = dict.fromkeys(given.pods, "pods")
    for words, kind in (
        (spec.kubelet_config, "kubelet configuration"),
        (spec.machine, "machine"),
        (spec.state, "state file"),
        ((spec.bundle,), "bundle"),
        ((spec.kubelet_flags,), "flags of a kubelet"),
        ((spec.node_object,), "Node object"),
        (given.published, "NodeResourceTopology"),
        ((spec.pod_resources,), "answers of the PodResources socket"),
    ):
        kinds |= {word: kind for word in words if isinstance(word, str)} if isinstance(words, tuple) else {}
    return kinds


def plan(desk: Desk, asked: Asked) -> PlanPage:
    """Suggest a configuration, and the way there."""
    body: PlanAsked = asked.body
    node = desk.node(body.node)
    goal = PlanGoal(
        goal=body.goal,
        version=node.version,
        cpus=body.reserve_cpus,
        memory=parse_size(body.reserve_memory, "$.reserveMemory") if body.reserve_memory.strip() else None,
        alpha=body.alpha,
        hugepages=pages_given(body.hugepages, "$.hugepages"),
    )
    given = node.config_input if node.spec.has_config else None
    own = given.raw(node.version) if given is not None else None
    made = plan_kubelet(node.machine, goal, node.hardware, own)
    text = kubelet_plan_yaml(made, node.hardware)
    switch, remarks = _switch(desk, node, text)
    data = cast("KubeletPlanForm", without_head(kubelet_plan_data(made, node.hardware)))
    return PlanPage(data, text, switch, all_said_here((*node.remarks, *remarks)))


def _switch(desk: Desk, node: NodeInput, text: str) -> tuple[SwitchPlanForm | None, tuple[str, ...]]:
    """The steps from the node's own configuration to the suggested one; None where there is none."""
    old = node.spec.kubelet_config
    if not isinstance(old, tuple) or len(old) != 1 or node.spec.config_dir or node.spec.kubelet_flags:
        return None, ()
    place = KubeletPlace(node.name)
    with desk.files((FileGiven(name=NEW, text=text),)) as (new,):
        try:
            loaded = load_switch(old[0], new, node, (), place=place)
        except NumawiseError as problem:
            return None, (f"the steps of the switch are not known: {problem}",)
    data = without_head(switch_plan_data(loaded.switch, place, NEW))
    return cast("SwitchPlanForm", data), loaded.remarks


OPERATIONS = (
    Operation(
        POST,
        "/check",
        "check",
        "Check files together: findings with their lines, and the changes that mend them.",
        check,
        CheckPage,
        body=CheckAsked,
        part="check",
    ),
    Operation(
        POST,
        "/plan",
        "plan",
        "Suggest a kubelet configuration for a node, with reasons, and the steps to it.",
        plan,
        PlanPage,
        body=PlanAsked,
        part="check",
    ),
)
