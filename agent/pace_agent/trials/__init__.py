"""Small tasks on small repositories, judged by program: what a model can do, and that the agent lets it.

Each trial has answers that solve it, so that a scripted model shows whether the agent itself is in the way.
``python -m pace_agent.trials --help`` runs them.
"""

from __future__ import annotations

from pace_agent.trials.long_session import LONG_SESSION, LongSession
from pace_agent.trials.tasks import TASKS, Task

__all__ = ["LONG_SESSION", "TASKS", "LongSession", "Task"]
