"""Ratings of players by the games that they have won, on Elo's scale."""

from __future__ import annotations

import numpy as np

POINTS = 400 / np.log(10)  # a player with 400 points more wins ten times as often
_PRIOR = 0.5  # games that every player is taken to have drawn against an average one; keeps ratings finite
_ROUNDS = 10_000


def ratings(wins: np.ndarray) -> np.ndarray:
    """Return the ratings [P] float64 of players, whose mean is 0: the likeliest in Bradley and Terry's model.

    Player i beats player j with probability ``1 / (1 + 10^((r_j - r_i) / 400))``, as in chess (Elo 1978). They are
    found by the iteration of Hunter (2004, Annals of Statistics 32), and do not depend on the order of the games.

    Args:
        wins: [P, P], games that the row's player has won against the column's; a draw is half a win of both. Players
            need not have met.

    Raises:
        ValueError: It is not a square matrix of numbers of at least 0.
    """
    wins = np.asarray(wins, float)
    if wins.ndim != 2 or wins.shape[0] != wins.shape[1] or not (wins >= 0).all() or not np.isfinite(wins).all():
        raise ValueError(f"wins is {wins.shape}: pass a square matrix of numbers of at least 0")
    count = len(wins)
    games = np.zeros((count + 1, count + 1))  # with an average player of strength 1
    games[:count, :count] = wins + wins.T
    games[:count, count] = _PRIOR * 2
    won = wins.sum(axis=1) + _PRIOR
    np.fill_diagonal(games, 0)
    strength = np.ones(count)
    for _ in range(_ROUNDS):
        every = np.append(strength, 1.0)
        expected = (games[:count] / (strength[:, None] + every)).sum(axis=1)
        new = (won - np.diag(wins)) / expected
        done = np.abs(np.log(new / strength)).max() < 1e-10
        strength = new
        if done:
            break
    rating = POINTS * np.log(strength)
    return rating - rating.mean()
