"""``pace ask``: puts files of any length through a session of a fixed budget, then answers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pace_local.asking import Asking
from pace_local.commands.ask_report import AskReport
from pace_local.config import KEY_TYPES, VALUE_TYPES, SessionConfig
from pace_local.errors import ConfigError, FileError, PaceError
from pace_local.events import Event, Finished
from pace_local.files import SourceText, expand, read_text
from pace_local.model import Model
from pace_local.models import ResolvedModel
from pace_local.plan import Step, load_plan
from pace_local.policies import POLICIES, policy_named
from pace_local.policies.words import parse_parameters
from pace_local.recording import RecordedSession, refuse_existing
from pace_local.sampling import Sampling
from pace_local.session import Session
from pace_local.session_core import Listener
from pace_local.terminal import (
    Stop,
    check_prompt,
    check_time_limit,
    prepare_model,
    run_stoppable,
    say,
    stdin_text,
)

_DESCRIPTION = """\
Reads the files through a session whose KV cache holds at most --budget tokens, however long they are, and
then answers. What the prompt names (definitions, files) or is about decides what stays resident; --plan
says it step by step instead."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the action ``ask``."""
    defaults = SessionConfig()
    parser = commands.add_parser(
        "ask",
        help="ask about files that are longer than the budget",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(handler=ask)
    parser.add_argument("files", nargs="*", metavar="FILE", help="text files, read in this order")
    parser.add_argument("-p", "--prompt", metavar="PROMPT", help="what to ask; - reads it from stdin")
    parser.add_argument("--plan", metavar="FILE", help="TOML with a [[step]] table a question: prompt, reads")
    parser.add_argument("--model", metavar="NAME", help="a name of `pace models list`, or a GGUF's path")
    cache = parser.add_argument_group("cache")
    cache.add_argument(
        "--budget",
        type=int,
        default=defaults.budget,
        metavar="TOKENS",
        help="most tokens resident, default %(default)s",
    )
    cache.add_argument(
        "--position-cap",
        type=int,
        default=defaults.position_cap,
        metavar="N",
        help="no position reaches it, default %(default)s",
    )
    cache.add_argument(
        "--headroom",
        type=int,
        default=defaults.headroom,
        metavar="TOKENS",
        help="cells above the budget, and tokens decoded at a time, default %(default)s",
    )
    cache.add_argument(
        "--policy",
        choices=sorted(POLICIES),
        default=defaults.policy,
        help="what stays and where, default %(default)s",
    )
    cache.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the policy; may be repeated",
    )
    cache.add_argument(
        "--evict-every",
        type=int,
        metavar="TOKENS",
        help="evict what is over the target after so many tokens; default: when the budget is reached",
    )
    cache.add_argument(
        "--bound-positions",
        action=argparse.BooleanOptionalAction,
        help="renumber residents below the cap; default: as the policy has it",
    )
    cache.add_argument(
        "--key-type",
        choices=KEY_TYPES,
        default=defaults.key_type,
        help="type of cached keys, default %(default)s",
    )
    cache.add_argument(
        "--value-type",
        choices=VALUE_TYPES,
        default=defaults.value_type,
        help="type of cached values, default %(default)s",
    )
    cache.add_argument(
        "--no-flash-attn", action="store_true", help="compute attention without the fused kernel"
    )
    answer = parser.add_argument_group("answer")
    answer.add_argument(
        "--max-tokens", type=int, default=512, metavar="N", help="longest answer, default %(default)s"
    )
    answer.add_argument(
        "--temperature",
        type=float,
        default=0.0,
        metavar="T",
        help="0: always the likeliest token (default); above: draw one, the flatter the higher",
    )
    answer.add_argument(
        "--top-p",
        type=float,
        default=1.0,
        metavar="P",
        help="draw among the likeliest tokens that reach this sum of probabilities; 1: off (default)",
    )
    answer.add_argument(
        "--top-k",
        type=int,
        default=0,
        metavar="N",
        help="draw among so many of the likeliest tokens; 0: off (default)",
    )
    answer.add_argument(
        "--min-p",
        type=float,
        default=0.0,
        metavar="P",
        help="draw among tokens at least this share as likely as the likeliest; 0: off (default)",
    )
    answer.add_argument(
        "--repeat-penalty",
        type=float,
        default=1.0,
        metavar="X",
        help="divides the logits of tokens seen lately; 1: off (default)",
    )
    answer.add_argument(
        "--seed", type=int, default=0, metavar="N", help="the same seed draws the same tokens; default 0"
    )
    answer.add_argument("--grammar", metavar="FILE", help="GBNF that the answer must follow")
    answer.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="text that ends the answer"
    )
    answer.add_argument(
        "--think", action=argparse.BooleanOptionalAction, help="for models that can reason first"
    )
    run = parser.add_argument_group("run")
    run.add_argument("--threads", type=int, metavar="N", help="default: the physical cores")
    run.add_argument("--gpu-layers", type=int, metavar="N", help="default: all, where there is a GPU")
    run.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop then, with exit code 124")
    run.add_argument(
        "--record", metavar="FILE", help="write the session to a new file, for `pace tune` and `pace inspect`"
    )
    run.add_argument("--check", action="store_true", help="check every invariant after every step (slow)")
    run.add_argument(
        "--output-format",
        choices=("text", "json", "stream-json"),
        default="text",
        help="text: answers as they come; json: one object; stream-json: one event a line",
    )
    run.add_argument("--quiet", action="store_true", help="nothing on stderr but errors")


