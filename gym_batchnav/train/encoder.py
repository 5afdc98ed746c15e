"""Image encoders: the paper's SE-ResNet9 and a small one for CPUs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from gym_batchnav.task.imagenav import ImageGoal, InstanceImageGoal
from gym_batchnav.train.colors import LEAST_VARIANCE, code_colors

GOAL_PICTURES = (ImageGoal.name, InstanceImageGoal.name)
COLOR_PICTURES = ("rgb", *GOAL_PICTURES)  # [H, W, 3] uint8
DEPTH_BINS = 10
PATCH = 4  # pixels per side of the patches of the first convolution
PRIOR_PICTURES = 1e4  # images of mean 0 and variance 1 with which the moments start
MIN_VARIANCE = 1e-2
NEAREST_CODED = 0.005  # of the depth range: nearer surfaces have the same code


class RunningMoments(nn.Module):
    """Normalises each channel by the running mean and variance of all images passed to ``update``.

    As in bps-nav (bps_nav/common/running_mean_and_var.py and bps_nav/rl/ppo/policy.py:205), the moments start as those
    of 10,000 images of mean 0 and variance 1, the count is of images (not pixels), and the variance is at least 0.01.

    Args:
        num_channels: C.
    """

    mean: Tensor  # [C] float32
    variance: Tensor  # [C] float32
    count: Tensor  # scalar float64, images

    def __init__(self, num_channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_channels))
        self.register_buffer("variance", torch.ones(num_channels))
        self.register_buffer("count", torch.full((), PRIOR_PICTURES, dtype=torch.float64))

    def forward(self, pictures: Tensor) -> Tensor:
        """Normalise images [..., C]."""
        return (pictures - self.mean) * self.variance.clamp(min=MIN_VARIANCE).rsqrt()

    @torch.no_grad()
    def update(self, batches: Iterable[Tensor], total: Callable[[Tensor], Tensor]) -> None:
        """Add one or more batches of images [..., H, W, C] to the moments; ``total`` sums a tensor over all workers.

        Call this only between learning from a rollout and collecting the next one, so that acting and learning use the
        same moments.
        """
        sums = torch.stack([self._sums(pictures) for pictures in batches]).sum(0)
        count, linear, square = total(sums).unbind(-1)
        mean = linear / count
        variance = square / count - mean**2
        share = count / (self.count + count)
        shift = mean - self.mean
        self.variance.copy_((1 - share) * self.variance + share * variance + share * (1 - share) * shift**2)
        self.mean.copy_(self.mean + share * shift)
        self.count.add_(count[0])

    def _sums(self, pictures: Tensor) -> Tensor:
        """Return per channel [C, 3] float64: the number of images, and its products with mean and mean square."""
        pixels = pictures.reshape(-1, pictures.shape[-1])
        num_pictures = math.prod(pictures.shape[:-3])
        variance, mean = torch.var_mean(pixels, dim=0, correction=0)
        mean = mean.double()
        return num_pictures * torch.stack([torch.ones_like(mean), mean, variance.double() + mean**2], dim=-1)


class PictureChannels(nn.Module):
    """The input channels of a convolution, made from the images of an agent and the picture of its goal.

    The channels are those of RGB, depth and the goal pictures, in this order. Unless images are recoded, all colours
    are normalised by the same moments: those of the RGB images, or of the goal pictures if there is no RGB.

    Args:
        sensors: Any of ``"depth"``, ``"rgb"``, ``"imagegoal"`` and ``"instance_imagegoal"``.
        depth_bins: Number of one-hot channels to add to depth, each for an equal part of its range; 0 for none.
        recodes: Replace depth by its logarithm, which tells a wall at 0.1 m from one at 0.4 m as well as one at 1 m
            from one at 4 m, and add a channel that is 1 where nothing is hit within the range. Normalise the colours of
            each image by its own mean and deviation, which removes exposure and the tint of the light, and add a
            channel that is 1 where a pixel is black.
    """

    def __init__(self, sensors: tuple[str, ...], depth_bins: int = 0, recodes: bool = False) -> None:
        super().__init__()
        self.sensors = sensors
        self.depth_bins = depth_bins
        self.recodes = recodes
        self.colors = tuple(name for name in COLOR_PICTURES if name in sensors)
        self.moments = RunningMoments(3) if self.colors and not recodes else None
        self.num_channels = (3 + recodes) * len(self.colors) + (1 + depth_bins + recodes) * ("depth" in sensors)

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """Return channels [B, C, H, W] of ``depth`` [B, H, W, 1] in [0, 1] and of colours [B, H, W, 3] uint8."""
        moments = self.moments
        channels = [
            color_code(observation[name]) if moments is None else moments(observation[name] / 255.0)
            for name in self.colors
        ]
        if "depth" in self.sensors:
            place = int("rgb" in self.sensors)  # before the goal pictures
            channels[place:place] = self._depth_channels(observation["depth"].clamp(0, 1))
        stacked = channels[0] if len(channels) == 1 else torch.cat(channels, dim=-1)
        return stacked.permute(0, 3, 1, 2)

    def _depth_channels(self, depth: Tensor) -> list[Tensor]:
        """Return depth [B, H, W, 1] or its code, and its bins [B, H, W, depth_bins], if there are any."""
        if self.recodes:
            return [depth_code(depth), (depth >= 1).to(depth.dtype)]
        if not self.depth_bins:
            return [depth]
        # The farthest bin is closed: it contains depth 1, where a ray hits nothing.
        bins = (depth * self.depth_bins).long().clamp(max=self.depth_bins - 1)
        return [depth, (bins == torch.arange(self.depth_bins, device=depth.device)).to(depth.dtype)]

    def update_moments(self, observation: dict[str, Tensor], total: Callable[[Tensor], Tensor]) -> None:
        """Add the images of a rollout from which the moments are taken, if there are any; see RunningMoments.update."""
        if self.moments is not None:
            self.moments.update((pictures / 255.0 for pictures in observation[self.colors[0]]), total)


def depth_code(depth: Tensor) -> Tensor:
    """Return the logarithm of depth in [0, 1], scaled: from -1 at NEAREST_CODED to 1 at the end of the range."""
    return depth.clamp(min=NEAREST_CODED).log_().mul_(2 / -math.log(NEAREST_CODED)).add_(1)


def color_code(pictures: Tensor) -> Tensor:
    """Return colours [B, H, W, 3] uint8 as four channels float32 [B, H, W, 4].

    Three have mean 0, and a deviation of 1 over all of them. The fourth is 1 where a pixel is black, as it is where
    nothing is hit: otherwise, an image of nothing and one of a plain wall would be the same.
    """
    count, height, width, _ = pictures.shape
    if pictures.device.type == "cpu":
        codes = torch.empty(count, height, width, 4)
        pixels = count, height * width
        code_colors(pictures.contiguous().view(*pixels, 3).numpy(), codes.view(*pixels, 4).numpy())
        return codes
    return code_on_any_device(pictures)


def code_on_any_device(pictures: Tensor) -> Tensor:
    """Do what ``color_code`` does, on the CPU three times more slowly."""
    count, height, width, _ = pictures.shape
    red, green, blue = pictures.unbind(-1)
    # Whole rows and no copies: such passes over memory are most of the time.
    rows = pictures.reshape(count, height, 3 * width) * (1 / 255)
    rows -= rows.reshape(count, height * width, 3).mean(1).repeat(1, width)[:, None]
    rows *= rows.flatten(1).square().mean(1).add(LEAST_VARIANCE).rsqrt()[:, None, None]
    coded = rows.new_empty(count, height, width, 4)
    coded[..., :3] = rows.reshape(count, height, width, 3)
    coded[..., 3] = (red | green | blue) == 0
    return coded


class SqueezeExcite(nn.Module):
    """Squeeze-and-excitation: scales C channels by weights computed from the whole image (Hu et al. 2018)."""

    def __init__(self, num_channels: int) -> None:
        super().__init__()
        narrow = num_channels // 16  # of the bottleneck
        self.gate = nn.Sequential(nn.Linear(num_channels, narrow), nn.ReLU(), nn.Linear(narrow, num_channels))

    def forward(self, pictures: Tensor) -> Tensor:
        """Scale images [B, C, H, W]."""
        return pictures * torch.sigmoid(self.gate(pictures.mean(dim=(2, 3))))[:, :, None, None]


class FixupBlock(nn.Module):
    """A residual block without normalisation (Zhang et al. 2019, "Fixup Initialization"), with squeeze-and-excitation.

    A stride of 2 halves the image. The number of blocks in the network determines the scale of the first convolution.
    """

    def __init__(self, channels_in: int, channels_out: int, stride: int, num_blocks: int) -> None:
        super().__init__()
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(1)) for _ in range(4)])
        self.scale = nn.Parameter(torch.ones(1))
        self.first = nn.Conv2d(channels_in, channels_out, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(channels_out, channels_out, 3, padding=1, bias=False)
        self.excite = SqueezeExcite(channels_out)
        nn.init.normal_(self.first.weight, std=math.sqrt(2 / (9 * channels_out)) * num_blocks**-0.5)
        nn.init.zeros_(self.second.weight)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            narrow = nn.Conv2d(channels_in, channels_out, 1, bias=False)
            nn.init.normal_(narrow.weight, std=math.sqrt(2 / channels_out))
            pool = nn.AvgPool2d(3, stride, padding=1) if stride != 1 else nn.Identity()
            self.shortcut = nn.Sequential(pool, narrow)

    def scalars(self) -> list[nn.Parameter]:
        """Return the five scalar parameters of Fixup."""
        return [*self.biases, self.scale]

    def forward(self, pictures: Tensor) -> Tensor:
        """Map [B, channels_in, H, W] to [B, channels_out, H / stride, W / stride]."""
        before_first, after_first, before_second, after_second = self.biases
        hidden = torch.relu(self.first(pictures + before_first) + after_first)
        residual = self.second(hidden + before_second) * self.scale + after_second
        shortcut = pictures if isinstance(self.shortcut, nn.Identity) else self.shortcut(pictures + before_first)
        return torch.relu(self.excite(residual) + shortcut)


class SEResNet9(nn.Module):
    """The encoder of "Large Batch Simulation for Deep Reinforcement Learning" (ICLR 2021).

    Images have ``height`` x ``width`` pixels. By default, the channels ``planes`` of the four blocks are those of the
    paper, and depth has bins instead of being recoded; see PictureChannels.
    """

    def __init__(
        self,
        sensors: tuple[str, ...],
        height: int,
        width: int,
        num_features: int = 512,
        planes: tuple[int, int, int, int] = (64, 128, 256, 512),
        recodes: bool = False,
    ) -> None:
        super().__init__()
        self.channels = PictureChannels(sensors, 0 if recodes else DEPTH_BINS, recodes)
        # A 4 x 4 convolution of stride 4 is space-to-depth followed by a 1 x 1 convolution.
        self.stem = nn.Conv2d(self.channels.num_channels, planes[0], PATCH, PATCH, bias=False)
        blocks = [FixupBlock(planes[0], planes[0], 1, len(planes))]
        blocks += [FixupBlock(planes[i], planes[i + 1], 2, len(planes)) for i in range(3)]
        self.blocks = nn.Sequential(*blocks)
        area = halved(height // PATCH, 3) * halved(width // PATCH, 3)
        compressed = max(1, round(2 * planes[-1] / area))  # 1,024 numbers in the paper's network
        self.compress = nn.Conv2d(planes[-1], compressed, 3, padding=1)
        self.linear = nn.Linear(compressed * area, num_features, bias=False)
        self.norm = nn.LayerNorm(num_features)
        self.num_features = num_features

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """Return features [B, F] of the images [B, H, W, C] of an observation."""
        pictures = torch.relu(self.stem(self.channels(observation)))
        pictures = torch.relu(self.compress(self.blocks(pictures)))
        return torch.relu(self.norm(self.linear(pictures.flatten(1))))


class SmallEncoder(nn.Module):
    """Three convolutions, fast enough for a CPU, the first of patches of ``patch`` x ``patch`` pixels.

    See SEResNet9 for the other arguments.
    """

    def __init__(
        self,
        sensors: tuple[str, ...],
        height: int,
        width: int,
        num_features: int = 128,
        planes: tuple[int, int, int] = (32, 64, 64),
        recodes: bool = False,
        patch: int = PATCH,
    ) -> None:
        super().__init__()
        self.channels = PictureChannels(sensors, recodes=recodes)
        self.convolutions = nn.Sequential(
            nn.Conv2d(self.channels.num_channels, planes[0], patch, patch),
            nn.ReLU(),
            nn.Conv2d(planes[0], planes[1], 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(planes[1], planes[2], 3, stride=2, padding=1),
            nn.ReLU(),
        )
        area = halved(height // patch, 2) * halved(width // patch, 2)
        self.linear = nn.Linear(planes[2] * area, num_features, bias=False)
        self.norm = nn.LayerNorm(num_features)
        self.num_features = num_features

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """Return features [B, F] of the images [B, H, W, C] of an observation."""
        pictures = self.convolutions(self.channels(observation))
        return torch.relu(self.norm(self.linear(pictures.flatten(1))))


def halved(side: int, times: int) -> int:
    """Return the side of an image after ``times`` 3 x 3 convolutions of stride 2, which round up."""
    return -(-side // 2**times)
