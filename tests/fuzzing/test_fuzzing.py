"""Damaged files of every kind load or are refused, and those that load can be walked and drawn, within limits."""

import sys

import numpy as np
import pytest

from fuzzing import mutators
from fuzzing.run import fuzz
from fuzzing.samples import KINDS, SCENES

linux = pytest.mark.skipif(sys.platform != "linux", reason="limits memory by Linux's means")


@linux
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_damaged_files_of_each_kind(tmp_path):
    outcomes, failures = fuzz(3 * len(KINDS), keep=tmp_path)
    assert not failures, failures
    assert {outcome for _, outcome in outcomes} == {"loaded", "refused"}


@linux
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_thousand_damaged_files(tmp_path):
    outcomes, failures = fuzz(84 * len(KINDS), seed=1, keep=tmp_path)
    assert not failures, failures
    for kind in SCENES:
        assert outcomes[kind, "loaded"] > 3, f"hardly any {kind} survives: nothing is built, stepped and drawn"


def test_inputs_follow_from_the_generator_alone():
    text = b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"
    changed = [[mutators.mutate_text(np.random.default_rng(k), text) for k in range(20)] for _ in range(2)]
    assert changed[0] == changed[1] and len(set(changed[0])) > 10 and text not in changed[0][:5]
