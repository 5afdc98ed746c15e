"""Shards: disjoint, complete, balanced; what is not a shard is refused."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gym_batchnav.system.parts import Part, all_parts


@given(st.integers(0, 200), st.integers(1, 40))
def test_shards_divide_a_list(size, count):
    parts = [list(shard.of(range(size))) for shard in all_parts(count)]
    assert sorted(itertools.chain(*parts)) == list(range(size))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert all(part == sorted(part) for part in parts)


@given(st.integers(1, 999), st.integers(0, 999))
def test_text_is_read_as_it_is_written(number, more):
    shard = Part(number, number + more)
    assert Part.parse(str(shard)) == shard


def test_without_a_shard_it_is_everything(monkeypatch):
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", "8")
    assert Part.parse(None) == Part(1, 1)


@pytest.mark.parametrize(
    "text", ["0/4", "5/4", "1", "1/0", "a/b", "-1/3", "", "1/2/3", "1/1000000", "1 /2", "\u0661/\u0662"]
)
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match=r"shard=.*: pass i/n with i from 1 to n, such as 2/8"):
        Part.parse(text)
