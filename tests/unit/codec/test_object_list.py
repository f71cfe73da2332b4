"""Long lists of objects: one at a time, packed or not, bounded."""

import gzip
import json
from pathlib import Path

import pytest

from numawise.codec import object_list as module
from numawise.codec.object_list import object_list
from numawise.errors import InputError

PODS = {"kind": "PodList", "metadata": {"a": [{}]}, "items": [{"metadata": {"name": "a"}}, {"x": 1.5}]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dump.json"


def test_objects_one_after_the_other(path: Path) -> None:
    text = json.dumps(PODS, indent=4).encode()
    for content in (text, gzip.compress(text)):
        path.write_bytes(content)
        found = object_list(path)
        assert found is not None
        assert (found.kind, len(found), found.size) == ("PodList", 2, len(text))
        assert list(found) == list(found) == PODS["items"]


@pytest.mark.parametrize(
    "text", ["", "{", "kind: List\nitems: []", '{"kind": "Pod"}', '{"kind": "List", "items": {}}', "[]"]
)
def test_something_else_is_for_others_to_judge(path: Path, text: str) -> None:
    path.write_text(text)
    assert object_list(path) is None


def test_what_is_too_large_or_damaged_is_said(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(gzip.compress(b"0" * 3_000_000))
    with pytest.raises(InputError, match="more than 1 MiB when it is unpacked"):
        object_list(path, 1 << 20)
    path.write_bytes(b"\x1f\x8bnothing")
    with pytest.raises(InputError, match="cannot be unpacked"):
        object_list(path)
    path.write_bytes(gzip.compress(b"kind: List"))
    with pytest.raises(InputError, match="is no list of objects in JSON"):
        object_list(path)
    monkeypatch.setattr(module, "LARGEST_FILE", 10)
    path.write_text(json.dumps(PODS) + ",")
    with pytest.raises(InputError, match="is no list of objects in JSON"):
        object_list(path)
