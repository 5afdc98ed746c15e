"""A batch that writes down every episode that ends: the truth that other libraries' counts are held to."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from gym_batchnav.env.batch import BatchNavEnv


@dataclass(frozen=True)
class Ended:
    env: int  # index in the batch
    episode: int  # the environment's own number, ``episode_index``
    length: int  # actions that counted
    reward: float  # their sum
    terminated: bool
    truncated: bool
    success: bool
    spl: float


class LedgerEnv(BatchNavEnv):
    """BatchNavEnv that keeps what its episodes came to, in order.

    Args:
        num_envs: N.
        ledger: A folder for a file of lines, one an episode, for tests whose environment lives in another process.
        cut_after: Actions after which a wrapper around the environment cuts its episodes short and resets it.
        keywords: Those of BatchNavEnv.
    """

    def __init__(
        self, num_envs: int = 1, *, ledger: str | Path | None = None, cut_after: int | None = None, **keywords
    ) -> None:
        super().__init__(num_envs, **keywords)
        self.ended: list[Ended] = []
        self._folder = None if ledger is None else Path(ledger)
        self._cut_after = np.inf if cut_after is None else cut_after
        self._reward, self._length = np.zeros(num_envs), np.zeros(num_envs, int)
        self._idle = np.zeros(num_envs, bool)

    def reset(self, *, seed=None, options=None):
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, bool))
        self._reward[mask] = 0
        self._length[mask] = 0
        self._idle[mask] = False
        return super().reset(seed=seed, options=options)

    def send(self, actions):
        """With NEXT_STEP the step after an end begins an episode and does not count."""
        self._idle = self.episodes.done | ~self.episodes.valid
        super().send(actions)

    def recv(self):
        observation, reward, terminated, truncated, info = super().recv()
        self._reward += reward
        self._length += ~self._idle
        own = info.get("final_info", info)
        ended = terminated | truncated
        cut = self._length >= self._cut_after
        for index in np.nonzero(ended | cut)[0].tolist():
            episode = Ended(
                env=index,
                episode=int(own["episode_index"][index]),
                length=int(self._length[index]),
                reward=float(self._reward[index]),
                terminated=bool(terminated[index]),
                truncated=bool(truncated[index] or cut[index]),
                success=bool(ended[index] and own["success"][index]),
                spl=float(own["spl"][index]) if ended[index] else 0.0,
            )
            self.ended.append(episode)
            if self._folder is not None:
                with (self._folder / f"{os.getpid()}-{id(self)}.jsonl").open("a") as file:
                    print(json.dumps(asdict(episode)), file=file)
            self._reward[index] = self._length[index] = 0
        return observation, reward, terminated, truncated, info


class Recorder(LedgerEnv):
    """A ledger that also keeps the first observation of all, and what every step returned."""

    def __init__(self, num_envs: int = 1, **keywords) -> None:
        super().__init__(num_envs, **keywords)
        self.first = None
        self.steps = []

    def reset(self, **keywords):
        returned = super().reset(**keywords)
        self.first = returned[0] if self.first is None else self.first
        return returned

    def recv(self):
        returned = super().recv()
        self.steps.append((*returned[:-1], dict(returned[-1])))  # wrappers may replace infos
        return returned


def read_ledger(folder: Path) -> list[Ended]:
    """The episodes that the batches of other processes wrote into a folder."""
    lines = [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [Ended(**json.loads(line)) for line in lines]
