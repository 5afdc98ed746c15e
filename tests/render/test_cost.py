"""The estimated memory of resident scenes against what renderers hold."""

import numpy as np
import pytest
from glb import SQUARE_UVS, Glb

from gym_batchnav.geometry import Camera
from gym_batchnav.library.library import SceneLibrary
from gym_batchnav.library.sources import shipped_scenes
from gym_batchnav.render.api import make_renderer
from gym_batchnav.render.cost import resident_cost
from gym_batchnav.render.opengl.prepare import MeshPreparer, TexturePreparer
from gym_batchnav.scene import textures
from gym_batchnav.scene.formats.gltf_document import count_gltf
from gym_batchnav.scene.load import load_scene


@pytest.fixture(scope="module")
def home():
    return load_scene(shipped_scenes()["apartment_3"])


def cost_of(scene):
    num_bytes = sum(texture.nbytes for texture in scene.textures)
    return resident_cost(len(scene.triangles), len(scene.vertices), len(scene.textures), num_bytes)


def test_embree_takes_what_was_estimated(home):
    library = SceneLibrary.from_scenes([home])
    renderer = make_renderer("embree", library)
    target = renderer.target(Camera(width=96, height=96), ("depth", "rgb"))
    assert library.stats()["bytes"] == pytest.approx(cost_of(home)["embree"], rel=0.1)
    target.close()
    renderer.close()


def test_opengl_takes_what_was_estimated(home):
    device = MeshPreparer()(home).device_nbytes + TexturePreparer(512, False)(home).device_nbytes
    cost = cost_of(home)
    assert device == pytest.approx(cost["gpu"], rel=0.1)
    assert cost["opengl"] == pytest.approx(home.nbytes + cost["gpu"], rel=0.1)


@pytest.mark.parametrize("budget", [10**9, 50_000])
def test_counts_of_a_file_are_those_of_the_scene(tmp_path, monkeypatch, budget):
    monkeypatch.setattr(textures, "AUTO_BYTES", budget)
    glb = Glb()
    noise = np.random.default_rng(0).integers(0, 256, (150, 100, 3), np.uint8)
    glb.mesh(*(glb.primitive(uvs=SQUARE_UVS, material=glb.picture(noise)) for _ in range(3)))
    glb.json["nodes"], glb.json["scenes"] = [{"mesh": 0}] * 2, [{"nodes": [0, 1]}]
    glb.picture(noise)
    glb.json["materials"].pop()
    glb.json["materials"][0]["normalTexture"] = {"index": 3}  # is not loaded
    scene = glb.load(tmp_path)
    (path,) = tmp_path.glob("*.glb")
    counts = count_gltf(path)
    assert (counts.num_triangles, counts.num_vertices) == (len(scene.triangles), len(scene.vertices)) == (12, 24)
    assert counts.num_textures == 3
    assert counts.texture_size == scene.metadata["texture_size"]
    # Halving twice may round otherwise than once.
    assert counts.texture_bytes == pytest.approx(sum(texture.nbytes for texture in scene.textures), rel=0.03)
    small = load_scene(path, texture_size=30)
    assert count_gltf(path, 30).texture_bytes == sum(texture.nbytes for texture in small.textures)
