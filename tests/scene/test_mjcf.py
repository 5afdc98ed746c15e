"""MuJoCo's XML: shapes, poses, what is shown, objects and textures, against answers by hand and by MuJoCo."""

import struct

import mjcf
import numpy as np
import pytest
import trimesh
from glb import soup
from mjcf import model, png, write
from rays import trace
from rooms import names_of

from gym_batchnav.scene.formats import mjcf as reader
from gym_batchnav.scene.formats.mjcf import category_of
from gym_batchnav.scene.load import load_scene

mujoco = pytest.importorskip("mujoco")


in_process = pytest.fixture(mjcf.in_process, autouse=True)


def corners_of(scene):
    """The distinct vertices in MuJoCo's frame, sorted."""
    x, y, z = scene.vertices.T
    return np.unique(np.round(np.stack([x, -z, y], axis=1), 4) + 0.0, axis=0)


def test_a_box_has_twelve_triangles_between_its_corners(tmp_path):
    scene = load_scene(write(tmp_path, model('<geom name="crate" type="box" pos="1 2 3" size=".5 1 1.5"/>')))
    assert len(scene.triangles) == 12
    expected = [[x, y, z] for x in (0.5, 1.5) for y in (1.0, 3.0) for z in (1.5, 4.5)]
    np.testing.assert_allclose(corners_of(scene), expected, atol=1e-5)
    assert names_of(scene) == ("crate",) and scene.metadata["up"] == "z" and scene.metadata["scale"] == 1
    solid = trimesh.Trimesh(scene.vertices, scene.triangles)
    assert solid.is_watertight and solid.volume == pytest.approx(6)


@pytest.mark.parametrize(
    ("geom", "expected"),
    [
        ('type="sphere" size="1.5"', 4 / 3 * np.pi * 1.5**3),
        ('type="ellipsoid" size="1 2 .5"', 4 / 3 * np.pi),
        ('type="cylinder" size="1 .7"', np.pi * 1.4),
        ('type="capsule" size=".8 .6"', 4 / 3 * np.pi * 0.8**3 + np.pi * 0.8**2 * 1.2),
    ],
)
def test_shapes_enclose_their_volume_with_their_fronts_outside(tmp_path, geom, expected):
    scene = load_scene(write(tmp_path, model(f'<geom {geom} pos="1 2 3" euler="10 20 30"/>')))
    volume = trimesh.Trimesh(scene.vertices, scene.triangles, process=False).volume
    assert volume == pytest.approx(expected, rel=0.03)


def test_a_shape_fitted_to_a_mesh_has_the_size_that_mujoco_gives_it(tmp_path):
    vertices = " ".join(f"{x} {y} {z}" for x in (0, 2) for y in (0, 2) for z in (0, 2))
    scene = load_scene(
        write(tmp_path, model('<geom type="box" mesh="cube"/>', f'<mesh name="cube" vertex="{vertices}"/>'))
    )
    np.testing.assert_allclose(np.ptp(corners_of(scene), axis=0), 2, rtol=1e-3)


def test_a_geom_that_collides_counts_in_the_inertia_of_its_body(tmp_path):
    """MuJoCo refuses the inertia of tiny geoms that are far apart, if a body has nothing else."""
    tiny = '<geom size="1e-4" contype="0" conaffinity="0" group="1"/>'
    apart = tiny.replace("/>", ' pos="1 .3 2"/>')
    scene = load_scene(write(tmp_path, model(f'<body name="b">{tiny}{apart}<geom type="box" size="1 1 1"/></body>')))
    assert names_of(scene) == ("b",)


def test_many_height_fields_are_refused_before_their_triangles_are_made(tmp_path, monkeypatch):
    monkeypatch.setattr(reader, "shape_of", None)
    monkeypatch.setattr("gym_batchnav.scene.builder.MAX_ELEMENTS", 10_000)
    field = '<hfield name="h" nrow="32" ncol="32" size="1 1 1 1"/>'
    world = '<replicate count="20" offset="3 0 0"><geom type="hfield" hfield="h"/></replicate>'
    with pytest.raises(ValueError, match=r"expands to 61,440 or more vertices and triangles \(2 MiB while loading\)"):
        load_scene(write(tmp_path, model(world, field)))


