"""BatchState and FunctionalBatch: the state of a batch as a value, and a batch as a function of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from gym_batchnav.actions.api import MAX_PITCH
from gym_batchnav.env.arguments import indices_of
from gym_batchnav.episodes.schedule import EPISODE_ORDERS
from gym_batchnav.library.prepare import Navigation
from gym_batchnav.navmesh.record import MAX_COORDINATE
from gym_batchnav.state import STATE_REMEDY, AgentState, EpisodeState, StateLayout, check_values, locked
from gym_batchnav.system.extras import needs_extra
from gym_batchnav.system.numbers import check_choice

if TYPE_CHECKING:
    from gym_batchnav.env.batch import BatchNavEnv

ARRAYS = ("torch", "numpy")
_HEADER_BYTES = 24  # three int64: fingerprint, order of episodes, position in their queue
_HOST_DEVICES = (1, 3)  # DLPack's numbers of main memory, and of main memory that CUDA has pinned

_FAR = 10 * MAX_COORDINATE  # metres
_MANY = 2**30  # steps, collisions or goals: counters of 32 bits do not overflow soon
_RANGES: dict[str, tuple[float, float]] = {  # of arrays of a state, by name
    **dict.fromkeys(("position", "previous", "start", "goal", "target", "viewpoint"), (-_FAR, _FAR)),
    **dict.fromkeys(("heading", "start_heading"), (-1e4, 1e4)),
    "pitch": (-float(np.float32(MAX_PITCH)), float(np.float32(MAX_PITCH))),
    **dict.fromkeys(("start_distance", "reached_distance", "previous_distance", "distance"), (-np.inf, np.inf)),
    "path_length": (0, 1e12),
    "count": (0, 2**62),
    **dict.fromkeys(("num_steps", "num_collisions", "num_touches", "num_goals", "num_reached"), (0, _MANY)),
}


class BatchState:
    """The state of N environments at one time. It never changes: a step of the batch as a function returns another one.

    It holds the poses, the episodes with their counters and seeds, and the buffers of sensors, measures and delays in
    one block of bytes, and also the queue of episodes and which scenes are resident. It does not hold images.

    Args:
        layout: Places of the arrays in the block.
        block: [layout.nbytes] uint8; it must no longer be written to.
        schedule: State of the EpisodeSchedule.
        library: State of the SceneLibrary.
        generation: The library's generation at that time.

    Attributes:
        agents: Pose of every agent, read-only arrays.
        episodes: Episode of every environment, read-only arrays.
        buffers: Buffers of the sensors and measures by name, read-only arrays.
    """

    __slots__ = ("agents", "block", "buffers", "episodes", "generation", "layout", "library", "schedule")

    def __init__(
        self,
        layout: StateLayout,
        block: np.ndarray,
        schedule: Mapping[str, Any],
        library: Mapping[str, Any],
        generation: int,
    ) -> None:
        self.layout = layout
        self.block = locked(block)
        self.schedule = schedule
        self.library = library
        self.generation = generation
        views = layout.views(self.block)
        self.agents = AgentState(**views["agents"])
        self.episodes = EpisodeState(**views["episodes"])
        self.buffers: Mapping[str, np.ndarray] = views["buffers"]

    @property
    def num_envs(self) -> int:
        """The number of environments, N."""
        return len(self.agents.slot)

    @property
    def nbytes(self) -> int:
        """The bytes that this state takes."""
        return self.layout.nbytes

    def take(self, indices: Any) -> BatchState:
        """Return the state in which environment i stands where environment ``indices[i]`` stands in this one.

        It continues the same episode with the same noise, so that copies act alike until their actions differ. The
        scenes of later episodes depend on i as well.

        Args:
            indices: [N] int.

        Raises:
            ValueError: The indices are not N numbers from 0 to N - 1.
        """
        indices = indices_of(indices, self.num_envs)
        if len(indices) != self.num_envs:
            raise ValueError(f"{len(indices)} indices for {self.num_envs} environments: pass one each")
        block = np.zeros_like(self.block)  # also between the arrays, so that equal states have equal bytes
        taken = self.layout.views(block)
        for part, arrays in self.layout.views(self.block).items():
            rows = self._worlds_of(indices, len(arrays["keys"])) if part == "worlds" else indices
            for name, array in arrays.items():
                np.take(array, rows, axis=0, out=taken[part][name])
        return BatchState(self.layout, block, self.schedule, self.library, self.generation)

    def _worlds_of(self, indices: np.ndarray, num_worlds: int) -> np.ndarray:
        """Return the worlds [W] of environments [N]; raise ValueError unless they are whole worlds."""
        size = self.num_envs // num_worlds
        worlds = indices[::size] // size
        if not np.array_equal(indices.reshape(-1, size), worlds[:, None] * size + np.arange(size)):
            raise ValueError(f"the {size} agents of a world stay together: take the indices of whole worlds")
        return worlds

    def as_dict(self) -> dict[str, Any]:
        """Return this state as ``BatchNavEnv.get_state`` does: copied arrays and plain values."""
        return {**self.layout.views(self.block.copy()), "schedule": dict(self.schedule), "library": dict(self.library)}

    def __repr__(self) -> str:
        return f"BatchState(num_envs={self.num_envs}, nbytes={self.nbytes})"

    def __copy__(self) -> BatchState:
        return self

    def __deepcopy__(self, memo: Any) -> BatchState:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        """Raise TypeError, because a state belongs to its batch."""
        raise TypeError("BatchState cannot be pickled: pickle the array that pack() of its FunctionalBatch returns")


def check_fits(parts: Mapping[str, Mapping[str, np.ndarray]], navigations: Sequence[Navigation | None]) -> None:
    """Raise ValueError if arrays of a state from outside have rows or values that kernels must not read."""
    agents = parts["agents"]
    episodes = parts["episodes"]
    slot = agents["slot"]
    if slot.min() < 0 or slot.max() >= len(navigations):
        raise ValueError(
            f"the state uses scene slots {slot.min()} to {slot.max()}, but the batch has 0 to {len(navigations) - 1}: "
            "make it with the same scenes="
        )
    for arrays in parts.values():
        for name, (least, most) in _RANGES.items():
            if name in arrays:
                check_values(name, arrays[name], least, most)
    limits = {
        "episode": [0 if one is None else len(one.episode_set) for one in navigations],
        "goal_index": [0 if one is None else len(one.episode_set.first_goal) - 1 for one in navigations],
        "polygon": [0 if one is None else one.navmesh.num_polygons for one in navigations],
        "category": [0 if one is None else 1 + one.episode_set.category.max() for one in navigations],
    }
    for name, limit in limits.items():
        _check_limit(name, {**agents, **episodes}[name], np.array(limit)[slot])
    if "worlds" in parts:
        bodies = parts["worlds"]
        of_worlds = slot.reshape(len(bodies["polygon"]), -1)
        if (of_worlds != of_worlds[:, :1]).any():
            raise ValueError(f"state array 'slot' has agents of a world in different scenes: {STATE_REMEDY}")
        for name in ("goal_index", "polygon"):
            _check_limit(name, bodies[name], np.array(limits[name])[of_worlds[:, :1]])
    tours = np.array([0 if one is None else one.episode_set.tour.shape[1] for one in navigations])[slot]
    if (episodes["num_reached"] > episodes["num_goals"]).any() or (episodes["num_goals"] > tours).any():
        raise ValueError(f"state arrays 'num_reached' and 'num_goals' belong to other episodes: {STATE_REMEDY}")


def _check_limit(name: str, rows: np.ndarray, limit: np.ndarray) -> None:
    """Raise ValueError unless all rows are from 0 to below a limit that they broadcast with."""
    if (rows < 0).any() or (rows >= limit).any():
        raise ValueError(f"state array {name!r} belongs to other scenes or episodes: {STATE_REMEDY}")


Results = tuple[BatchState, Any, Any, Any, Any, dict[str, Any]]


class FunctionalBatch:
    """A batch as a function of its state, made by ``BatchNavEnv.functional``.

    ``state, observation, reward, terminated, truncated, info = step(state, actions)``. The same state and actions give
    the same results, bit for bit, as often and in whatever order they are passed: one may step from an older state, or
    from one state with several actions. States are small values and do not change; see BatchState.

    The batch does the work. A call first takes it to the given state and leaves it in the next one, from which its own
    methods, such as ``env.step``, then continue. Observations are new tensors, unless the batch was made with
    ``buffers=n`` or ``obs_device="cuda"``: those are overwritten after n further calls, whatever states are passed.

    Args:
        env: The batch.
        arrays: ``"torch"`` or ``"numpy"``: the kind of observations, rewards, flags and infos. Tensors share the memory
            of the arrays; with ``obs_device="cuda"`` rewards and flags are copied to the device, infos are not.

    Raises:
        ValueError: The kind of arrays is unknown, or scenes rotate at times that are not the same in every run.
        MissingExtraError: torch is not installed.
    """

    def __init__(self, env: BatchNavEnv, arrays: str = "torch") -> None:
        check_choice("arrays", arrays, ARRAYS)
        if arrays == "numpy" and env.cameras.device != "cpu":
            raise ValueError("arrays='numpy': observations of obs_device='cuda' are tensors; use arrays='torch'")
        self._env = env
        self._torch = _torch("arrays='torch', unlike arrays='numpy',") if arrays == "torch" else None
        self._check_scenes()

    def __repr__(self) -> str:
        return f"{self._env!r}.functional({'torch' if self._torch else 'numpy'!r})"

    def __call__(self, state: BatchState, actions: Any) -> Results:
        """Act in every environment of a state.

        Args:
            state: The state, which ``reset``, ``state``, ``unpack`` or another call of this batch returned.
            actions: [N] integers, or as ``env.action_space`` states: a NumPy array, a sequence, or whatever has DLPack,
                such as a tensor of torch or an array of JAX, which is read in place. Those on a device are copied from
                it, which waits for the device.

        Returns:
            The next state, observations, rewards [N] float64, terminated [N] bool, truncated [N] bool, infos.

        Raises:
            ValueError: The state is one of another batch, or the actions are wrong.
        """
        actions = host_array("actions", actions)
        self._enter(state)
        self._env.send(actions)
        observation, reward, terminated, truncated, info = self._env.recv()
        to_device = self._env.cameras.to_device
        reward, terminated, truncated = (self._given(to_device(one)) for one in (reward, terminated, truncated))
        state = self._env.simulator.snapshot()
        return state, self._given(observation), reward, terminated, truncated, self._given(info)

    def reset(
        self,
        state: BatchState | None = None,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[BatchState, Any, dict[str, Any]]:
        """Begin an episode in every environment, or in those of ``options["reset_mask"]``.

        Args:
            state: The state to begin from; by default that in which the batch is. It has the seeds of environments that
                are not reseeded and the episodes of those that are not reset.
            seed: See ``BatchNavEnv.reset``.
            options: See ``BatchNavEnv.reset``; the mask may be a tensor.

        Returns:
            The state, observations, infos.
        """
        if state is not None:
            self._enter(state)
        if isinstance(options, dict):
            options = {name: host_array(name, value) for name, value in options.items()}
        observation, info = self._env.reset(seed=seed, options=options)
        return self.state(), self._given(observation), self._given(info)

    def observe(self, state: BatchState) -> Any:
        """Return the observations in a state."""
        self._enter(state)
        return self._given(self._env.stepper.observe())

    def state(self) -> BatchState:
        """Return the state in which the batch is."""
        self._check_scenes()
        self._env.check_ready("functional().state")
        return self._env.simulator.snapshot()

    def pack(self, state: BatchState) -> Any:
        """Return a state as one array of bytes, for code that only handles arrays, such as ``jax.pure_callback``.

        It always has the same length, and another batch with the same arguments can ``unpack`` it.

        Returns:
            [B] uint8.

        Raises:
            ValueError: Scenes rotate, so that an array of fixed length cannot state which of them are resident; or the
                state is one of another batch.
        """
        self._check(state)
        self._check_packs()
        if "chosen" in state.schedule:
            raise ValueError("pack() of a batch that runs chosen episodes: reset without the option 'episodes'")
        header = [self._fingerprint(), EPISODE_ORDERS.index(state.schedule["order"]), state.schedule["next"]]
        return self._given(np.concatenate([np.array(header, np.int64).view(np.uint8), state.block]))

    def unpack(self, packed: Any) -> BatchState:
        """Return the state of an array that ``pack`` returned, on any device.

        Raises:
            ValueError: The array was not packed by a batch with the same arguments.
        """
        self._env.check_open("functional().unpack")
        self._check_packs()
        simulator = self._env.simulator
        layout = simulator.state.layout
        array = np.asarray(host_array("packed state", packed))
        if array.dtype != np.uint8 or array.shape != (_HEADER_BYTES + layout.nbytes,):
            raise ValueError(
                f"packed state is {array.dtype} {array.shape}: pass uint8 ({_HEADER_BYTES + layout.nbytes},), as "
                "pack() of a batch with the same arguments returned it"
            )
        fingerprint, order, position = array[:_HEADER_BYTES].copy().view(np.int64).tolist()
        if fingerprint != self._fingerprint():
            raise ValueError(
                "packed state of a batch with other arguments: unpack it with a batch that has the same ones"
            )
        if not 0 <= order < len(EPISODE_ORDERS) or not 0 <= position <= self._env.num_episodes:
            raise ValueError("packed state is damaged: pass what pack() returned")
        block = array[_HEADER_BYTES:].copy()
        simulator.checked(layout.views(block))
        library = self._env.library
        schedule = {"order": EPISODE_ORDERS[order], "next": position}
        return BatchState(layout, block, schedule, library.get_state(), library.generation)

    def _enter(self, state: BatchState) -> None:
        self._check(state)
        self._env.check_idle("functional()")
        stepper = self._env.stepper
        jumps = bool(stepper.listeners) and not np.array_equal(stepper.simulator.state.block, state.block)
        stepper.simulator.restore(state)
        if jumps:
            stepper.tell_placed(np.arange(self._env.num_envs))

    def _check(self, state: BatchState) -> None:
        """Raise ValueError unless a state is one of this batch."""
        if not isinstance(state, BatchState):
            raise ValueError(
                f"state is a {type(state).__name__}: pass a BatchState that reset(), unpack() or another call returned"
            )
        if state.layout is not self._env.simulator.state.layout:
            raise ValueError("state of another batch: pack() it there, and unpack() the result with this batch")
        self._check_scenes()

    def _check_scenes(self) -> None:
        """Raise ValueError if scenes change in a way that no state determines."""
        library = self._env.library
        if library.rotates and not library.deterministic:
            raise ValueError(
                "functional() needs scenes that change at the same steps in every run: pass "
                f"Scenes(..., deterministic_rotation=True) or Scenes(..., resident={len(library.names)})"
            )
        if library.rotates and library.num_users > 1:
            raise ValueError("functional() must not share scenes that rotate: make the batch without library=")

    def _check_packs(self) -> None:
        """Raise ValueError if states of this batch cannot be packed."""
        library = self._env.library
        if library.rotates:
            raise ValueError(
                f"states cannot be packed while scenes rotate: pass Scenes(..., resident={len(library.names)})"
            )

    def _fingerprint(self) -> int:
        """Return a number that batches with other arrays, scenes or numbers of episodes usually do not share."""
        return self._env.simulator.state.layout.fingerprint(self._env.library.names, self._env.num_episodes)

    def _given(self, value: Any) -> Any:
        """Return an array, or every array in a dict, as the caller wants it, in the same memory."""
        if isinstance(value, dict):
            return {name: self._given(one) for name, one in value.items()}
        if self._torch is None or not isinstance(value, np.ndarray):
            return value
        try:
            return self._torch.from_numpy(value)
        except TypeError as error:
            raise ValueError(
                f"an array of {value.dtype} has no tensor in torch ({error}): use arrays='numpy'"
            ) from error


def host_array(name: str, value: Any) -> Any:
    """Return an array of another library as a NumPy array: in place through DLPack, or copied from a device.

    NumPy arrays, and values without DLPack, are returned as they are. Errors say what it is by its name.

    Raises:
        ValueError: It cannot be read.
    """
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack__"):
        return value
    try:
        if value.__dlpack_device__()[0] in _HOST_DEVICES:
            return np.from_dlpack(value)
        return _torch(f"{name} on a device").from_dlpack(value).cpu().numpy()
    except (BufferError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        kind = f"{type(value).__module__.split('.')[0]}.{type(value).__name__}"
        raise ValueError(
            f"{name}: this {kind} cannot be read through DLPack ({error}): pass a plain array of numbers, such as "
            "tensor.detach() of one with gradients"
        ) from error


def _torch(what: str) -> Any:
    with needs_extra("train", what):
        import torch
    return torch
