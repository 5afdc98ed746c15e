"""The renderers that tests draw with."""

import pytest


@pytest.fixture(scope="module", params=["embree", "warp", pytest.param("opengl", marks=pytest.mark.opengl)])
def name(request) -> str:
    if request.param == "warp":
        pytest.importorskip("warp")
    return request.param
