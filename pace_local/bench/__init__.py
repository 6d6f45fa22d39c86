"""Benchmarks: ratios of alternating samples within one run, so that a figure means the same on any machine.

``scripts/bench NAME`` runs them; ``decode.py``, ``renumber.py``, ``shift.py``, ``flat.py`` and ``memory.py``
each say what they measure and how.
"""