def ask(arguments: argparse.Namespace) -> int:
    """Run the action; returns the exit code."""
    report = AskReport(arguments.output_format, quiet=arguments.quiet)
    try:
        return _ask(arguments, report)
    except PaceError as error:
        report.failed(error)
        raise


def _ask(arguments: argparse.Namespace, report: AskReport) -> int:
    steps = _steps(arguments)
    config = _config(arguments)
    policy_named(config.policy, config.policy_options).check_target(config.soft_budget)
    sampling = _sampling(arguments)
    if arguments.max_tokens < 1:
        raise ConfigError(f"--max-tokens {arguments.max_tokens} is out of range; use 1 or more")
    if "" in arguments.stop:
        raise ConfigError("a --stop text is empty; leave it out")
    limit = arguments.time_limit
    check_time_limit(limit)
    if arguments.record is not None:
        refuse_existing(arguments.record)
    sources = _sources(arguments)

    def work(stop: Stop) -> int:
        resolved = prepare_model(arguments.model, stop, quiet=arguments.quiet)
        stop.raise_if_asked()

        def listen(event: Event) -> None:
            report.take(event)
            # Between two turns there is nothing to cancel: a request that came then is made here.
            if stop.reason is not None:
                session.cancel()

        with (
            Model.load(
                resolved.path,
                gpu_layers=arguments.gpu_layers,
                progress=lambda _share: stop.reason is None,
            ) as model,
            _open_session(arguments, model, resolved, config, listen) as session,
            stop.calling(session.cancel),
        ):
            asking = Asking(session, sources, stop.raise_if_asked)
            planned = asking.plan(steps)
            report.start(asking, planned, resolved)
            stop.raise_if_asked()
            asking.read(planned)
            report.files_read()
            for number in range(len(planned)):
                stop.raise_if_asked()
                report.question(number)
                for event in asking.answer(
                    planned, number, max_tokens=arguments.max_tokens, sampling=sampling, stop=arguments.stop
                ):
                    if isinstance(event, Finished):
                        report.answered(number, event)
            stop.raise_if_asked()
        report.end()
        return 0

    return run_stoppable(work, limit)


def _open_session(
    arguments: argparse.Namespace,
    model: Model,
    resolved: ResolvedModel,
    config: SessionConfig,
    listener: Listener,
) -> Session:
    if arguments.record is None:
        return Session(model, config=config, listener=listener)
    sha256 = resolved.info.sha256 if resolved.info else None
    return RecordedSession(model, arguments.record, sha256=sha256, config=config, listener=listener)


def _steps(arguments: argparse.Namespace) -> list[Step]:
    if arguments.plan:
        if arguments.prompt is not None:
            raise ConfigError("--plan has a prompt for each step; leave out --prompt")
        return list(load_plan(Path(arguments.plan)))
    prompt = arguments.prompt
    if prompt == "-" or (prompt is None and sys.stdin is not None and not sys.stdin.isatty()):
        prompt = stdin_text()
    if prompt is None:
        raise ConfigError("there is nothing to ask; give -p PROMPT or --plan FILE")
    if not prompt.strip():
        raise ConfigError("the prompt is empty; ask something")
    check_prompt(prompt)
    return [Step(prompt)]


def _sources(arguments: argparse.Namespace) -> list[SourceText]:
    sources = [read_text(path) for path in expand(arguments.files)]
    for source in sources:
        if source.is_blank and not arguments.quiet:
            say(f"{source.path}: empty, skipped")
    return sources


def _config(arguments: argparse.Namespace) -> SessionConfig:
    return SessionConfig(
        budget=arguments.budget,
        position_cap=arguments.position_cap,
        headroom=arguments.headroom,
        policy=arguments.policy,
        policy_options=parse_parameters(arguments.set),
        evict_every=arguments.evict_every,
        bound_positions=arguments.bound_positions,
        key_type=arguments.key_type,
        value_type=arguments.value_type,
        flash_attn=not arguments.no_flash_attn,
        threads=arguments.threads,
        enable_thinking=arguments.think,
        check=arguments.check,
    )


def _sampling(arguments: argparse.Namespace) -> Sampling:
    grammar = None
    if arguments.grammar:
        try:
            grammar = Path(arguments.grammar).read_text(encoding="utf-8")
        except OSError as error:
            raise FileError(f"cannot read the grammar {arguments.grammar}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise FileError(f"the grammar {arguments.grammar} is not UTF-8 text: {error.reason}") from error
    return Sampling(
        temperature=arguments.temperature,
        top_p=arguments.top_p,
        top_k=arguments.top_k,
        min_p=arguments.min_p,
        repeat_penalty=arguments.repeat_penalty,
        seed=arguments.seed,
        grammar=grammar,
    )
