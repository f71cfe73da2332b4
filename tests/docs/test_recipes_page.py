"""The page of recipes: what can be checked of it without the launchers (make recipes plays them)."""

import re
import shlex
from configparser import RawConfigParser

import jsonschema
import pytest
import yaml
from tests.recipes.page import PAGE, numawise_calls, recipes
from tests.recipes.plays import NOT_PLAYED, PLAYS
from tests.recipes.stage import Stage, fitted
from tests.unit.apps.launch.containers.test_compose_file import SCHEMA

from numawise.cli.main import group

RECIPES = recipes()
UNIT = "/etc/systemd/system/numawise@.service"
JOB = "/etc/numawise/jobs/train"
CALLS = [
    (recipe.title, call)
    for recipe in RECIPES.values()
    for command in recipe.commands
    for call in numawise_calls(command)
]


def parsed(words: list[str]) -> str:
    """The command that numawise reads these words as; click raises where it cannot."""
    name, *rest = words
    command = group.get_command(group.make_context("numawise", ["--help"], resilient_parsing=True), name)
    assert command is not None, name
    command.make_context(name, rest)
    return name


@pytest.mark.parametrize(("title", "words"), CALLS, ids=[f"{title}: {call[0]}" for title, call in CALLS])
def test_commands_parse(title: str, words: list[str]) -> None:
    assert parsed(words) in {"run", "bind", "flags", "ps", "release"}, title


def test_calls_are_found_in_launchers_and_shells() -> None:
    assert [title for title, call in CALLS if call[0] == "bind"] == [
        "torchrun", "torchrun", "accelerate", "DeepSpeed", "MPI", "MPI",
    ]  # fmt: skip
    assert [call[0] for title, call in CALLS if title == "docker compose"] == ["run", "flags", "flags"]


def test_every_recipe_is_played_or_it_is_said_why_not() -> None:
    assert set(RECIPES) == {play.title for play in PLAYS.values()} | set(NOT_PLAYED)
    for name, play in PLAYS.items():
        assert play.command < len(RECIPES[play.title].commands), name


def test_every_launch_of_ranks_is_played() -> None:
    launched = {
        (recipe.title, number)
        for recipe in RECIPES.values()
        for number, command in enumerate(recipe.commands)
        if command.startswith(("numawise run", "torchrun")) and recipe.title not in NOT_PLAYED
    }
    assert launched <= {(play.title, play.command) for play in PLAYS.values()}


@pytest.mark.parametrize(
    ("name", "text"), [(name, text) for recipe in RECIPES.values() for name, text in recipe.files.items() if name.endswith(".py")]
)  # fmt: skip
def test_programs_compile(name: str, text: str) -> None:
    compile(text, name, "exec")


@pytest.mark.parametrize(
    "text", [text for recipe in RECIPES.values() for language, text in recipe.others if language == "yaml"]
)
def test_compose_files_follow_the_schema(text: str) -> None:
    jsonschema.validate(yaml.safe_load(text), SCHEMA)


def test_the_unit_runs_what_its_job_says() -> None:
    recipe = RECIPES["A systemd unit"]
    unit = RawConfigParser(strict=True)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(recipe.files[UNIT])
    job = dict(line.split("=", 1) for line in recipe.files[JOB].splitlines())
    assert unit["Service"]["EnvironmentFile"] == JOB.replace("train", "%i")
    words = []
    for word in unit["Service"]["ExecStart"].replace("%i", "train").split():
        words += job[word[1:]].split() if word.startswith("$") else [word]
    assert words[0] == "/usr/local/bin/numawise"
    assert parsed(words[1:]) == "run"
    assert words[words.index("--") + 1 :] == job["COMMAND"].split()
    stop = unit["Service"]["ExecStopPost"].replace("%i", "train").removeprefix("-").split()
    assert parsed(stop[1:]) == "release"
    assert words[words.index("--name") + 1] == stop[-1]


def test_slurm_leaves_the_cpus_to_bind() -> None:
    script = RECIPES["Slurm"].files["job.sh"]
    (line,) = [line for line in script.splitlines() if line.startswith("srun")]
    assert "--cpu-bind=none" in shlex.split(line)
    (call,) = numawise_calls(line)
    assert parsed(call) == "bind"


def test_only_numbers_are_fitted_to_a_smaller_machine() -> None:
    small = Stage(2, (0, 0))
    for recipe in RECIPES.values():
        for text in (*recipe.commands, *recipe.files.values()):
            changed = fitted(text, small)
            assert re.sub(r"\d+", "N", changed) == re.sub(r"\d+", "N", text)
    run = RECIPES["torchrun"].commands[0]
    assert "--cpus 2 --gpus 2 -- torchrun --nproc-per-node 2" in fitted(run, small)
    assert fitted(run, Stage(12, (0, 0, 1, 1))) == run
    assert "RestartPreventExitStatus=2 127" in fitted(RECIPES["A systemd unit"].files[UNIT], Stage(1, (0,)))
    assert "num_gpus=1)" in fitted(RECIPES["Ray"].files["actors.py"], small)


def test_the_page_is_in_the_index() -> None:
    assert "(how-to/recipes.md)" in (PAGE.parents[1] / "README.md").read_text()
