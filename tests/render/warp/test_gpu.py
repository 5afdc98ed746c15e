"""Pictures that stay on an NVIDIA device, on the device: equal to the bit, in place, valid for as long as promised.

``GYM_BATCHNAV_STRESS_STEPS`` sets the length of the stress test; benchmarks/gpu runs it with 100,000.
"""

import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from quads import Quad, checkerboard, rotations, scene_of, views_at, wall
from rooms import box_room

from gym_batchnav.env.batch import BatchNavEnv
from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.render import make_renderer

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch", reason="observations on a GPU are torch tensors")
wp = pytest.importorskip("warp")

ALL = ("depth", "rgb", "semantic")
STRESS_STEPS = int(os.environ.get("GYM_BATCHNAV_STRESS_STEPS", "3000"))
LATE = 20_000_000  # cycles of the device for which a reader waits, about 10 ms
NUM_POSES = 32  # batches of views that the stress test draws in turn
ROOT = Path(__file__).parents[3]


def scenes():
    """Rooms with textures, holes and vertex colours."""
    panel = Quad((-1, 0.5, -2), (2, 0, 0.3), (0, 1.5, 0), checkerboard(6), masked=True)
    return [
        box_room("room"),
        scene_of(wall(3.0, half=3.0, texture=checkerboard(8)), panel),
        scene_of(*(wall(2.0 + k, half=1.0 + k, texture=checkerboard(3 + k)) for k in range(4))),
    ]


def poses(count, seed=0):
    """Slots [n] and views [n, 4, 4] in and around those scenes."""
    rng = np.random.default_rng(seed)
    slots = rng.integers(0, 3, count)
    return slots, views_at(rng.uniform((-1, 0.3, -1), (1, 2, 1), (count, 3)), rotations(rng, count))


@contextmanager
def rendering():
    renderer = make_renderer("warp", SceneLibrary.from_scenes(scenes()))
    try:
        yield renderer
    finally:
        renderer.close()


