"""What reads an input that no command takes as a file; each function is given its words and the case's folder.

Such a function of the project promises to raise nothing but ``NumawiseError``; parsers of single words may raise
``ValueError`` besides, which their callers turn into a sentence.
"""

import contextlib
import gzip
import importlib.util
import itertools
import json
import os
import shlex
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from numawise.errors import NumawiseError
from numawise.machine.hardware import Hardware
from tests.fuzz import seeds
from tests.fuzz.sandbox import Driver

TRIED = 40
"""Lines of a file of words."""


def _text(path: str) -> str:
    return Path(path).read_bytes().decode("utf-8", errors="surrogateescape")


def _command(*words: str) -> None:
    """A command whose status and words are judged as in any other run."""
    from numawise.cli.main import main  # noqa: PLC0415

    status = main(list(words))
    assert status in range(6), f"status {status} of {words}"


def _shown(hardware: Hardware) -> None:
    """All that is done with a machine that was read."""
    from numawise.apps.machine.advice import advice  # noqa: PLC0415
    from numawise.codec.hardware.combine import combine  # noqa: PLC0415
    from numawise.codec.hardware.encode import hardware_data  # noqa: PLC0415
    from numawise.codec.output import to_json  # noqa: PLC0415
    from numawise.inputs.machine import MachineInput  # noqa: PLC0415

    together = combine([hardware], assume=True)
    to_json(hardware_data(together))
    advice(together)
    with contextlib.suppress(NumawiseError):
        _ = MachineInput(together).machine


# --- words ----------------------------------------------------------------------------------


def _parsers() -> list[Callable[[str], object]]:
    from numawise.apps.launch.request import parse_cpus  # noqa: PLC0415
    from numawise.apps.logs.read import parse_since  # noqa: PLC0415
    from numawise.apps.verify.leaks import policy_of  # noqa: PLC0415
    from numawise.cli.placing import seconds  # noqa: PLC0415
    from numawise.codec.allocated import quantity  # noqa: PLC0415
    from numawise.codec.hints import parse_hints  # noqa: PLC0415
    from numawise.codec.kubeletlog.framing import headed, unframe  # noqa: PLC0415
    from numawise.codec.steps import parse_duration  # noqa: PLC0415
    from numawise.host.files import parse_mask  # noqa: PLC0415
    from numawise.host.numamaps import parse_area  # noqa: PLC0415
    from numawise.host.processes import parse_stat  # noqa: PLC0415
    from numawise.host.system import parse_isolation  # noqa: PLC0415
    from numawise.machine.locality import link_rank, short_address  # noqa: PLC0415
    from numawise.quantity import Quantity, parse_size  # noqa: PLC0415
    from numawise.rules.eviction import Duration, thresholds  # noqa: PLC0415
    from numawise.rules.versions import profile_of  # noqa: PLC0415
    from numawise.sets import format_ids, parse_ids  # noqa: PLC0415
    from numawise.strconv import parse_bool, parse_int, quote  # noqa: PLC0415

    now = datetime(2026, 1, 1)  # noqa: DTZ001 - a log names no zone
    return [
        lambda word: str(Quantity.parse(word)),
        lambda word: quantity(word).value,
        parse_size,
        parse_cpus,
        seconds,
        parse_duration,
        lambda word: Duration.parse(word).seconds,
        lambda word: thresholds({"memory.available": word}),
        lambda word: format_ids(parse_ids(word)),
        parse_mask,
        lambda word: parse_isolation(word, 63),
        parse_int,
        parse_bool,
        quote,
        parse_hints,
        profile_of,
        lambda word: parse_since(word, now),
        policy_of,
        short_address,
        link_rank,
        parse_stat,
        parse_area,
        lambda word: (framed := unframe(word)) and headed(framed),
    ]


def words(line: list[str], _: Path) -> None:
    """Every parser of one word, on every line."""
    for word in _text(line[0]).split("\n")[:TRIED]:
        for parser in _parsers():
            with contextlib.suppress(NumawiseError, ValueError):
                parser(word)


def described(line: list[str], _: Path) -> None:
    """Descriptions such as ``2s 4n 64c``."""
    from numawise.inputs.machine import read_machine  # noqa: PLC0415

    for word in _text(line[0]).split("\n")[:6]:
        with contextlib.suppress(NumawiseError):
            _shown(read_machine(word.replace("\0", "")).hardware)
        _command("machine", "new", "--", *word.replace("\0", "").split(" "))


