"""The kustomize files and the Helm chart are what the code makes."""

import importlib.util
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import click
import pytest
import yaml

from numawise.apps.scheduler.certificate_objects import CLIENT
from numawise.apps.scheduler.manifest import CLIENT_SECRET, SERVER_SECRET, server_names
from numawise.cli.cluster_objects import PARTS, ClusterWish, cluster_objects
from numawise.cli.main import group

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm/numawise"
BY_HAND = {"values.yaml", "templates/_helpers.tpl", "templates/NOTES.txt"}


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_deploy", DEPLOY / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKER = maker()
FILES: Mapping[str, str] = MAKER.files()


@pytest.mark.parametrize("path", FILES)
def test_the_file_is_what_the_code_makes(path: str) -> None:
    assert (DEPLOY / path).read_text() == FILES[path], "run deploy/make.py"


def test_there_are_no_other_files() -> None:
    folders = (DEPLOY / "kustomize", DEPLOY / "helm")
    there = {
        str(file.relative_to(DEPLOY)) for folder in folders for file in folder.rglob("*") if file.is_file()
    }
    there = {path for path in there if "/certificates/" not in path}
    assert there == set(FILES) | {f"helm/numawise/{name}" for name in BY_HAND}


# --- kustomize ------------------------------------------------------------------------------------


def built(folder: Path) -> Iterator[dict[str, Any]]:
    """The objects of a kustomization, without what it changes."""
    value = yaml.safe_load((folder / "kustomization.yaml").read_text())
    for name in value["resources"]:
        place = (folder / name).resolve()
        if place.is_dir():
            yield from built(place)
        else:
            yield from yaml.safe_load_all(place.read_text())


def by_name(values: Iterator[dict[str, Any]] | tuple[dict[str, Any], ...]) -> dict[tuple[str, str], Any]:
    return {(value["kind"], value["metadata"]["name"]): value for value in values}


@pytest.mark.parametrize(("overlay", "more"), [
    ("cluster",                      {}),
    ("cluster-with-definition",      {"definition": True}),
    ("cert-manager",                 {"managed": True}),
    ("cert-manager-with-definition", {"managed": True, "definition": True}),
])  # fmt: skip
def test_an_overlay_is_what_the_command_prints(overlay: str, more: dict[str, bool]) -> None:
    wish = ClusterWish("registry.invalid/numawise", stock_image="registry.k8s.io/kube-scheduler", **more)  # type: ignore[arg-type]
    assert by_name(built(DEPLOY / "kustomize/overlays" / overlay)) == by_name(cluster_objects(wish))


# --- Helm -----------------------------------------------------------------------------------------

EXPRESSION = re.compile(r"\{\{-? (.*?) -?\}\}")


class Each(NamedTuple):
    """From here on, a dot means this."""

    value: Any


def unrolled(lines: Sequence[str], value_of: Callable[[str], Any]) -> Iterator["str | Each"]:
    """The lines of a template, with those of a range as often as there are values."""
    at = 0
    while at < len(lines):
        step = EXPRESSION.fullmatch(lines[at])
        if step is None or not step[1].startswith("range "):
            yield lines[at]
            at += 1
            continue
        end = next(index for index in range(at, len(lines)) if lines[index] == "{{- end }}")
        for value in value_of(step[1].removeprefix("range ")):
            yield Each(value)
            yield from lines[at + 1 : end]
        at = end + 1


