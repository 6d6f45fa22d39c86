"""Starts the worker: ``python -m pace_agent.worker``."""

from pace_agent.worker.main import run

if __name__ == "__main__":
    run()
