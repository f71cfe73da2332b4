"""Rules of a ClusterRole, applied to requests as the API server applies them; and which of them were used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from numawise.service.rights import ApiRight, rules_of

Right = tuple[str, str, str]
"""API group, resource with its part, verb."""
VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def exact_rules(rights: Sequence[ApiRight], namespace: str, chosen: Sequence[str] = ()) -> "Rules":
    """What a program's roles allow: those of its own namespace, or of chosen ones, allow nothing elsewhere."""
    own = [right for right in rights if right.own_namespace]
    bound = [right for right in rights if chosen and right.chosen]
    others = [right for right in rights if right not in own and right not in bound]
    inside = [(namespace, own), *((name, bound) for name in chosen)]
    limited = ({**rule, "namespace": name} for name, some in inside for rule in rules_of(some))
    return Rules([*rules_of(others), *limited])


def place_of(path: str) -> tuple[str, str]:
    """Namespace and name of what a request is about; '': it has none."""
    parts = [part for part in urlsplit(path).path.split("/") if part]
    rest = parts[2:] if parts[:1] == ["api"] else parts[3:]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    return namespace, rest[1] if len(rest) > 1 else ""


def right_of(method: str, path: str) -> Right | None:
    """The right that a request needs; None: it is about no resource (discovery, health)."""
    split = urlsplit(path)
    parts = [part for part in split.path.split("/") if part]
    query = parse_qs(split.query)
    match parts:
        case ["api", _, *rest]:
            group = ""
        case ["apis", group, _, *rest]:
            pass
        case _:
            return None
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    if not rest:
        return None
    resource, named, *parts_of_it = [*rest, ""] if len(rest) == 1 else rest
    verb = VERBS[method]
    if verb == "get" and not named:
        verb = "watch" if query.get("watch", ["0"])[-1] in ("1", "true") else "list"
    if verb == "delete" and not named:
        verb = "deletecollection"
    return group, f"{resource}/{parts_of_it[0]}" if parts_of_it else resource, verb


@dataclass
class Rules:
    """What an account may do, and what it did."""

    rules: Sequence[Mapping[str, Any]]
    used: set[Right] = field(default_factory=set)
    refused: list[Right] = field(default_factory=list)

    @property
    def rights(self) -> set[Right]:
        return {
            (group, resource, verb)
            for rule in self.rules
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }

    def allow(self, method: str, path: str) -> bool:
        """Whether a request is allowed; it is remembered either way."""
        right = right_of(method, path)
        if right is None:
            return True
        if any(self._allows(rule, right, *place_of(path)) for rule in self.rules):
            self.used.add(right)
            return True
        self.refused.append(right)
        return False

    @staticmethod
    def _allows(rule: Mapping[str, Any], right: Right, namespace: str, name: str) -> bool:
        group, resource, verb = right
        return (
            group in rule["apiGroups"]
            and resource in rule["resources"]
            and verb in rule["verbs"]
            and rule.get("namespace", namespace) == namespace
            and ("resourceNames" not in rule or name in rule["resourceNames"])
        )
