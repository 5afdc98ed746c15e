"""The text of OBJ files: numbers, corners, groups, and what is refused."""

import numpy as np
import pytest
from glb import four_colors, soup
from PIL import Image
from rooms import names_of

from gym_batchnav.scene.load import SceneError, load_scene
from gym_batchnav.scene.scene import CLAMP, MASK

CORNERS = "v 0 0 0\nv 1 0 0\nv 0 1 0\n"
TEXTURED = CORNERS + "vt 0 0\nvt 1 0\nvt 0 1\n"


def load_obj(folder, text, materials=""):
    (folder / "s.mtl").write_text(materials)
    (folder / "s.obj").write_text(text)
    return load_scene(folder / "s.obj")


def test_what_no_obj_needs_is_refused_before_it_is_read(tmp_path):
    (tmp_path / "big.mtl").write_bytes(b"\n" * (2**23 + 1))
    assert len(load_obj(tmp_path, CORNERS + "#" + "x" * 2**21 + "\nf 1 2 3\n").triangles) == 1
    for text, reason in (
        ("f" + " 1 2 3" * 3334, "line 4 is 'f 1 2 3.*a face may have at most 10,000 corners: split it"),
        ("o " + "x" * 2**16 + "\nf 1 2 3", "a line of 65,538 bytes"),
        (("f" + " 1" * 9000 + "\n") * 60, r"539,880 triangles from 1,080,1\d\d bytes"),
        ("o\n" * 1_000_001, "1,000,001 lines other than vertices and faces"),
        ("".join(f"mtllib {k}\n" for k in range(1001)), "more than 1,000 material files"),
        ("".join(f"g {k}\nf 1 2 3\n" for k in range(100_001)), "more than 100,000 parts"),
        ("mtllib big.mtl\nf 1 2 3", "big.mtl has 8,388,609 bytes, the limit is 8,388,608"),
    ):
        with pytest.raises(SceneError, match=reason):
            load_obj(tmp_path, CORNERS + text)