def test_a_model_that_expands_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("gym_batchnav.scene.formats.mjcf_compile.MAX_ANSWER_MIB", 2)
    texture = '<texture name="t" type="2d" builtin="flat" width="1024" height="1024"/>'
    with pytest.raises(ValueError, match="its meshes and textures have 3 MiB, the limit is 2"):
        load_scene(write(tmp_path, model('<geom type="box" size="1 1 1"/>', texture)))


def test_nested_bodies_turn_by_quaternions_and_by_angles_of_the_stated_unit_and_order(tmp_path):
    point = '<geom name="g" type="box" size=".001 .002 .003" pos="1 0 0"/>'
    half = np.sqrt(0.5)
    for head, outer, inner in (
        ("", f'quat="{half} 0 0 {half}"', 'euler="0 0 90"'),
        ('<compiler angle="radian"/>', f'quat="{half} 0 0 {half}"', f'euler="0 0 {np.pi / 2}"'),
        ('<compiler eulerseq="ZYX"/>', 'axisangle="0 0 1 90"', 'euler="90 0 0"'),
    ):
        body = f'<body pos="0 0 1" {outer}><body pos="2 0 0" {inner}>{point}</body></body>'
        scene = load_scene(write(tmp_path, model(body, head=head)))
        # (1, 0, 0) is turned by half a turn and moved along the turned x axis, which is y, by 2.
        np.testing.assert_allclose(corners_of(scene).mean(axis=0), [-1, 2, 1], atol=1e-5)


def test_the_pose_is_that_of_the_file_whatever_joints_and_key_frames_say(tmp_path):
    body = '<body name="door" pos="1 0 0"><joint ref="30" axis="0 0 1"/><geom type="box" size=".1 .1 .1"/></body>'
    keys = '<keyframe><key qpos="2"/></keyframe>'
    path = write(tmp_path, model(body).replace("</mujoco>", keys + "</mujoco>"))
    np.testing.assert_allclose(corners_of(load_scene(path)).mean(axis=0), [1, 0, 0], atol=1e-6)


TETRAHEDRON = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], "<i4")


@pytest.mark.parametrize("name", ["t.obj", "t.STL", "t.msh"])
def test_meshes_of_every_format_lie_where_their_file_says(tmp_path, name):
    assets = f'<mesh name="t" file="{name}" scale="2 2 -2"/>'
    if name == "t.msh":
        (tmp_path / name).write_bytes(struct.pack("<4i", 4, 0, 0, 4) + TETRAHEDRON.tobytes() + FACES.tobytes())
    else:
        trimesh.Trimesh(TETRAHEDRON, FACES, process=False).export(tmp_path / name)
    scene = load_scene(write(tmp_path, model('<geom type="mesh" mesh="t" pos="0 0 5"/>', assets)))
    expected = TETRAHEDRON * [2, 2, -2] + [0, 0, 5]
    np.testing.assert_allclose(corners_of(scene), np.unique(expected, axis=0), atol=1e-5)
    assert len(scene.triangles) == 4
    if name != "t.msh" or mujoco.__version__ >= "4":  # earlier ones turn the fronts of mirrored .msh files inside
        solid = trimesh.Trimesh(scene.vertices, scene.triangles, process=False)
        assert solid.volume == pytest.approx(8 / 6, rel=1e-4), "a mirrored mesh keeps its fronts outside"
    assert scene.metadata["files"].keys() == {"home.xml", name}


