from numawise.codec.objects import object_name, object_uid, unmanaged


def test_names_of_objects_of_any_shape() -> None:
    assert object_name({"metadata": {"name": "a", "uid": "u"}}) == "a"
    assert object_uid({"metadata": {"name": "a", "uid": "u"}}) == "u"
    for value in (None, 3, [], {}, {"metadata": None}, {"metadata": []}, {"metadata": {"name": None}}):
        assert object_name(value) == object_uid(value) == ""


def test_managers_are_left_out() -> None:
    value = {"metadata": {"name": "a", "managedFields": [{"manager": "m"}]}, "spec": {"x": 1}}
    assert unmanaged(value) == {"metadata": {"name": "a"}, "spec": {"x": 1}}
    assert "managedFields" in value["metadata"]
