"""Files of many programs: what it loads as, where one can walk in it, or why it is refused."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import trimesh
from glb import soup

from gym_batchnav.navmesh.mesh import NavMesh
from gym_batchnav.scene.load import SceneError, load_scene


@dataclass(frozen=True)
class Loaded:
    """The expected contents of a file; where an agent fits, its walkable area and the height of its largest island.

    Numbers of triangles are trimesh's (checked below). Areas of the scenes that have a fixture are Recast's (checked
    below). The other areas, floors and sizes were read from the package's own maps once these had been looked at; they
    notice changes and prove nothing.
    """

    num_triangles: int
    size: tuple[float, float, float] | None = None  # metres along x, y (up) and z
    area: float | None = None  # square metres
    floor: float | None = None  # metres


# Some furniture of one collection: name, triangles, the area on which one can stand, and whether it stands on the
# floor, which is at y = 0, or hangs or lies about its middle.
KAYKIT = {
    "bed_double_A": (540, 7.1, True),
    "pictureframe_large_A": (60, None, False),
    "rug_oval_A": (176, 4.4, True),
    "shelf_B_large_decorated": (482, None, False),
}
# Files that are refused have a part of the reason.
OUTCOMES: dict[str, Loaded | str] = {
    "aws_bookstore/aws_bookstore.glb": Loaded(101_833, (15.7, 3.7, 14.6), 151.7, 0.1),
    "aws_small_house/aws_small_house.glb": Loaded(146_484, (19.0, 3.0, 11.4), 141.5, 0.2),
    "drake_livingroom/assets/living_room.gltf": Loaded(4_252, (6.1, 3.2, 6.2), 33.0, 0.2),
    "drake_livingroom/assets/painted_wooden_cabinet_02_1k.gltf": Loaded(966, (1.0, 2.6, 0.7), None, None),
    "drake_livingroom/drake_furnished_living_room.glb": Loaded(35_447, (6.1, 3.2, 6.2), 26.9, 0.2),
    "godot/living_room.glb": Loaded(5_088, (10.0, 5.5, 14.5), 153.0, 1.1),
    "godot/room.glb": Loaded(63_720, (10.0, 5.0, 10.0), 182.1, 5.2),
    "habitat_sim_scenes/batch-four-squares-compressed.gltf": "KHR_texture_ktx",
    "habitat_sim_scenes/batch.gltf": "MAGNUMX_mesh_views",
    "habitat_sim_scenes/batch-four-squares-no-materials.gltf": Loaded(8, (1.8, 1.8, 0.0), None, None),
    "habitat_sim_scenes/batch-four-squares-no-scene.gltf": Loaded(8, (1.8, 1.8, 0.0), None, None),
    "habitat_sim_scenes/plane.glb": Loaded(2_048, (200.0, 200.0, 0.0), None, None),
    "habitat_sim_scenes/receptacle_mesh_simple_room_table.ply": Loaded(2, (1.4, 0.0, 1.4), 1.2, 1.4),
    "habitat_sim_scenes/simple_room.glb": Loaded(84, (10.5, 2.2, 10.8), 107.9, 0.3),
    "habitat_sim_scenes/stage_floor1.glb": Loaded(2_048, (40.0, 3.7, 40.0), 1599.1, 0.0),
    "mcguire_CornellBox/CornellBox-Empty-CO.obj": Loaded(12, (2.0, 2.0, 2.0), 3.0, 0.2),
    "mcguire_CornellBox/CornellBox-Original.obj": Loaded(36, (2.0, 2.0, 2.0), 1.5, 0.2),
    "mcguire_CornellBox/CornellBox-Sphere.obj": Loaded(2_188, (2.0, 1.6, 2.0), None, None),
    "mcguire_lost-empire/lost_empire.obj": Loaded(224_998, (75.0, 49.0, 165.0), 16432.7, 11.2),
    "recast/dungeon.obj": Loaded(10_133, (74.3, 40.2, 98.9), 2028.8, 10.2),
    "recast/nav_test.obj": Loaded(1_612, (91.4, 21.9, 77.4), 5248.8, -2.3),
    "van_gogh_room/van-gogh-room.mesh.ply": Loaded(11_272, (6.8, 3.9, 3.5), 9.2, 0.2),
}
OUTCOMES |= {f"kaykit_furniture/gltf/{name}.gltf": Loaded(row[0], None, row[1]) for name, row in KAYKIT.items()}
LOADED = [name for name, outcome in OUTCOMES.items() if isinstance(outcome, Loaded)]
# trimesh places nothing in a file without nodes.
PLACED_BY_TRIMESH = [name for name in LOADED if ".gl" in name and "no-scene" not in name]
SLOW = ("aws_small_house/aws_small_house.glb", "mcguire_lost-empire/lost_empire.obj", "recast/nav_test.obj")


def areas(corners):
    """The areas of triangles [T, 3, 3]."""
    return np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1) / 2


@pytest.mark.data
@pytest.mark.parametrize("name", [name for name in OUTCOMES if name not in LOADED])
def test_a_file_is_refused_by_name_for_a_reason(data_dir, name):
    with pytest.raises(SceneError, match=OUTCOMES[name]) as error:
        load_scene(data_dir / "scenes" / name)
    assert Path(name).name in str(error.value)


@pytest.mark.data
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in LOADED])
def test_a_file_loads_right_way_up_in_metres_with_a_navmesh_where_an_agent_fits(data_dir, name):
    expected = OUTCOMES[name]
    scene = load_scene(data_dir / "scenes" / name)
    assert len(scene.triangles) == expected.num_triangles == len(scene.triangle_material) == len(scene.triangle_object)
    assert (scene.vertices.dtype, scene.triangles.dtype) == (np.float32, np.int32)
    assert sorted(set(scene.triangles.ravel().tolist())) == list(range(len(scene.vertices)))
    assert sorted(set(scene.triangle_object.tolist())) == list(range(1, len(scene.objects) + 1))
    assert 0 <= scene.triangle_material.min() and scene.triangle_material.max() < len(scene.materials)
    assert all(t.dtype == np.uint8 and t.shape[2] == 4 and max(t.shape[:2]) <= 2048 for t in scene.textures)
    assert -1 <= scene.materials.texture.min() and scene.materials.texture.max() < len(scene.textures)
    size = np.ptp(scene.vertices, axis=0)
    if expected.size is None:  # furniture
        assert 0.05 < size[1] < 2.6 and 0.2 < size.max() < 3.2
        if KAYKIT[Path(name).stem][2]:
            assert scene.bounds[0, 1] == pytest.approx(0, abs=0.01)
    else:
        np.testing.assert_allclose(size, expected.size, atol=0.06)
    if name in PLACED_BY_TRIMESH:
        assert_same_triangles(data_dir / "scenes" / name)
    if expected.area is None:
        with pytest.raises(ValueError, match="no walkable area for an agent"):
            NavMesh.build(scene.vertices, scene.triangles)
        return
    mesh = NavMesh.build(scene.vertices, scene.triangles)
    assert mesh.navigable_area == pytest.approx(expected.area, rel=0.05, abs=0.1)
    if expected.floor is not None:
        polygons = mesh.polygons[max(mesh.islands, key=lambda island: island.area).polygons]
        height = np.median(mesh.vertices[polygons[polygons >= 0], 1])
        assert height == pytest.approx(expected.floor, abs=0.3)


def assert_same_triangles(path):
    """A glTF file has the triangles that trimesh finds in it."""
    other = trimesh.load_scene(path, process=False)
    meshes = [(other.graph[node][0], other.geometry[other.graph[node][1]]) for node in other.graph.nodes_geometry]
    theirs = np.concatenate([trimesh.transform_points(m.vertices, t)[m.faces] for t, m in meshes])
    ours = soup(load_scene(path, up="y", scale=1))
    assert len(ours) == len(theirs)
    # Sorted sums of corners and area vectors: a comparison that no order of triangles and no rounding disturbs.
    for measure in (lambda t: t.sum(axis=1), lambda t: np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0])):
        np.testing.assert_allclose(np.sort(measure(ours), axis=0), np.sort(measure(theirs), axis=0), atol=2e-5)


@pytest.mark.data
@pytest.mark.parametrize(
    "fixture",
    [
        *("aws_bookstore", "aws_small_house", "drake_living_room", "godot_room", "godot_living_room"),
        *("recast_nav_test", "recast_dungeon", "van_gogh_room"),
    ],
)
def test_fixtures_baked_elsewhere_have_the_same_count_bounds_and_area(data_dir, fixture):
    oracle = json.loads(gzip.decompress((data_dir / "fixtures" / fixture / "oracle.json.gz").read_bytes()))
    scene = load_scene(data_dir / "scenes" / oracle["source"])
    assert len(scene.triangles) == oracle["triangles_in_file"]
    corners = soup(scene)
    real = areas(corners) > 5e-13
    bounds = [corners[real].min(axis=(0, 1)), corners[real].max(axis=(0, 1))]
    np.testing.assert_allclose(bounds, oracle["bounds"], atol=1e-5)
    if fixture.startswith(("aws", "drake", "godot_room")):
        assert len(scene.objects) == oracle["instances"]
    if not fixture.startswith("recast"):
        assert oracle["settings_name"] == "habitat"
        assert OUTCOMES[oracle["source"]].area == pytest.approx(oracle["navmesh"]["area_detail"], rel=0.02)


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in OUTCOMES if n.endswith((".obj", ".ply"))],
)
def test_obj_and_ply_have_trimeshs_triangles_and_area(data_dir, name):
    other = trimesh.load_scene(data_dir / "scenes" / name, process=False, skip_materials=True)
    assert OUTCOMES[name].num_triangles == sum(len(mesh.faces) for mesh in other.geometry.values())
    if "CornellBox" not in name:  # trimesh takes relative indices from the end of the file
        ours = soup(load_scene(data_dir / "scenes" / name, up="y", scale=1))
        theirs = sum(mesh.area for mesh in other.geometry.values())
        assert areas(ours).sum() == pytest.approx(theirs, rel=1e-5)
