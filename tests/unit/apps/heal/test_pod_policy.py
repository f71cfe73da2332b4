"""The policy of the healer's account says what the healer does. An API server works its expressions out: ``e2e/installing.py``."""

import re
from typing import Any

from numawise.apps.heal.pod_policy import pod_policy
from numawise.apps.heal.refused import STEERED
from numawise.apps.heal.rights import heal_rights
from numawise.apps.heal.steering import release_patch
from numawise.codec.kubeletlog.hints import ADMISSION, OLD_NAMES, OUT_OF
from numawise.results.pending import HOLD_GATE
from numawise.service.manifest import ProgramObjects
from tests.unit.apps.heal.pods import held

OWN = ProgramObjects("numawise-heal", "numawise")
POLICY, BINDING = pod_policy(OWN)
OPERATIONS = {"delete": "DELETE", "patch": "UPDATE", "update": "UPDATE", "create": "CREATE"}


def expressions(operation: str) -> list[str]:
    guard = f"request.operation != '{operation}' || ("
    texts = [validation["expression"] for validation in POLICY["spec"]["validations"]]
    return [text for text in texts if text.startswith(guard)]


def free_fields(text: str) -> list[set[str]]:
    return [
        set(re.findall(r"'([^']*)'", names)) for names in re.findall(r"k in (\[[^\]]*\]) \|\| \(k in", text)
    ]


def test_every_right_to_change_pods_is_narrowed() -> None:
    rights = [
        right for right in heal_rights(defrag=False) if right.writes and right.resource.startswith("pods")
    ]
    assert {right.resource for right in rights} == {"pods"}
    (rule,) = POLICY["spec"]["matchConstraints"]["resourceRules"]
    wanted = {OPERATIONS[verb] for right in rights for verb in right.verbs if verb in OPERATIONS}
    assert wanted == set(rule["operations"])
    assert all(expressions(operation) for operation in wanted)
    assert sum(len(expressions(operation)) for operation in wanted) == len(POLICY["spec"]["validations"])


def test_it_is_for_this_account_and_refuses_where_it_fails() -> None:
    (condition,) = POLICY["spec"]["matchConditions"]
    assert condition["expression"] == f"request.userInfo.username == '{OWN.user}'"
    assert POLICY["spec"]["failurePolicy"] == "Fail"
    assert BINDING["spec"] == {"policyName": "numawise-heal", "validationActions": ["Deny"]}
    assert {validation["reason"] for validation in POLICY["spec"]["validations"]} == {"Forbidden"}


def test_the_reasons_are_those_that_the_healer_goes_by() -> None:
    (text,) = [text for text in expressions("DELETE") if "reason" in text]
    (names,) = re.findall(r"in \[([^\]]*)\]", text)
    assert set(re.findall(r"'([^']*)'", names)) == {*ADMISSION, *OLD_NAMES}
    assert f".startsWith('{OUT_OF}')" in text


def test_a_release_writes_nothing_that_must_stay() -> None:
    patch: dict[str, Any] = release_patch(held("p"), {"a": "a"}, ["a"])
    of_spec, of_metadata, of_notes = (
        next(names for text in expressions("UPDATE") for names in free_fields(text) if word in names)
        for word in ("schedulingGates", "managedFields", STEERED)
    )
    assert set(patch["spec"]) == of_spec
    assert set(patch["metadata"]) - {"uid"} <= of_metadata  # the uid is a precondition
    assert set(patch["metadata"]["annotations"]) == of_notes
    assert any(f"g.name == '{HOLD_GATE}'" in text for text in expressions("UPDATE"))
