"""FunctionalBatch: a batch as a function from a state and actions to the next state and the results of a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gym_batchnav.env.config import check_choice
from gym_batchnav.env.snapshots import BatchState
from gym_batchnav.episodes.schedule import EPISODE_ORDERS
from gym_batchnav.system.extras import needs_extra

if TYPE_CHECKING:
    from gym_batchnav.env.batch_env import BatchNavEnv

ARRAYS = ("torch", "numpy")
_HEADER_BYTES = 24  # three int64: fingerprint, order of episodes, position in their queue
_HOST_DEVICES = (1, 3)  # DLPack's numbers of main memory, and of main memory that CUDA has pinned

Results = tuple[BatchState, Any, Any, Any, Any, dict[str, Any]]


class FunctionalBatch:
    """A batch as a function of its state, made by ``BatchNavEnv.functional``.

    ``state, observation, reward, terminated, truncated, info = step(state, actions)``. The same state and actions give
    the same results, to the bit, as often and in whatever order they are passed: one may step from an older state, or
    from one state with several actions. States are small values and do not change; see BatchState.

    The batch does the work. A call first takes it to the given state and leaves it in the next one, from which its own
    methods, such as ``env.step``, then continue. Observations are new tensors, unless the batch was made with
    ``buffers=n`` or ``obs_device="cuda"``: those are overwritten after n further calls, whatever the
    states of these calls.

    Args:
        env: The batch.
        arrays: ``"torch"`` or ``"numpy"``: the kind of observations, rewards, flags and infos. Tensors share the memory
            of the arrays; with ``obs_device="cuda"`` rewards and flags are copied to the device, infos are not.

    Raises:
        ValueError: There is no such kind of arrays, or scenes rotate at times that are not the same in every run.
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
        """Return one line."""
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
        return (
            self._env.simulator.snapshot(),
            self._given(observation),
            self._given_there(reward),
            self._given_there(terminated),
            self._given_there(truncated),
            self._given(info),
        )

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
        """Return a state as one array of bytes, for code that knows arrays alone, such as ``jax.pure_callback``.

        It always has the same length, and another batch with the same arguments can ``unpack`` it.

        Returns:
            [B] uint8.

        Raises:
            ValueError: Scenes rotate, so that an array of one length cannot say which of them are resident; or the
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
            ValueError: The array is none of a batch with the same arguments.
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
            raise ValueError("packed state of a batch with other arguments: make one with the same to unpack it")
        if not 0 <= order < len(EPISODE_ORDERS) or not 0 <= position <= self._env.num_episodes:
            raise ValueError("packed state is damaged: pass what pack() returned")
        block = array[_HEADER_BYTES:].copy()
        simulator.checked(layout.views(block))
        library = self._env.library
        schedule = {"order": EPISODE_ORDERS[order], "next": position}
        return BatchState(layout, block, schedule, library.get_state(), library.generation)

    def _enter(self, state: BatchState) -> None:
        """Take the batch to a state."""
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
            raise ValueError("state of another batch: unpack() here what its pack() returns")
        self._check_scenes()

    def _check_scenes(self) -> None:
        """Raise ValueError if scenes change in a way that no state determines."""
        library = self._env.library
        if library.rotates and not library.deterministic:
            raise ValueError(
                "functional() needs scenes that change at the same steps in every run: pass "
                "Scenes(..., deterministic_rotation=True), or resident= the number of scenes"
            )
        if library.rotates and library.num_users > 1:
            raise ValueError("functional() needs scenes of its own if they rotate: make the batch without library=")

    def _check_packs(self) -> None:
        """Raise ValueError if states of this batch cannot be packed."""
        if self._env.library.rotates:
            raise ValueError(
                "states cannot be packed while scenes rotate: pass Scenes(..., resident=) with the number of scenes"
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

    def _given_there(self, value: np.ndarray) -> Any:
        """Return an array as the caller wants it, where the observations are."""
        return self._given(self._env.cameras.to_device(value))


def host_array(name: str, value: Any) -> Any:
    """Return an array of another library as a NumPy array: in place through DLPack, or copied from a device.

    NumPy arrays, and values without DLPack, are returned as they are.

    Args:
        name: What it is, for errors.
        value: The array.

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
    """Import torch, which ``what`` needs."""
    with needs_extra("train", what):
        import torch
    return torch
