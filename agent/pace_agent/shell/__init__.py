"""Shell commands: split, judged, run, and their output."""
