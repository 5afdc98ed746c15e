"""Recurrent policies: from observations and memory to action logits and a state value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import gymnasium
import numpy as np
import torch
from torch import Tensor, nn

from gym_batchnav.render.api import SENSOR_FORMATS
from gym_batchnav.state import NUM_ACTIONS
from gym_batchnav.system.numbers import check_choice
from gym_batchnav.task.sensors import PointGoal
from gym_batchnav.train.encoder import GOAL_PICTURES, PATCH, SEResNet9, SmallEncoder, depth_code
from gym_batchnav.train.recurrent import RecurrentCore
from gym_batchnav.train.resnet50 import GroupNormResNet50

POLICIES = ("paper", "narrow", "compact", "small", "scan", "blind", "ddppo-resnet50")
DEPTH = "depth"
PICTURES = (DEPTH, "rgb")
GOAL = PointGoal.name
PREVIOUS_ACTION = "previous_action"
TEACHER_FEATURES = "teacher_features"  # of the images of a teacher that is a policy
EMBEDDING = 32
DEPTH_SIDE = 32  # pixels per side of predicted depth, at most
MAX_CATEGORIES = 1000
MIN_RANGES = 8  # elements from which a sensor counts as a range finder
NEAR = 0.1  # metres, below which ranges differ little to a policy that reads scans
MAX_REACH = 100.0  # metres
PAPER_CRITIC_GAIN = 0.1  # bps-nav, bps_nav/rl/ppo/policy.py:319


class VectorScale(nn.Module):
    """The scale of a sensor's reading [K] or [R, K]: its bounds or, without bounds, a logarithm.

    Rows follow each other. An element counts as bounded if its range is smaller than 1e6.
    """

    center: Tensor  # [R * K] float32
    scale: Tensor  # [R * K] float32, 0 without bounds

    def __init__(self, box: gymnasium.spaces.Box) -> None:
        super().__init__()
        self.num_axes = len(box.shape)
        low = torch.as_tensor(box.low).flatten().double()
        high = torch.as_tensor(box.high).flatten().double()
        bounded = (high > low) & (high - low < 1e6)
        self.register_buffer("center", torch.where(bounded, (low + high) / 2, 0).float())
        self.register_buffer("scale", torch.where(bounded, (high - low) / 2, 0).float())  # 0: without bounds

    def scaled(self, readings: Tensor) -> Tensor:
        """Return readings [..., K] or [..., R, K] of any dtype as [..., R * K] float32."""
        readings = readings.flatten(-self.num_axes).to(self.center.dtype)
        by_bounds = (readings - self.center) / self.scale.where(self.scale > 0, 1)
        by_logarithm = readings.sign() * readings.abs().log1p()
        return by_bounds.where(self.scale > 0, by_logarithm)


class VectorEmbedding(VectorScale):
    """A linear embedding of a sensor's scaled reading."""

    def __init__(self, box: gymnasium.spaces.Box) -> None:
        super().__init__(box)
        self.linear = nn.Linear(len(self.center), EMBEDDING)

    def forward(self, readings: Tensor) -> Tensor:
        """Embed readings [..., K] or [..., R, K] of any dtype as [..., 32]."""
        return self.linear(self.scaled(readings))


class RangeScale(nn.Module):
    """The scale of a range finder's reading: logarithms of distances.

    A linear layer of distances can hardly tell a wall at 0.1 m from one at 0.4 m, which decides whether a step
    succeeds. Spaces [K] are from 0 to the sensor's reach; a loaded policy has the reach of its training.
    """

    top: Tensor  # [K] float32, the greatest logarithms

    def __init__(self, box: gymnasium.spaces.Box) -> None:
        super().__init__()
        self.register_buffer("top", torch.log1p(torch.as_tensor(box.high).float().clamp(NEAR, MAX_REACH) / NEAR))

    def scaled(self, readings: Tensor) -> Tensor:
        """Return readings [..., K], metres, as [..., K] from -1 to 1."""
        return 2 * torch.log1p(readings.to(self.top.dtype).clamp(min=0) / NEAR) / self.top - 1


class RangeEmbedding(RangeScale):
    """An embedding of a range finder's scaled reading through a hidden layer."""

    def __init__(self, box: gymnasium.spaces.Box) -> None:
        super().__init__(box)
        self.layers = nn.Sequential(nn.Linear(len(self.top), 128), nn.ReLU(), nn.Linear(128, EMBEDDING))

    def forward(self, readings: Tensor) -> Tensor:
        """Embed readings [..., K], metres, as [..., 32]."""
        return self.layers(self.scaled(readings))


