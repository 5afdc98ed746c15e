import sys
from importlib import import_module

import pytest

from gym_batchnav.system.extras import MissingExtraError, OptionalPackage, needs_extra


def test_a_missing_package_is_named_with_what_needs_it_and_what_to_install():
    remedy = r"^a figure needs the extra \[viz\] \(No module named 'no_such'\): pip install \"gym-batchnav\[viz\]\"$"
    with pytest.raises(MissingExtraError, match=remedy) as caught, needs_extra("viz", "a figure"):
        import no_such  # noqa: F401
    assert caught.value.name == "no_such"


def test_what_an_inner_part_needs_is_told_once():
    with pytest.raises(MissingExtraError, match=r"^the inner needs"), needs_extra("viz", "the outer"):
        with needs_extra("train", "the inner"):
            import no_such  # noqa: F401


@pytest.mark.parametrize(("package", "module"), [("safetensors", "train.policy_file"), ("torch", "stream.dataset")])
def test_modules_that_need_packages_of_an_extra_name_it(package, module, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"gym_batchnav.{module}", raising=False)
    with pytest.raises(MissingExtraError, match=r"needs the extra \[train\]"):
        import_module(f"gym_batchnav.{module}")


class TestOptionalPackage:
    def test_one_that_is_there_is_found_and_loaded(self):
        package = OptionalPackage("json", "JSON", "viz")
        assert package.is_found() and package.load("it", "wait").loads("[1]") == [1]

    def test_one_that_is_not_is_named_with_both_remedies(self):
        package = OptionalPackage("no_such", "No Such", "viz")
        assert not package.is_found()
        remedy = r'^a picture, which needs No Such: install .*pip install "gym-batchnav\[viz\]"\) or draw it$'
        with pytest.raises(ValueError, match=remedy):
            package.load("a picture, which", "draw it")

    def test_one_that_is_broken_is_named_too(self, tmp_path, monkeypatch):
        (tmp_path / "broken_one.py").write_text("import no_such")
        monkeypatch.syspath_prepend(tmp_path)
        package = OptionalPackage("broken_one", "Broken One", "viz")
        with pytest.raises(ValueError, match="it needs Broken One"):
            package.load("it", "wait")
