"""Random materials change what is seen and nothing else."""

import numpy as np
from generated import home

from gym_batchnav.homes.random_materials import with_random_materials


def test_the_geometry_stays():
    plain, other = (home(damage=0.7, random_materials=share) for share in (0, 1))
    for name in ("vertices", "triangles", "triangle_object", "triangle_material", "uvs"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(other, name))
    assert (plain.materials.base_color != other.materials.base_color).any(axis=1).all()
    assert ((other.materials.base_color >= 0) & (other.materials.base_color <= 1)).all()
    assert (other.materials.texture < len(other.textures)).all()
    again = with_random_materials(plain, 1, 1)
    np.testing.assert_array_equal(other.materials.base_color, again.materials.base_color)
    np.testing.assert_array_equal(other.unsimplified().materials.texture, other.materials.texture)


def test_the_share_and_the_seed_choose_which_and_how():
    plain = home()
    some, again = (with_random_materials(plain, 0.5, 5) for _ in range(2))
    all_, other = (with_random_materials(plain, 1, seed) for seed in (5, 6))
    changed = (plain.materials.base_color != some.materials.base_color).any(axis=1)
    assert 0.25 < changed.mean() < 0.75
    np.testing.assert_array_equal(some.materials.base_color, again.materials.base_color)
    np.testing.assert_array_equal(some.textures[-1], again.textures[-1])
    np.testing.assert_array_equal(some.materials.base_color[changed], all_.materials.base_color[changed])
    assert not np.array_equal(all_.textures[-1], other.textures[-1])


def test_two_fifths_of_the_scenes_are_plain_and_mostly_of_one_colour_and_some_of_these_flat():
    scene = home()
    bare = flat = 0
    for seed in range(12):
        other = with_random_materials(scene, 0.6, seed)
        made = other.materials
        changed = (made.base_color != scene.materials.base_color).any(axis=1)
        if (made.texture[changed] == -1).all():
            bare += 1
            colors = made.base_color[changed, :3]
            distance = np.abs(colors - np.median(colors, axis=0)).max(axis=1)
            assert (distance < 0.35).mean() > 0.5
            if (other.colors == 255).all():
                flat += 1
                assert (distance == 0).mean() > 0.5
        else:
            np.testing.assert_array_equal(other.colors, scene.colors)
    assert 2 <= flat < bare <= 7
