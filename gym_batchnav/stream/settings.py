"""StreamSettings: how frames become minibatches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gym_batchnav.env.config import Episodes, Scenes, autoreset_mode_of, check_choice
from gym_batchnav.system.numbers import check_counts, check_flags

MEMORIES = ("replay", "reservoir")
_FIXED = {
    "autoreset_mode": ("next_step", "the last frame of an episode is part of the stream"),
    "obs_device": ("cpu", "frames are kept in main memory"),
}


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """How the frames of a running batch become minibatches.

    A sample is one frame, or ``sequence_length`` successive frames of one environment. Every sample enters a memory of
    bounded size, from which minibatches are drawn uniformly and without repetition within a minibatch.

    Attributes:
        batch_size: B, samples per minibatch.
        sequence_length: T, frames per sample. Sequences do not overlap, and may contain the end of an episode and the
            beginning of the next.
        memory: ``"replay"`` keeps the newest samples; ``"reservoir"`` keeps each sample of the whole stream with the
            same probability (Vitter's algorithm R, 1985), against forgetting.
        capacity: Samples in the memory; all of it is allocated at once.
        min_samples: Samples in the memory before the first minibatch; None means a quarter of the capacity, and at
            least one minibatch. More of them come from more places.
        samples_per_frame: How often a frame is drawn on average, counted from the first minibatch on. The simulation
            waits for the learner and the learner for the simulation, so that this number holds whatever their speeds.
            Below 1 some frames are never seen.
        prefetch: Minibatches that are prepared ahead.
        seed: Seed of the drawing and of the environments.
        deterministic: Give the same minibatches in every run. Scenes then rotate at the same steps in every run, which
            may wait for the loader.
        threads: Threads of the simulation; None does not change their number.
    """

    batch_size: int = 128
    sequence_length: int = 1
    memory: str = "replay"
    capacity: int = 8192
    min_samples: int | None = None
    samples_per_frame: float = 1.0
    prefetch: int = 4
    seed: int = 0
    deterministic: bool = False
    threads: int | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if a value is out of range."""
        check_counts(
            batch_size=self.batch_size,
            sequence_length=self.sequence_length,
            capacity=self.capacity,
            prefetch=self.prefetch,
        )
        check_choice("memory", self.memory, MEMORIES)
        check_flags(deterministic=self.deterministic)
        for name in ("min_samples", "threads"):
            value = getattr(self, name)
            if value is not None:
                check_counts(**{name: value})
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**32:
            raise ValueError(f"seed={self.seed!r}: pass a whole number from 0 to 2**32 - 1")
        if not 0 < self.samples_per_frame <= 1e6:
            raise ValueError(f"samples_per_frame={self.samples_per_frame!r}: pass a number above 0 and up to 1e6")
        for name in ("batch_size", "min_samples"):
            value = getattr(self, name)
            if value is not None and value > self.capacity:
                raise ValueError(f"{name}={value} of capacity={self.capacity}: pass at most the capacity")

    @property
    def first_draw(self) -> int:
        """Samples in the memory before the first minibatch."""
        wanted = self.capacity // 4 if self.min_samples is None else self.min_samples
        return max(wanted, self.batch_size)

    def environment(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the keywords of the batch, from those that the user has given.

        Raises:
            ValueError: One of them does not suit a stream, or contradicts these settings.
        """
        keywords = dict(given)
        for name, (value, why) in _FIXED.items():
            found = keywords.setdefault(name, value)
            same = autoreset_mode_of(found) == autoreset_mode_of(value) if name == "autoreset_mode" else found == value
            if not same:
                raise ValueError(f"{name}={found!r}: leave it out, because {why}")
        if keywords.get("library") is not None:
            raise ValueError(
                "library=: pass scenes= instead, because the batch of a stream runs in a thread of its own"
            )
        if Episodes.of(keywords.get("episodes")).order != "random":
            raise ValueError("episodes= in order 'once': leave the order out, because a stream has no end")
        if self.deterministic:
            keywords["scenes"] = replace(Scenes.of(keywords.get("scenes")), deterministic_rotation=True)
        keywords.setdefault("buffers", 2)
        return keywords
