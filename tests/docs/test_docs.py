"""Documentation that is true: commands run as shown, names and links exist."""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from numawise.cli.main import COMMANDS
from numawise.engine.trace import DEFECTS
from numawise.rules.behaviour import Behaviour
from numawise.rules.options import CPU_MATURITY, TOPOLOGY_MATURITY

ROOT = Path(__file__).parent.parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)#:]+)(?:#[^)]*)?\)")
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def run(command: str, folder: Path) -> str:
    """What a command prints, standard error included, with the interpreter's numawise."""
    words = shlex.split(command.replace("\\\n", " "))
    assert words[0] == "numawise"
    paths: list[str] = []
    for word in words[1:]:
        paths += sorted(str(p.relative_to(folder)) for p in folder.glob(word)) if "*" in word else [word]
    done = subprocess.run(
        [sys.executable, "-m", "numawise", *paths],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "100"},
    )
    return done.stdout + done.stderr


def sessions(page: Path) -> list[tuple[str, str]]:
    """Commands of a page that are shown with their output."""
    found = []
    for block in CONSOLE.findall(page.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines(keepends=True)
            size = next(i for i, line in enumerate(lines, 1) if not line.endswith("\\\n"))
            command, output = "".join(lines[:size]), "".join(lines[size:])
            if command.startswith(("numawise simulate", "numawise why")) and output:
                found.append((command, output))
    return found


@pytest.mark.parametrize(("command", "output"), sessions(ROOT / "README.md"))
def test_readme_shows_real_output(command: str, output: str) -> None:
    assert run(command, ROOT) == output


def test_readme_shows_the_demo() -> None:
    shown = (ROOT / "README.md").read_text().split("$ ./scripts/demo\n")[1].split("```")[0]
    script = (ROOT / "scripts" / "demo").read_text()
    command = re.search(r"\.venv/bin/(numawise simulate .*?) \|\|", script, re.DOTALL)
    assert command
    assert run(command[1], ROOT) == shown


def test_tutorial_works(tmp_path: Path) -> None:
    page = ROOT / "docs" / "tutorial" / "first-simulation.md"
    bodies = re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    for name, body in zip(("machine.yaml", "kubelet.yaml", "pods.yaml"), bodies, strict=True):
        (tmp_path / name).write_text(body)
    ((command, output),) = sessions(page)
    assert run(command, tmp_path) == output
    pods = tmp_path / "pods.yaml"
    pods.write_text(pods.read_text().replace('cpu: "5"', 'cpu: "4"'))
    assert re.search(r"second +main +admitted +4-7 .*gpu1", run(command, tmp_path))


def test_readme_python_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "True 2-3,66-67"


def test_command_reference_is_up_to_date() -> None:
    code = (
        "import sys; sys.path.insert(0, 'docs/reference'); import make_cli; sys.stdout.write(make_cli.page())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert all(f"## numawise {name}\n" in done.stdout for name in COMMANDS)


def test_calls_of_the_page_are_up_to_date() -> None:
    code = "import sys; sys.path.insert(0, 'docs/reference'); import make_api; sys.stdout.write(make_api.calls())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    written = (ROOT / "docs" / "reference" / "api.md").read_text()
    assert done.stdout in written, "run python docs/reference/make_api.py"


@pytest.mark.parametrize("name", [f.name for f in fields(Behaviour)])
def test_every_behaviour_is_in_the_fidelity_table(name: str) -> None:
    assert f"| `{name}`" in (ROOT / "docs" / "fidelity.md").read_text()


@pytest.mark.parametrize("name", [*CPU_MATURITY, *TOPOLOGY_MATURITY])
def test_every_option_is_in_the_fidelity_table(name: str) -> None:
    assert f"`{name}`" in (ROOT / "docs" / "fidelity.md").read_text()


@pytest.mark.parametrize("name", DEFECTS)
def test_every_defect_has_its_line(name: str) -> None:
    assert f"| `{name}` |" in (ROOT / "docs" / "explanation" / "defects.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_page_stands_in_the_list() -> None:
    docs = ROOT / "docs"
    listed = set(LINK.findall((docs / "README.md").read_text()))
    apart = {docs / "README.md", *docs.glob("decisions/*"), *docs.glob("reference/findings/*")}
    pages = {str(page.relative_to(docs)) for page in {*docs.glob("**/*.md")} - apart}
    assert pages - listed == set()
