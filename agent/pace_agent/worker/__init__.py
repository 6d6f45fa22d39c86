"""The process behind a screen, ``python -m pace_agent.worker``: it holds model, agent and session."""