class Prediction(nn.Module):
    """A prediction of a reading that the policy does not observe, from what it remembers.

    Learning to predict how far one can walk, or where the path leads, teaches a policy what its images show.
    """

    def __init__(self, box: gymnasium.spaces.Box, num_inputs: int) -> None:
        super().__init__()
        self.reading = RangeScale(box) if is_range_finder(box) else VectorScale(box)
        self.linear = nn.Linear(num_inputs, math.prod(box.shape))

    def forward(self, remembered: Tensor) -> Tensor:
        """Predict scaled readings [..., K] from [..., F]."""
        return self.linear(remembered)

    def loss(self, predicted: Tensor, readings: Tensor) -> Tensor:
        """Return the mean squared error of predicted scaled readings."""
        return (predicted - self.reading.scaled(readings)).square().mean()


class DepthPrediction(nn.Module):
    """A prediction of the depth of an image that the policy does not observe, from the features of those it does.

    It teaches an encoder of colours shapes and distances, with far more detail than a reward does. Of larger images, it
    predicts every second pixel, every third and so on: at most 32 x 32.
    """

    def __init__(self, box: gymnasium.spaces.Box, num_features: int) -> None:
        super().__init__()
        height, width, _ = box.shape
        self.stride = -(-max(height, width) // DEPTH_SIDE)
        self.shape = (-(-height // self.stride), -(-width // self.stride), 1)
        self.linear = nn.Linear(num_features, math.prod(self.shape))

    def forward(self, features: Tensor) -> Tensor:
        """Predict codes of depth [..., H, W, 1], see ``depth_code``, from features [..., F]."""
        return self.linear(features).unflatten(-1, self.shape)

    def loss(self, predicted: Tensor, depth: Tensor) -> Tensor:
        """Return the mean squared error of predicted codes of depth in [0, 1], an image of all pixels."""
        return (predicted - depth_code(depth[..., :: self.stride, :: self.stride, :])).square().mean()


class CategoryEmbedding(nn.Module):
    """An embedding of a number that names a category, with a row per category; the space is [1], of integers."""

    def __init__(self, box: gymnasium.spaces.Box) -> None:
        super().__init__()
        self.first = int(box.low[0])
        self.rows = nn.Embedding(num_categories(box), EMBEDDING)

    def forward(self, readings: Tensor) -> Tensor:
        """Embed readings [..., 1] of integers as [..., 32]."""
        return self.rows(readings.squeeze(-1).long() - self.first)


def num_categories(box: gymnasium.spaces.Box) -> int:
    """Return the number of values of a space, or 0 if its readings are numbers and not categories.

    A single integer counts as a category if it has at most 1,000 values.
    """
    if box.shape != (1,) or not np.issubdtype(box.dtype, np.integer):
        return 0
    count = int(box.high[0]) - int(box.low[0]) + 1
    return count if count <= MAX_CATEGORIES else 0


def is_range_finder(box: gymnasium.spaces.Box) -> bool:
    """Return whether a space is that of a range finder to a policy that reads scans: at least 8 numbers [K]."""
    return len(box.shape) == 1 and box.shape[0] >= MIN_RANGES and np.issubdtype(box.dtype, np.floating)


def _embedding(box: gymnasium.spaces.Box, reads_scans: bool) -> nn.Module:
    if num_categories(box):
        return CategoryEmbedding(box)
    return RangeEmbedding(box) if reads_scans and is_range_finder(box) else VectorEmbedding(box)


class Policy(nn.Module):
    """A recurrent actor-critic with features of images, goal, other sensors and previous action.

    Args:
        encoder: Encodes images as features [B, F]; None for a blind policy.
        sees_goal: Whether observations have ``pointgoal_with_gps_compass``.
        core_kind: ``"lstm"`` or ``"gru"``.
        hidden_size: H, the size of the core's state.
        num_layers: Number of layers of the core.
        vectors: Spaces [K] or [R, K] of other sensors, by name; see VectorEmbedding and CategoryEmbedding.
        critic_gain: Norm of the critic's initial weights.
        reads_scans: Whether range finders among the other sensors get a RangeEmbedding.
        logs_goal: Whether the goal's distance enters as a logarithm, which resolves short distances.
        predicts: Spaces of sensors that the policy does not read and learns to predict, by name: ``"depth"``, see
            DepthPrediction, and readings [K], see Prediction.
    """

    def __init__(
        self,
        encoder: SEResNet9 | SmallEncoder | GroupNormResNet50 | None,
        sees_goal: bool,
        core_kind: str,
        hidden_size: int,
        num_layers: int = 1,
        vectors: Mapping[str, gymnasium.spaces.Box] = MappingProxyType({}),
        critic_gain: float = 1.0,
        reads_scans: bool = False,
        logs_goal: bool = False,
        predicts: Mapping[str, gymnasium.spaces.Box] = MappingProxyType({}),
    ) -> None:
        super().__init__()
        self.logs_goal = logs_goal
        self.encoder = encoder
        self.goal_embedding = nn.Linear(3, EMBEDDING) if sees_goal else None
        self.action_embedding = nn.Embedding(NUM_ACTIONS + 1, EMBEDDING)  # row 0: an episode begins
        self.vectors = tuple(vectors)
        self.vector_embeddings = nn.ModuleList(_embedding(box, reads_scans) for box in vectors.values())
        num_inputs = EMBEDDING * (1 + int(sees_goal) + len(vectors))
        if encoder is not None:
            num_inputs += encoder.num_features
        self.core = RecurrentCore(core_kind, num_inputs, hidden_size, num_layers)
        self.actor = nn.Linear(hidden_size, NUM_ACTIONS)
        self.critic = nn.Linear(hidden_size, 1)
        for head, gain in ((self.actor, 0.01), (self.critic, critic_gain)):
            nn.init.orthogonal_(head.weight, gain)
            nn.init.zeros_(head.bias)
        self.predictions = nn.ModuleDict()
        for name, box in predicts.items():
            if name != DEPTH:
                self.predictions[name] = Prediction(box, hidden_size)
            elif encoder is not None:
                self.predictions[name] = DepthPrediction(box, encoder.num_features)

    @property
    def sensors(self) -> tuple[str, ...]:
        """The sensors that the policy reads, images included."""
        pictures = () if self.encoder is None else self.encoder.channels.sensors
        return tuple(dict.fromkeys((*pictures, *self.task_sensors)))

    @property
    def task_sensors(self) -> tuple[str, ...]:
        """The sensors that the policy reads, except the camera's."""
        goal = (GOAL,) if self.goal_embedding is not None else ()
        pictures = () if self.encoder is None else self.encoder.channels.sensors
        return (*goal, *self.vectors, *(name for name in pictures if name in GOAL_PICTURES))

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return self.actor.weight.device

    def initial_state(self, num_envs: int) -> Tensor:
        """Return the state [rows, N, H] before the first step, which is zero."""
        return torch.zeros(self.core.num_rows, num_envs, self.core.hidden_size, device=self.device)

    def forward(
        self,
        observation: dict[str, Tensor],
        state: Tensor,
        begun: Tensor,
        predict: bool = False,
        features: Tensor | None = None,
    ) -> tuple[Any, ...]:
        """Act on one step of N environments, or on T steps of each.

        Args:
            observation: By sensor, [N, ...] or [T, N, ...]; also ``previous_action`` int64, which is ignored where an
                episode begins.
            state: [rows, N, H], the recurrent state before the first of these steps.
            begun: [N] or [T, N] bool, whether an episode begins with the observation.
            predict: Predict the readings of ``predicts``, too; for T steps only.
            features: [T, N, F], those of the images if they have been computed; see ``features``.

        Returns:
            Logits [..., 4], values [...] and the state after the last step; with ``predict``, also the predictions
            [T, N, ...] by sensor, and the features of the images if observations have those of a teacher.
        """
        if begun.ndim == 1:
            observation = {name: values[None] for name, values in observation.items()}
            logits, values, state = self(observation, state, begun[None], features=features)
            return logits[0], values[0], state
        features = self.features(observation) if features is None else features
        remembered, state = self.core(self._inputs(observation, begun, features), state, begun)
        precision = self.actor.weight.dtype
        remembered, state = remembered.to(precision), state.to(precision)  # autocast may have lowered it
        with torch.autocast(self.device.type, enabled=False):  # rounded values would blur small rewards
            acted = self.actor(remembered), self.critic(remembered).squeeze(-1), state
        if not predict:
            return acted
        predicted = {
            name: head(features if name == DEPTH else remembered).to(precision)
            for name, head in self.predictions.items()
        }
        taught = observation.get(TEACHER_FEATURES)
        if features is not None and taught is not None and taught.shape == features.shape:
            predicted[TEACHER_FEATURES] = features.to(precision)
        return (*acted, predicted)

    def features(self, observation: dict[str, Tensor]) -> Tensor | None:
        """Return features [T, N, F] of the images of T steps, None for a policy without images."""
        if self.encoder is None:
            return None
        images = {name: observation[name] for name in self.encoder.channels.sensors}
        shape = next(iter(images.values())).shape[:2]
        return self.encoder({name: values.flatten(0, 1) for name, values in images.items()}).unflatten(0, shape)

    def _inputs(self, observation: dict[str, Tensor], begun: Tensor, features: Tensor | None) -> Tensor:
        """Return the inputs [T, N, F] of the core."""
        previous = (observation[PREVIOUS_ACTION] + 1).masked_fill(begun, 0)
        inputs = [self.action_embedding(previous)]
        if self.goal_embedding is not None:
            distance, angle = observation[GOAL].unbind(-1)
            distance = distance.clamp(min=0).log1p() if self.logs_goal else distance
            goal = torch.stack([distance, torch.cos(angle), -torch.sin(angle)], dim=-1)
            inputs.append(self.goal_embedding(goal))
        inputs += [embed(observation[name]) for name, embed in zip(self.vectors, self.vector_embeddings, strict=True)]
        if features is not None:
            inputs.append(features)
        return torch.cat(inputs, dim=-1)

    def depth_loss(self, observation: dict[str, Tensor]) -> Tensor:
        """Return the loss of predicting the depth of frames [B, ...] from their images; see DepthPrediction."""
        encoder: Any = self.encoder
        features = encoder({name: observation[name] for name in encoder.channels.sensors})
        return self.prediction_loss(DEPTH, self.predictions[DEPTH](features), observation[DEPTH])

    def prediction_loss(self, name: str, predicted: Tensor, readings: Tensor) -> Tensor:
        """Return the mean squared error of a prediction of the readings of a sensor, or of a teacher's features."""
        if name == TEACHER_FEATURES:
            return (predicted - readings).square().mean()
        head: Any = self.predictions[name]
        return head.loss(predicted, readings)

    def update_moments(self, observation: dict[str, Tensor], total: Callable[[Tensor], Tensor]) -> None:
        """Update the RGB moments with the images [T, N, H, W, 3] of a rollout, after learning from it.

        Args:
            observation: Observations of the rollout.
            total: Sums a tensor over all workers.
        """
        if self.encoder is not None:
            self.encoder.channels.update_moments(observation, total)


def make_policy(kind: str, space: gymnasium.spaces.Dict, hidden: Sequence[str] = ()) -> Policy:
    """Make a policy with random weights for the observations of an environment.

    Args:
        kind: ``"paper"`` (SE-ResNet9 and a two-layer LSTM of 512), ``"narrow"`` (SE-ResNet9 a quarter as wide, for
            CPUs, of recoded images (see PictureChannels), and a GRU of 512), ``"compact"`` (three convolutions of
            recoded images, the first of RGB with about 8 x 8 patches, and a GRU of 512), ``"small"`` (three
            convolutions and a GRU of 256), ``"scan"`` (a hidden layer for each range finder and a GRU of 256, without
            images), ``"blind"`` (a GRU of 256, no images) or ``"ddppo-resnet50"`` (the network of Habitat's DD-PPO:
            ResNet50 and a two-layer LSTM of 512).
        space: The environment's ``single_observation_space``. Besides images, goal and goal picture it may have
            Boxes of one or two axes.
        hidden: Sensors in the space that the policy must not read, such as those of a teacher. It learns to predict
            depth from other images, and the readings of those with one axis; see DepthPrediction and Prediction.

    Returns:
        The policy on the CPU, with random weights from torch's global generator.

    Raises:
        ValueError: The kind is unknown, or the space has no images, goal pictures of another size than the images, or a
            sensor that the policy cannot read.
    """
    check_choice("policy", kind, POLICIES)
    shapes = {name: space[name].shape or () for name in hidden}
    predicts: dict[str, Any] = {name: space[name] for name in hidden if name == DEPTH or len(shapes[name]) == 1}
    space = gymnasium.spaces.Dict({name: box for name, box in space.items() if name not in hidden})
    sees_goal = GOAL in space.spaces
    vectors = _vectors(kind, space)
    common: dict[str, Any] = {"vectors": vectors, "predicts": predicts}
    if kind in ("blind", "scan"):
        if kind == "scan":
            _check_ranges(vectors)
        return Policy(None, sees_goal, "gru", 256, reads_scans=kind == "scan", **common)
    sensors, height, width = _pictures(kind, space)
    if kind == "small":
        return Policy(SmallEncoder(sensors, height, width), sees_goal, "gru", 256, **common)
    if kind == "compact":
        patch = max(PATCH, min(height, width) // 8) if "rgb" in sensors else PATCH
        convolutions = SmallEncoder(sensors, height, width, 256, (32, 64, 128), recodes=True, patch=patch)
        return Policy(convolutions, sees_goal, "gru", 512, logs_goal=True, **common)
    if kind == "narrow":
        narrow = SEResNet9(sensors, height, width, 256, (16, 32, 64, 128), recodes=True)
        return Policy(narrow, sees_goal, "gru", 512, logs_goal=True, **common)
    if kind == "ddppo-resnet50":
        return Policy(GroupNormResNet50(sensors, height, width), sees_goal, "lstm", 512, 2, **common)
    paper = SEResNet9(sensors, height, width)
    return Policy(paper, sees_goal, "lstm", 512, 2, critic_gain=PAPER_CRITIC_GAIN, **common)


def _check_ranges(vectors: Mapping[str, gymnasium.spaces.Box]) -> None:
    """Raise ValueError unless there are range finders, and their readings can be distances."""
    finders = {name: box for name, box in vectors.items() if is_range_finder(box)}
    if not finders:
        raise ValueError(
            "policy 'scan' needs a range finder: pass sensors=(WalkScan(),), in a run's settings ['walk_scan']"
        )
    for name, box in finders.items():
        if (np.isfinite(box.low) & (box.low < 0)).any():
            raise ValueError(f"policy 'scan' takes {name!r} for a range finder, but it can be negative: leave it out")


def _vectors(kind: str, space: gymnasium.spaces.Dict) -> dict[str, gymnasium.spaces.Box]:
    """Return the spaces of all other sensors, by name: neither camera, goal, goal picture nor previous action."""
    known = (*SENSOR_FORMATS, *GOAL_PICTURES, GOAL, PREVIOUS_ACTION)
    vectors: dict[str, Any] = {name: one for name, one in space.spaces.items() if name not in known}
    for name, one in vectors.items():
        if not isinstance(one, gymnasium.spaces.Box) or len(one.shape) not in (1, 2):
            remedy = "pass one camera without a name" if "/" in name else "use a Box of shape (K,) or (R, K)"
            raise ValueError(f"policy {kind!r} cannot read sensor {name!r}, {one}: {remedy}")
    return vectors


def _pictures(kind: str, space: gymnasium.spaces.Dict) -> tuple[tuple[str, ...], int, int]:
    """Return the image sensors of a space with the goal picture, and the height and width of their images."""
    sensors = tuple(name for name in PICTURES if name in space.spaces)
    if not sensors:
        raise ValueError(f"policy {kind!r} needs images: make the environment with sensors=('depth',) or ('rgb',)")
    box: Any = space[sensors[0]]
    height, width, _ = box.shape
    if min(height, width) < PATCH:
        raise ValueError(
            f"policy {kind!r} cannot encode images of {width}x{height} pixels: pass a camera of {PATCH}x{PATCH} or more"
        )
    if "depth" in sensors and float(space["depth"].high.max()) != 1.0:  # type: ignore[attr-defined]
        raise ValueError(f"policy {kind!r} needs depth from 0 to 1: pass a camera with normalize_depth=True")
    goals = tuple(name for name in GOAL_PICTURES if name in space.spaces)
    for name in goals:
        if space[name].shape != (height, width, 3):
            raise ValueError(
                f"policy {kind!r} cannot read {name!r} of shape {space[name].shape} with images of {width}x{height} "
                "pixels: pass the agents' camera to the task too, such as task=ImageNav(camera=camera)"
            )
    return (*sensors, *goals), height, width
