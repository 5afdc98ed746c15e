"""TrainingRun: PPO with settings, a folder, time limits, a log and checkpoints.

The folder holds ``run.json`` (the settings), ``curve.jsonl`` (the log), the last two checkpoints of each worker, and
at the end ``policy.safetensors``. If it is installed, Matplotlib plots ``curve.png``; see ``loggers`` for TensorBoard.
"""

from __future__ import annotations

import ctypes
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numba
import numpy as np
import torch

import gym_batchnav
from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.env.config import EnvConfig
from gym_batchnav.evaluation.named_agents import agent_file
from gym_batchnav.evaluation.world import PolicyAbout, policy_about
from gym_batchnav.library.sources import shipped_policies
from gym_batchnav.system.nested import flattened
from gym_batchnav.system.process import num_processors
from gym_batchnav.system.progress import late_progress
from gym_batchnav.system.storage import check_folder, make_folder, write_atomically
from gym_batchnav.system.wording import counted
from gym_batchnav.task.measures import main_measures
from gym_batchnav.train import checkpoint
from gym_batchnav.train.config import CHANGEABLE, FILE, Names, RunConfig, make_config, read_config, updated
from gym_batchnav.train.curve import Row, Sums, append_row, cut_curve, draw_curve, flat_numbers, row_of
from gym_batchnav.train.distributed import Workers
from gym_batchnav.train.imitation import expert_share
from gym_batchnav.train.loggers import Logger, check_loggers, make_loggers
from gym_batchnav.train.policy import Policy, make_policy
from gym_batchnav.train.policy_file import load_policy, save_policy
from gym_batchnav.train.ppo import PPO, check_batch

LOG_SECONDS = 10.0
CHECKPOINT_SECONDS = 180.0
CURVE = "curve.jsonl"
POLICY = "policy.safetensors"
PICTURE = "curve.png"
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt's parameters, in glibc's malloc.h
_LARGEST_BLOCK = 2**30  # bytes
RECENT_SECONDS = 60.0  # of training, over which the summary averages the scores


