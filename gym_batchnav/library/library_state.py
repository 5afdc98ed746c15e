"""What the slots of a SceneLibrary hold in a saved state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gym_batchnav.library.loader import Loaded
from gym_batchnav.library.slots import NOTHING, Content


def name_of(content: Content, names: Sequence[str]) -> str | None:
    """The name of what a slot holds: as listed, or its own if it was put there by hand; None for nothing."""
    index, scene, _ = content
    return None if scene is None else names[index] if index >= 0 else scene.name


def contents_of(
    state: dict[str, Any], names: Sequence[str], present: Sequence[Content], load: Callable[[int], Loaded]
) -> list[Content]:
    """What the slots hold in a state; scenes that are not held now are loaded.

    Args:
        state: What ``SceneLibrary.get_state`` gave.
        names: The names of all scenes, as listed.
        present: What every slot holds now.
        load: Loads and prepares a scene, given its number in the list.

    Raises:
        ValueError: They are not the scenes of this library, or one cannot be loaded.
    """
    indices, held_names = list(state.get("source_index", ())), list(state.get("names", ()))
    if not len(indices) == len(held_names) == len(present) or state.get("scenes") != len(names):
        raise ValueError("the state is of other scenes: give the environment the same scenes=")
    held = {content[0]: content for content in present}
    contents: list[Content] = []
    for slot, (index, name) in enumerate(zip(indices, held_names, strict=True)):
        if name is None:
            contents.append(NOTHING)
        elif index < 0 and name == name_of(present[slot], names):
            contents.append(present[slot])
        elif index < 0:
            raise ValueError(f"the state has scene {name!r} in slot {slot}, which was put there by hand: put it again")
        elif index >= len(names) or name != names[index]:
            raise ValueError(f"the state has scene {name!r}: give the environment the same scenes=")
        elif index in held:
            contents.append(held[index])
        else:
            loaded = load(index)
            if loaded.error is not None:
                raise ValueError(f"scene {name!r} of the state cannot be loaded: {loaded.error}") from loaded.error
            held[index] = index, loaded.scene, loaded.made
            contents.append(held[index])
    return contents