def shapes_of_every_kind(folder):
    """Every type of geom, turned and nested, with hidden ones between them."""
    heights = np.random.default_rng(0).random((5, 7)).astype("<f4")
    field = struct.pack("<2i", *heights.shape) + heights.tobytes()
    assets = (
        '<mesh name="roof" file="roof.obj" scale=".4 .5 .6"/><hfield name="hill" file="hill.bin" size="1 2 .5 .1"/>'
    )
    world = """<geom type="plane" size="4 5 .1"/>
      <geom type="hfield" hfield="hill" pos="2 2 .2"/>
      <body name="a" pos="-2 -2 1" euler="20 30 40">
        <geom type="sphere" size=".5" pos="0 0 1"/><geom type="capsule" size=".2" fromto="0 0 0 1 1 0"/>
        <geom type="box" size="3 3 3" group="4"/><geom type="box" size="3 3 3" rgba="1 1 1 0" contype="0"/>
        <body pos="0 2 0" quat=".5 .5 .5 -.5"><geom type="cylinder" size=".3 .6"/>
          <geom type="ellipsoid" size=".3 .6 .2" pos="1 0 0"/></body></body>
      <body name="b" pos="1 -2 .5" zaxis="1 1 3"><geom type="mesh" mesh="roof" pos=".1 .2 .3" euler="0 0 50"/>
        <geom type="box" size=".2 .3 .4" pos="0 1.5 0" xyaxes="1 1 0 -1 1 0"/></body>"""
    return write(folder, model(world, assets), roof__obj=mjcf.HOUSE_OBJ, hill__bin=field)


def test_rays_go_as_far_as_in_mujoco(tmp_path):
    path = shapes_of_every_kind(tmp_path)
    scene = load_scene(path)
    # mj_ray also leaves out geoms whose alpha is zero.
    rng = np.random.default_rng(1)
    origins = rng.uniform([-5, -5, 2.5], [5, 5, 6], (1000, 3))
    directions = rng.uniform([-4, -4, -0.5], [4, 4, 2], (1000, 3)) - origins
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    theirs = mjcf.mujoco_distances(path, origins, directions)
    ours = trace(scene, *(rays[:, [0, 2, 1]] * [1, 1, -1] for rays in (origins, directions)))
    near = (ours == theirs) | (np.abs(ours - np.where(np.isfinite(theirs), theirs, -1.0)) < 0.02)
    assert np.isfinite(theirs).sum() > 600
    assert near.mean() > 0.99, "all but rays that graze round shapes, which have edges here"
    wall = np.isfinite(theirs) & np.isfinite(ours)
    assert np.median(np.abs(ours[wall] - theirs[wall])) < 1e-4
    assert (ours[wall] > theirs[wall] - 0.02).mean() > 0.995, "nothing that MuJoCo hides stands in the way"


def test_hidden_geoms_and_shapes_for_collisions_are_left_out_and_said(tmp_path):
    world = """<geom name="floor" type="plane" size="2 2 .1"/>
      <body name="menagerie"><geom type="sphere" size=".5" contype="0" conaffinity="0" group="2"/>
        <geom type="box" size=".4 .4 .4" group="3"/></body>
      <body name="robosuite" pos="0 0 2"><geom type="sphere" size=".5" contype="0" conaffinity="0" group="1"/>
        <geom type="box" size=".4 .4 .4" rgba=".5 0 0 .5"/></body>
      <body name="unmarked" pos="0 0 4"><geom type="sphere" size=".5" contype="0" conaffinity="0" material="m"/>
        <geom type="box" size=".4 .4 .4"/></body>
      <body name="seen" pos="0 0 6"><geom type="box" size=".1 .1 .1" contype="0" conaffinity="0" group="1"/>
        <geom name="big" type="box" size=".4 .4 .4"/></body>
      <body name="glass" pos="0 0 8"><geom type="box" size=".4 .4 .4" rgba="1 1 1 0"/></body>"""
    scene = load_scene(write(tmp_path, model(world, '<material name="m" rgba="0 1 0 1"/>')))
    assert names_of(scene) == ("floor", "menagerie", "robosuite", "unmarked", "seen")
    counts = np.bincount(scene.triangle_object)[1:]
    assert counts.tolist() == [2, counts[1], counts[1], counts[1], 24], "a sphere each; two boxes"
    assert "2 geoms left out, which MuJoCo does not show either" in scene.warnings
    assert any(sentence.startswith("2 geoms for collisions were left out") for sentence in scene.warnings)


