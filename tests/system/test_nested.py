"""Nested values as flat and as plain ones."""

from dataclasses import dataclass
from types import MappingProxyType

from gym_batchnav.system.nested import class_of, described, flattened


@dataclass
class Lens:
    width: int
    ranges: tuple[float, float]


def test_entries_have_joined_names():
    tree = {"camera": Lens(64, (0.0, 10.0)), "seed": 1, "task": MappingProxyType({"goal": {"radius": 0.2}}), "none": {}}
    assert flattened(tree) == {
        "camera.width": 64, "camera.ranges": (0.0, 10.0), "seed": 1, "task.goal.radius": 0.2,
    }  # fmt: skip
    assert flattened({"loss": {"value": 2}}, "/") == {"loss/value": 2}
    assert flattened({"kind": Lens}) == {"kind": Lens}


def test_nested_values_are_plain_and_leaves_are_as_asked():
    value = MappingProxyType({1: (Lens(2, (0.0, 1.0)), [None]), "kind": Lens})
    lens = {"type": "Lens", "width": "2", "ranges": ["0.0", "1.0"]}
    assert described(value, str) == {"1": [lens, ["None"]], "kind": str(Lens)}


def test_objects_are_named_without_addresses():
    assert class_of(object()) == "builtins.object"
    assert class_of(Lens(1, (0.0, 1.0))) == f"{__name__}.Lens"
