"""Agents with a script in the model's place, on small repositories made for a test."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pace_agent import Agent, AgentConfig
from pace_agent.events import AgentEvent, Answer, Asked, Ended
from pace_local import Model
from pace_local.testing import Script

SHOP = {
    "shop/__init__.py": "",
    "shop/cart.py": (
        '"""The cart."""\n\n'
        "RATE = 19\n\n\n"
        "def total(prices):\n"
        '    """Sum of all prices."""\n'
        "    result = 0\n"
        "    for price in prices[1:]:\n"
        "        result += price\n"
        "    return result\n\n\n"
        "def with_tax(prices):\n"
        "    return total(prices) * (100 + RATE) / 100\n"
    ),
    "tests/test_cart.py": (
        "from shop.cart import total\n\n\n"
        "def test_total():\n"
        "    assert total([1, 2, 3]) == 6\n"
    ),
    "README.md": "# Shop\n\nCarts with tax.\n",
}  # fmt: skip


def make_repository(folder: Path, files: Mapping[str, str | bytes], *, git: bool = True) -> Path:
    """Write files into a folder, a git repository if that is asked for."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    if git:
        subprocess.run(["git", "init", "-q", "-b", "main", str(folder)], check=True)
    return folder


def call(name: str, **arguments: Any) -> str:
    """A call as a model without a format of its own writes it."""
    return f"```tool\n{json.dumps({'name': name, 'arguments': arguments})}\n```"


def plan(*steps: str | tuple[str, Iterable[str]]) -> str:
    """A plan as a model writes it."""
    made = [(step, ()) if isinstance(step, str) else step for step in steps]
    return call("plan", steps=[{"do": text, "files": list(files)} for text, files in made])


FIX = "Fix total in shop/cart.py: it leaves out the first price"
PLAN = plan(("correct total", ["shop/cart.py"]))
EDIT = call("edit", path="shop/cart.py", search="prices[1:]", replacement="prices")
DONE = call("done", result="total adds all")
QUESTION = "What is RATE in shop/cart.py?"
"""What is asked of :data:`SHOP`, and what a model with tools answers."""


class Runs:
    """An agent, its script, and all that it told."""

    def __init__(
        self,
        model: Model,
        repository: Path,
        lines: Iterable[str | Callable[[Any], str]],
        *,
        approve: Callable[[Asked], Answer] | None = None,
        session: str | None = "",
        resume: bool = False,
        tools: Any = (),
        is_trusted: bool = True,
        extra_folders: Any = (),
        **settings: Any,
    ) -> None:
        self.events: list[AgentEvent] = []
        self._listeners: list[Callable[[AgentEvent], object]] = [self.events.append]
        self.script = Script(lines)
        options = {
            "budget": 4096,
            "position_cap": 16384,
            "mode": "accept-edits",
            "style": "tools",
            **settings,
        }
        self.agent = Agent(
            model,
            repository,
            config=AgentConfig(**options),
            approve=approve,
            writer=self.script,
            listener=self._hear,
            session=session,
            resume=resume,
            tools=tools,
            is_trusted=is_trusted,
            extra_folders=extra_folders,
        )

    def _hear(self, event: AgentEvent) -> None:
        for listener in self._listeners:
            listener(event)

    def listen(self, listener: Callable[[AgentEvent], object]) -> None:
        """Call one more with each event from now on."""
        self._listeners.append(listener)

    def run(self, prompt: str, **limits: Any) -> Ended:
        """Run a prompt to its end."""
        *_, last = self.agent.run(prompt, **limits)
        assert isinstance(last, Ended)
        return last

    def of(self, kind: type[AgentEvent]) -> list[Any]:
        """Events of a kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def text_of(self, segment: str) -> str:
        """What a segment says."""
        return self.agent.session.text_of(self.agent.session.segments.named(segment))

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        self.agent.close()
