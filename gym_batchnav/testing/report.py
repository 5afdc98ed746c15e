"""The names of the checks, and what happens when one fails."""

from __future__ import annotations

import warnings
from collections.abc import Collection

# What Gymnasium documents for every vector environment; a failure is an error.
CONTRACT = {
    "spaces": "the batched spaces are batch_space() of the single ones",
    "metadata": "metadata['autoreset_mode'] is an AutoresetMode",
    "observations": "observations lie in observation_space, with its shapes and dtypes to the letter",
    "rewards": "rewards are finite floats [N]",
    "flags": "terminated and truncated are bool [N]",
    "infos": "infos are dicts of N entries a key, each with its mask '_key', bool [N]",
    "buffers": "what was returned does not change later",
    "next_step": "the step after an end ignores its action, gives reward 0, no flags and the next first observation",
    "same_step": "an end brings final_obs and final_info with masks, and the next first observation",
    "disabled": "reset_mask begins an episode where it is true and leaves the others as they are",
    "seeding": "the same seed and actions give the same run",
    "independence": "an environment's actions change no other's episode",
    "close": "close() may be called twice",
}
# What Gymnasium leaves open and users rely on; a failure is a warning unless strict.
PROMISES = {
    "episodes_end": "an episode ends within the steps given, so that what follows an end is seen",
    "seeds_differ": "another seed gives another run",
    "environment_seeds": "seed s gives environment i the seed s + i; a list, one each",
    "independent_episodes": "an environment's actions do not change which episodes the others are given",
    "numeric_infos": "infos are numbers, which every wrapper can take",
    "before_reset": "step() before reset() raises",
    "wrong_actions": "actions for more environments than there are raise",
    "after_close": "step() and reset() after close() raise",
}


class VectorEnvError(AssertionError):
    """A vector environment does not do what a check asks.

    Attributes:
        check: Name of the check, a key of CONTRACT or PROMISES.
        env_index: The first environment that is concerned, or None.
        step: The step at which it was seen, counted from 0; None for a reset and outside runs.
    """

    def __init__(self, check: str, message: str, env_index: int | None = None, step: int | None = None) -> None:
        self.check, self.env_index, self.step = check, env_index, step
        where = [f"environment {env_index}"] * (env_index is not None) + [f"step {step}"] * (step is not None)
        rule = {**CONTRACT, **PROMISES}[check]
        super().__init__(f"{', '.join([check, *where])}: {message} (the rule: {rule})")


class Report:
    """Where every check ends: an error, a warning, or nothing.

    Args:
        skip: Names of checks whose failure is ignored.
        strict: Whether a broken promise is an error too.

    Raises:
        ValueError: ``skip`` names an unknown check.
    """

    def __init__(self, skip: Collection[str], strict: bool) -> None:
        unknown = set(skip) - {*CONTRACT, *PROMISES}
        if isinstance(skip, str) or unknown:
            raise ValueError(f"skip={skip!r}: give a list of names from {', '.join([*CONTRACT, *PROMISES])}")
        self._ignored, self._strict = set(skip), strict

    def fail(self, check: str, message: str, *, env: int | None = None, step: int | None = None) -> None:
        """A check has failed.

        Raises:
            VectorEnvError: It may not.
        """
        if check in self._ignored:
            return
        error = VectorEnvError(check, message, env, step)
        if check in CONTRACT or self._strict:
            raise error
        self._ignored.add(check)  # one warning is enough
        warnings.warn(str(error), UserWarning, stacklevel=2)
