import pytest

from gym_batchnav.library.workers import PreparationWorker


@pytest.fixture
def in_this_process(monkeypatch):
    """Prepare scenes without starting processes, which takes most of the time for small scenes."""
    monkeypatch.setattr(PreparationWorker, "prepare", lambda self, recipe, *_: self.prepare_here(recipe))