def hints(line: list[str], _: Path) -> None:
    """Hints given as words."""
    options = [
        word for hint in _text(line[0]).replace("\0", "").split("\n")[:4] for word in ("--hints", hint)
    ]
    _command("why", *options, "--policy", "restricted", "--numa", "2", "-o", "json")


def flags(line: list[str], _: Path) -> None:
    """Flags of a kubelet, given as text."""
    text = _text(line[0]).replace("\0", " ")
    _command("check", "--kubelet-flags", text)


# --- logs and bundles -----------------------------------------------------------------------


def log(line: list[str], case: Path) -> None:
    """A log from standard input of a pipe, compressed, and cut."""
    raw = Path(line[0]).read_bytes()
    packed = case.parent / "work" / "log.gz"
    packed.write_bytes(gzip.compress(raw, 1)[: len(raw) // 2 + 200])
    _command("why", "--log", str(packed))


def archive(line: list[str], case: Path) -> None:
    """An archive whose damage is below the compression."""
    packed = case.parent / "work" / "b.tgz"
    packed.write_bytes(gzip.compress(Path(line[0]).read_bytes(), 1))
    _command("bundle", "show", str(packed))


def bundle(line: list[str], case: Path) -> None:
    """A command over the bundle that a folder stands for, packed."""
    from numawise.codec.bundle.archive import pack  # noqa: PLC0415

    root = case / "members"
    members = {str(one.relative_to(root)): one.read_bytes() for one in root.rglob("*") if one.is_file()}
    (case.parent / "work" / "b.tgz").write_bytes(pack(members, 0))
    _command(*line)


def check(line: list[str], case: Path) -> None:
    """The command of an example, in its folder."""
    os.chdir(case)
    command = shlex.split((case / "command").read_text())
    _command(*command[1:], *line)


# --- this host and its user -----------------------------------------------------------------


def settings(_: list[str], case: Path) -> None:
    """Settings of the system and of the user."""
    from numawise.host.settings import read_settings  # noqa: PLC0415

    for file in (case / "root").rglob("*"):  # whatever mask they were written under
        file.chmod(0o755)
    read_settings({"HOME": str(case / "home")}, case / "root", {os.geteuid()})


def ledger(line: list[str], _: Path) -> None:
    """Rows of a ledger, as another user may have written them."""
    from numawise.ledger.record import data_of, read_rows, text_of  # noqa: PLC0415

    for path in sorted(Path(line[0]).glob("*.json")):
        if not path.is_symlink() and path.is_file():
            try:
                value = json.loads(path.read_bytes())
            except ValueError:
                continue
            if isinstance(value, dict):
                rows = read_rows(value, 65534, "nobody")
                text_of(data_of(rows.holds, rows.waiters))


def cdi(_: list[str], case: Path) -> None:
    """Descriptions of devices for containers."""
    from numawise.host.containers import cdi_devices, variables_in  # noqa: PLC0415

    cdi_devices(case)
    variables_in(str(case / "etc/cdi/gpu.yaml"))


def healed(line: list[str], _: Path) -> None:
    """Pods, owners, holds and a Lease as an API server shows them to the healer."""
    from numawise.apps.heal.changing import people_look_at, unfit  # noqa: PLC0415
    from numawise.apps.heal.cleaning import AgedPod, CleaningRules, removable  # noqa: PLC0415
    from numawise.apps.heal.hold_list import listed_hold  # noqa: PLC0415
    from numawise.apps.heal.refused import controller_of, is_held, refused_pod  # noqa: PLC0415
    from numawise.apps.heal.steering import release_patch  # noqa: PLC0415
    from numawise.apps.heal.stranded import stranded_note  # noqa: PLC0415
    from numawise.codec.document import mapping  # noqa: PLC0415
    from numawise.kube.lease import Election  # noqa: PLC0415

    try:
        value = mapping(json.loads(_text(line[0])))
    except (ValueError, RecursionError):
        return
    pod, owner = mapping(value.get("pod")), mapping(value.get("owner"))
    refused, controller = refused_pod(pod), controller_of(pod)
    if refused is not None:
        rules = CleaningRules(keep=0, older_than=0, owners=(refused.owner_kind,))
        assert len(removable([AgedPod(refused, 1.0)], rules)) <= 1
    if controller is not None:
        unfit(controller, owner)
        people_look_at(controller, owner)
    is_held(pod)
    json.dumps(release_patch(pod, {"n1": "h1"}, ["n1"]))
    assert "\n" not in stranded_note(pod)
    for key, text in mapping(value.get("holds")).items():
        hold = listed_hold(str(key), text)
        assert hold is None or hold.text
    election = Election("me")
    election.observe(mapping(value.get("lease")), 1.0)
    election.spec(1.0)


def engine(line: list[str], _: Path) -> None:
    """What a container engine prints."""
    from numawise.host import containers  # noqa: PLC0415

    out, _separator, error = _text(line[0]).partition("\n----\n")
    asked = containers.ask
    containers.ask = lambda *_words: containers.Said(0, out, error)
    try:
        docker = containers.Engine("docker")
        containers.inspect(docker, ("a", "b"))
        containers.labelled(docker)
        with contextlib.suppress(NumawiseError):
            containers.container_pids(docker, "a", Path(line[0]).parent)
    finally:
        containers.ask = asked


def host(line: list[str], _: Path) -> None:
    """What launchers look at before they start anything."""
    from numawise.host import confine, discover, jobgroup, kubelet, nvml, readiness, system, systemd  # noqa: PLC0415
    from numawise.host.files import Tree  # noqa: PLC0415

    root = Path(line[0])
    tree = Tree(root)
    _shown(discover.read_hardware(root))
    discover.nvidia_uuids(root)
    nvml.nvidia_minors(root)
    nvml.kfd_users(root)
    readiness.read_readiness(root, ask_nvml=False)
    system.cgroup_mounts(tree)
    system.own_groups(tree)
    systemd.problem(root)
    jobgroup.found_groups(root)
    confine.modes(root)
    for function in (confine.allowed, kubelet.node_kubelets):
        with contextlib.suppress(NumawiseError):
            function(root)


def processes(line: list[str], _: Path) -> None:
    """Processes of a copied /proc, looked at as ``verify`` does."""
    from numawise.apps.verify.look import JobHost  # noqa: PLC0415
    from numawise.host import kubelet, nodememory, oom, placed  # noqa: PLC0415
    from numawise.host import processes as table  # noqa: PLC0415
    from numawise.host.discover import read_hardware  # noqa: PLC0415
    from numawise.render.verify import job_data  # noqa: PLC0415

    root = Path(line[0])
    hardware = read_hardware(root)
    table.boot_id(root)
    for process in (*table.processes(root)[:4], None):
        pid = process.pid if process else 422
        for look in (
            table.threads,
            table.uid_of,
            table.group_of,
            table.allowed_of,
            table.family,
            table.children,
        ):
            with contextlib.suppress(NumawiseError):
                look(pid, root=root)
        placed.read_groups(root, pid)
        with contextlib.suppress(NumawiseError):
            job_data(JobHost(hardware, root=root, glance=0).check_pid(pid))
    nodememory.read_free((0, 1), root)
    nodememory.read_available((0, 1), root)
    group = f"{root}/sys/fs/cgroup/numawise/bcd2"
    nodememory.used_by_group((group, f"{group}-v1"))
    oom.read_oom_kills((group, f"{group}-v1"))
    oom.machine_oom_kills(root)
    for running in kubelet.node_kubelets(root):
        kubelet.passed_arguments(running, root)
        kubelet.program_version(running, root)


def watched(line: list[str], _: Path) -> None:
    """The containers of a node, judged as the agent's watcher does; what it would write is not written."""
    from numawise.apps.agent.drift_reports import about, sentence  # noqa: PLC0415
    from numawise.apps.agent.sight_values import KubeletSight  # noqa: PLC0415
    from numawise.apps.verify.pods import read_records  # noqa: PLC0415
    from numawise.codec.claims import claim_objects  # noqa: PLC0415
    from numawise.codec.document import read_file  # noqa: PLC0415
    from numawise.codec.podresources import read_pod_resources  # noqa: PLC0415
    from numawise.codec.workload import objects_in  # noqa: PLC0415
    from numawise.explain.drift import mending  # noqa: PLC0415
    from numawise.explain.pod_check import NodeRecord, PodChecker, on_one_numa_node  # noqa: PLC0415
    from numawise.host.discover import read_hardware  # noqa: PLC0415

    case = Path(line[0])
    checker = PodChecker.of(case / "root")
    if checker is None:
        return
    hardware = read_hardware(case / "root")
    records, _ = read_records(str(case / "root/var/lib/kubelet"))
    try:
        value = json.loads(_text(str(case / "pods.json")))
    except (ValueError, RecursionError):
        value = {}
    items = value.get("items") if isinstance(value, dict) else None
    pods = [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []
    objects = [one for part in read_file(str(case / "slices.json")) for one in objects_in(part.root)]
    answers = read_pod_resources(str(case / "answers.json"))
    record = NodeRecord(hardware, records, answers, pods, claim_objects(objects).devices)
    sight = KubeletSight(pods=pods, name="n1")
    for check in checker.check(record):
        on_one_numa_node(hardware, check.grant)
        mending(hardware, check.grant, check.cpuset)
        about(check, sight)
        for finding in check.findings:
            assert len(sentence(finding)) <= 1024


def maps(_: list[str], case: Path) -> None:
    """Pages of a process."""
    from numawise.host import numamaps  # noqa: PLC0415

    keys = numamaps.parse_keys(_text(str(case / "maps")).splitlines())
    numamaps.gather(_text(str(case / "numa_maps")).splitlines(), keys)


def nvml(line: list[str], _: Path) -> None:
    """GPUs as a recording of NVML has them."""
    from numawise.host.nvml import nvml_users, read_gpus  # noqa: PLC0415

    try:
        recording = json.loads(_text(line[0]))
    except ValueError:
        return
    library = _replayed(recording)
    _shown(read_gpus(library))
    nvml_users(library)


def _replayed(recording: Any) -> Any:
    """A library that answers as recorded, as far as the real one can: the kind of an answer is always the same."""
    module = _recordings()
    good = [json.loads(files["recording"]) for files in seeds.nvml(False)]
    kinds = {row["call"]: _kind(row["answer"]) for one in good for row in one["calls"] if "answer" in row}
    rows = recording.get("calls") if isinstance(recording, dict) else ()
    calls = [
        row
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and isinstance(row.get("call"), str) and "arguments" in row
        and ("error" in row or _kind(row.get("answer")) == kinds.get(row["call"]))
    ]  # fmt: skip
    return module.Replayed({"calls": calls})


def _kind(answer: Any) -> object:
    """What C would call the type of an answer."""
    if isinstance(answer, dict):
        words = answer.get("list")
        if isinstance(words, list):
            return "words" if all(type(word) is int and 0 <= word < 1 << 64 for word in words) else "nothing"
        fields = answer.get("struct")
        if isinstance(fields, dict):
            return tuple(sorted((name, type(value).__name__) for name, value in fields.items()))
        return "handle" if isinstance(answer.get("handle"), str) else "nothing"
    if type(answer) is int and not 0 <= answer < 1 << 32:
        return "nothing"
    return type(answer).__name__


@cache
def _recordings() -> Any:
    place = Path(__file__).parents[1] / "host" / "record_nvml.py"
    spec = importlib.util.spec_from_file_location("record_nvml", place)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# --- clusters -------------------------------------------------------------------------------


def kubeconfig(line: list[str], _: Path) -> None:
    """A kubeconfig, as far as to a client."""
    from numawise.kube import client  # noqa: PLC0415

    with contextlib.suppress(NumawiseError):
        access = client.access_to(line[0], "", {})
        client._client(access).close()


def dump(_: list[str], case: Path) -> None:
    """The pods of a dump that wait, explained beside damaged budgets; the views of the page; and a label selector."""
    from numawise.apps.overview.detail import node_detail, node_files  # noqa: PLC0415
    from numawise.apps.overview.sources import dumped  # noqa: PLC0415
    from numawise.apps.why.live import Live  # noqa: PLC0415
    from numawise.apps.why.pending import explain_pending, is_pending  # noqa: PLC0415
    from numawise.codec.selector import read_selector  # noqa: PLC0415
    from numawise.codec.web.body import to_bytes  # noqa: PLC0415
    from numawise.inputs.dump import dumped_cluster  # noqa: PLC0415
    from numawise.render.why import why_text  # noqa: PLC0415
    from numawise.results.explanation import explanations_data  # noqa: PLC0415
    from numawise.results.plain import plain  # noqa: PLC0415
    from numawise.web.clusters import ShownCluster  # noqa: PLC0415

    with contextlib.suppress(NumawiseError):
        read_selector((case / "selector").read_text(errors="replace"))({"pool": "gpu"})
    with contextlib.suppress(NumawiseError):
        seen = dumped_cluster([str(case / "dump.json")])
        try:
            budgets = json.loads((case / "budgets.json").read_bytes())
        except (ValueError, RecursionError):
            budgets = []
        objects = [one for one in budgets if isinstance(one, dict)] if isinstance(budgets, list) else []
        for pod in seen.pods if seen is not None else ():
            with contextlib.suppress(NumawiseError):
                live = Live("default", "pod", pod)
                if seen is not None and is_pending(live):
                    found = explain_pending(live, seen, objects)
                    why_text([found], 80)
                    json.dumps(explanations_data([found]))
    with contextlib.suppress(NumawiseError):
        shown = ShownCluster(dumped([str(case / "dump.json")], "dump.json", "d"))
        answers: list[object] = [
            shown.board.answer(shown.source),
            shown.stuck.counts(),
            shown.stuck.report(shown.source),
        ]
        view = shown.cluster.view
        for name in view.names[:4]:
            with contextlib.suppress(NumawiseError):
                answers += [
                    node_detail(shown.cluster, shown.board, name, 900),
                    node_files(shown.cluster, name),
                ]
        for raw in [one.raw for one in view.pods.values() if one.raw is not None][:8]:
            view.ranked(view.judge(raw, None, shown.cluster.clock()))
        for value in shown.cluster.pods():  # each is changed into its like, and goes
            view.take_pod(value, shown.cluster.clock())
            view.take_pod(value, shown.cluster.clock(), gone=True)
        to_bytes([plain(answer) for answer in answers if not isinstance(answer, tuple)])


Answer = Callable[[Any], Any]
ANSWERING: list[Answer] = []
"""What answers for the API server now."""


@cache
def _asking() -> Any:
    """A client whose answers come from here; it is slow to make."""
    import httpx2  # noqa: PLC0415 - an extra
    from lightkube import Client  # noqa: PLC0415
    from lightkube.config.kubeconfig import KubeConfig  # noqa: PLC0415

    this = {"name": "this"}
    config = KubeConfig.from_dict(
        {
            "current-context": "this",
            "clusters": [this | {"cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [this | {"user": {}}],
            "contexts": [this | {"context": {"cluster": "this", "user": "this"}}],
        }
    ).get()
    asking = Client(config, transport=httpx2.MockTransport(lambda request: ANSWERING[-1](request)))  # noqa: PLW0108
    asking.close = lambda: None
    return asking


def api(line: list[str], case: Path) -> None:
    """What an API server answers: a file of ``answers`` for each part of a path, its status in the first line."""
    import httpx2  # noqa: PLC0415 - an extra

    from numawise.kube import client  # noqa: PLC0415

    answers = {
        path.name: path.read_bytes() for path in sorted((case / "answers").iterdir()) if path.is_file()
    }
    count = itertools.count()

    def answer(request: httpx2.Request) -> httpx2.Response:
        name = next((part for part in reversed(request.url.path.split("/")) if part in answers), "")
        status, _newline, body = answers.get(name, b"404\n{}").partition(b"\n")
        code = int(status) if status.isdigit() and 200 <= int(status[:9]) < 600 else 200
        if next(count) > 50:
            code, body = 500, b"{}"
        return httpx2.Response(
            code, content=body, headers={"content-type": "application/json"}, request=request
        )

    before = client._client
    client._client = lambda _access: _asking()
    ANSWERING[:] = [answer]
    try:
        name = str(case / "config")
        _command("why", "pod/train-c-n1", "-n", "acme", "--kubeconfig", name, *line[1:])
    finally:
        client._client = before


DRIVERS: dict[str, Driver] = {
    function.__name__: function
    for function in (
        api, archive, bundle, cdi, check, described, dump, engine, flags, healed, hints, host, kubeconfig, ledger, log, maps, nvml, processes, settings, watched,
        words,
    )
}  # fmt: skip
