import pytest

from gym_batchnav.collect.info import plain
from gym_batchnav.collect.recovery import restored
from gym_batchnav.geometry import Camera


def test_objects_come_back():
    keywords = {"camera": Camera(20, 30, hfov_deg=70), "sensors": ("rgb",), "sliding": False, "protocol": None}
    assert restored(plain(keywords), "env") == keywords


@pytest.mark.parametrize("kind", ["os", "BatchNavEnv", "Popen"])
def test_other_classes_are_refused(kind):
    with pytest.raises(ValueError, match=r"camera= was a .*: pass camera= yourself"):
        restored({"type": kind, "command": "rm"}, "camera")


def test_wrong_fields_are_refused():
    with pytest.raises(ValueError, match="width='wide'"):
        restored({"type": "Camera", "width": "wide"}, "camera")
