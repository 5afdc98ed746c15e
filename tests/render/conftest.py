"""The renderers that tests draw with."""

import pytest


@pytest.fixture(scope="module", params=["embree", "warp", pytest.param("opengl", marks=pytest.mark.opengl)])
def name(request) -> str:
    """Name of the renderer."""
    if request.param == "warp":
        pytest.importorskip("warp")
    return request.param
