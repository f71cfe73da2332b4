"""The page about dependencies says what ``pyproject.toml`` and the installed packages say."""

import re
import runpy
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/dependencies.md").read_text()
ROW = re.compile(r"^\| ([\w.-]+) \| .* \| ([\w. -]+?) \|(?: ≥ ([\d.]+), < ([\d.]+) \|)?$", re.MULTILINE)
LICENCES = {row[0].lower(): row[1] for row in ROW.findall(PAGE)}
RANGES = {row[0]: (row[2], row[3]) for row in ROW.findall(PAGE) if row[2]}
SPDX = (
    (r"MIT\b|The MIT License|MIT License", "MIT"),
    (r"(BSD 2-Clause|BSD-2-Clause)", "BSD-2-Clause"),
    (r"Apache(-| |-Software | Software License)*2?", "Apache-2.0"),
    (r"(MPL|Mozilla Public License)", "MPL-2.0"),
    (r"(BSD|BSD License|BSD-3-Clause)", "BSD-3-Clause"),
)
"""How packages write it where they do not use the standard's names."""


def licence(package: Distribution) -> str:
    data = package.metadata
    if expression := data.get("License-Expression"):
        return expression
    kinds = [
        one.rpartition(" :: ")[2] for one in data.get_all("Classifier") or [] if one.startswith("License")
    ]
    for text in filter(None, (data.get("License"), *kinds)):
        for pattern, name in SPDX:
            if re.match(pattern, text):
                return name
    whole = [str(part) for part in package.files or () if part.name.upper().startswith("LICENSE")]
    text = Path(str(package.locate_file(whole[0]))).read_text(encoding="utf-8") if whole else ""
    return next((name for pattern, name in SPDX if re.match(pattern, text)), "unknown")


def needed(name: str, extras: frozenset[str], seen: dict[str, Distribution]) -> None:
    """Everything installed that a package needs, in turn."""
    try:
        package = distribution(name)
    except PackageNotFoundError:
        return  # of another system or another Python, or an extra that is not installed
    if name != "numawise":
        seen[package.metadata["Name"].lower()] = package
    for requirement in package.requires or ():
        word, _, condition = requirement.partition(";")
        wanted = re.search(r"""extra == ['"]([\w-]+)['"]""", condition)
        other = re.match(r"[\w.-]+", word)
        assert other
        known = re.sub(r"[-_.]+", "-", other[0].lower()) in {re.sub(r"[-_.]+", "-", one) for one in seen}
        if (wanted and wanted[1] not in extras) or known or "win32" in condition:
            continue
        inner = re.search(r"\[([\w, -]+)\]", word)
        needed(other[0], frozenset(inner[1].replace(" ", "").split(",")) if inner else frozenset(), seen)


def test_ranges_are_those_of_the_project() -> None:
    ranges = runpy.run_path(str(ROOT / "scripts/lowest.py"))["ranges"]
    assert ranges((ROOT / "pyproject.toml").read_text()) == RANGES


def test_every_package_is_listed_with_its_licence() -> None:
    installed: dict[str, Distribution] = {}
    needed("numawise", frozenset({"all", "agent", "kube", "dev", "browser"}), installed)
    assert {"click", "msgspec", "pyyaml"} <= set(installed)
    told = {name: licence(package) for name, package in installed.items()}
    assert told == {name: LICENCES.get(name, "not listed") for name in told}


@pytest.mark.parametrize("name", sorted(RANGES))
def test_what_is_installed_is_within_its_range(name: str) -> None:
    try:
        version = distribution(name).version
    except PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    low, high = RANGES[name]
    assert numbers(low) <= numbers(version) < numbers(high)


def numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version.partition("+")[0])))


INSTALLERS = r"(?:pip3?|pipx|uvx?|conda|mamba|poetry|pdm|npx|npm|brew|apt|apt-get|dnf)"
NAMED = re.compile(
    r"numawise\["
    rf"|\b{INSTALLERS}\s[^\n;&|]*?(?<![\w./-])numawise(?![\w/-]|\.\w)"
    r"|helm\s+(?:install|upgrade)\s+numawise\s+(?!deploy/helm/numawise)"
    r"|(?:\bimage:|--image[ =]|^FROM|(?:docker|podman|nerdctl)\s+(?:pull|run))\s*[\"']?numawise\b(?!/)",
    re.MULTILINE,
)
"""Ways to name something that is fetched from a place where nobody has registered the name, so that anybody may."""


@pytest.mark.parametrize(
    "text",
    [
        "pip install numawise",
        "pip3 install -U 'numawise[kube]'",
        "python3 -m pip install --user numawise==0.1",
        "`pipx run numawise`",
        "uvx numawise ps",
        "the extra `numawise[web]`",
        "uv tool install numawise",
        "        image: numawise",
        "--image numawise:1",
        "FROM numawise",
        "docker run numawise",
        "helm install numawise numawise/numawise",
    ],
)
def test_names_that_anybody_may_register(text: str) -> None:
    assert NAMED.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "/opt/numawise/bin/pip install .",
        "pip install './numawise-0.1.0-py3-none-any.whl[kube]'",
        "pip install /tmp/numawise-0.1.0-py3-none-any.whl",
        "pip install '.[web]'\n$ numawise serve",
        "helm install numawise deploy/helm/numawise --set image=registry.example.com/numawise:1",
        "image: registry.invalid/numawise",
    ],
)
def test_names_that_lead_to_what_is_at_hand(text: str) -> None:
    assert not NAMED.search(text)


def test_nobody_is_told_to_install_a_name_that_anybody_may_register() -> None:
    pages = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "pyproject.toml")
    told = [ROOT / name for name in pages]
    for folder in ("src", "docs", "scripts", "deploy", "examples", "e2e", "benchmarks"):
        told += [
            file
            for file in (ROOT / folder).rglob("*")
            if file.is_file() and file.suffix not in (".pyc", ".png", ".gz")
        ]
    assert len(told) > 500
    wrong = [
        f"{file.relative_to(ROOT)}: {match[0]!r}"
        for file in told
        if file.exists()
        for match in NAMED.finditer(file.read_text("utf-8", "replace"))
    ]
    assert not wrong
