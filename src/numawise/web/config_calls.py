"""A kubelet's configuration as a form and as text, both in step."""

from numawise.apps.check.lint import lint
from numawise.codec.kubelet.edited import FILE, edited
from numawise.codec.kubelet.settings import kubelet_settings
from numawise.codec.output import manifest_yaml
from numawise.codec.web.given import FileGiven, NodeGiven
from numawise.codec.web.scenario import ConfigGiven
from numawise.errors import InputError, KubeletRefused
from numawise.inputs.config import config_in
from numawise.inputs.spec import NodeSpec, read_release
from numawise.node.node import started
from numawise.results.finding import Finding
from numawise.results.plain import HEAD, without_head
from numawise.results.settings import EditedConfig, SettingList
from numawise.rules.versions import Version
from numawise.web.desk import Desk
from numawise.web.operations import GET, POST, Asked, Operation, QueryField

PART = "what-if"


def options(_: Desk, asked: Asked) -> SettingList:
    """Every setting that decides, in a release."""
    return kubelet_settings(read_release(asked.query["release"] or "", field="release").version)


def config(desk: Desk, asked: Asked) -> EditedConfig:
    """A configuration read, changed if that is asked for, and judged."""
    body: ConfigGiven = asked.body
    version = read_release(body.release, field="$.release").version
    text = body.text if body.text.strip() else _own(desk, body.node, version)
    rewritten = False
    if body.changes:
        try:
            new = edited(text, [(change.path, change.value) for change in body.changes])
        except InputError as problem:
            raise _at_text(problem) from None
        text, rewritten = new.text, new.rewritten
    if not text.strip():
        return EditedConfig(text, {})
    try:
        raw = config_in(text, FILE).configuration(version).raw
    except InputError as problem:
        raise _at_text(problem) from None
    problems = _problems(desk, body.node, text, version)
    refusal = _refusal(desk, body.node, text, version)
    return EditedConfig(text, without_head(raw), problems, not refusal, refusal, rewritten)


def _own(desk: Desk, given: NodeGiven | None, version: Version) -> str:
    """What the node itself has, where nothing was written yet."""
    if given is None:
        return ""
    node = desk.node(given)
    if not node.has_config:
        return ""
    raw = node.configuration.raw(version)
    return manifest_yaml({**{name: raw[name] for name in HEAD if name in raw}, **raw})


def _problems(desk: Desk, given: NodeGiven | None, text: str, version: Version) -> tuple[Finding, ...]:
    """What ``check`` says about the file itself."""
    machine = desk.machine(given) if given is not None else ()
    with desk.files([FileGiven(name=FILE, text=text)]) as (path,):
        found = lint(NodeSpec(machine=machine, kubelet_config=(path,)), version=version).findings
        return tuple(one for one in found if one.file == path)


def _refusal(desk: Desk, given: NodeGiven | None, text: str, version: Version) -> str:
    """Why it is not used: a kubelet would not start, or passes over what is misspelt; '' where it is."""
    try:
        value = config_in(text, FILE).config(version)
        if given is not None:
            started(desk.machine(given).machine, value, version)
    except KubeletRefused as refusal:
        return refusal.message
    except InputError as problem:
        return f"this is taken for a mistake: {problem.message}"
    return ""


def _at_text(problem: InputError) -> InputError:
    inner = f"{problem.field}: " if problem.field else ""
    return InputError(f"{inner}{problem.message}", line=problem.line, field="$.text", advice=problem.advice)


OPERATIONS = (
    Operation(
        GET,
        "/config/options",
        "configOptions",
        "Every setting of a kubelet that decides here: values, default in a release, and its rule.",
        options,
        SettingList,
        query=(QueryField("release", "A Kubernetes release such as 1.36."),),
        depends=(),
        part=PART,
    ),
    Operation(
        POST,
        "/config",
        "config",
        "Read a kubelet configuration, change settings in its text, and say what is wrong with it.",
        config,
        EditedConfig,
        body=ConfigGiven,
        part=PART,
    ),
)