class TrainingRun:
    """A training run and its folder.

    Args:
        out: The folder; created if missing.
        given: Settings by dotted names, see ``make_config``; to resume a run, only those that change.
        resume: Resume the run in the folder, if there is one.
        note: Called with a message before slow operations.
        loggers: Names of loggers that also get the curve, see ``make_loggers``.

    Attributes:
        given: The settings by name that make ``config``.
        config: All settings.
        env: The batch in which this worker learns.
        threads: Number of threads of torch and Numba.
        seconds: Seconds of training so far.
        progress: Completed share of the training, by frames or by time, whichever is larger.
        rows: The learning curve; see ``curve.row_of``.
        scores: Names of the measures that sum up the run; see ``main_measures``.

    Raises:
        FileExistsError: The folder contains a run, and ``resume`` is False.
        ValueError: The settings are invalid, or differ from those of the run in the folder.
        RuntimeError: The settings need a GPU, and there is none.
    """

    def __init__(
        self,
        out: str | Path,
        given: Names,
        resume: bool = False,
        note: Callable[[str], None] = lambda text: None,
        loggers: Sequence[str] | None = None,
    ) -> None:
        check_loggers(loggers or ())
        out = Path(out)
        self.out = out
        self.given, self.config = _settings(out, given, resume)
        keep_memory()
        with ExitStack() as undo:
            self.workers = Workers.from_environment()
            undo.callback(self.workers.close)
            self.workers.barrier()  # no worker may write to the folder before all have checked it
            self.threads = self.config.threads or max(1, num_processors() // self.workers.local_size)
            use_threads(self.threads)
            device = _device(self.config.device, self.workers.local_rank)
            note = note if self._is_leader else lambda text: None
            self._checkpoints = checkpoint.Checkpoints(out, self.workers.rank)
            undo.callback(self._checkpoints.close)
            state = self._checkpoints.newest(self.workers.gather, partial(self._read, note=note), note)
            begins = state is None and self.config.init is not None
            initial = initial_policy(self.config) if begins else None
            torch.manual_seed(self.config.seed)
            keywords = EnvConfig(**self.config.env_keywords())
            check_batch(keywords, self.config.ppo)
            policy = make_policy(self.config.policy, keywords.observation_space, self.config.teacher_sensors)
            if initial is not None:
                take_weights(policy, *initial, str(self.config.init))
            elif state is None and self.config.ppo.imitation_share > 0:
                take_memory(policy, self.config.ppo.teacher)
            self.env = _warm_env(self.config.make_env, note)  # now that the policy is known to fit
            undo.callback(self.env.close)
            policy.to(device)
            self.ppo = PPO(self.env, policy, self.config.ppo, self.config.seed, self.workers)
            if state is not None:
                note(f"Resuming after {state['ppo']['frames']:,} frames")
                try:
                    self.ppo.set_state(state["ppo"])
                except (KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
                    raise ValueError(
                        f"the checkpoint in '{out}' does not fit this run ({error}): start a new run with another out="
                    ) from error
            self.seconds: float = 0.0 if state is None else state["seconds"]
            self.rows: list[Row] = []
            self.scores = main_measures(self.env.components.measures)
            self._session = Sums()  # of this process
            self._wall = 0.0
            self._loggers: list[Logger] = []
            if self._is_leader:
                make_folder(out)
                # Loggers first: a folder in which one could not be made holds no run.
                self._loggers = make_loggers(loggers, out, described(self.given, self.config), self.ppo.frames)
                for logger in self._loggers:
                    undo.callback(logger.close)
                write_run_file(out, self.given, self.config)
                self.rows = cut_curve(out / CURVE, self.ppo.frames)
            # Later checkpoints, which some workers lack, do not belong to the resumed run.
            self._checkpoints.delete(frames for frames in self._checkpoints.frames() if frames > self.ppo.frames)
            self._resources = undo.pop_all()

    @property
    def progress(self) -> float:
        """The completed share of the training, 0 to 1."""
        limit = self.config.time_limit
        shares = (self.ppo.frames / self.config.ppo.total_frames, self.seconds / limit if limit else 0.0)
        return min(max(shares), 1.0)

    def train(
        self, should_stop: Callable[[], bool] = lambda: False, watch: Callable[[TrainingRun], None] = lambda run: None
    ) -> bool:
        """Train until a limit is reached or ``should_stop`` returns True, then write a checkpoint.

        Args:
            should_stop: Called before every iteration; returning True ends the training.
            watch: Called with the run after every iteration.

        Returns:
            Whether a limit was reached.
        """
        window = Sums()
        begun = perf_counter() - self.seconds
        logged = saved = self.seconds
        while True:
            self.seconds = perf_counter() - begun
            # All workers follow worker 0, by its clock.
            own = self.progress, self.seconds - logged > LOG_SECONDS, self.seconds - saved > CHECKPOINT_SECONDS
            progress, logs, saves = self.workers.broadcast(own)
            ends = any(self.workers.gather(should_stop())) or progress >= 1
            if logs or saves or ends:
                self._log(window, self.seconds - logged)
                window = Sums()
                logged = self.seconds
            if saves or ends:
                self._save()
                saved = self.seconds
            if ends:
                self._checkpoints.wait()
                return progress >= 1
            before = self.ppo.frames
            share = expert_share(progress, self.config.ppo.imitation_share)
            report = self.ppo.iterate(progress)
            # These are the frames of all workers, so only worker 0 counts them.
            frames = report.frames - before if self._is_leader else 0
            window.add(frames, report.seconds, {**report.losses, "teacher": share or 0.0}, report.episodes)
            watch(self)

    def finish(self) -> dict[str, Any]:
        """Write the policy and, if Matplotlib is installed, the plot of the curve.

        Returns:
            frames and seconds of the training, fps and parts of this process, the scores of the last minute (None if no
            episode ended in it without actions of the teacher), and files.
        """
        config = self.config
        if self._is_leader:
            about = policy_about(
                self.env, config.policy, config.preset, self.ppo.frames, config.seed, config.teacher_sensors
            )
            save_policy(self.out / POLICY, self.ppo.policy, about)
            if find_spec("matplotlib") is not None:
                title = f"{config.preset}: {config.policy}, {counted(config.num_envs, 'agent')}"
                draw_curve(self.rows, self.out / PICTURE, title, self.scores)
        files = [*(self.out / name for name in (POLICY, PICTURE, CURVE)), self._checkpoints.path(self.ppo.frames)]
        recent = [
            row
            for row in self.rows
            if row["seconds"] > self.seconds - RECENT_SECONDS and row["episodes"] and not row["losses"].get("teacher")
        ]
        counts = [row["episodes"] for row in recent]
        session = row_of(self._session, self.ppo.frames, self.seconds, self._wall) if self._wall else {}
        return {
            "frames": self.ppo.frames,
            "seconds": self.seconds,
            "fps": session.get("fps"),
            **{
                name: float(np.average([row[name] for row in recent], weights=counts)) if recent else None
                for name in self.scores
            },
            "parts": session.get("parts", {}),
            "files": [str(file) for file in files if file.exists()],
        }

    def close(self) -> None:
        """Release the environment, the log and the workers; idempotent."""
        self._resources.close()

    @property
    def _is_leader(self) -> bool:
        return self.workers.rank == 0

    def _read(self, path: Path, note: Callable[[str], None]) -> dict[str, Any]:
        state, about = checkpoint.load(path)
        check_same_run(about, self.config, path)
        stored = about.get("workers")
        size = self.workers.size
        if stored != size:
            raise ValueError(f"'{path}' belongs to a run with {stored} workers, not {size}: start {stored} workers")
        version, own = about.get("version"), gym_batchnav.__version__
        if version != own:
            note(f"'{path}' was written by version {version}: in {own} the run may go on differently")
        return state

    def _save(self) -> None:
        """Write a checkpoint in the background, after all workers have written their last ones."""
        self._checkpoints.wait()
        self.workers.barrier()
        state = {"seconds": self.seconds, "ppo": self.ppo.get_state()}
        about = {**described(self.given, self.config), "workers": self.workers.size}
        self._checkpoints.save(self.ppo.frames, state, about)

    def _log(self, window: Sums, wall: float) -> None:
        sums = Sums()
        for one in self.workers.gather(window):
            sums.include(one)
        if not sums.frames:
            return
        sums.seconds.pop("wait", None)  # computed here, so that logging and saving count as waiting
        sums.seconds.update({"wait": max(self.workers.size * wall - sum(sums.seconds.values()), 0.0)})
        self._session.include(sums)
        self._wall += wall
        if not self._is_leader:
            return
        row = row_of(sums, self.ppo.frames, self.seconds, wall)
        row["learning_rate"] = self.ppo.optimizer.param_groups[0]["lr"]
        self.rows.append(row)
        append_row(self.out / CURVE, row)
        for logger in self._loggers:
            logger.log(flat_numbers(row), row["frames"])


def described(given: Names, config: RunConfig) -> dict[str, Any]:
    """Return everything that a run depends on, as JSON values: the version, and the settings as given and in full."""
    return {"version": gym_batchnav.__version__, "given": dict(given), "settings": config.record()}


def write_run_file(out: Path, given: Names, config: RunConfig) -> None:
    """Write the file that records the settings of a run."""
    write_atomically(out / FILE, (json.dumps(described(given, config), indent=2) + "\n").encode())


def check_same_run(about: Mapping[str, Any], config: RunConfig, path: Path) -> None:
    """Raise ValueError unless a checkpoint was written with these settings.

    Settings that only one of two versions of the package has are not compared.
    """
    stored, expected = (flattened(one) for one in (about.get("settings") or {}, config.record()))
    same_version = about.get("version") == gym_batchnav.__version__
    compared = stored.keys() | expected.keys() if same_version else stored.keys() & expected.keys()
    for name in sorted(compared.difference(CHANGEABLE)):
        if stored.get(name) != expected.get(name):
            raise ValueError(
                f"'{path}' belongs to a run with {name}={stored.get(name)!r}, not {expected.get(name)!r}: "
                "start a new run with another out="
            )


def take_memory(policy: Policy, teacher: str) -> None:
    """Give a policy all weights of a teacher except its encoder's, if their shapes agree.

    The encoder then learns to see in its own images what the teacher sees.
    """
    file = agent_file(teacher)
    if file is None:
        return
    weights = {name: one for name, one in load_policy(file)[0].state_dict().items() if not name.startswith("encoder.")}
    own = policy.state_dict()
    if all(name in own and own[name].shape == one.shape for name, one in weights.items()):
        policy.load_state_dict(weights, strict=False)


def initial_policy(config: RunConfig) -> tuple[Policy, PolicyAbout]:
    """Load the policy of the file ``config.init``, and its description.

    Raises:
        ValueError: It is damaged, or of another kind than ``config.policy``.
        FileNotFoundError: The file does not exist.
    """
    file = str(config.init)
    path = agent_file(file)
    if path is None:
        raise FileNotFoundError(
            f"init='{file}' is neither a file nor a shipped policy ({', '.join(shipped_policies())}): pass one"
        )
    loaded, about = load_policy(path)
    if about.kind != config.policy:
        raise ValueError(
            f"init='{file}': it is a policy of kind {about.kind!r}, not {config.policy!r}: pass policy={about.kind!r}, "
            "or another file"
        )
    return loaded, about


def take_weights(policy: Policy, loaded: Policy, about: PolicyAbout, file: str) -> None:
    """Give a policy the weights of a loaded one, which lacks the heads that predict sensors.

    Raises:
        ValueError: The loaded policy reads other sensors, or images of another size.
    """
    if set(loaded.sensors) != set(policy.sensors):
        raise ValueError(
            f"init='{file}': it reads {', '.join(loaded.sensors)}, not {', '.join(policy.sensors)}: pass its sensors "
            "and its task, or another file"
        )
    weights, own = loaded.state_dict(), policy.state_dict()
    if any(one.shape != own[name].shape for name, one in weights.items()):
        raise ValueError(
            f"init='{file}': its weights are for images of {about.camera.width} x {about.camera.height} pixels or "
            "readings of other sizes: pass the camera and the sensors of its training"
        )
    policy.load_state_dict(weights, strict=False)


def _settings(out: Path, given: Names, resume: bool) -> tuple[Names, RunConfig]:
    """Return the given and the full settings of the run to start or to resume in a folder."""
    if not (out / FILE).exists():
        config = make_config(given)
        _check_device(config, given)
        check_folder(out)
        return given, config
    if not resume:
        raise FileExistsError(f"'{out}' contains a run: resume it with resume=True (--resume), or pass another out=")
    stored, before = _read_run_file(out)
    names = updated(stored, given)
    config = make_config(names)
    old, new = flattened(before.record()), flattened(config.record())
    differing = [name for name in (*given, *new) if old.get(name) != new.get(name) and name not in CHANGEABLE]
    if differing:
        name = differing[0]
        raise ValueError(
            f"'{out}' contains a run with {name}={old.get(name)!r}, not {new.get(name)!r}: "
            f"leave {name}= out to resume it, or pass another out="
        )
    _check_device(config, given)
    return names, config


def _read_run_file(out: Path) -> tuple[Names, RunConfig]:
    """Return the given and the full settings of the run in a folder."""
    file = out / FILE
    try:
        given = read_config(file)
    except (ValueError, TypeError) as error:
        raise ValueError(f"'{file}' is damaged ({str(error)[:300]}): pass another out=") from error
    try:
        return given, make_config(given)
    except (ValueError, TypeError) as error:  # such as a teacher's file that has moved
        raise ValueError(f"run '{file}' cannot be resumed here ({str(error)[:300]}): pass another out=") from error


def _check_device(config: RunConfig, given: Names) -> None:
    """Raise RuntimeError if the run needs a GPU and there is none."""
    if config.device != "cuda" or torch.cuda.is_available():
        return
    if "device" in given:
        remedy = "leave device= out, or install a build of torch for your GPU"
        raise RuntimeError(f"device='cuda': torch finds no NVIDIA GPU: {remedy}")
    raise RuntimeError(
        f"preset {config.preset!r} trains on an NVIDIA GPU, and torch finds none: pass preset='cpu' or device='cpu'"
    )


def _device(name: str, local_rank: int) -> torch.device:
    """Return the device of the networks; a GPU becomes torch's current device, which also receives observations."""
    if name == "cpu":
        return torch.device("cpu")
    index = local_rank % torch.cuda.device_count()  # workers may share a GPU
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


def use_threads(count: int) -> None:
    """Set the threads of torch and Numba; they share OpenMP, so the setting of either affects both."""
    config: Any = numba.config  # its attributes are created at import, which mypy does not see
    numba.set_num_threads(min(count, config.NUMBA_NUM_THREADS))
    torch.set_num_threads(count)


def keep_memory() -> None:
    """Make glibc keep memory that is freed: each step of learning would otherwise get its pages from the system again.

    The pages of a large block go back to the system when it is freed, and new ones are cleared when they are touched,
    which takes a seventh of the time of learning. Other C libraries are left alone.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    change = ctypes.CDLL(None).mallopt
    change(_MMAP_THRESHOLD, _LARGEST_BLOCK)
    change(_TRIM_THRESHOLD, _LARGEST_BLOCK)


def _warm_env(make_env: Callable[[], BatchNavEnv], note: Callable[[str], None]) -> BatchNavEnv:
    """Make an environment and compile its kernels, so that the first iteration takes no longer than others."""
    note("Loading the first scenes (new ones are generated and cached for later runs)")
    env = make_env()
    with late_progress("Compiling kernels (cached for later runs)", total=3) as compiled:
        env.reset(seed=0)
        compiled()
        if getattr(env.task, "has_goal", True):
            env.shortest_path_actions()
        compiled()
        for action in (1, 0):  # STOP ends episodes, so the second step begins new ones
            env.step(np.full(env.num_envs, action))
        compiled()
    return env