@pytest.mark.parametrize("shape", [(64, 64), (35, 21), (128, 128)], ids=str)
@pytest.mark.parametrize("num_views", [1, 7, 300, 5000])
def test_tensors_equal_arrays_to_the_bit(shape, num_views):
    with rendering() as renderer:
        tensors = renderer.target(Camera(*shape), ALL, num_views, device="cuda")
        arrays = renderer.target(Camera(*shape), ALL, num_views)
        for count in {num_views, max(num_views // 2, 1)}:
            drawn = tensors.render(*poses(count))
            expected = arrays.render(*poses(count))
            for name in ALL:
                assert drawn[name].is_cuda and drawn[name].shape == expected[name].shape
                assert drawn[name].is_contiguous()
                np.testing.assert_array_equal(drawn[name].cpu().numpy(), expected[name], name)


def test_arrays_do_not_depend_on_the_default_device_of_warp():
    with rendering() as renderer:
        target = renderer.target(Camera(16, 16), ALL, 4)
        expected = {name: one.copy() for name, one in target.render(*poses(4)).items()}
        with wp.ScopedDevice("cpu"):
            for name, one in target.render(*poses(4)).items():
                np.testing.assert_array_equal(one, expected[name], name)


def test_a_step_copies_no_picture_to_the_host():
    env = environment("cuda")
    env.reset(seed=0)
    env.step(np.ones(env.num_envs, int))
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(10):
            env.step(np.ones(env.num_envs, int))
        torch.cuda.synchronize()
    env.close()
    copies = {event.name for event in profile.events() if "Memcpy" in event.name}
    assert any("HtoD" in name for name in copies), "the goals are copied to the device: the profiler sees copies"
    assert not any("DtoH" in name for name in copies)


def test_a_late_reader_on_another_stream_still_sees_its_batch():
    """The ring's next turn waits for the stream that was current when its pictures were taken or drawn over."""
    with rendering() as renderer:
        target = renderer.target(Camera(32, 32), ("depth",), 16, device="cuda")
        expected = [target.render(*poses(16, seed))["depth"].clone() for seed in range(12)]
        stream = torch.cuda.Stream()
        kept = []
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for seed in range(12):
                image = target.render(*poses(16, seed))["depth"]
                torch.cuda._sleep(LATE)
                kept.append(image.clone())  # runs long after the next batch was asked for
        stream.synchronize()
        assert all(torch.equal(*pair) for pair in zip(kept, expected, strict=True))


def test_many_steps_keep_every_picture_whole():
    """Batches are drawn in turn on two streams, read late, and summed on the device; nothing waits but at the end."""
    with rendering() as renderer:
        camera = Camera(32, 32, normalize_depth=False)
        count = 8
        batches = [poses(count, seed) for seed in range(NUM_POSES)]
        arrays = renderer.target(camera, ALL, count)
        expected = [checksums(arrays.render(*batch), from_host=True) for batch in batches]
        expected = torch.stack(expected).cuda()
        target = renderer.target(camera, ALL, count, device="cuda", buffers=3)
        streams = [torch.cuda.Stream(), torch.cuda.Stream()]
        wrong = [torch.zeros((), dtype=torch.int64, device="cuda") for _ in streams]
        held = None
        torch.cuda.synchronize()
        for step in range(STRESS_STEPS):
            turn = step // 1000 % 2
            if step % 1000 == 0:
                streams[turn].wait_stream(streams[1 - turn])
            with torch.cuda.stream(streams[turn]):
                target.begin(*batches[step % NUM_POSES])
                drawn = target.finish()
                if step % 97 == 0:
                    torch.cuda._sleep(LATE // 20)
                wrong[turn] += (checksums(drawn) != expected[step % NUM_POSES]).sum()
            if step == 1000:
                torch.cuda.synchronize()
                held = torch.cuda.memory_allocated()
        torch.cuda.synchronize()
        assert int(sum(wrong)) == 0
        assert held is None or torch.cuda.memory_allocated() <= held + 2**20, "memory grows"


def checksums(images, from_host=False):
    """One whole number per picture, which changes with any bit and its place: [n, sensors] int64."""
    sums = []
    for name in ALL:
        image = torch.from_numpy(images[name].copy()) if from_host else images[name]
        bits = image if image.dtype == torch.uint8 else image.view(torch.int32)
        flat = bits.reshape(len(bits), -1).to(torch.int64)
        sums.append((flat * (torch.arange(flat.shape[1], device=flat.device) % 8191 + 1)).sum(dim=1))
    return torch.stack(sums, dim=1)


def environment(device, mode="same_step"):
    scenes = [box_room(f"room_{k}", width=6 + k) for k in range(3)]
    return BatchNavEnv(
        24, scenes=scenes, sensors=ALL, renderer="warp", obs_device=device, autoreset_mode=mode, max_episode_steps=7,
        episodes=20, buffers=2,
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_an_environment_observes_the_same_on_both_devices(mode):
    """To the bit, through ends of episodes and their last observations."""
    envs = [environment(device, mode) for device in ("cuda", "cpu")]
    rng = np.random.default_rng(0)
    assert_same(*(env.reset(seed=3)[0] for env in envs))
    for _ in range(60):
        actions = rng.integers(1, 4, 24)
        (drawn, *first), (expected, *second) = (env.step(actions) for env in envs)
        assert_same(drawn, expected)
        for one, other in zip(first[:3], second[:3], strict=True):
            np.testing.assert_array_equal(one, other)
        if "final_obs" in first[3]:
            assert_same(first[3]["final_obs"], second[3]["final_obs"])
    for env in envs:
        env.close()


def assert_same(drawn, expected):
    assert drawn.keys() == expected.keys()
    for name, tensor in drawn.items():
        assert tensor.is_cuda, name
        np.testing.assert_array_equal(tensor.cpu().numpy(), expected[name], name)


@pytest.mark.parametrize(
    ("preset", "sensor"), [("pointnav_rgb", "rgb"), ("pointnav_depth", "depth"), ("gpu", "depth")], ids=str
)
def test_presets_learn_and_resume_on_the_device(tmp_path, preset, sensor):
    """One with a policy as teacher and noise of images, one with a map, and one whose images stay on the device."""
    from gym_batchnav.train.run import TrainingRun

    given = {
        "preset": preset, "device": "cuda", "scenes": ["apartments"], "num_envs": 16, "resident_scenes": 2,
        "frames": 5 * 16 * 64, "ppo.compile": False,
    }  # fmt: skip
    for resume in (False, True):
        stops = iter([False, False, True])
        run = TrainingRun(tmp_path / "run", given, resume, loggers=["jsonl"])
        complete = run.train(lambda stops=stops, resume=resume: False if resume else next(stops))
        assert complete == resume and run.ppo.policy.device.type == "cuda" and sensor in run.ppo.policy.sensors
        run.close()
    assert run.ppo.frames == given["frames"]


WORKER = """
import os, numpy as np, torch
from gym_batchnav import BatchNavEnv
from gym_batchnav.train.distributed import Workers
workers = Workers.from_environment()
torch.cuda.set_device(workers.local_rank % torch.cuda.device_count())
env = BatchNavEnv(8, scenes="apartment_0", obs_device="cuda")
seen = env.reset(seed=5)[0]["depth"]
for _ in range(20):
    seen = env.step(np.ones(8, int))[0]["depth"]
model = torch.nn.Linear(4096, 1).cuda()
parallel = workers.parallel(model)
parallel(seen.flatten(1)).mean().backward()
own = seen.flatten(1).mean(0)
assert torch.allclose(model.weight.grad[0], own, atol=1e-6)  # both have seen the same
devices = workers.gather(env.renderer.warp_device.ordinal)
assert len(set(devices)) == min(workers.size, torch.cuda.device_count()), devices
env.close(); workers.close()
"""


def test_two_workers_share_a_device_or_take_one_each(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
