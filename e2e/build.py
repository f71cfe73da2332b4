"""The programs of a small cluster: Kubernetes out of its Go modules, the rest out of Debian's packages.

They are made once and kept in a folder of the user's choice, never in the project.
"""

import os
import shutil
import subprocess
from pathlib import Path

from tests.release.build import CannotBuild, downloaded, replaced

OURS = Path(__file__).parent / "programs"
RELEASE = "v1.36.4"
PARTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
HELM = "v3.19.0"
PACKAGES = {
    "etcd-server": ("etcd",),
    "containerd": ("containerd", "containerd-shim-runc-v2", "ctr"),
    "runc": ("runc",),
}
PLUGINS_MODULE, PLUGINS, PLUGINS_KUBERNETES = "sigs.k8s.io/scheduler-plugins", "v0.33.5", "v1.33.5"
"""The newest of which all modules and their checksums can be had: of v0.34.7 the registry lacks some."""
VARIABLES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


def programs(folder: Path, release: str = RELEASE) -> Path:
    """The folder with all programs; what is missing is made."""
    place = folder / release
    place.mkdir(parents=True, exist_ok=True)
    if not all((place / name).exists() for name in PARTS):
        _kubernetes(folder / "build" / release, place, release)
    for package, names in PACKAGES.items():
        if not all((place / name).exists() for name in names):
            _unpacked(package, names, folder / "packages", place)
    return place


def _kubernetes(scratch: Path, place: Path, release: str) -> None:
    sources = downloaded(release, scratch)
    for path in OURS.glob("*.go"):
        shutil.copy(path, scratch)
    module = (sources.folder / "go.mod").read_text().replace("module k8s.io/kubernetes", "module cluster", 1)
    module = replaced(module, sources.staging)
    (scratch / "go.mod").write_text(f"{module}\nrequire k8s.io/kubernetes {release}\n")
    shutil.copy(sources.folder / "go.sum", scratch / "go.sum")
    (scratch / "go.sum").chmod(0o644)
    _compiled(scratch, "cluster", release)
    for name in PARTS:  # links to one file: a kubelet is known by the name of its program
        (place / name).unlink(missing_ok=True)
        os.link(scratch / "cluster", place / name)


def matching_scheduler(folder: Path) -> Path:
    """The scheduler with NodeResourceTopologyMatch: of scheduler-plugins, with the Kubernetes that it is made for."""
    program = folder / f"scheduler-plugins-{PLUGINS}" / "kube-scheduler"
    if program.exists():
        return program
    scratch = folder / "build" / f"scheduler-plugins-{PLUGINS}"
    sources = downloaded(PLUGINS, scratch, PLUGINS_MODULE)
    shutil.copy(OURS / "matching/main.go", scratch)
    module = (sources.folder / "go.mod").read_text()
    module = module.replace(f"module {PLUGINS_MODULE}", "module matching", 1)
    (scratch / "go.mod").write_text(f"{module}\nrequire {PLUGINS_MODULE} {PLUGINS}\n")
    shutil.copy(sources.folder / "go.sum", scratch / "go.sum")
    (scratch / "go.sum").chmod(0o644)
    _compiled(scratch, "kube-scheduler", PLUGINS_KUBERNETES)
    program.parent.mkdir(parents=True, exist_ok=True)
    os.link(scratch / "kube-scheduler", program)
    return program


def helm_program(folder: Path) -> Path:
    """Helm, out of its Go module."""
    program = folder / "helm" / "helm"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "CGO_ENABLED": "0", "GOBIN": str(program.parent)}
        command = ["nice", "go", "install", f"helm.sh/helm/v3/cmd/helm@{HELM}"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotBuild(f"helm {HELM} cannot be built: {done.stderr.strip()[-2000:]}")
    return program


def _compiled(scratch: Path, program: str, release: str) -> None:
    """Build the program of a folder, which says that it is of this release of Kubernetes."""
    major, minor, *_ = release.removeprefix("v").split(".")
    values = {"gitVersion": release, "gitMajor": major, "gitMinor": minor}
    flags = " ".join(f"-X {place}.{name}={value}" for place in VARIABLES for name, value in values.items())
    environment = {**os.environ, "CGO_ENABLED": "0"}
    command = ["nice", "go", "build", "-mod=mod", "-trimpath"]
    command += ["-ldflags", f"-s -w {flags}", "-o", program, "."]
    done = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise CannotBuild(f"{program} {release} cannot be built: {done.stderr.strip()[-2000:]}")


def _unpacked(package: str, names: tuple[str, ...], scratch: Path, place: Path) -> None:
    """Take programs out of a package, which is not installed."""
    scratch.mkdir(parents=True, exist_ok=True)
    tree = scratch / package
    for command in (["apt-get", "download", package], ["sh", "-c", f"dpkg -x {package}_*.deb {tree}"]):
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotBuild(f"the package {package} cannot be unpacked: {done.stderr.strip()[-500:]}")
    for name in names:
        (found,) = {path.resolve() for path in tree.glob(f"usr/*bin/{name}") if path.is_file()}
        shutil.copy(found, place / name)
