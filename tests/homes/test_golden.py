"""Generated scenes of all kinds, sizes and damages are what they were: a seed names one scene."""

import numpy as np
import pytest

from gym_batchnav.homes import generate_scene

# Triangles, vertices and objects, and the mean position, colour and texture coordinate. Equal machines give equal
# bytes; others may differ in the last digits.
GOLDEN = [
    ({"seed": 0, "triangles": 9000}, (9909, 15914, 122), (5.7241, 235.095, 0.2423)),
    ({"seed": 2, "storeys": 2, "area": 130.0, "triangles": 12000}, (11983, 16780, 130), (3.047, 232.3988, 0.1915)),
    ({"seed": 4, "kind": "office", "triangles": 12000}, (15276, 28075, 196), (10.2249, 241.2485, 0.3046)),
    ({"seed": 5, "kind": "shop", "triangles": 10000}, (14712, 28920, 69), (6.1572, 237.7973, 0.0842)),
    ({"seed": 7, "kind": "mixed", "triangles": 8000}, (8649, 16357, 119), (11.9199, 236.5043, 0.3431)),
    ({"seed": 10, "triangles": 60000, "area": 30.0}, (59558, 40604, 63), (1.9641, 232.5986, 0.1854)),
    ({"seed": 11, "kind": "hall", "triangles": 6000, "damage": 1.0}, (26250, 23884, 100), (9.8753, 222.6243, 1.0408)),
]


@pytest.mark.parametrize(("options", "counts", "means"), GOLDEN)
def test_a_seed_names_one_scene(options: dict, counts: tuple, means: tuple) -> None:
    scene = generate_scene(**options)
    assert scene.uvs is not None and scene.colors is not None
    assert (len(scene.triangles), len(scene.vertices), len(scene.objects)) == counts
    found = [float(np.mean(values, dtype=np.float64)) for values in (scene.vertices, scene.colors, scene.uvs)]
    assert found == pytest.approx(means, abs=1e-3)