def test_vertices_of_an_obj_are_as_python_reads_them(tmp_path):
    """Numbers of every form, against float(), which rounds once."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=60) * 10.0 ** rng.integers(-3, 4, 60)
    words = [format(value, kind) for value in values for kind in (".6f", ".9e")]
    words += ["1", "+1.", "-.5", "1e3", "1E+03", "-0", "007", "0.12345678901234567890123", "0.1", "1e-30", "0e9"]
    words += ["0.000000000000000000000001", "123456789.123456789"]
    words = words[: len(words) // 3 * 3]
    rows = [" ".join(words[k : k + 3]) for k in range(0, len(words), 3)]
    expected = np.array([row.split() for row in rows], np.float64).astype(np.float32)
    faces = "".join(f"f {k + 1} 1 1\n" for k in range(len(rows)))
    (tmp_path / "o.obj").write_text("".join(f"v\t{row} \r\n" for row in rows) + faces)
    scene = load_scene(tmp_path / "o.obj", up="y", scale=1)
    np.testing.assert_array_equal(scene.vertices, expected)


@pytest.mark.parametrize("word", ["1.5f", "one", "1e", "--1", "+", "1,5", "0x10", "1.2.3", "."])
def test_a_word_that_is_no_number_is_shown_with_its_line(tmp_path, word):
    with pytest.raises(SceneError, match=r"line 3 is 'v 1 .*words that are not numbers"):
        load_obj(tmp_path, f"# two\nv 0 0 0\nv 1 {word} 0\nf 1 1 1\n")


@pytest.mark.parametrize("corner", ["0", "4", "-4", "1/2", "1/-2", "x", "1x", "1/x", "1/1x", "/1", "9" * 30])
def test_a_corner_that_does_not_exist_is_shown_with_its_line(tmp_path, corner):
    reason = f"line 5 is 'f 1 2 {corner}': it refers to a corner that is not defined before it"
    with pytest.raises(SceneError, match=reason):
        load_obj(tmp_path, f"{CORNERS}vt 0 0\nf 1 2 {corner}\nv 1 1 1\nvt 1 1\n")


def test_vertices_that_are_nan_cost_their_triangles_only(tmp_path):
    scene = load_obj(tmp_path, f"{CORNERS}v nan 0 0\nv -inf 0 0\nv 0 -nan(ind) 0\nf 1 2 3\nf 1 2 4\nf 1 2 5\n")
    assert len(scene.triangles) == 1
    assert "2 triangles with corners that are not finite were dropped" in scene.warnings


def test_only_the_materials_in_use_are_read(tmp_path):
    materials = "newmtl used\nKd 0 1 0\nnewmtl other\nmap_Kd gone.png\n"
    scene = load_obj(tmp_path, f"mtllib s.mtl\n{CORNERS}usemtl used\nf 1 2 3\n", materials)
    assert scene.materials.base_color.tolist() == [[0, 1, 0, 1]] and not any("gone" in one for one in scene.warnings)


def test_every_material_file_is_read(tmp_path):
    text = CORNERS
    for name in ("m0", "m1", "m2"):
        (tmp_path / f"{name}.mtl").write_text("#" * 2**20 + f"\nnewmtl {name}\nKd 0 1 0\n")
        text += f"mtllib {name}.mtl\nusemtl {name}\nf 1 2 3\n"
    assert load_obj(tmp_path, text).materials.base_color.tolist() == [[0, 1, 0, 1]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", [[0, 1], [1, 1], [0, 0]]),
        ("-s 3", [[0, 1], [3, 1], [0, 0]]),
        ("-s 4 2 1", [[0, 1], [4, 1], [0, -1]]),
        ("-o 0.25 0.5 0", [[0.25, 0.5], [1.25, 0.5], [0.25, -0.5]]),
        ("-o 0.25 0.5 -clamp off -s 4 2", [[0.25, 0.5], [4.25, 0.5], [0.25, -1.5]]),
        ("-s 1e300 -1e300", [[0, 0], [0, 0], [0, 0]]),
    ],
)
def test_textures_are_tiled_and_moved(tmp_path, options, expected):
    Image.new("RGB", (4, 4)).save(tmp_path / "p.png")
    materials = f"newmtl a\nmap_Kd {options} p.png\nnewmtl b\nmap_Kd p.png\n"
    faces = "usemtl a\nf 1/1 2/2 3/3\nusemtl b\nf 1/1 2/2 3/3\n"
    scene = load_obj(tmp_path, f"mtllib s.mtl\n{TEXTURED}{faces}", materials)
    np.testing.assert_allclose(scene.uvs[scene.triangles], [expected, [[0, 1], [1, 1], [0, 0]]])


def test_names_may_contain_number_signs(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "p#1.png")
    colors = "newmtl Material #25\nKd 1 0 0\nnewmtl Material #26 # green\nKd 0 1 0 #2\nnewmtl grey\nKd 0.5\n"
    names = ("Material #25", "Material #26", "grey # dark", "c")
    faces = "".join(f"usemtl {name}\nf 1/1 2/2 3/3\n" for name in names)
    text = f"# made by hand\n{colors}newmtl c\nmap_Kd p#1.png #2\n"
    materials = load_obj(tmp_path, f"mtllib s.mtl\n{TEXTURED}{faces}", text).materials
    assert materials.base_color[:, :3].tolist() == [[1, 0, 0], [0, 1, 0], [0.5, 0.5, 0.5], [1, 1, 1]]
    assert materials.texture.tolist() == [-1, -1, -1, 0]


def test_a_line_may_name_several_material_files(tmp_path):
    for name, file, color in (("a", "a", "1 0 0"), ("b", "my b", "0 1 0"), ("c", "c.mtl d", "0 0 1")):
        (tmp_path / f"{file}.mtl").write_text(f"newmtl {name}\nKd {color}\n")
    faces = "".join(f"usemtl {name}\nf 1 2 3\n" for name in "abc")
    scene = load_obj(tmp_path, f"mtllib a.mtl my b.MTL gone.mtl\nmtllib c.mtl d.mtl\n{CORNERS}{faces}")
    assert scene.materials.base_color[:, :3].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    missing = "The material file 'gone.mtl' is missing: its materials become white"
    assert [one for one in scene.warnings if "missing" in one] == [missing]


def test_errors_count_the_lines_of_the_file_as_written(tmp_path):
    (tmp_path / "s.obj").write_bytes(b"v 0 0 0\nv 1 \\\n0 0\r\nv 0 \\\r\n1 \\\n 0\nf 1 2 3\nv 1 2 zero\n")
    with pytest.raises(SceneError, match="line 8 is 'v 1 2 zero'"):
        load_scene(tmp_path / "s.obj")


def test_corners_count_backwards_from_the_face_and_groups_are_split(tmp_path):
    floor = "g floor\nv 0 0 0\nv 0 0 1\nv 1 0 1\nv 1 0 0\nvn 0 1 0\nf -4//-1 -3//-1 -2//-1 -1//-1\n"
    scene = load_obj(tmp_path, f"{floor}g wall one\n{CORNERS}f -3 -2 \\\n -1\nl 1 2\n")
    assert names_of(scene) == ("floor", "wall one") and scene.triangle_object.tolist() == [1, 1, 2]
    normals = np.cross(soup(scene)[:, 1] - soup(scene)[:, 0], soup(scene)[:, 2] - soup(scene)[:, 0])
    assert normals.tolist() == [[0, 1, 0], [0, 1, 0], [0, 0, 1]]
    assert scene.warnings == ("1 lines, points and curves were left out",)


def test_mtl_colors_and_masks(tmp_path):
    Image.fromarray(four_colors()).save(tmp_path / "p.png")
    Image.fromarray(np.array([[0, 255], [255, 255]], np.uint8).repeat(4, 0).repeat(4, 1)).save(tmp_path / "m.png")
    mtl = "newmtl glass # thin\nKd 0.1 0.2 0.3\nd 0.7\nnewmtl leaf\nmap_Kd -s 1 1 1 -clamp on p.png\nmap_d m.png\n"
    faces = "usemtl leaf\nf 1/1 2/2 3/3\nusemtl glass\nf 1 2 3\n"
    scene = load_obj(tmp_path, f"mtllib s.mtl\n{TEXTURED}{faces}", mtl)
    leaf, glass = scene.triangle_material
    materials = scene.materials
    np.testing.assert_allclose(materials.base_color[glass], [0.1, 0.2, 0.3, 0.7], rtol=1e-6)
    assert materials.alpha_mode.tolist() == [MASK, MASK] and materials.double_sided.all()
    assert materials.wrap[leaf].tolist() == [CLAMP, CLAMP] and materials.texture[glass] == -1
    assert scene.textures[0][0, 0].tolist() == [255, 0, 0, 0] and scene.textures[0][7, 7, 3] == 255


def test_names_of_materials_and_pictures_may_differ_in_case(tmp_path):
    (tmp_path / "Maps").mkdir()
    Image.fromarray(four_colors()).save(tmp_path / "Maps" / "Wood.PNG")
    (tmp_path / "M.MTL").write_text("newmtl m\nmap_Kd maps\\wood.png\n")
    scene = load_obj(tmp_path, f"mtllib m.mtl\n{TEXTURED}usemtl m\nf 1/1 2/1 3/1\n")
    assert len(scene.textures) == 1 and not any("missing" in sentence for sentence in scene.warnings)
