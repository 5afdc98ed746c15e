"""LeRobot: datasets that LeRobot reads, in its versions 3.0 and 2.1; written without LeRobot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gym_batchnav.collect.api import DatasetInfo, Format, Shard, ShardRecord, ShardWriter
from gym_batchnav.collect.assembly import assembled
from gym_batchnav.collect.lerobot.features import features_of
from gym_batchnav.collect.lerobot.layout import Layout, Totals, Version3, Version21, placed_episodes
from gym_batchnav.collect.lerobot.rows import import_arrow
from gym_batchnav.collect.lerobot.shard import LeRobotShardWriter, Plan, check_shard
from gym_batchnav.collect.lerobot.video import CODECS, MAX_FILE_SECONDS, import_av

VERSIONS: dict[str, type[Layout]] = {"3.0": Version3, "2.1": Version21}
RGB = ("h264", "av1", "lossless", "images")
DEPTH = ("float32", "uint16", "video")


@dataclass(frozen=True, slots=True)
class LeRobot(Format):
    """Datasets of LeRobot: rows in Parquet, colours as videos or images, and depth that is exact unless asked.

    Every row is what was known before an action, the action, and its reward; the observation after the last action is
    left out, as LeRobot has no row for it.

    Attributes:
        version: ``"3.0"``, or ``"2.1"`` with one file per episode, which older loaders read.
        rgb: ``"h264"``; ``"av1"``, LeRobot's own default, which is smaller and takes several times as long;
            ``"lossless"``, H.264 in which every pixel is exact; or ``"images"``, exact and in the rows.
        depth: ``"float32"``, the exact values as images in the rows; ``"uint16"``, millimetres; or ``"video"``, HEVC
            with 12 bits between the nearest and the farthest depth, in equal steps.
        max_depth: Largest depth of videos in metres, if observations are in metres; further ones are clipped.

    Raises:
        ValueError: There is no such version or encoding.
    """

    version: str = "3.0"
    rgb: str = "h264"
    depth: str = "float32"
    max_depth: float = 10.0

    name = "lerobot"

    def __post_init__(self) -> None:
        """Check the options."""
        for key, known in (("version", tuple(VERSIONS)), ("rgb", RGB), ("depth", DEPTH)):
            if getattr(self, key) not in known:
                raise ValueError(f"{key}={getattr(self, key)!r}: a LeRobot dataset has one of {', '.join(known)}")
        if not 0 < self.max_depth < float("inf"):
            raise ValueError(f"max_depth={self.max_depth}: pass metres above 0")

    def options(self) -> dict[str, Any]:
        """Return everything that changes the files."""
        return asdict(self)

    def check(self, info: DatasetInfo) -> None:
        """Check, before anything runs, that a dataset can be written.

        Raises:
            ValueError: It cannot hold one of the sensors or the actions.
            MissingExtraError: A package is not installed.
        """
        import_arrow()
        plan = self._plan(info)
        if plan.codecs:
            import_av()
        for one in plan.features:
            if one.kind != "video":
                continue
            codec = plan.codecs[one.name]
            height, width, _ = one.shape
            odd = codec.even and (height % 2 or width % 2)
            if odd or min(height, width) < codec.smallest:
                wanted = f"at least {codec.smallest} pixels" + (" and even sizes" if codec.even else "")
                raise ValueError(
                    f"{one.sensor!r} has {width}x{height} pixels, and {codec.encoder} needs {wanted}: "
                    f"store {one.shows} as images, or choose another camera"
                )

    def open_shard(self, folder: Path, info: DatasetInfo, shard: Shard) -> ShardWriter:
        """Begin a shard in an empty folder."""
        return LeRobotShardWriter(folder, self._plan(info))

    def finish(self, root: Path, info: DatasetInfo, shards: Sequence[ShardRecord]) -> None:
        """Make the dataset of all finished shards: the folders ``data``, ``videos`` and ``meta``.

        Raises:
            ValueError: A shard is damaged, or there is none.
        """
        if not any(shard.episodes for shard in shards):
            raise ValueError(f"no finished shard in '{root}': collect an episode first")
        plan = self._plan(info)
        totals = Totals()
        with assembled(root, ("data", "videos", "meta")) as aside:
            layout = VERSIONS[self.version](root, aside, plan)
            try:
                for episode in placed_episodes(root, shards, plan, totals):
                    layout.add(episode)
                layout.close(totals)
                layout.write_provenance(info, shards)
            finally:
                layout.abandon()

    def verify(self, folder: Path, info: DatasetInfo, record: ShardRecord) -> None:
        """Check that a shard holds what its record says.

        Raises:
            ValueError: It does not.
        """
        check_shard(folder, self._plan(info), record)

    def _plan(self, info: DatasetInfo) -> Plan:
        """Return how shards are written."""
        features = features_of(info, self.rgb, self.depth, self.max_depth)
        codecs = {
            one.name: CODECS["depth" if one.shows == "depth" else self.rgb] for one in features if one.kind == "video"
        }
        fps = max(1, round(1 / info.step_seconds))
        return Plan(features, fps, info.task, codecs, MAX_FILE_SECONDS if self.version == "3.0" else 0.0)
