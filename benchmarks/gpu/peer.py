"""Stage peer: depth of the house by this package and by MuJoCo Warp, from the same views, and whether they agree."""

from __future__ import annotations

import os
from contextlib import closing

os.environ.setdefault("MUJOCO_GL", "disable")

import mujoco
import mujoco_warp
import numpy as np
import warp as wp
from kit import Report
from speed import DEVICE, HOUSE, rate

from gym_batchnav.bench import navigable_views
from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import scene_sources
from gym_batchnav.render.api import make_renderer
from gym_batchnav.scene.scene import Scene

SIDE = 64  # pixels
TOLERANCE = 0.01  # metres or share of the distance by which depth may differ
EVERYTHING = 1e3  # metres, beyond the house


def model_of(scene: Scene) -> mujoco.MjModel:
    """Return a model with the triangles of a scene as one mesh, which nothing touches, and a camera."""
    spec = mujoco.MjSpec()
    mesh = spec.add_mesh(name="house", inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_SHELL, maxhullvert=8)
    mesh.uservert = np.ascontiguousarray(scene.vertices, np.float64).reshape(-1)
    mesh.userface = np.ascontiguousarray(scene.triangles, np.int32).reshape(-1)
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="house", contype=0, conaffinity=0)
    spec.worldbody.add_body(name="head", mocap=True).add_camera(name="eye", fovy=90)
    return spec.compile()


def main() -> None:
    report = Report("peer")
    library = SceneLibrary(scene_sources(str(HOUSE)))
    camera = Camera(SIDE, SIDE, normalize_depth=False, max_depth=EVERYTHING)
    model = model_of(library.scene(0))
    seconds = 0.5 if report.small else 2.0
    for num_views in (4,) if report.small else (1024, 4096):
        slots, views = navigable_views(library, num_views, camera.eye_height)
        ours, own, note = our_depth(library, camera, slots, views, seconds)
        report.figure(f"this package, house, depth {SIDE}x{SIDE}, N={num_views:,}", own, "frames/s", note=note)
        theirs, other, note = mujoco_depth(model, views, seconds)
        report.figure(f"MuJoCo Warp, the same, N={num_views:,}", other, "frames/s", note=note)
        report.figure(
            f"this package to MuJoCo Warp, N={num_views:,}", own / other, "x", bar=None if report.small else 1
        )
        seen = (theirs > 0) & (ours > 0)
        near = np.abs(ours - theirs) <= TOLERANCE * np.maximum(1, theirs)
        report.figure("depth that agrees within 1 cm or 1%", near[seen].mean(), note=f"{seen.mean():.1%} of pixels")
    report.end()


def our_depth(
    library: SceneLibrary, camera: Camera, slots: np.ndarray, views: np.ndarray, seconds: float
) -> tuple[np.ndarray, float, str]:
    """Return depth [N, H, W] of views [N, 4, 4] in slots [N], frames/s and a note."""
    with closing(make_renderer("warp", library)) as renderer:
        with closing(renderer.target(camera, ("depth",), len(views), DEVICE)) as target:

            def draw() -> int:
                target.render(slots, views)
                return len(views)

            drawn = target.render(slots, views)["depth"]
            depth = np.array(drawn.cpu() if DEVICE == "cuda" else drawn)[..., 0]
            return (depth, *rate(draw, seconds))


def mujoco_depth(model: mujoco.MjModel, views: np.ndarray, seconds: float) -> tuple[np.ndarray, float, str]:
    """Return MuJoCo Warp's depth [N, H, W] of views [N, 4, 4], its frames/s and a note."""
    state = mujoco.MjData(model)
    mujoco.mj_forward(model, state)
    there = mujoco_warp.put_model(model)
    data = mujoco_warp.put_data(model, state, nworld=len(views))
    cameras = np.linalg.inv(views.astype(np.float64))
    data.cam_xpos = wp.array(cameras[:, None, :3, 3].astype(np.float32), dtype=wp.vec3)
    data.cam_xmat = wp.array(cameras[:, None, :3, :3].astype(np.float32), dtype=wp.mat33)
    context = mujoco_warp.create_render_context(
        model, len(views), cam_res=(SIDE, SIDE), render_rgb=False, render_depth=True, use_textures=False,
        enable_backface_culling=False,
    )  # fmt: skip

    def draw() -> int:
        mujoco_warp.render(there, data, context)
        return len(views)

    draw()
    wp.synchronize()
    depth = context.depth_data.numpy().reshape(len(views), SIDE, SIDE)
    return (depth, *rate(draw, seconds))


if __name__ == "__main__":
    main()
