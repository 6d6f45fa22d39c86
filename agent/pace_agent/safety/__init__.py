"""What the agent may do: paths, permissions, approvals, protected files."""
