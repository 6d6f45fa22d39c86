"""The commands that the agent adds to ``pace``."""
