"""Episodes as MP4 files, by PyAV: one encoder and one thread per file, so that the bytes depend on the frames alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gym_batchnav.system.extras import needs_extra

# Readers compare times as float32 to 0.1 ms: beyond 1,024 s a float32 is coarser than that.
MAX_FILE_SECONDS = 900.0


@dataclass(frozen=True)
class Codec:
    """How frames are encoded.

    Attributes:
        encoder: Name of FFmpeg's encoder.
        pix_fmt: Pixel format in the file.
        frame_format: Pixel format of the frames that are given.
        options: Options of the encoder.
        even: Whether width and height must be even.
        smallest: Smallest width and height.
    """

    encoder: str
    pix_fmt: str
    frame_format: str
    options: dict[str, str] = field(default_factory=dict)
    even: bool = False
    smallest: int = 2


# Every second frame is a key frame, as in LeRobot, whose readers pick single frames. For small images x264's fastest
# preset is as exact as "superfast" at the same crf, takes a third of its time, and makes files 1.2 times as large.
CODECS = {
    "h264": Codec("libx264", "yuv420p", "rgb24", {"crf": "18", "preset": "ultrafast", "g": "2", "bf": "0"}, even=True),
    "av1": Codec(
        "libsvtav1",
        "yuv420p",
        "rgb24",
        {"crf": "30", "preset": "12", "g": "2", "svtav1-params": "lp=1"},
        even=True,
        smallest=64,
    ),
    "lossless": Codec("libx264rgb", "rgb24", "rgb24", {"crf": "0", "preset": "ultrafast", "g": "2", "bf": "0"}),
    "depth": Codec(
        "libx265",
        "gray12le",
        "gray12le",
        {"preset": "ultrafast", "g": "2", "x265-params": "lossless=1:pools=none:frame-threads=1:log-level=none"},
        smallest=32,
    ),
}


def import_av() -> Any:
    """Return PyAV.

    Raises:
        MissingExtraError: It is not installed.
    """
    with needs_extra("lerobot", "encoding videos"):
        import av
    return av


@dataclass(frozen=True, slots=True)
class Clip:
    """The place of an episode in the video files of a shard.

    Attributes:
        file: Number of the file in its folder.
        begin: Seconds from the beginning of the file to the first frame.
        end: Seconds to the end of the last frame.
    """

    file: int
    begin: float
    end: float


class VideoWriter:
    """Writes episodes one after the other into ``000000.mp4`` and so on.

    Args:
        folder: Folder for the files; it is created.
        codec: How frames are encoded.
        fps: Frames per second.
        max_seconds: A file that is longer than this gets no further episode; 0 for one file per episode.
    """

    def __init__(self, folder: Path, codec: Codec, fps: int, max_seconds: float = MAX_FILE_SECONDS) -> None:
        self._av = import_av()
        self._folder = folder
        self._codec = codec
        self._fps = fps
        self._max_frames = max_seconds * fps
        self._num_files = 0
        self._num_frames = 0  # in the open file
        self._container: Any = None
        self._stream: Any = None
        folder.mkdir(parents=True)

    def add(self, frames: np.ndarray) -> Clip:
        """Write an episode of frames [T, H, W, 3] uint8, or [T, H, W] uint16 of 12 bits.

        Raises:
            ValueError: The encoder refuses them.
        """
        if self._container is not None and self._num_frames + len(frames) > self._max_frames:
            self.close()
        try:
            if self._container is None:
                self._open(frames.shape[1], frames.shape[2])
            begin = self._num_frames
            for image in np.ascontiguousarray(frames):
                frame = self._av.VideoFrame.from_numpy_buffer(image, format=self._codec.frame_format)
                frame.pts = self._num_frames
                self._container.mux(self._stream.encode(frame))
                self._num_frames += 1
        except self._av.FFmpegError as error:
            raise ValueError(f"cannot encode video by {self._codec.encoder}: {error}: store images instead") from error
        return Clip(self._num_files - 1, begin / self._fps, self._num_frames / self._fps)

    def close(self) -> None:
        """Write what the encoder still holds and close the file."""
        if self._container is None:
            return
        container, self._container = self._container, None
        container.mux(self._stream.encode(None))
        container.close()

    def abandon(self) -> None:
        """Release the encoder without finishing the file."""
        container, self._container = self._container, None
        if container is not None:
            container.close()

    def _open(self, height: int, width: int) -> None:
        """Begin the next file."""
        path = self._folder / f"{self._num_files:06d}.mp4"
        self._container = self._av.open(str(path), "w", format="mp4")
        stream = self._container.add_stream(self._codec.encoder, rate=self._fps, options=dict(self._codec.options))
        stream.width = width
        stream.height = height
        stream.pix_fmt = self._codec.pix_fmt
        stream.thread_count = 1
        self._stream = stream
        self._num_files += 1
        self._num_frames = 0


def count_frames(path: Path, height: int, width: int) -> int:
    """Return the number of frames of a video file, without decoding them.

    Raises:
        ValueError: It is no video, or its frames have another size.
    """
    av = import_av()
    try:
        with av.open(str(path), "r", format="mp4") as container:
            if len(container.streams) != 1 or not container.streams.video:
                raise ValueError(f"'{path}' is damaged: it has {len(container.streams)} streams instead of one video")
            stream = container.streams.video[0]
            if (stream.height, stream.width) != (height, width):
                raise ValueError(f"'{path}' is damaged: {stream.width}x{stream.height} pixels, not {width}x{height}")
            return sum(1 for packet in container.demux(stream) if packet.size)
    except av.FFmpegError as error:
        raise ValueError(f"'{path}' is damaged: {error}") from error
