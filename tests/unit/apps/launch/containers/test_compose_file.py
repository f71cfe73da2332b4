"""A placement as a service of a Compose file: what the specification's schema allows, laid over the user's own."""

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from numawise.apps.launch.containers.compose_file import checked_service, compose_file
from numawise.apps.launch.containers.setup import ContainerGpuSetup
from numawise.apps.launch.flags import FORMATS, PlacedJob, placed_job
from numawise.errors import InputError
from numawise.machine.hardware import AMD, GPU, Gpu, Hardware, PciDevice
from numawise.machine.synthetic import synthetic
from numawise.results.placement import Grant, Placement
from numawise.sets import parse_ids

GIB = 1 << 30
SERVER = synthetic("2s 2n 8c 2t 4gpu")
SERVER = replace(SERVER, gpus=tuple(replace(gpu, uuid=f"GPU-{i}") for i, gpu in enumerate(SERVER.gpus)))

TEXTS = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
AMOUNT = {"type": ["number", "string"]}
DEVICE_REQUEST = {
    "type": "object",
    "properties": {
        "capabilities": TEXTS,
        "count": {"type": ["string", "integer"]},
        "device_ids": TEXTS,
        "driver": {"type": "string"},
    },
    "required": ["capabilities"],
    "not": {"required": ["count", "device_ids"]},
    "additionalProperties": False,
}
GPU_REQUEST = {name: value for name, value in DEVICE_REQUEST.items() if name != "required"}
SERVICE = {
    "type": "object",
    "properties": {
        "cpuset": {"type": "string"},
        "cpus": AMOUNT,
        "mem_limit": AMOUNT,
        "devices": TEXTS,
        "group_add": TEXTS,
        "environment": {
            "type": "object",
            "patternProperties": {".+": {"type": ["string", "number", "boolean", "null"]}},
        },
        "gpus": {"oneOf": [{"const": "all"}, {"type": "array", "items": GPU_REQUEST}, {"type": "null"}]},
        "deploy": {
            "type": "object",
            "properties": {
                "resources": {
                    "type": "object",
                    "properties": {
                        "limits": {
                            "type": "object",
                            "properties": {"cpus": AMOUNT, "memory": {"type": "string"}},
                            "additionalProperties": False,
                        },
                        "reservations": {
                            "type": "object",
                            "properties": {"devices": {"type": "array", "items": DEVICE_REQUEST}},
                            "additionalProperties": False,
                        },
                    },
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}
"""What the Compose specification allows of the words that are used; there is none for memory nodes."""
SCHEMA = {
    "type": "object",
    "properties": {
        "services": {
            "type": "object",
            "patternProperties": {"^[a-zA-Z0-9._-]+$": SERVICE},
            "additionalProperties": False,
        }
    },
    "additionalProperties": False,
}


class Compose(yaml.SafeLoader):
    """YAML with the tags of the Compose specification."""


def replaced(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    assert isinstance(node, yaml.ScalarNode)
    return loader.construct_yaml_null(node)


Compose.add_constructor("!override", replaced)
Compose.add_constructor("!reset", replaced)


def own(cpus: str = "1-2,9-10", *, memory: int = 64 * GIB, gpus: int = 2, **rest: object) -> PlacedJob:
    bits = parse_ids(cpus)
    placement = Placement(Grant(cpus=bits), bits, 1, memory, SERVER.gpus[:gpus], policy="restricted")
    return placed_job(replace(placement, **rest), SERVER)  # type: ignore[arg-type]


def pool(limit: int = 1500) -> PlacedJob:
    return placed_job(Placement(Grant(cpu_limit=limit, near=1), parse_ids("0-3,8-11"), 1), SERVER)


def amd() -> PlacedJob:
    gpu = Gpu("GPU0", address="0000:03:00.0", maker=AMD)
    hardware = Hardware(
        threads=SERVER.threads,
        numa=SERVER.numa,
        gpus=(gpu,),
        pci=(PciDevice("0000:03:00.0", kind=GPU, vendor=AMD, names=("renderD128", "card0")),),
    )
    placement = Placement(Grant(cpus=0b11), 0b11, 1, gpus=(gpu,))
    return placed_job(placement, hardware, gpu_setup=ContainerGpuSetup(groups=lambda _: "44"))


def text(asked: PlacedJob, service: str = "train") -> str:
    return str(FORMATS["compose"](replace(asked, service=service)))


def service_of(written: str, service: str = "train") -> Any:
    found = yaml.load(written, Compose)
    jsonschema.validate(found, SCHEMA)
    return found["services"][service]


EVERY = [
    pytest.param(own(), id="NVIDIA GPUs"),
    pytest.param(own(gpus=0), id="no GPUs"),
    pytest.param(own(memory=0, mems=0), id="no memory"),
    pytest.param(own(memory=(1 << 20) + 1), id="odd bytes"),
    pytest.param(pool(), id="a share"),
    pytest.param(amd(), id="AMD GPUs"),
    pytest.param(placed_job(Placement(Grant(), 0, 0), SERVER), id="nothing"),
]


@pytest.mark.parametrize("asked", EVERY)
def test_the_schema_allows_it(asked: PlacedJob) -> None:
    service_of(text(asked))


def test_all_of_a_placement() -> None:
    found = service_of(text(own()))
    assert found["cpuset"] == "1-2,9-10"
    assert found["mem_limit"] == found["deploy"]["resources"]["limits"]["memory"] == "64g"
    assert found["deploy"]["resources"]["reservations"]["devices"] == [
        {"driver": "nvidia", "device_ids": ["GPU-0", "GPU-1"], "capabilities": ["gpu"]}
    ]
    assert found["environment"]["OMP_PLACES"] == "{1,9},{2,10}"
    assert not [name for name in found["environment"] if name.startswith("NUMAWISE_")]


def test_a_share_of_the_pool() -> None:
    found = service_of(text(pool()))
    assert found["cpus"] == 1.5
    assert found["deploy"]["resources"]["limits"] == {"cpus": "1.5"}
    assert "gpus" not in found


def test_files_of_gpus_and_their_groups() -> None:
    found = service_of(text(amd()))
    assert found["devices"] == ["/dev/kfd:/dev/kfd", "/dev/dri/renderD128:/dev/dri/renderD128"]
    assert found["group_add"] == ["44"]


def test_memory_nodes_are_said() -> None:
    (remark,) = FORMATS["compose"](replace(own(), service="train")).remarks
    assert remark.endswith("docker update --cpuset-mems=0 $(docker compose ps -q train)")
    assert not FORMATS["compose"](own(mems=0)).remarks


def test_the_user_s_gpus_are_replaced_not_added_to() -> None:
    written = text(own())
    assert "gpus: !reset null\n" in written
    assert "devices: !override\n" in written
    assert "!" not in text(own(gpus=0)).partition("services:")[2]


@pytest.mark.parametrize("value", ["$HOME", "${X:-y}", "a: b", "'", '"', "#", "\\", "no", "1e3", "{a}, [b]"])
def test_values_stay_what_they_are(value: str) -> None:
    written = "\n".join(compose_file("train", [("-e", f"ODD={value}")]).lines)
    assert service_of(written)["environment"]["ODD"].replace("$$", "$") == value
    assert "$" not in service_of(written)["environment"]["ODD"].replace("$$", "")


@pytest.mark.parametrize("name", ["train", "on", "1", "1.5", "a-b_c.d", "null"])
def test_names_of_services(name: str) -> None:
    assert service_of(text(own(), checked_service(name)), name)["cpuset"]


@pytest.mark.parametrize("name", ["", "a b", "a:", "\n", "ä", "a/b", "$X", "x" * 256])
def test_what_cannot_be_a_service(name: str) -> None:
    with pytest.raises(InputError, match="is not the name of a service"):
        checked_service(name)


# --------------------------------------------------------------------------------------------------
# The judgement of Compose itself, where it is installed.


def compose_command() -> list[str]:
    """``docker compose``, or the plugin by its own name; empty where neither is version 2 or later."""
    named = os.environ.get("COMPOSE", "")
    for words in ([named] if named else [], ["docker", "compose"], ["docker-compose"]):
        if words and shutil.which(words[0]):
            done = subprocess.run([*words, "version", "--short"], capture_output=True, text=True, check=False)
            if done.returncode == 0 and done.stdout.strip().lstrip("v").split(".")[0] not in ("", "1"):
                return words
    return []


COMPOSE = compose_command()
installed = pytest.mark.skipif(not COMPOSE, reason="docker compose is not installed")

BASES = {
    "nothing of its own": {},
    "all GPUs": {"gpus": "all"},
    "GPUs by number": {
        "deploy": {
            "resources": {
                "reservations": {"devices": [{"driver": "nvidia", "count": 8, "capabilities": ["gpu"]}]}
            }
        }
    },
    "a limit of its own": {"mem_limit": "1g"},
    "limits of a deployment": {
        "deploy": {"resources": {"limits": {"memory": "1g", "cpus": "1", "pids": 100}}}
    },
    "variables as a list": {"environment": ["A=b", "OMP_NUM_THREADS=77"]},
}


@installed
@pytest.mark.parametrize("base", BASES.values(), ids=BASES.keys())
@pytest.mark.parametrize("asked", [asked for asked in EVERY if asked.id != "nothing"])
def test_compose_takes_it_over_the_user_s_file(
    base: dict[str, object], asked: PlacedJob, tmp_path: Path
) -> None:
    (tmp_path / "compose.yaml").write_text(
        yaml.safe_dump({"services": {"train": {"image": "box"} | base, "other": {"image": "box"}}})
    )
    (tmp_path / "compose.override.yaml").write_text(text(asked))
    done = subprocess.run([*COMPOSE, "config"], cwd=tmp_path, capture_output=True, text=True, check=False)
    if "mem_limit" in base and not asked.placement.memory and asked.placement.grant.cpu_limit:
        assert "can't set distinct values on 'mem_limit' and 'deploy.resources.limits.memory'" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    services = yaml.safe_load(done.stdout)["services"]
    found = services["train"]
    assert found["image"] == "box"
    assert "cpuset" not in services["other"]
    expected = service_of(text(asked))
    assert found["cpuset"] == expected["cpuset"]
    for name, value in expected.get("environment", {}).items():
        assert found["environment"][name] == value
    memory = asked.placement.memory
    if memory:
        assert int(found["mem_limit"]) == int(found["deploy"]["resources"]["limits"]["memory"]) == memory
    resources = found.get("deploy", {}).get("resources", {})
    if "deploy" in expected and "cpus" in expected["deploy"]["resources"].get("limits", {}):
        assert float(resources["limits"]["cpus"]) == float(found["cpus"]) == 1.5
    if any(gpu.uuid for gpu in asked.placement.gpus):
        assert "gpus" not in found
        (only,) = resources["reservations"]["devices"]
        assert only["device_ids"] == [gpu.uuid for gpu in asked.placement.gpus]
        assert only["capabilities"] == ["gpu"]
