"""Scenes that can never be used, and scenes that cannot be used at this turn."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence

from gym_batchnav.system.notices import warn_user

# A missing file is a lasting error; other errors of the system may be temporary.
_LASTING = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}


class SceneRefused(ValueError):
    """The error of a scene that can never be used.

    Attributes:
        scene: Name of the scene.
        reason: The reason, without the name.
    """

    def __init__(self, scene: str, reason: str) -> None:
        super().__init__(f"scene {scene!r}: {reason}")
        self.scene = scene
        self.reason = reason


def is_lasting(error: BaseException) -> bool:
    """Return whether a scene can never be used: the error is a ValueError not caused by a temporary system fault."""
    if not isinstance(error, ValueError):
        return False
    cause = error.__cause__
    while cause is not None:
        if isinstance(cause, MemoryError):
            return False
        if isinstance(cause, OSError) and cause.errno is not None and cause.errno not in _LASTING:
            return False
        cause = cause.__cause__
    return True


def reason_of(error: BaseException) -> str:
    """Return the reason why a scene cannot be used, without its name if the error stores the two separately."""
    reason = getattr(error, "reason", None)
    return reason if isinstance(reason, str) else str(error) or repr(error)


class Refusals:
    """A record of the scenes that are refused permanently, that failed, and that did not fit at their turn.

    Each kind of event causes one warning per scene.

    Args:
        names: The names of all scenes.

    Attributes:
        reasons: Reasons of refusal, by scene index.
        failures: Last errors of scenes that will be retried, by scene index.
        num_passed_over: Number of turns that were skipped because a scene did not fit.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self.reasons: dict[int, str] = {}
        self.failures: dict[int, str] = {}
        self.num_passed_over = 0

    def refuse(self, index: int, error: Exception) -> None:
        """Record that a scene can never be used.

        Raises:
            ValueError: If it was the last one.
        """
        name = self._names[index]
        self.reasons[index] = reason_of(error)
        if len(self.reasons) == len(self._names):
            raise error if len(self._names) == 1 else self.none_left()
        warn_user(f"scene {name!r} is left out: {self.reasons[index]}")

    def fail(self, index: int, error: Exception) -> None:
        """Record that a scene could not be loaded at its turn."""
        is_first = index not in self.failures
        self.failures[index] = f"{type(error).__name__}: {reason_of(error)}"
        if is_first:
            warn_user(
                f"scene {self._names[index]!r} could not be loaded ({self.failures[index]}): it is retried at its "
                "next turn"
            )

    def pass_over(self, index: int, room: str) -> None:
        """Record that a scene did not fit at its turn."""
        self.num_passed_over += 1
        if self.num_passed_over == 1:
            warn_user(
                f"scene {self._names[index]!r} is passed over: it does not fit into {room}; allow more, or keep fewer "
                "scenes resident"
            )

    def none_left(self) -> ValueError:
        """Return the error to raise if no scene can be used."""
        reasons = "; ".join(f"{name}: {reason}" for name, reason in {**self.failed, **self.refused}.items())
        return ValueError(f"none of the {len(self._names)} scenes can be used: {reasons}")

    @property
    def refused(self) -> dict[str, str]:
        """The reasons of refused scenes, by name."""
        return {self._names[index]: reason for index, reason in self.reasons.items()}

    @property
    def failed(self) -> dict[str, str]:
        """The last errors of scenes that will be retried, by name."""
        return {self._names[index]: reason for index, reason in self.failures.items()}

    def get_state(self) -> dict[str, str]:
        """Return the reasons of refused scenes, by index as text for JSON."""
        return {str(index): reason for index, reason in self.reasons.items()}

    def check_state(self, state: Mapping[str, str]) -> dict[int, str]:
        """Return the reasons in a saved state, by index.

        Raises:
            ValueError: If the state belongs to other scenes.
        """
        try:
            reasons = {int(index): str(reason) for index, reason in state.items()}
        except (AttributeError, TypeError, ValueError, OverflowError):
            raise ValueError(f"refused scenes {str(state)[:200]}: pass the result of get_state()") from None
        if any(not 0 <= index < len(self._names) for index in reasons):
            raise ValueError("the state refuses scenes that are not listed: make the environment with the same scenes=")
        return reasons
