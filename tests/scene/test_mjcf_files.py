"""Files of MuJoCo models: where they may lie, what they may hold, and how they are refused."""

import os
import subprocess
import sys

import mjcf
import numpy as np
import pytest
from mjcf import model, png, write
from rooms import names_of

from gym_batchnav.scene.files import SceneFiles
from gym_batchnav.scene.formats import mjcf_compile, mjcf_document
from gym_batchnav.scene.load import SceneError, load_scene

pytest.importorskip("mujoco")

in_process = pytest.fixture(mjcf.in_process)
BOX = '<geom name="box" type="box" size="1 1 1"/>'
MESH = '<geom type="mesh" mesh="m"/>'
ROOF = mjcf.HOUSE_OBJ
WOOD = png(np.full((2, 2, 3), 9, np.uint8))


@pytest.mark.parametrize(
    "assets",
    [
        '<mesh name="m" file="../../out.obj"/>',
        '<mesh name="m" file="link.obj"/>',
        '<hfield name="m" file="../out.bin" size="1 1 1 1"/>',
        '<texture name="t" type="2d" file="../../out.png"/><material name="x" texture="t"/>',
        '<texture name="t" type="cube" fileup="../../out.png"/><material name="x" texture="t"/>',
        '<model name="s" file="../../home.xml"/>',
        '<include file="../../part.xml"/>',
    ],
)
def test_files_outside_the_folder_are_refused(in_process, tmp_path, assets):
    home = tmp_path / "homes" / "home"
    home.mkdir(parents=True)
    (tmp_path / "homes" / "out.bin").write_bytes(ROOF)  # in the shared folder, but not of a kind that is shared
    for name in ("out.obj", "part.xml", "out.png"):
        (tmp_path / name).write_bytes(ROOF)
    (home / "link.obj").symlink_to(tmp_path / "out.obj")
    path = write(home, model(BOX + '<geom size="1" material="x"/>' if "material" in assets else BOX, assets))
    with pytest.raises(SceneError, match=r"not inside its folder|link out of its folder"):
        load_scene(path)


@pytest.mark.parametrize("key", ["meshdir", "assetdir"])
def test_folders_of_the_compiler_are_followed_and_checked(in_process, tmp_path, key):
    assets = '<mesh name="m" file="sub/roof.OBJ"/>'
    (tmp_path / "parts" / "sub").mkdir(parents=True)
    (tmp_path / "parts" / "sub" / "roof.OBJ").write_bytes(ROOF)
    scene = load_scene(write(tmp_path, model(MESH, assets, f'<compiler {key}="parts/"/>')))
    assert len(scene.triangles) == 6 and "parts/sub/roof.OBJ" in scene.metadata["files"]
    (tmp_path / "parts" / "roof.OBJ").write_bytes(ROOF)
    stripped = model(MESH, assets, f'<compiler {key}="parts" strippath="true"/>')
    assert "parts/roof.OBJ" in load_scene(write(tmp_path, stripped)).metadata["files"]
    for folder in ("../..", "/tmp", "parts/../../.."):
        with pytest.raises(SceneError, match="not inside its folder"):
            load_scene(write(tmp_path, model(MESH, assets, f'<compiler {key}="{folder}"/>')))


def test_models_share_the_files_of_folders_beside_theirs(in_process, tmp_path):
    wood = '<texture name="t" type="2d" file="grain/../../textures/wood.png"/><material name="wood" texture="t"/>'
    arm = '<mujoco><asset><mesh name="m" file="../stls/roof.obj"/></asset></mujoco>'
    files = {"parts/arm.xml": arm.encode(), "stls/roof.obj": ROOF, "models/home.xml": b"", "textures/wood.png": WOOD}
    for name, data in files.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(data)
    xml = model(MESH.replace("/>", ' material="wood"/>'), wood, '<include file="../parts/arm.xml"/>')
    scene = load_scene(write(tmp_path / "models", xml))
    assert len(scene.textures) == 1 and len(scene.triangles) == 6
    assert {"../parts/arm.xml", "../stls/roof.obj", "../textures/wood.png"} < set(scene.metadata["files"])


