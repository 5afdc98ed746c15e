"""The image encoder of DD-PPO: a ResNet50 of half width with group normalisation."""

from __future__ import annotations

from torch import Tensor, nn

from gym_batchnav.train.encoder import PictureChannels, halved

BASE_PLANES = 32  # channels of the first convolution; half of those of He et al. 2016
NUM_GROUPS = BASE_PLANES // 2
EXPANSION = 4  # output channels of a block divided by those of its 3 x 3 convolution
STAGES = (3, 4, 6, 3)  # numbers of blocks
COMPRESSED = 2048  # numbers that remain of an image, about


class Bottleneck(nn.Module):
    """A residual block of three convolutions (He et al. 2016) with group normalisation.

    ``planes`` are the channels of the 3 x 3 convolution; the block has four times as many output channels.
    """

    def __init__(self, channels_in: int, planes: int, stride: int) -> None:
        super().__init__()
        channels_out = EXPANSION * planes
        self.branch = nn.Sequential(
            nn.Conv2d(channels_in, planes, 1, bias=False),
            nn.GroupNorm(NUM_GROUPS, planes),
            nn.ReLU(),
            nn.Conv2d(planes, planes, 3, stride, padding=1, bias=False),
            nn.GroupNorm(NUM_GROUPS, planes),
            nn.ReLU(),
            nn.Conv2d(planes, channels_out, 1, bias=False),
            nn.GroupNorm(NUM_GROUPS, channels_out),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            narrow = nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(narrow, nn.GroupNorm(NUM_GROUPS, channels_out))

    def forward(self, pictures: Tensor) -> Tensor:
        """Map [B, channels_in, H, W] to [B, 4 * planes, H / stride, W / stride]."""
        return (self.branch(pictures) + self.shortcut(pictures)).relu()


class GroupNormResNet50(nn.Module):
    """The encoder of "DD-PPO" (Wijmans et al., ICLR 2020), with the sizes of Habitat-Lab's PointNavResNetPolicy.

    The images are averaged over 2 x 2 pixels first. With 256 x 256 pixels, a feature map of 4 x 4 places is compressed
    to 128 channels. See SEResNet9 for the arguments.
    """

    num_features = 512  # F

    def __init__(self, sensors: tuple[str, ...], height: int, width: int) -> None:
        super().__init__()
        self.channels = PictureChannels(sensors, depth_bins=0)
        self.pool = nn.AvgPool2d(2)
        self.stem = nn.Sequential(
            nn.Conv2d(self.channels.num_channels, BASE_PLANES, 7, stride=2, padding=3, bias=False),
            nn.GroupNorm(NUM_GROUPS, BASE_PLANES),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        channels = BASE_PLANES
        stages = []
        for stage, num_blocks in enumerate(STAGES):
            planes = BASE_PLANES * 2**stage
            blocks = [Bottleneck(channels, planes, 1 if stage == 0 else 2)]
            channels = EXPANSION * planes
            blocks += [Bottleneck(channels, planes, 1) for _ in range(num_blocks - 1)]
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        area = halved(height // 2, 5) * halved(width // 2, 5)
        compressed = max(1, round(COMPRESSED / area))
        self.compress = nn.Sequential(
            nn.Conv2d(channels, compressed, 3, padding=1, bias=False), nn.GroupNorm(1, compressed), nn.ReLU()
        )
        self.linear = nn.Linear(compressed * area, self.num_features)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")

    def forward(self, observation: dict[str, Tensor]) -> Tensor:
        """Return features [B, F] of the images [B, H, W, C] of an observation."""
        pictures = self.stem(self.pool(self.channels(observation)))
        pictures = self.compress(self.stages(pictures))
        return self.linear(pictures.flatten(1)).relu()
