"""A coding agent for local models: plan, tools, and a repository that it watches."""
