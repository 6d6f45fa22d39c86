"""Screens: what fills the terminal, and what comes before it."""
