"""A live window in the browser: a scene in 3-D, its agents and what they see. It needs the extra ``[view]``.

``serve`` shows a batch that a program steps, ``walk_in_window`` steps one as the window's controls say.

Threads: a batch belongs to the thread that steps it, which alone copies what is shown (``Snapshot``). The page draws in
the thread that gives it a snapshot. Controls only leave requests, which that thread takes.
"""
