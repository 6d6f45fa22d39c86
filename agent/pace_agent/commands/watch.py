"""``pace watch``: does what comments ask for, as files are saved."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable

from pace_agent.commands import opening
from pace_agent.events import AgentEvent
from pace_agent.headless import is_abandoned, run_headless
from pace_agent.reporting.event_lines import counted
from pace_agent.safety.permissions import Mode
from pace_agent.settings.config_file import DEFAULT
from pace_agent.watching.comment_runs import CommentWatch
from pace_agent.watching.watcher import Watcher
from pace_local.terminal import Stop, check_time_limit, run_stoppable, say

_DESCRIPTION = """\
Watches the files of a repository that git does not ignore. A comment that ends in AI! is done, one that
ends in AI? is answered, as soon as its file is saved; the comment is removed when that has succeeded. Where
no mode is set, files are changed without asking: whoever writes AI! asks for it."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the action ``watch``."""
    parser = commands.add_parser(
        "watch",
        help="do what comments that end in AI! ask for, and answer AI? ones, as they are saved",
        description=_DESCRIPTION,
        epilog="Ctrl+C ends it. Answers go to stdout, everything else to stderr.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(handler=watch)
    parser.add_argument(
        "--existing", action="store_true", help="begin with the comments that are there already"
    )
    opening.add_options(parser)
    limits = parser.add_argument_group("limits of each request")
    limits.add_argument("--max-turns", type=int, metavar="N", help="most answers of the model")
    limits.add_argument("--time-limit", type=float, metavar="SECONDS", help="give the request up then")


def watch(arguments: argparse.Namespace) -> int:
    """Run the action; returns the exit code."""
    check_time_limit(arguments.time_limit)
    repository = opening.repository_of(arguments)
    loaded = opening.load(arguments, repository, max_turns=arguments.max_turns)
    if loaded.sources["mode"] == DEFAULT:
        loaded = dataclasses.replace(loaded, config=loaded.config.replace(mode=Mode.ACCEPT_EDITS.value))

    def work(stop: Stop) -> int:
        with opening.open_agent(arguments, repository, loaded, stop) as agent:

            def ask(prompt: str, listener: Callable[[AgentEvent], None]) -> bool:
                code = run_headless(
                    agent,
                    prompt,
                    max_turns=arguments.max_turns,
                    time_limit=arguments.time_limit,
                    listener=listener,
                )
                if is_abandoned(sys.stdout):  # no answer could be read any more
                    raise BrokenPipeError
                return code == 0

            comments = CommentWatch(
                agent, repository, ask=ask, say=say, stopped=lambda: stop.reason is not None
            )
            with (
                Watcher(repository, say=say) as watcher,
                stop.calling(watcher.stop),
            ):
                existing = comments.look()
                if existing and not arguments.existing:
                    count = counted(len(existing), "request")
                    say(f"{count} from before not started; --existing begins with them")
                say(f"watching {repository} for comments that end in AI! or AI?; Ctrl+C ends it")
                if arguments.existing:
                    comments.do(existing)
                comments.follow(watcher)
        return 0

    return run_stoppable(work)