def test_objects_are_bodies_of_the_world_and_geoms_of_the_world(tmp_path):
    nested = '<body name="bed"><geom size=".1"/><body name="pillow"><geom size=".1"/></body></body>'
    lamp = '<body><geom name="bulb" size=".1"/></body>'
    scene = load_scene(write(tmp_path, model('<geom name="floor" size=".1"/><geom size=".1"/>' + nested + lamp)))
    assert names_of(scene) == ("floor", "geom_1", "bed", "body_3")
    wrapped = load_scene(write(tmp_path, model(f'<body name="home"><body name="inner">{nested}{lamp}</body></body>')))
    assert names_of(wrapped) == ("bed", "body_5"), "bodies that only hold the whole home are no objects"


@pytest.mark.parametrize(
    ("name", "category"),
    [
        *(("bed_1|2|3", "bed"), ("Chair_0_1", "Chair"), ("dining_table_9a66c2f01b_1_0", "dining_table"), ("", "")),
        *(("lamp2", "lamp"), ("3d_printer", "3d_printer"), ("42", "42"), ("floor lamp 2", "floor_lamp")),
    ],
)
def test_categories_are_the_words_before_the_first_number(name, category):
    assert category_of(name) == category


def test_an_infinite_plane_ends_where_the_scene_ends(tmp_path):
    world = '<geom name="ground" type="plane" size="0 0 .1"/><geom type="box" pos="1 2 1" size="3 1 1"/>'
    scene = load_scene(write(tmp_path, model(world)))
    ground = scene.vertices[np.unique(scene.triangles[scene.triangle_object == 1])]
    np.testing.assert_allclose([ground.min(axis=0), ground.max(axis=0)], [[-2, -0.001, -3], [4, -0.001, -1]], atol=1e-6)
    alone = load_scene(write(tmp_path, model('<geom type="plane" size="0 3 .1"/>')))
    np.testing.assert_allclose(np.ptp(alone.bounds, axis=0), [10, 0, 6], atol=1e-5)


def test_colours_are_those_of_the_geom_before_those_of_the_material(tmp_path):
    world = '<geom size=".1" material="m"/><geom size=".1" material="m" rgba="0 1 0 .5"/><geom size=".1"/>'
    scene = load_scene(write(tmp_path, model(world, '<material name="m" rgba="1 0 0 1"/>')))
    colors = scene.materials.base_color[[scene.triangle_material[scene.triangle_object == k][0] for k in (1, 2, 3)]]
    grey = ((0.5 + 0.055) / 1.055) ** 2.4
    np.testing.assert_allclose(colors, [[1, 0, 0, 1], [0, 1, 0, 0.5], [grey, grey, grey, 1]], atol=1e-5)


QUARTERS = np.zeros((64, 64, 3), np.uint8)
QUARTERS[:32, :32] = [255, 0, 0]
QUARTERS[:32, 32:] = [0, 255, 0]
QUARTERS[32:, :32] = [0, 0, 255]
QUARTERS[32:, 32:] = [255, 255, 0]


def texels(scene, points):
    """The colours [N, 3] that the first object of the scene shows at points [N, 3] on it."""
    rows = np.flatnonzero(scene.triangle_object == 1)
    corners = soup(scene)[rows]
    found = []
    for point in points:
        nearest = trimesh.triangles.closest_point(corners, np.tile(point, (len(rows), 1)))
        best = np.linalg.norm(nearest - point, axis=1).argmin()
        (weights,) = trimesh.triangles.points_to_barycentric(corners[[best]], nearest[[best]])
        u, v = weights @ scene.uvs[scene.triangles[rows[best]]]
        material = scene.triangle_material[rows[best]]
        texture = scene.textures[scene.materials.texture[material]]
        if scene.materials.wrap[material][0] == 0:
            u, v = u % 1, v % 1
        height, width = texture.shape[:2]
        found.append(texture[min(int(v * height), height - 1), min(int(u * width), width - 1), :3])
    return np.array(found)


