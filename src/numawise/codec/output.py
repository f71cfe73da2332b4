"""Plain data as JSON or YAML text for people and programs."""

import json

import yaml


def to_json(value: object) -> str:
    """Indented JSON, one trailing newline."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def to_yaml(value: object) -> str:
    """YAML in block style, keys in the given order."""
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)
