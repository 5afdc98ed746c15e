"""A training from its settings to its files: the folder, the clock, the log and the checkpoints around PPO.

The folder holds ``run.json`` (the settings), ``curve.jsonl`` and ``tensorboard/`` (the log), ``checkpoint.safetensors``
(one for each worker), and after the end ``policy.safetensors`` and ``curve.png``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any

import numba
import numpy as np
import torch
from torch.utils.tensorboard import SummaryWriter

from gym_batchnav.env.batch_env import BatchNavEnv
from gym_batchnav.system.progress import late_progress
from gym_batchnav.system.storage import make_folder
from gym_batchnav.train.imitation import expert_share
from gym_batchnav.train.policy import make_policy
from gym_batchnav.train.policy_file import policy_about, save_policy
from gym_batchnav.train.ppo import PPO
from gym_batchnav.train.run import checkpoint
from gym_batchnav.train.run.log import Row, Window, append_row, cut_curve, draw_curve, flat_numbers, row_of
from gym_batchnav.train.run.settings import FILE, RunSettings, check_same_run, read_run_file, write_run_file
from gym_batchnav.train.run.workers import Workers

LOG_SECONDS = 10.0
CHECKPOINT_SECONDS = 180.0
CHECKPOINT, CURVE, POLICY, PICTURE = "checkpoint.safetensors", "curve.jsonl", "policy.safetensors", "curve.png"
_WAIT = "seconds/wait"
RECENT_SECONDS = 60.0  # of training, over which the summary takes success and SPL


class TrainingRun:
    """A training and the folder that it reports to.

    Args:
        out: The folder; made if need be.
        given: Settings by name, see RunSettings; of a run that is gone on with only those that differ.
        resume: Go on with the run that the folder holds, if it holds one.
        note: Told what takes long before the training begins.

    Attributes:
        settings: Of the run.
        seconds: Of training so far.
        progress: The share of the training that is over, by frames or by time, whichever is more.
        rows: The learning curve; see ``curve.row_of``.

    Raises:
        FileExistsError: the folder holds a run, and it is not to be gone on with.
        ValueError: the settings are impossible, or not those of the run that the folder holds.
        RuntimeError: the preset needs a GPU, and there is none.
    """

    def __init__(
        self, out: Path, given: dict[str, Any], resume: bool = False, note: Callable[[str], None] = lambda text: None
    ) -> None:
        self.out, self.settings = out, _settings(out, given, resume)
        self.preset = self.settings.resolved()
        _check_device(self.preset.device, self.settings.preset)
        _set_threads(self.preset.threads)
        with ExitStack() as undo:
            self.workers = Workers.from_environment()
            undo.callback(self.workers.close)
            self.workers.sum({})  # nobody writes to the folder before all have looked at it
            device = _device(self.preset.device, self.workers.local_rank)
            self._path = out / (CHECKPOINT if self._leads else f"checkpoint_{self.workers.rank}.safetensors")
            state = self._load()
            self._check_alike(-1 if state is None else state["ppo"]["frames"])
            note = note if self._leads else lambda text: None
            self._env = _warm_env(self.preset.make_env, note)
            undo.callback(self._env.close)
            torch.manual_seed(self.settings.seed)
            space: Any = self._env.single_observation_space
            policy = make_policy(self.preset.policy, space).to(device)
            self.ppo = PPO(self._env, policy, self.preset.ppo, self.settings.seed, self.workers)
            if state is not None:
                note(f"Going on after {state['ppo']['frames']:,} frames")
                self._go_on_from(state["ppo"])
            self.seconds: float = 0.0 if state is None else state["seconds"]
            self.rows: list[Row] = []
            self._session, self._wall = Window(), 0.0  # since this process began to train
            self._board: SummaryWriter | None = None
            if self._leads:
                self.rows = self._begin_log()
            self._writer = checkpoint.CheckpointWriter()
            undo.pop_all()

    @property
    def progress(self) -> float:
        """The share of the training that is over, from 0 to 1."""
        limit = self.settings.time_limit
        shares = (self.ppo.frames / self.preset.ppo.total_frames, self.seconds / limit if limit else 0.0)
        return min(max(shares), 1.0)

    def go(
        self,
        should_stop: Callable[[], bool] = lambda: False,
        watch: Callable[[TrainingRun], None] = lambda run: None,
    ) -> bool:
        """Train up to a limit, or until ``should_stop``, and leave a checkpoint.

        Args:
            should_stop: Asked before every iteration.
            watch: Called with the run after every iteration.

        Returns:
            Whether a limit was reached.
        """
        window, begun = Window(), perf_counter() - self.seconds
        logged = saved = self.seconds
        while True:
            self.seconds = perf_counter() - begun
            # The first worker's clock decides for all, so that all do the same.
            asked = {"progress": self.progress, "log": self.seconds - logged > LOG_SECONDS}
            asked["save"] = self.seconds - saved > CHECKPOINT_SECONDS
            asked = {name: float(value) if self._leads else 0.0 for name, value in asked.items()}
            said = self.workers.sum({**asked, "stop": float(should_stop())})
            ends = bool(said["stop"]) or said["progress"] >= 1
            if said["log"] or said["save"] or ends:
                self._log(window, self.seconds - logged)
                window, logged = Window(), self.seconds
            if said["save"] or ends:
                self._save()
                saved = self.seconds
            if ends:
                self._writer.wait()
                return said["progress"] >= 1
            before, follower = self.ppo.frames, expert_share(said["progress"], self.preset.ppo.imitation_share)
            report = self.ppo.iterate(said["progress"])
            # The frames of all workers: the first one counts them.
            frames = report.frames - before if self._leads else 0
            window.add(frames, report.seconds, {**report.losses, "follower": follower or 0.0}, report.episodes)
            watch(self)

    def finish(self) -> dict[str, Any]:
        """Write the policy and the picture of the curve.

        Returns:
            frames, seconds, fps and parts (of this process's training), success and spl (of the last minute; None
            where no episode ended in it that was the policy's alone), files.
        """
        kind, preset = self.preset.policy, self.settings.preset
        if self._leads:
            about = policy_about(self._env, kind, preset, self.ppo.frames, self.settings.seed)
            save_policy(self.out / POLICY, self.ppo.policy, about)
            draw_curve(self.rows, self.out / PICTURE, f"{preset}: {kind}, {self.preset.num_envs} agents")
        recent = [
            row
            for row in self.rows
            if row["seconds"] > self.seconds - RECENT_SECONDS and row["episodes"] and not row["losses"]["follower"]
        ]
        counts = [row["episodes"] for row in recent]
        session = row_of(self._session.sums, self.ppo.frames, self.seconds, self._wall) if self._wall else {}
        return {
            "frames": self.ppo.frames,
            "seconds": self.seconds,
            "fps": session.get("fps"),
            **{
                name: float(np.average([row[name] for row in recent], weights=counts)) if recent else None
                for name in ("success", "spl")
            },
            "parts": session.get("parts", {}),
            "files": [str(self.out / name) for name in (POLICY, PICTURE, CURVE, CHECKPOINT)],
        }

    def close(self) -> None:
        """Release the environment, the log and the workers; safe twice."""
        with ExitStack() as stack:
            stack.callback(self.workers.close)
            stack.callback(self._env.close)
            stack.callback(self._writer.close)
            if self._board is not None:
                stack.callback(self._board.close)

    @property
    def _leads(self) -> bool:
        """Whether this is the worker that logs."""
        return self.workers.rank == 0

    def _load(self) -> dict[str, Any] | None:
        """The state to go on from; None where the folder has no checkpoint."""
        if not self._path.exists():
            return None
        state, about = checkpoint.load(self._path)
        check_same_run(about, self.settings, self._path)
        stored, size = about.get("workers"), self.workers.size
        if stored != size:
            raise ValueError(f"'{self._path}' is of a run with {stored} workers, not {size}: start as many")
        return state

    def _check_alike(self, frames: int) -> None:
        """Refuse to go on from checkpoints of different moments, as where some were lost.

        Raises:
            ValueError: the workers' ``frames`` (-1 without a checkpoint) are not the same.
        """
        mine = {str(rank): float(frames * (rank == self.workers.rank)) for rank in range(self.workers.size)}
        found = [int(one) for one in self.workers.sum(mine).values()]
        if len(set(found)) > 1:
            raise ValueError(f"the checkpoints in '{self.out}' are of {found} frames (-1: none): begin another run")

    def _go_on_from(self, state: dict[str, Any]) -> None:
        """Set the state of a checkpoint."""
        try:
            self.ppo.set_state(state)
        except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"'{self._path}' does not fit this run ({error}): begin another one") from error

    def _save(self) -> None:
        """Have a checkpoint written beside the training."""
        state = {"seconds": self.seconds, "ppo": self.ppo.get_state()}
        about = {**self.settings.description(), "workers": self.workers.size}
        self._writer.save(self._path, state, about)

    def _begin_log(self) -> list[Row]:
        """Write the settings and open the logs; returns the lines of the curve up to here."""
        write_run_file(self.out, self.settings)
        self._board = SummaryWriter(str(self.out / "tensorboard"), purge_step=self.ppo.frames + 1)
        return cut_curve(self.out / CURVE, self.ppo.frames)

    def _log(self, window: Window, wall: float) -> None:
        """Add the window to the curve."""
        sums = self.workers.sum(window.sums)
        if not sums["frames"]:
            return
        computed = sum(value for name, value in sums.items() if name.startswith("seconds/") and name != _WAIT)
        sums[_WAIT] = max(self.workers.size * wall - computed, 0.0)  # logging and saving count as waiting
        self._session.include(sums)
        self._wall += wall
        if self._board is None:
            return
        row = row_of(sums, self.ppo.frames, self.seconds, wall)
        row["learning_rate"] = self.ppo.optimizer.param_groups[0]["lr"]
        self.rows.append(row)
        append_row(self.out / CURVE, row)
        for name, value in flat_numbers(row).items():
            self._board.add_scalar(name, value, row["frames"])


def _settings(out: Path, given: dict[str, Any], resume: bool) -> RunSettings:
    """The settings of the run to begin or to go on with in a folder."""
    if not (out / FILE).exists():
        settings = RunSettings(**given)
        make_folder(out)
        return settings
    if not resume:
        raise FileExistsError(f"'{out}' holds a run: go on with it by --resume, or give another --out")
    return read_run_file(out).changed(given, out)


def _check_device(name: str, preset: str) -> None:
    """Refuse a GPU where there is none.

    Raises:
        RuntimeError: there is none.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(
            f"preset {preset!r} trains on an NVIDIA GPU, and torch finds none: take --preset cpu, or --device cpu"
        )


def _device(name: str, local_rank: int) -> torch.device:
    """Where the networks are to be; on a GPU it becomes torch's current one, where observations are drawn to."""
    if name == "cpu":
        return torch.device("cpu")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def _set_threads(count: int | None) -> None:
    """Give torch and Numba so many threads: they share OpenMP, and what one of them sets counts for the other."""
    if count is not None:
        config: Any = numba.config  # whose entries are made when numba is imported
        numba.set_num_threads(min(count, config.NUMBA_NUM_THREADS))
        torch.set_num_threads(count)


def _warm_env(make_env: Callable[[], BatchNavEnv], note: Callable[[str], None]) -> BatchNavEnv:
    """An environment whose kernels are compiled, so that the first iteration takes no longer than others."""
    note("Loading the first scenes (new ones are made and kept for later runs)")
    env = make_env()
    with late_progress("Compiling kernels (later runs read a cache)", total=3) as compiled:
        env.reset(seed=0)
        compiled()
        env.shortest_path_actions()
        compiled()
        for action in (1, 0):  # STOP ends episodes, so that the next ones begin
            env.step(np.full(env.num_envs, action))
        compiled()
    return env
