"""Every command with each extra alone: all other packages are hidden from one interpreter."""

import sys

import pytest

from tests.extras import CASES, ENVIRONMENTS, Case, Environment, brought_by, cases, commands, hidden, run_all


@pytest.fixture(scope="module", params=ENVIRONMENTS)
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    extra: str = request.param
    return run_all(extra, sys.executable, tmp_path_factory.mktemp(extra), hidden(extra))


def test_every_command_is_run() -> None:
    assert sorted(CASES) == sorted(commands())
    names = [case.name for case in cases()]
    assert len(set(names)) == len(names)


def test_what_an_extra_brings() -> None:
    assert {"click", "msgspec", "pyyaml"} <= brought_by("")
    assert {"lightkube", "httpx2"} <= brought_by("kube")
    assert not {"lightkube", "httpx2", "pytest"} & brought_by("web")
    assert {"httpx2", "lightkube", "pytest", "starlette"} <= set(hidden("core"))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_what_is_missing_is_said(case: Case, environment: Environment) -> None:
    environment.check(case)
