"""``pace run``: gives the agent a task, and ends when the task does."""

from __future__ import annotations

import argparse
import sys
import typing

from pace_agent.commands import opening
from pace_agent.headless import OutputFormat, check_output_file, print_error, run_headless
from pace_local.errors import CancelledError, ConfigError, PaceError
from pace_local.terminal import Stop, check_prompt, check_time_limit, run_stoppable, stdin_text

_DESCRIPTION = """\
Lets the agent work on a task in this repository, without a screen. Nobody is asked anything: what the mode
does not allow, and no approval given before, ends the task."""

_EPILOG = """\
exit codes: 0 done, 1 failed or stopped with a question, 2 usage or start-up, 3 turn limit, 4 a refused
permission ended the task, 124 time limit, 130 cancelled.
The result goes to stdout, how it goes to stderr."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the action ``run``."""
    parser = commands.add_parser(
        "run",
        help="give the agent a task in this repository, without a screen",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(handler=run)
    parser.add_argument(
        "-p", "--prompt", metavar="PROMPT", help="the task; - (or leaving it out) reads it from stdin"
    )
    opening.add_options(parser)
    limits = parser.add_argument_group("limits")
    limits.add_argument("--max-turns", type=int, metavar="N", help="most answers of the model")
    limits.add_argument(
        "--time-limit",
        type=float,
        metavar="SECONDS",
        help="stop then, with exit code 124; begins when the model is loaded",
    )
    result = parser.add_argument_group("result")
    result.add_argument(
        "--output-format",
        choices=typing.get_args(OutputFormat),
        default="text",
        help="text: the answer; json: one object; stream-json: one event a line",
    )
    result.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the result to this file too: the answer, or for the forms of JSON the object",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the action; returns the exit code."""
    codes: list[int] = []
    try:
        return _run(arguments, codes)
    except PaceError as error:
        if not codes:
            print_error(error, arguments.output_format)
        elif isinstance(error, CancelledError):  # as the run has reported, or it came too late
            return codes[0]
        raise


def _run(arguments: argparse.Namespace, codes: list[int]) -> int:
    check_time_limit(arguments.time_limit)
    if arguments.output is not None:
        check_output_file(arguments.output)
    repository = opening.repository_of(arguments)
    prompt = read_prompt(arguments.prompt)
    loaded = opening.load(arguments, repository, max_turns=arguments.max_turns)

    def work(stop: Stop) -> int:
        with opening.open_agent(arguments, repository, loaded, stop) as agent:
            code = run_headless(
                agent,
                prompt,
                output=arguments.output_format,
                file=arguments.output,
                max_turns=arguments.max_turns,
                time_limit=arguments.time_limit,
            )
            codes.append(code)
        return code

    return run_stoppable(work)


def read_prompt(flag: str | None) -> str:
    """The prompt of an option, or of stdin.

    Args:
        flag: the option's value; None or ``-``: stdin.

    Raises:
        ConfigError: there is none, or it is empty or no UTF-8.
    """
    if flag is None and sys.stdin is not None and sys.stdin.isatty():
        raise ConfigError("there is nothing to do; give -p PROMPT, or a prompt on stdin")
    prompt = stdin_text() if flag in (None, "-") else flag
    if not prompt.strip():
        raise ConfigError("the prompt is empty; say what to do with -p PROMPT or on stdin")
    check_prompt(prompt)
    return prompt
