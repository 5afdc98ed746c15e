"""Datasets of recordings for rerun's viewer, read back by rerun."""

# ruff: noqa: E402
import shutil

import numpy as np
import pytest
from gathering import KEYWORDS, gather
from libraries import require

require("rerun")

from recordings import Recorded

from gym_batchnav.collect.merge import check_dataset, merge_datasets
from gym_batchnav.collect.reading import read_episodes
from gym_batchnav.geometry import camera_to_world, camera_views

SMALL = {"to": "rrd", "scenes": ["apartment_1"], "episodes_per_scene": 3, "sensor_noise": None}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    out = tmp_path_factory.mktemp("rrd") / "data"
    gather(out, sensors=("rgb", "depth", "semantic"), **SMALL)
    return out


def recordings(folder):
    return sorted((folder / "recordings").glob("*/*.rrd"))


def test_an_episode_is_a_recording_with_all_its_values(dataset):
    episodes = list(read_episodes(dataset))
    paths = recordings(dataset)
    assert [path.stem for path in paths] == ["000000", "000001", "000002"]
    for path, episode in zip(paths, episodes, strict=True):
        found = Recorded(path)
        assert found.name == f"apartment_1 {episode.number}" and found.num_blueprints == 1
        frames = np.arange(episode.num_steps + 1)
        views = camera_views(KEYWORDS["camera"], episode.position, episode.heading, episode.pitch)
        poses = camera_to_world(views)
        np.testing.assert_array_equal(found.vectors("world/camera", "Transform3D:translation"), poses[:, :3, 3])
        np.testing.assert_array_equal(found.steps["/world/camera", "Transform3D:translation"], frames)
        np.testing.assert_array_equal(found.vectors("world/goal", "Points3D:positions"), episode.goal)
        seen = episode.observations
        np.testing.assert_array_equal(found.images("world/camera/rgb", "Image", np.uint8), seen["rgb"])
        depth = found.images("world/camera/depth", "DepthImage", np.float32)
        np.testing.assert_allclose(depth, 10 * seen["depth"], atol=1e-6)
        semantic = found.images("world/camera/semantic", "SegmentationImage", np.uint16)
        np.testing.assert_array_equal(semantic, seen["semantic"])
        np.testing.assert_array_equal(found.curve("reward/step")[1], episode.rewards)
        np.testing.assert_array_equal(found.curve("reward/step")[0], frames[1:])
        np.testing.assert_array_equal(found.curve("action")[1], episode.actions)
        np.testing.assert_array_equal(found.curve("measures/distance_to_goal")[1], episode.distance)
        key = ("/sensors/pointgoal_with_gps_compass", "Scalars:scalars")
        np.testing.assert_array_equal(found.rows[key], seen["pointgoal_with_gps_compass"])
        assert found.curve("ends/spl")[1].tolist() == [episode.measures["spl"]]
        assert len(found.fixed["/world/floor", "Mesh3D:triangle_indices"]) > 10


def test_recordings_that_are_missing_are_made_again_and_others_removed(dataset, tmp_path):
    copy = tmp_path / "data"
    shutil.copytree(dataset, copy)
    kept, lost = sorted((copy / "recordings").iterdir())
    before = (kept / "000000.rrd").stat().st_mtime_ns
    shutil.rmtree(lost)
    shutil.rmtree(copy / "shards" / lost.name)
    (copy / "recordings" / f".{lost.name}").mkdir()  # as a kill leaves it
    (copy / "recordings" / "strange").mkdir()
    gather(copy, sensors=("rgb", "depth", "semantic"), **SMALL)
    assert [path.name for path in recordings(copy)] == [path.name for path in recordings(dataset)]
    assert sorted(path.name for path in (copy / "recordings").iterdir()) == sorted([kept.name, lost.name])
    assert (kept / "000000.rrd").stat().st_mtime_ns == before
    for name in ("episodes.tar", "shard.json", "vertices.npy", "triangles.npy"):
        one, other = (folder / "shards" / lost.name / name for folder in (dataset, copy))
        assert one.read_bytes() == other.read_bytes()


