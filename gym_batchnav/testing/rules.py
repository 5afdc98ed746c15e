"""The names of the checks and their rules, and the errors and warnings of failed checks."""

from __future__ import annotations

import warnings
from collections.abc import Collection

# Gymnasium documents these rules for every vector environment; a failure is an error.
CONTRACT = {
    "spaces": "the batched spaces are batch_space() of the single ones",
    "metadata": "metadata['autoreset_mode'] is an AutoresetMode",
    "observations": "observations lie in observation_space, with exactly its shapes and dtypes",
    "rewards": "rewards are finite floats [N]",
    "flags": "terminated and truncated are bool [N]",
    "infos": "infos are dicts with N entries per key, each with its mask '_key', bool [N]",
    "buffers": "returned arrays do not change later",
    "next_step": "the step after an end ignores its action, gives reward 0, no flags and the next first observation",
    "same_step": "an end brings final_obs and final_info with masks, and the next first observation",
    "disabled": "reset_mask begins an episode where it is true and does not affect the other environments",
    "seeding": "the same seed and actions give the same run",
    "independence": "an environment's actions do not change another's episode",
    "close": "close() may be called twice",
}
# Gymnasium does not specify these rules, but users rely on them; a failure is a warning unless strict.
PROMISES = {
    "episodes_end": "an episode ends within the given steps, so that the start of the next one is tested",
    "seeds_differ": "another seed gives another run",
    "environment_seeds": "seed s gives environment i the seed s + i; a list gives one seed to each",
    "independent_episodes": "an environment's actions do not change the choice of the others' episodes",
    "numeric_infos": "infos are numbers, so that every wrapper accepts them",
    "before_reset": "step() before reset() raises",
    "wrong_actions": "actions for more environments than there are raise",
    "after_close": "step() and reset() after close() raise",
}


class VectorEnvError(AssertionError):
    """The error of a vector environment that breaks a rule.

    Attributes:
        check: Name of the check, a key of CONTRACT or PROMISES.
        env_index: The first environment that breaks it, or None.
        step: The step at which it breaks the rule, counted from 0; None for a reset and outside runs.
    """

    def __init__(self, check: str, message: str, env_index: int | None = None, step: int | None = None) -> None:
        self.check = check
        self.env_index = env_index
        self.step = step
        where = [] if env_index is None else [f"environment {env_index}"]
        if step is not None:
            where.append(f"step {step}")
        rule = {**CONTRACT, **PROMISES}[check]
        super().__init__(f"{', '.join([check, *where])}: {message} (the rule: {rule})")


class Report:
    """A report that turns failed checks into errors, warnings or nothing.

    Args:
        skip: Names of checks whose failure is ignored.
        strict: Whether a broken promise is also an error.

    Raises:
        ValueError: If ``skip`` has the name of an unknown check.
    """

    def __init__(self, skip: Collection[str], strict: bool) -> None:
        unknown = set(skip) - {*CONTRACT, *PROMISES}
        if isinstance(skip, str) or unknown:
            raise ValueError(f"skip={skip!r}: pass a list of names from {', '.join([*CONTRACT, *PROMISES])}")
        self._ignored = set(skip)
        self._strict = strict

    def fail(self, check: str, message: str, *, env: int | None = None, step: int | None = None) -> None:
        """Report that a check has failed.

        Raises:
            VectorEnvError: If the check belongs to ``CONTRACT``, or the report is strict.
        """
        if check in self._ignored:
            return
        error = VectorEnvError(check, message, env, step)
        if check in CONTRACT or self._strict:
            raise error
        self._ignored.add(check)  # one warning is enough
        warnings.warn(str(error), UserWarning, stacklevel=2)
