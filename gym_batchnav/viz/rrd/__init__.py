"""Recordings of episodes for the viewer of rerun. They need the extra ``[rerun]``."""
