"""Scenes of a list that are not used, which is said when it is found."""

from __future__ import annotations

import warnings
from collections.abc import Sequence


class LeftOut:
    """Which scenes are left out for good, and how often one had to let its turn pass.

    Args:
        names: The names of all scenes.

    Attributes:
        reasons: Why scenes cannot be used, by their index.
        num_passed_over: How many turns have passed for want of room.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self.reasons: dict[int, str] = {}
        self.num_passed_over = 0

    def refuse(self, index: int, error: Exception) -> None:
        """Leave a scene out from now on.

        Raises:
            ValueError: It was the last.
        """
        name = self._names[index]
        # Whoever raised it may have begun with the scene, or with its file.
        reason = str(error).removeprefix(f"scene {name!r}: ").removeprefix("scene ")
        self.reasons[index] = reason
        if len(self.reasons) == len(self._names):
            raise error if len(self._names) == 1 else self.none_left()
        warnings.warn(f"scene {name!r} is left out: {reason}", stacklevel=3)

    def none_left(self) -> ValueError:
        """The error to raise where every scene is left out."""
        reasons = "; ".join(f"{name}: {reason}" for name, reason in self.by_name().items())
        return ValueError(f"none of the {len(self._names)} scenes can be used: {reasons}")

    def pass_over(self, index: int, room: str) -> None:
        """Let the turn of a scene pass for which there is no room; said the first time."""
        self.num_passed_over += 1
        if self.num_passed_over == 1:
            warnings.warn(
                f"scene {self._names[index]!r} is passed over: it does not fit into {room}; allow more, or keep fewer "
                "scenes resident",
                stacklevel=3,
            )

    def by_name(self) -> dict[str, str]:
        """Why scenes cannot be used, by their name."""
        return {self._names[index]: reason for index, reason in self.reasons.items()}
