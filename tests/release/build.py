"""Build a release's managers into one program, from the Go modules of that release.

The folder ``kubelet`` beside this file is laid over a copy of the module ``k8s.io/kubernetes``: small files that give
access to what a package keeps to itself, and the program that plays scenarios.  Nothing of Kubernetes is kept here.
Where a release has another shape than the newest, a build tag chooses the file that fits; the tags are found by
looking at the release's own source.
"""

import json
import os
import re
import shutil
import stat
import subprocess
from dataclasses import dataclass
from pathlib import Path

OURS = Path(__file__).parent / "kubelet"
MODULE = "k8s.io/kubernetes"
COPIED = ("pkg", "plugin", "third_party", "go.mod", "go.sum")
PROGRAM = "cmd/nwharness"
STAGING = re.compile(r"^(\s*)(k8s\.io/[a-z0-9-]+) => \./staging/src/\S+$", re.MULTILINE)
CADVISOR = re.compile(r'cadvisorapi "([^"]+)"')
TAGS = (
    ("no_resize_handler", "pkg/kubelet/allocation/handlers.go", r"func NewPodResizesAdmitHandler\("),
    ("endpoint_without_context", "pkg/kubelet/cm/devicemanager/endpoint.go", r"^\tallocate\(ctx "),
    ("merge_without_logger", "pkg/kubelet/cm/topologymanager/policy.go", r"^\tMerge\(logger "),
)
"""A tag is set where the pattern is not found in the release's file."""


class CannotBuild(Exception):
    """One sentence: why the release's managers could not be built."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Where the module of a release lies, and the version of what it is made with."""

    folder: Path
    release: str

    @property
    def staging(self) -> str:
        """The version of the modules published beside the release: v0.36.4 beside v1.36.4."""
        return re.sub(r"^v1\.", "v0.", self.release)


def downloaded(release: str, scratch: Path, module: str = MODULE) -> Sources:
    """Fetch a module of a release."""
    if shutil.which("go") is None:
        raise CannotBuild(
            "Go is needed to build a release's managers, and the command `go` was not found; install it from https://go.dev/dl"
        )
    scratch.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["go", "mod", "download", "-json", f"{module}@{release}"],
        cwd=scratch,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        told = json.loads(done.stdout)
    except ValueError:
        told = {}
    if "Dir" not in told:
        reason = (told.get("Error") or done.stderr).strip().splitlines()
        raise CannotBuild(
            f"the Go module {module}@{release} cannot be downloaded: {reason[-1] if reason else 'no reason given'}"
        )
    return Sources(Path(told["Dir"]), release)


def prepared(sources: Sources, scratch: Path) -> Path:
    """A copy of the module with our files in it; the folder."""
    tree = scratch / sources.release
    if tree.exists():
        shutil.rmtree(tree)
    tree.mkdir(parents=True)
    for name in COPIED:
        source = sources.folder / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("*_test.go", "testdata"))
        elif source.exists():
            shutil.copy(source, tree / name)
    for folder, _, files in os.walk(tree):
        for path in (Path(folder), *(Path(folder) / name for name in files)):
            path.chmod(path.stat().st_mode | stat.S_IWUSR)
    shutil.copytree(OURS, tree, dirs_exist_ok=True)
    module = tree / "go.mod"
    module.write_text(replaced(module.read_text(), sources.staging))
    adapt_imports(tree)
    return tree


def replaced(module: str, staging: str) -> str:
    """A go.mod whose modules of the source tree are the published ones."""
    return STAGING.sub(rf"\1\2 => \2 {staging}", module)


def adapt_imports(tree: Path) -> None:
    """Our files import the machine's description from where the release does."""
    found = CADVISOR.search((tree / "pkg/kubelet/cm/cpumanager/cpu_manager.go").read_text())
    if found is None:
        raise CannotBuild(
            "the release's CPU Manager no longer imports the machine's description as cadvisorapi; adapt tests/release/build.py"
        )
    for path in OURS.rglob("*.go"):
        copy = tree / path.relative_to(OURS)
        copy.write_text(copy.read_text().replace('"github.com/google/cadvisor/info/v1"', f'"{found[1]}"'))


def tags_of(tree: Path) -> list[str]:
    """The build tags that a release needs."""
    needed = []
    for tag, name, pattern in TAGS:
        path = tree / name
        if not (path.exists() and re.search(pattern, path.read_text(), re.MULTILINE)):
            needed.append(tag)
    return needed


def built(release: str, scratch: Path) -> Path:
    """The program with the managers of a release."""
    tree = prepared(downloaded(release, scratch), scratch)
    program = scratch / f"nwharness-{release}"
    command = [
        "go",
        "build",
        "-mod=mod",
        "-tags",
        ",".join(tags_of(tree)),
        "-o",
        str(program),
        f"./{PROGRAM}",
    ]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        complaints = [line for line in done.stderr.splitlines() if not line.startswith("go: downloading")]
        raise CannotBuild(
            f"the managers of {release} do not build with the files in tests/release/kubelet:\n"
            + "\n".join(complaints)
        )
    return program