def rendered(name: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A template with values, of the little of Helm's language that ours are written in."""
    helpers = {"numawise.kubeScheduler": "stock:1", "numawise.stamp": "stamped", "numawise.certificates": ""}
    lines: list[str] = []
    showing = [True]
    each: list[Any] = []

    def value_of(text: str) -> Any:
        text = text.removeprefix("$")
        if text.startswith(". "):
            return each[-1]
        text = text.partition(" | ")[0].removeprefix('required "set image: there is no published image" ')
        if text.startswith("include "):
            return helpers[text.split('"')[1]]
        if text == ".Release.Namespace":
            return "numawise"
        value: Any = values
        for part in text.removeprefix(".Values.").split("."):
            value = value[part]
        return value

    def shown(text: str) -> str:
        value = value_of(text)
        return f'"{value}"' if isinstance(value, int) and text.endswith(" | quote") else str(value)

    def holds(text: str) -> bool:
        if text.startswith(".Capabilities.APIVersions.Has "):
            return True
        if text.startswith("or "):
            return any(value_of(part) for part in text.split()[1:])
        if text.startswith("and "):
            return all(value_of(part) for part in text.split()[1:])
        if text.startswith("eq "):
            _, path, wanted = text.split()
            return bool(value_of(path) == wanted.strip('"'))
        return bool(value_of(text))

    for line in unrolled((CHART / "templates" / name).read_text().splitlines(), value_of):
        if not isinstance(line, str):
            each[:] = [line.value]
            continue
        step = EXPRESSION.fullmatch(line)
        words = step[1] if step else ""
        if words.startswith("if "):
            showing.append(showing[-1] and holds(words[3:]))
        elif words == "else":
            showing[-1] = showing[-2] and not showing[-1]
        elif words == "end":
            showing.pop()
        elif showing[-1]:
            lines.append(EXPRESSION.sub(lambda match: shown(match[1]), line))
    assert showing == [True]
    return [value for value in yaml.safe_load_all("\n".join(lines)) if value]


def chart(**changes: Any) -> dict[tuple[str, str], Any]:
    return by_name(iter(chart_objects(**changes)))


def chart_objects(**changes: Any) -> list[dict[str, Any]]:
    values = yaml.safe_load((CHART / "values.yaml").read_text()) | {"image": "numawise"}
    values["certificates"] = dict.fromkeys(
        ("authority", "serverCertificate", "serverKey", "clientCertificate", "clientKey"), "eA=="
    )
    for path, value in changes.items():
        part, _, name = path.partition("__")
        if name:
            values[part] = values[part] | {name: value}
        else:
            values[part] = value
    names = [file.name for file in (CHART / "templates").glob("*.yaml")]
    return [value for name in names for value in rendered(name, values)]


def test_the_chart_is_what_the_command_prints() -> None:
    made = chart()
    secrets = {("Secret", SERVER_SECRET), ("Secret", CLIENT_SECRET)}
    assert secrets <= set(made)
    expected = by_name(cluster_objects(ClusterWish("numawise", stock_image="stock:1")))
    del expected["Namespace", "numawise"]  # helm --create-namespace
    for key in (("Deployment", "numawise-scheduler"), ("Deployment", "numawise-kube-scheduler")):
        metadata = made[key]["spec"]["template"]["metadata"]
        assert metadata.pop("annotations") == {"numawise.dev/certificates": "stamped"}
    assert {key: value for key, value in made.items() if key not in secrets} == expected


def test_what_can_be_set() -> None:
    acting = by_name(cluster_objects(ClusterWish("numawise", heal_applies=True)))
    assert ("MutatingAdmissionPolicy", "numawise-hold") in acting
    for key in {key for key in acting if "heal" in key[1] or "hold" in key[1]}:
        assert chart(heal__apply=True)[key] == acting[key]
    assert ("MutatingAdmissionPolicy", "numawise-hold") not in chart()
    assert ("ValidatingAdmissionPolicy", "numawise-heal") in acting
    assert ("ValidatingAdmissionPolicy", "numawise-heal") not in chart()
    chosen = ClusterWish("numawise", heal_applies=True, heal_in=("training", "serving"))
    limited = {
        (value["kind"], value["metadata"]["name"], value["metadata"].get("namespace")): value
        for value in cluster_objects(chosen)
        if "heal" in value["metadata"]["name"]
    }
    by_chart = chart_objects(
        heal={"enabled": True, "apply": True, "replicas": 2, "namespaces": ["training", "serving"]}
    )
    assert limited == {
        (value["kind"], value["metadata"]["name"], value["metadata"].get("namespace")): value
        for value in by_chart
        if "heal" in value["metadata"]["name"]
    }
    seen = by_name(cluster_objects(ClusterWish("numawise", ("page",))))
    assert seen["Deployment", "numawise-page"] == chart(page__enabled=True)["Deployment", "numawise-page"]
    assert not {name for _, name in chart() if "page" in name}
    assert ("Certificate", SERVER_SECRET) in chart(tls="cert-manager")
    assert ("Secret", SERVER_SECRET) not in chart(tls="cert-manager")
    assert ("Secret", SERVER_SECRET) not in chart(tls="given")
    assert ("DaemonSet", "numawise-agent") not in chart(agent__enabled=False)
    assert ("Deployment", "numawise-kube-scheduler") not in chart(kubeScheduler__enabled=False)
    assert not {name for _, name in chart(scheduler__enabled=False) if "scheduler" in name}
    for changes, wish in (
        ({"scheduler__from": ["10.0.0.0/24", "10.0.1.7/32"]}, ClusterWish("numawise", stock_image="x", callers=("10.0.0.0/24", "10.0.1.7/32"))),
        ({"kubeScheduler__enabled": False},                   ClusterWish("numawise")),
    ):  # fmt: skip
        key = ("NetworkPolicy", "numawise-scheduler")
        assert chart(**changes)[key] == by_name(cluster_objects(wish))[key]
    assert chart(scheduler__replicas=5)["Deployment", "numawise-scheduler"]["spec"]["replicas"] == 5


def test_helpers_name_what_the_code_names() -> None:
    text = (CHART / "templates/_helpers.tpl").read_text()
    for name in (SERVER_SECRET, CLIENT_SECRET, f'genSignedCert "{CLIENT}"'):
        assert name in text
    assert re.findall(r'printf "(numawise-scheduler[^"]*)"', text) == list(server_names("%s"))


def test_every_program_takes_the_words_of_its_manifest() -> None:
    wish = ClusterWish("numawise", PARTS, heal_applies=True)
    pods = [
        value["spec"]["template"]["spec"]
        for value in cluster_objects(wish)
        if "template" in value.get("spec", {})
    ]
    words = [container["args"] for pod in pods for container in pod["containers"]]
    assert sorted(first for first, *_ in words) == ["agent", "heal", "scheduler", "serve"]
    for name, *rest in words:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        command.make_context(name, list(rest)).close()


def test_nothing_reads_secrets_through_the_api() -> None:
    for value in chart(heal__apply=True).values():
        for rule in value.get("rules", ()) if value["kind"] in ("Role", "ClusterRole") else ():
            assert not {"secrets", "*"} & set(rule["resources"])
            assert "*" not in rule["verbs"]
            assert "*" not in rule["apiGroups"]


def test_the_page_of_rights_is_what_roles_are_made_of() -> None:
    spec = importlib.util.spec_from_file_location("make_rights", ROOT / "docs/reference/make_rights.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs/reference/rights.md").read_text() == module.page(), (
        "run docs/reference/make_rights.py"
    )
