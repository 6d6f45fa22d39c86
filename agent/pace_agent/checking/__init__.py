"""Whether the work is right: the command that checks it, and what its output says."""