def test_the_users_home_is_not_shared_among_the_models_in_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    folder = tmp_path / "me" / "models"
    folder.mkdir(parents=True)
    (tmp_path / "me" / "out.obj").write_bytes(ROOF)
    path = write(folder, model(MESH, '<mesh name="m" file="../out.obj"/>'))
    with pytest.raises(SceneError, match="not inside its folder: put the file next to the scene"):
        load_scene(path)


def test_a_model_loads_for_a_user_without_a_home(in_process, tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert len(load_scene(write(tmp_path, model(BOX))).triangles) == 12


def test_homes_in_molmospaces_layout_share_the_folder_of_their_objects(in_process, tmp_path):
    home = tmp_path / "scenes" / "procthor"
    home.mkdir(parents=True)
    (tmp_path / "objects").mkdir()
    assets = '<texture name="t" type="2d" file="../../objects/thor/wood.png"/><material name="x" texture="t"/>'
    path = write(home, model('<geom type="box" size="1 1 1" material="x"/>', assets))
    outside = tmp_path.parent / f"{tmp_path.name}_store"
    outside.mkdir()
    (outside / "wood.png").write_bytes(WOOD)
    (tmp_path / "objects" / "thor").symlink_to(outside)  # as the installer does
    scene = load_scene(path)
    assert len(scene.textures) == 1 and "../../objects/thor/wood.png" in scene.metadata["files"]
    (tmp_path / "objects" / "all").symlink_to("/")
    text = path.read_text()
    path.write_text(text.replace("objects/thor", f"objects/all{outside}"))
    assert len(load_scene(path).textures) == 1, "another link leads there too"
    (tmp_path / "objects" / "thor").unlink()
    with pytest.raises(SceneError, match="link out of its folder"):
        load_scene(path)
    path.write_text(text.replace("../../objects", "../../../"))
    with pytest.raises(SceneError, match="not inside its folder"):
        load_scene(path)


def test_included_files_and_attached_models_become_part_of_the_scene(tmp_path):
    (tmp_path / "chairs").mkdir()
    parts = {
        "assets.xml": '<mujoco><mesh name="m" file="roof.obj"/></mujoco>',
        "world.xml": '<any><body name="shed" pos="5 0 0"><geom type="mesh" mesh="m"/></body></any>',
        "chairs/chair.xml": model(
            '<body name="chair"><geom type="mesh" mesh="seat" material="red"/></body>',
            '<mesh name="seat" file="seat.obj"/><texture name="t" type="2d" file="t.png"/>'
            '<material name="red" texture="t"/>',
        ),
    }
    for name, text in parts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "chairs" / "seat.obj").write_bytes(ROOF)
    (tmp_path / "chairs" / "t.png").write_bytes(WOOD)
    chairs = '<replicate count="2" offset="0 3 0"><attach model="c" body="chair" prefix="a_"/></replicate>'
    world = '<include file="world.xml"/>' + chairs
    assets = '<include file="assets.xml"/><model name="c" file="chairs/chair.xml"/>'
    scene = load_scene(write(tmp_path, model(world, assets), roof__obj=ROOF))
    assert names_of(scene) == ("shed", "a_chair0", "a_chair1") and len(scene.textures) == 1
    assert set(scene.metadata["files"]) == {"home.xml", *parts, "roof.obj", "chairs/seat.obj", "chairs/t.png"}
    twice = model('<include file="world.xml"/><include file="world.xml"/>', '<include file="assets.xml"/>')
    with pytest.raises(SceneError, match=r"includes 'world\.xml' twice"):
        load_scene(write(tmp_path, twice))


