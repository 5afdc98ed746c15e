"""A small noisy collection in two formats."""

import pytest
from gathering import gather


@pytest.fixture(scope="package")
def zarr_dataset(tmp_path_factory):
    out = tmp_path_factory.mktemp("zarr") / "data"
    gather(out)
    return out


@pytest.fixture(scope="package")
def tar_dataset(tmp_path_factory):
    out = tmp_path_factory.mktemp("tar") / "data"
    gather(out, to="webdataset")
    return out
