"""What the agent says to the model: short, plain, the same words each time."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pace_agent.calls.formats import CallFormat
from pace_agent.tool_type import Tool

_TOOLS = """\
You are a coding agent at work in a repository. You work step by step, with tools. Look at code before you \
change it; change as little as the task needs; run the tests if there are some. Write no long explanations."""

_GUIDED = """\
You are a careful programmer at work in a repository. You are shown code and told what to do with it. \
You answer with whole code in one code block, or with a short answer if you are asked a question."""


_SAID_AGAIN = 600
"""Characters of a request that is said again."""


def system_prompt(style: str, tools: Sequence[Tool], form: CallFormat, instructions: str) -> str:
    """What stands at the start of a session, and never changes.

    Args:
        style: ``tools`` or ``guided``.
        tools: that the model can call; none in guided style.
        form: how it calls them.
        instructions: of AGENTS.md files; empty: there are none.
    """
    parts = [_TOOLS if style == "tools" else _GUIDED]
    if style == "tools":
        parts.append(form.instructions(tools, is_short=True))
    if instructions:
        parts.append(f"# Rules of this repository\n\n{instructions.strip()}")
    return "\n\n".join(parts)


def plan_request(style: str) -> str:
    """Asks for the plan."""
    how = "Call plan with" if style == "tools" else "Write as JSON"
    example = json.dumps({"steps": [{"do": "…", "files": ["…"], "symbols": ["…"]}]}, ensure_ascii=False)
    return (
        "Before you begin: plan the task above. "
        f"{how} the steps, as few as it takes (often one or two), each with the files and the functions or "
        f"classes that it needs: {example}"
    )


def step_prompt(number: int, of: int, text: str, task: str) -> str:
    """Begins a step."""
    if of == 1 or text.strip() == task.strip():
        return "Do the task above now, with tools. Call done when it is finished."
    return f"Step {number} of {of}: {text}\nDo this step now, with tools. Call done when it is finished."


def answer_prompt(number: int, of: int, text: str, task: str) -> str:
    """Asks for an answer in words, or in code that belongs into no file.

    The request is said again where it is short: older words of the user may stand nearer than it does.
    """
    asked = task.strip() if len(task) <= _SAID_AGAIN else "the request above"
    if of == 1 or text.strip() == task.strip():
        return f"Answer this now, from what you see above: {asked}"
    return f"The request: {asked}\nStep {number} of {of}: {text}\nAnswer this step from what you see above."


def problems_note(problems: Sequence[str]) -> str:
    """Says what was wrong with calls."""
    return "Your call could not be read: " + "; ".join(problems) + ". Write it again."


CUT_NOTE = (
    "Your answer was cut off: it reached the limit of tokens. Say it in fewer words, or in smaller calls."
)

SILENT_NOTE = "You have neither called a tool nor answered. Go on, or call done."

NO_CALL_NOTE = "Nothing has been changed yet. Use the tools to do the step, or call done with the answer."

AGAIN_NOTE = "You have made this very call three times, with the same result. Do something else."