def mujoco_pixels(path, width, height):
    """MuJoCo's picture of the square of 4 m by 4 m around the origin, from above; sRGB [H, W, 3]."""
    if tuple(map(int, mujoco.__version__.split(".")[:2])) < (3, 12):
        pytest.skip("older versions of MuJoCo project pictures on shapes along z")
    loaded, data = mjcf.compiled(path)
    try:
        renderer = mujoco.Renderer(loaded, height, width)
    except Exception as error:
        pytest.skip(f"MuJoCo cannot draw here: {error}")
    camera = mujoco.MjvCamera()
    camera.azimuth, camera.elevation = 90, -90
    camera.distance = 2.0 / np.tan(np.radians(22.5))
    renderer.update_scene(data, camera)
    pixels = renderer.render()
    renderer.close()
    return pixels


LIT = '<visual><headlight ambient="1 1 1" diffuse="0 0 0" specular="0 0 0"/><quality offsamples="0"/></visual>'
QUAD = b"v -2 -2 0\nv 2 -2 0\nv 2 2 0\nv -2 2 0\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nf 1/1 2/2 3/3 4/4\n"
PLANE = '<geom type="plane" size="2 2 1" material="m"/>'
BOX = '<geom type="box" pos="0 0 -2" {} size="2 2 2" material="m"/>'
MESH = '<geom type="mesh" mesh="quad" material="m" contype="0" conaffinity="0"/>'
TEXTURED = {
    "stretched": (PLANE, 'type="2d"', 'texrepeat="1 1"'),
    "repeated": (PLANE, 'type="2d"', 'texrepeat="2.5 1.5"'),
    "uniform": (PLANE, 'type="2d"', 'texuniform="true" texrepeat=".7 .6"'),
    "infinite": ('<geom type="plane" size="0 0 1" material="m"/>', 'type="2d"', 'texrepeat=".8 .8"'),
    "flipped": (PLANE, 'type="2d" hflip="true"', ""),
    "mesh": (MESH, 'type="2d"', ""),
    "mesh, repeated": (MESH, 'type="2d"', 'texrepeat="2 3"'),
    "mesh, uniform": (MESH, 'type="2d"', 'texrepeat="2 3" texuniform="true"'),
    "procedural": (PLANE, 'type="2d" builtin="checker" rgb1="1 0 0" rgb2="0 1 0" width="64" height="64"', ""),
    "cylinder": ('<geom type="cylinder" pos="0 0 -2" size="3 2" material="m"/>', 'type="2d"', 'texrepeat="1.5 2"'),
    **{
        f"{kind} on a box turned by {angles}": (BOX.format(f'euler="{angles}"'), f'type="{kind}"', repeat)
        for kind, repeat in (("2d", 'texrepeat="1.5 2.5"'), ("cube", ""), ("cube", 'texuniform="true"'))
        for angles in ("0 0 0", "180 0 0", "90 0 0", "-90 0 0", "0 90 0", "0 -90 0")
    },
}


@pytest.mark.opengl
@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.long if row % 6 else ()) for row, case in enumerate(TEXTURED)]
)
def test_textures_lie_where_mujoco_draws_them(tmp_path, case):
    geom, texture, material = TEXTURED[case]
    assets = f'<texture name="t" {texture} file="t.png"/><material name="m" texture="t" specular="0" {material}/>'
    assets += '<mesh name="quad" file="q.obj" inertia="shell"/>'
    path = write(tmp_path, model(geom, assets, LIT), t__png=png(QUARTERS), q__obj=QUAD)
    scene = load_scene(path)
    size = 80
    pixels = mujoco_pixels(path, size, size)
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(4, size - 4, (2, 60))
    x = ((columns + 0.5) / size - 0.5) * 4
    y = (0.5 - (rows + 0.5) / size) * 4
    ours = texels(scene, np.stack([x, np.zeros(60), -y], axis=1))
    theirs = pixels[rows, columns].astype(int)
    agree = (np.abs(ours.astype(int) - theirs) < 60).all(axis=1)
    assert agree.mean() > 0.8, "texels at edges between colours are blended there"
    assert len(np.unique(ours, axis=0)) == (2 if case == "procedural" else 4)
