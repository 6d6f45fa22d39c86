"""The tool ``shell``."""

from __future__ import annotations

import codecs

from pace_agent.outcomes import Failure, Outcome
from pace_agent.tool_type import Tool, tool
from pace_agent.workbench import Workbench


def make(bench: Workbench) -> Tool:
    """Runs a command in the repository."""

    @tool("run")
    def shell(command: str) -> Outcome:
        """Run a shell command in the repository.

        Args:
            command: e.g. pytest -q
        """
        return run_command(bench, command)

    return shell


def run_command(bench: Workbench, command: str) -> str | Failure:
    """Run a command, and say how it ended and what it printed, cut in the middle to what fits."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    tell = bench.on_output  # of this call: a piece may come when the next one has begun
    ended = bench.shell.run(
        command,
        time_limit=bench.command_seconds,
        cancel=bench.cancelled,
        on_output=lambda piece: tell(decoder.decode(piece)),
    )
    printed = bench.fit(ended.text, max(16, bench.result_tokens - 48)).strip()
    where = f"\nAll of the output: {ended.output_file}" if ended.output_file is not None else ""
    text = f"{ended.summary}{where}\n{printed or '(it printed nothing)'}"
    return text if ended.is_success else Failure(text, ended.text)