TWICE = f'<body name="b0">{BOX}</body>' + "".join(
    f'<body name="b{k}"><attach body="b{k - 1}" prefix="p{k}a"/><attach body="b{k - 1}" prefix="p{k}b"/></body>'
    for k in range(1, 30)
)
HOSTILE = {
    "entities": ('<!DOCTYPE a [<!ENTITY b "c">]><mujoco/>', "document type"),
    "external entity": ('<!DOCTYPE a SYSTEM "file:///etc/passwd"><mujoco/>', "document type"),
    "no XML": ("mujoco", "not well-formed XML"),
    "another format": ("<robot/>", "URDF"),
    "another root": ("<scene/>", "begins with <scene>"),
    "unknown encoding": ("<?xml version='1.0' encoding='klingon'?><mujoco/>", "not well-formed XML|unknown encoding"),
    "deep": ("<mujoco><worldbody>" + "<body>" * 200 + "</body>" * 200 + "</worldbody></mujoco>", "more than 100 deep"),
    "nothing": (model(""), "no triangles"),
    "includes itself": (model('<include file="home.xml"/>'), "includes 'home.xml' twice|begins with|no triangles"),
    "attaches itself": (model(BOX, '<model name="s" file="home.xml"/>'), "attaches itself"),
    "attaches a body to twice as many": (model(TWICE), "bodies and geoms, but compiling takes too long"),
    "attaches what comes later": (model('<attach body="b" prefix="p"/><body name="b"/>'), "is defined above it"),
    "many replicas": (
        model(f'<replicate count="1000000">{BOX}</replicate>'),
        "1,000,000 bodies and geoms.*more than 10,000: join .*, or export the scene as GLB",
    ),
    "nested replicas": (
        model('<replicate count="1000">' * 3 + BOX + "</replicate>" * 3),
        "1,000,000,000 bodies and geoms",
    ),
    "a huge procedural texture": (
        model(BOX, '<texture name="t" type="2d" builtin="flat" width="100000" height="100000"/>'),
        "MuJoCo cannot compile it .*memory",
    ),
    "a fine builtin mesh": (model(MESH, '<mesh name="m" builtin="sphere" params="1000000"/>'), "parameter above 100"),
    "no number": (model('<geom size="a"/>'), "MuJoCo cannot compile it"),
    "a missing mesh": (model(MESH, '<mesh name="m" file="no.obj"/>'), "'no.obj', which does not exist"),
    "a strange mesh": (model(MESH, '<mesh name="m" file="no.fbx"/>'), "'.fbx': save it as OBJ"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_models_are_refused_with_the_reason(tmp_path, case):
    xml, reason = HOSTILE[case]
    with pytest.raises(SceneError, match=reason):
        load_scene(write(tmp_path, xml))


def test_models_that_attach_models_are_refused_by_what_the_compiler_would_parse(tmp_path):
    """It parses a model again for each that refers to it: eleven in each of eight levels would be 200 million."""
    for level in range(1, 9):
        below = "" if level == 8 else "".join(f'<model name="m{k}" file="{level + 1}_{k}.xml"/>' for k in range(11))
        for k in range(11):
            (tmp_path / f"{level}_{k}.xml").write_text(model(f'<body name="b">{BOX}</body>', below))
    home = model(BOX, "".join(f'<model name="m{k}" file="1_{k}.xml"/>' for k in range(11)))
    with pytest.raises(SceneError, match=r"would parse .* elements, the limit is .*: attach all models in the main"):
        load_scene(write(tmp_path, home))


def test_a_model_attaches_its_own_bodies_and_models_that_name_themselves(in_process, tmp_path):
    chair = '<mujoco model="Chair"><worldbody><body name="seat"><geom size="1"/></body></worldbody></mujoco>'
    (tmp_path / "chair.xml").write_text(chair)
    world = '<body name="a"><geom size="1"/></body><frame pos="5 0 0"><attach body="a" prefix="copy_"/></frame>'
    world += '<attach model="Chair" body="seat" prefix="x_"/>'
    scene = load_scene(write(tmp_path, model(world, '<model file="chair.xml"/>')))
    assert names_of(scene) == ("a", "copy_a", "x_seat")


def test_plugins_soft_bodies_fields_and_physics_are_left_out(in_process, tmp_path):
    rest = """<extension><plugin plugin="mujoco.elasticity.cable"/></extension>
      <actuator><motor joint="no_such_joint"/></actuator><deformable><skin name="s" file="../skin.skn"/></deformable>"""
    scene = load_scene(write(tmp_path, model(BOX).replace("</mujoco>", rest + "</mujoco>")))
    assert names_of(scene) == ("box",)
    assert "Soft bodies and plugins were left out: 1 <plugin>, 1 <skin>" in scene.warnings
    mesh = '<mesh name="bowl"><plugin instance="bowl"/></mesh>'
    field = '<geom type="sdf" mesh="bowl"><plugin instance="bowl"/></geom>'
    assert names_of(load_scene(write(tmp_path, model(BOX + field, mesh)))) == ("box",)


def test_the_compiler_gets_no_path_of_the_file(tmp_path):
    assets = '<mesh file="roof.obj"/><texture file="t.png"/><material name="x" texture="t"/>'
    path = write(tmp_path, model('<geom mesh="roof" type="mesh" material="x"/>', assets), roof__obj=ROOF, t__png=b"")
    document = mjcf_document.read_document(SceneFiles(path))
    assert document.assets == {"file0.obj": ROOF}
    assert b'file="file0.obj"' in document.xml and b"roof.obj" not in document.xml and b"t.png" not in document.xml


def test_a_compiler_that_dies_or_hangs_is_an_error_of_the_scene(tmp_path, monkeypatch):
    path = write(tmp_path, model(BOX))
    real = subprocess.Popen

    def instead(code):
        return lambda command, **keywords: real([sys.executable, "-S", "-c", code], **keywords)

    monkeypatch.setattr(mjcf_compile.subprocess, "Popen", instead("import os; os.kill(os.getpid(), 11)"))
    with pytest.raises(SceneError, match="ended by SIGSEGV on it"):
        load_scene(path)
    monkeypatch.setattr(mjcf_compile.subprocess, "Popen", instead("import time; time.sleep(60)"))
    monkeypatch.setattr(mjcf_compile, "_FREE_SECONDS", 0.1)
    with pytest.raises(SceneError, match=r"more than 0 s to compile"):
        load_scene(path)
    monkeypatch.setattr(mjcf_compile, "_SECONDS_PER_BYTE", 0.0006)  # larger models get more time
    with pytest.raises(ValueError, match="more than 1 s to compile"):
        mjcf_compile.compile_mjcf(mjcf_document.Document(b"", {"m.obj": bytes(900)}))


def test_without_mujoco_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(mjcf_compile.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SceneError, match=r'pip install "gym-batchnav\[mujoco\]"'):
        load_scene(write(tmp_path, model(BOX)))


def test_missing_textures_are_replaced_with_a_warning(in_process, tmp_path):
    assets = '<texture name="t" type="2d" file="gone.png"/><material name="x" texture="t" rgba="1 0 0 1"/>'
    path = write(tmp_path, model('<geom type="box" size="1 1 1" material="x"/>', assets))
    with pytest.warns(UserWarning, match=r"missing or damaged texture.*gone\.png"):
        scene = load_scene(path)
    np.testing.assert_allclose(scene.materials.base_color, [[1, 0, 0, 1]])


def test_cubes_from_grids_and_from_six_files_show_the_same(in_process, tmp_path):
    colors = {"R": 10, "L": 60, "U": 110, "D": 160, "F": 210, "B": 250}
    layout = ".U..LFRB.D.."
    grid = np.zeros((3, 4, 3), np.uint8)
    for place, letter in enumerate(layout):
        grid[place // 4, place % 4] = colors.get(letter, 0)
    pixels = np.kron(grid, np.ones((8, 8, 1), np.uint8))
    sides = {"right": "R", "left": "L", "up": "U", "down": "D", "front": "F", "back": "B"}
    single = {f"{letter}__png": png(np.full((8, 8, 3), colors[letter], np.uint8)) for letter in colors}
    attributes = {
        "grid": f'file="grid.png" gridsize="3 4" gridlayout="{layout}"',
        "six": " ".join(f'file{side}="{letter}.png"' for side, letter in sides.items()),
    }
    shown = {}
    for name, text in attributes.items():
        assets = f'<texture name="t" type="cube" {text}/><material name="x" texture="t"/>'
        geom = '<geom type="box" size="1 1 1" material="x"/>'
        scene = load_scene(write(tmp_path, model(geom, assets), grid__png=png(pixels), **single))
        middles = scene.vertices[scene.triangles].mean(axis=1)
        levels = [int(scene.textures[k][4, 4, 0]) for k in scene.materials.texture[scene.triangle_material]]
        rows = zip(middles, levels, strict=True)
        shown[name] = {tuple(np.round(at / np.abs(at).max()).astype(int).tolist()): v for at, v in rows}
    # In MuJoCo's frame right is +x, up is +y and front is +z, which here are x, -z and y.
    expected = {(1, 0, 0): 10, (-1, 0, 0): 60, (0, 0, -1): 110, (0, 0, 1): 160, (0, 1, 0): 210, (0, -1, 0): 250}
    assert shown["six"] == shown["grid"] == expected
