"""What changes in a repository while the agent works, and what that makes stale."""