def test_parts_merge(dataset, tmp_path):
    for part in (1, 2):
        gather(tmp_path / f"part{part}", sensors=("rgb", "depth", "semantic"), shard=f"{part}/2", **SMALL)
    merge_datasets(tmp_path / "all", [tmp_path / "part1", tmp_path / "part2", dataset])
    assert len(recordings(tmp_path / "all")) == 3
    assert not check_dataset(tmp_path / "all").missing


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("vertices.npy", b"\x93NUMPY\x01\x00v\x00" + b"(" * 118, "no header of an array"),
        ("vertices.npy", None, "is missing"),
        ("triangles.npy", np.full((2, 3), 10**6, "<i4"), "vertices that are nowhere"),
        ("triangles.npy", np.full((2, 2), 0, "<i4"), r"no array int32 \[M, 3\]"),
        ("triangles.npy", np.full((2, 3), 0, "<i8"), r"no array int32 \[M, 3\]"),
        ("vertices.npy", np.full((5, 3), np.nan, "<f4"), "vertices that are nowhere"),
    ],
)
def test_a_hostile_floor_is_refused(dataset, tmp_path, name, data, message):
    from gym_batchnav.collect.folder import finished_shards
    from gym_batchnav.collect.info import read_info
    from gym_batchnav.collect.rrd import Rrd

    info = read_info(dataset)
    record = finished_shards(dataset, info)[0]
    folder = tmp_path / "shard"
    shutil.copytree(dataset / "shards" / record.shard.name, folder)
    Rrd().verify(folder, info, record)
    if data is None:
        (folder / name).unlink()
    elif isinstance(data, bytes):
        (folder / name).write_bytes(data)
    else:
        np.save(folder / name, data)
    with pytest.raises(ValueError, match=message):
        Rrd().verify(folder, info, record)


def test_sensors_that_cannot_be_shown_are_refused(tmp_path):
    with pytest.raises(ValueError, match="cannot show the sensor 'normals': leave it out"):
        gather(tmp_path / "data", sensors=("rgb", "normals"), **SMALL)
    assert not (tmp_path / "data").exists()


def test_a_camera_that_varies_is_not_drawn_where_it_was_not(tmp_path):
    from gym_batchnav.geometry import Camera, CameraJitter

    camera = Camera(16, 12, jitter=CameraJitter(eye_height=(0.5, 0.6)))
    gather(tmp_path / "data", sensors=("rgb",), **{**SMALL, "camera": camera, "episodes_per_scene": 1})
    found = Recorded(recordings(tmp_path / "data")[0])
    assert ("/world/camera", "Pinhole:image_from_camera") not in found.fixed
    assert len(found.images("images/rgb", "Image", np.uint8))


def test_files_of_others_beside_the_recordings_stay(dataset, tmp_path):
    copy = tmp_path / "data"
    shutil.copytree(dataset, copy)
    (copy / "recordings" / "notes.txt").write_text("mine")
    gather(copy, sensors=("rgb", "depth", "semantic"), **SMALL)
    assert (copy / "recordings" / "notes.txt").read_text() == "mine"


def test_several_cameras_are_pictures_beside_the_scene(tmp_path):
    from gym_batchnav.geometry import Camera

    cameras = {"front": Camera(16, 12), "rear": Camera(12, 12, yaw_deg=180)}
    keywords = {**SMALL, "camera": cameras, "episodes_per_scene": 1}
    gather(tmp_path / "data", sensors=("rgb",), **keywords)
    found = Recorded(recordings(tmp_path / "data")[0])
    episode = next(read_episodes(tmp_path / "data"))
    for key in ("front/rgb", "rear/rgb"):
        images = found.images(f"images/{key}", "Image", np.uint8)
        np.testing.assert_array_equal(images, episode.observations[key])
