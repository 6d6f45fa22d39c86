"""``scripts/bench tui``: what the screen costs and how soon it answers, each measured on a terminal.

The child on the other side of the terminal is the real app; ``measure.py`` says what is measured and how.
"""
