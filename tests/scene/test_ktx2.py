"""KTX2 textures with Basis Universal: what an independent encoder wrote, and invalid headers."""

import struct
import sys

import numpy as np
import pytest
from compressed import KTX2_FILES, QUARTERS, ktx2_file, ktx2_square
from glb import four_colors

from gym_batchnav.scene.formats.gltf_document import count_gltf
from gym_batchnav.scene.images import DamagedImageError, decode_texture, open_image
from gym_batchnav.scene.load import SceneError, load_scene

WIDTH = 20  # where fields of the header begin
DEPTH = 28
LAYERS = 32
FACES = 36
LEVELS = 40
SCHEME = 44
DESCRIPTOR = 48
LEVEL = 80


def changed(name, at, value, kind="<I"):
    data = bytearray(ktx2_file(name))
    struct.pack_into(kind, data, at, value)
    return bytes(data)


@pytest.fixture
def basisu():
    return pytest.importorskip("opengl_basisu")


@pytest.mark.parametrize("name", KTX2_FILES)
def test_colors_are_those_that_were_encoded(basisu, name):
    pixels = decode_texture(open_image(ktx2_file(name), "it"), "it")
    assert pixels.shape == (16, 16, 4) and pixels.dtype == np.uint8
    expected = QUARTERS.repeat(8, axis=0).repeat(8, axis=1)
    assert np.abs(pixels.astype(int) - expected).max() <= (3 if "uastc" in name else 12)


def test_the_largest_level_that_fits_is_decoded(basisu):
    # The encoder's mip levels are blurred across the quarters; the second file has none and is scaled down.
    for name, error in (("etc1s_mips", 70), ("uastc", 3)):
        small = decode_texture(open_image(ktx2_file(name), "it", 8), "it", 8)
        assert small.shape == (8, 8, 4)
        assert np.abs(small[::7, ::7].astype(int) - QUARTERS).max() <= error


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (ktx2_file("uastc")[:60], "cut short"),
        (ktx2_file("uastc")[:-1], "level 0 exceeds the file of 447 bytes"),
        (changed("etc1s", WIDTH, 0), "not one picture: 0x16"),
        (changed("etc1s", DEPTH, 2), "not one picture: 16x16x2"),
        (changed("etc1s", LAYERS, 6), "6 layers"),
        (changed("etc1s", FACES, 6), "6 faces"),
        (changed("etc1s", LEVELS, 2**31), "2147483648 levels"),
        (changed("etc1s", SCHEME, 3), "supercompression scheme 3"),
        (changed("uastc", SCHEME, 1), "supercompression scheme 1"),
        (changed("etc1s", 12, 37), "Vulkan's format 37"),
        (changed("etc1s", DESCRIPTOR, 10**6), "data format descriptor is damaged"),
        (changed("uastc_zstd", LEVEL + 16, 2**40, "<Q"), "declares 1099511627776 bytes, not 256"),
        (changed("uastc", WIDTH, 60000), "declares 256 bytes, not"),
    ],
)
def test_invalid_headers_are_refused_before_anything_is_decoded(basisu, monkeypatch, data, reason):
    monkeypatch.setattr("importlib.import_module", None)
    with pytest.raises(DamagedImageError, match=reason):
        open_image(data, "it")


def test_pictures_that_are_too_large_are_refused(basisu):
    with pytest.raises(ValueError, match="image it has 100000x16 pixels, the limit is 65,536 per side"):
        open_image(changed("etc1s", WIDTH, 100_000), "it")
    with pytest.raises(ValueError, match="image it has 60000x60000 pixels, the limit is 33,554,432"):
        open_image(changed("etc1s", WIDTH, 60000 * (2**32 + 1), "<Q"), "it")


def test_damaged_data_is_an_error_or_a_picture_of_the_same_size(basisu):
    rng = np.random.default_rng(0)
    for name in KTX2_FILES:
        for _ in range(100):
            data = bytearray(ktx2_file(name))
            data[rng.integers(100, len(data))] ^= int(rng.integers(1, 256))
            try:
                image = open_image(bytes(data), "it")
                assert decode_texture(image, "it").shape == (16, 16, 4)
            except DamagedImageError:
                pass


@pytest.mark.parametrize("source", [None, 0])
def test_a_scene_has_the_texture(basisu, tmp_path, source):
    (picture,) = ktx2_square("etc1s", source).load(tmp_path).textures
    assert picture.shape == (16, 16, 4)
    assert np.abs(picture[4::8, 4::8].astype(int) - QUARTERS).max() <= 12


def test_without_its_extra_it_is_refused_by_name_unless_there_is_a_plain_copy(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "opengl_basisu", None)
    with pytest.raises(SceneError, match=r"KTX2, which needs opengl-basisu: .*gym-batchnav\[formats\]"):
        ktx2_square("etc1s").load(tmp_path)
    (picture,) = ktx2_square("etc1s", source=0).load(tmp_path).textures
    np.testing.assert_array_equal(picture[..., :3], four_colors())


def test_without_its_extra_its_cost_is_counted_all_the_same(tmp_path, monkeypatch):
    path = tmp_path / "wall.glb"
    path.write_bytes(ktx2_square("etc1s").bytes())
    monkeypatch.setitem(sys.modules, "opengl_basisu", None)
    assert count_gltf(path).num_textures == 1


@pytest.mark.data
def test_the_lamp_of_khronos_has_its_texture(basisu, data_dir):
    scene = load_scene(data_dir / "fixtures" / "gltf" / "AnisotropyBarnLamp-KTX2" / "AnisotropyBarnLamp.gltf")
    assert len(scene.triangles) == 10_203 and scene.warnings == ()
    (picture,) = scene.textures
    assert picture.shape == (2048, 2048, 4) and (picture[..., 3] == 255).all()
    # Seen in the picture: a white and a grey field, and copper above the lamp's disc.
    fields = ((650, 1430, (255, 255, 255)), (600, 1850, (165, 165, 165)), (100, 200, (223, 161, 129)))
    for row, column, color in fields:
        patch = picture[row - 8 : row + 8, column - 8 : column + 8, :3]
        np.testing.assert_allclose(patch.mean(axis=(0, 1)), color, atol=4)
