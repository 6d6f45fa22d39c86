"""``pace ask``: puts files of any length through a session of a fixed budget, then answers."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from pace_local import _native
from pace_local.asking import Asking, PlannedStep
from pace_local.config import KEY_TYPES, VALUE_TYPES, SessionConfig
from pace_local.errors import ConfigError, FileError, PaceError
from pace_local.events import Event, Finished, Progress, ReadsOverBudget, Renumbered, Text, as_dict
from pace_local.files import SourceText, expand, read_text
from pace_local.model import Model
from pace_local.models import ResolvedModel
from pace_local.plan import Step, load_plan
from pace_local.policies import POLICIES
from pace_local.sampling import Sampling
from pace_local.session import Session
from pace_local.terminal import Stop, prepare_model, run_stoppable, say

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
        "--budget", type=int, default=defaults.budget, metavar="TOKENS", help="default %(default)s"
    )
    cache.add_argument(
        "--position-cap", type=int, default=defaults.position_cap, metavar="N", help="default %(default)s"
    )
    cache.add_argument(
        "--headroom", type=int, default=defaults.headroom, metavar="TOKENS", help="default %(default)s"
    )
    cache.add_argument(
        "--policy", choices=sorted(POLICIES), default=defaults.policy, help="default %(default)s"
    )
    cache.add_argument("--key-type", choices=KEY_TYPES, default=defaults.key_type, help="default %(default)s")
    cache.add_argument(
        "--value-type", choices=VALUE_TYPES, default=defaults.value_type, help="default %(default)s"
    )
    cache.add_argument(
        "--no-flash-attn", action="store_true", help="compute attention without the fused kernel"
    )
    answer = parser.add_argument_group("answer")
    answer.add_argument(
        "--max-tokens", type=int, default=512, metavar="N", help="longest answer, default %(default)s"
    )
    answer.add_argument(
        "--temperature", type=float, default=0.0, help="0: always the likeliest token (default)"
    )
    answer.add_argument("--top-p", type=float, default=1.0)
    answer.add_argument("--top-k", type=int, default=0)
    answer.add_argument("--min-p", type=float, default=0.0)
    answer.add_argument("--repeat-penalty", type=float, default=1.0)
    answer.add_argument("--seed", type=int, default=0)
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
    steps = _steps(arguments)
    config = _config(arguments)
    sampling = _sampling(arguments)
    if arguments.max_tokens < 1:
        raise ConfigError(f"--max-tokens {arguments.max_tokens} is out of range; use 1 or more")
    if arguments.time_limit is not None and arguments.time_limit <= 0:
        raise ConfigError(f"--time-limit {arguments.time_limit:g} is out of range; use more than 0 seconds")
    sources = _sources(arguments)
    report = _Report(arguments.output_format, quiet=arguments.quiet)

    def work(stop: Stop) -> int:
        resolved = prepare_model(arguments.model, quiet=arguments.quiet)
        stop.raise_if_asked()
        with (
            Model.load(
                resolved.path,
                gpu_layers=arguments.gpu_layers,
                progress=lambda _share: stop.reason is None,
            ) as model,
            Session(model, config=config, listener=report.take) as session,
            stop.calling(session.cancel),
        ):
            asking = Asking(session, sources)
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

    try:
        return run_stoppable(work, arguments.time_limit)
    except PaceError as error:
        report.failed(error)
        raise


def _steps(arguments: argparse.Namespace) -> list[Step]:
    if arguments.plan:
        if arguments.prompt:
            raise ConfigError("--plan has a prompt for each step; leave out --prompt")
        return list(load_plan(Path(arguments.plan)))
    prompt = arguments.prompt
    if prompt == "-" or (prompt is None and not sys.stdin.isatty()):
        prompt = sys.stdin.read()
    if prompt is None:
        raise ConfigError("there is nothing to ask; give -p PROMPT or --plan FILE")
    if not prompt.strip():
        raise ConfigError("the prompt is empty; ask something")
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
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(f"cannot read the grammar {arguments.grammar}: {error}") from error
    return Sampling(
        temperature=arguments.temperature,
        top_p=arguments.top_p,
        top_k=arguments.top_k,
        min_p=arguments.min_p,
        repeat_penalty=arguments.repeat_penalty,
        seed=arguments.seed,
        grammar=grammar,
    )


class _Report:
    """Shows a run: answers on stdout in the asked form, the rest on stderr."""

    def __init__(self, form: str, *, quiet: bool) -> None:
        self._form = form
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._planned: list[PlannedStep] = []
        self._total = self._done = self._before = 0
        self._began = self._shown = time.monotonic()
        self._reading = False
        self._line_open = False
        self._answer_ends_line = True
        self._document: dict[str, Any] = {}

    def start(self, asking: Asking, planned: list[PlannedStep], resolved: ResolvedModel) -> None:
        self._planned = planned
        self._total = asking.tokens_to_read
        build = _native.read_build().facts
        self._document = {
            "model": {
                "path": str(resolved.path),
                "name": resolved.info.name if resolved.info else resolved.path.stem,
                "sha256": resolved.info.sha256 if resolved.info else None,
            },
            "build": {
                "llama_cpp": build.get("llama_cpp_python"),
                "patch": build.get("patch"),
                "isa": build.get("isa"),
            },
            "tokens_to_read": self._total,
            "steps": [
                {
                    "prompt": step.prompt,
                    "reads": [
                        {"excerpt": p.excerpt.label, "tokens": p.tokens, "reason": p.reason}
                        for p in step.picks
                    ],
                }
                for step in planned
            ],
        }
        if self._form == "stream-json":
            self._json({"type": "start", **self._document})
        files = len({excerpt.path for excerpt in asking.excerpts})
        self._say(f"reading {files} files: {self._total:,} tokens in {len(asking.excerpts)} excerpts")
        for number, step in enumerate(planned, 1):
            what = f"step {number} reads" if len(planned) > 1 else "the answer will read"
            for pick in step.picks:
                self._say(f"  {what} {pick.excerpt.label} ({pick.tokens} tokens): {pick.reason}")
        self._reading = True
        self._began = time.monotonic()

    def take(self, event: Event) -> None:
        """Every event of the session."""
        if self._form == "stream-json":
            self._json(as_dict(event))
        if isinstance(event, Progress) and self._reading:
            if event.done < self._before:
                self._before = 0
            self._done += event.done - self._before
            self._before = 0 if event.done == event.total else event.done
            self._progress()
        elif isinstance(event, Text):
            if self._form == "text":
                self._clear()
                print(event.text, end="", flush=True)
                self._answer_ends_line = event.text.endswith("\n")
        elif isinstance(event, ReadsOverBudget):
            self._say(
                f"  over budget: {event.kept} of {event.resident} tokens of {event.segment} stay "
                f"(step {event.step + 1})"
            )
        elif isinstance(event, Renumbered) and self._terminal:
            self._say(
                f"  renumbered {event.residents:,} residents from below {event.from_position:,} "
                f"to below {event.next_position:,} in {event.seconds * 1000:.0f} ms"
            )

    def files_read(self) -> None:
        self._reading = False
        self._clear()

    def question(self, number: int) -> None:
        if len(self._planned) > 1 and self._form == "text":
            print(f"## {self._planned[number].step.text}\n", flush=True)

    def answered(self, number: int, event: Finished) -> None:
        stats = event.stats
        self._document["steps"][number] |= {
            "answer": event.answer,
            "finish_reason": event.reason,
            "stats": stats.as_dict(),
        }
        if self._form == "text" and not self._answer_ends_line:
            print(flush=True)
        for line in stats.lines():
            self._say(f"  {line}")
        if number + 1 < len(self._planned) and self._form == "text":
            print(flush=True)

    def end(self) -> None:
        if self._form == "json":
            last = self._document["steps"][-1]
            self._json(self._document | {"answer": last["answer"]})
        elif self._form == "stream-json":
            self._json({"type": "end"})

    def failed(self, error: PaceError) -> None:
        self._clear()
        if self._form == "text" and not self._answer_ends_line:
            print(flush=True)
        if self._form == "json":
            self._json(self._document | {"error": str(error), "exit_code": error.exit_code})
        elif self._form == "stream-json":
            self._json({"type": "error", "message": str(error), "exit_code": error.exit_code})

    def _progress(self) -> None:
        now = time.monotonic()
        if self._quiet or now - self._shown < (0.2 if self._terminal else 10):
            return
        self._shown = now
        rate = self._done / max(now - self._began, 1e-9)
        left = max(self._total - self._done, 0) / max(rate, 1e-9)
        done = min(self._done, self._total)
        text = f"read {done:,} of {self._total:,} tokens, {rate:.0f} a second, {left:.0f} s left"
        if self._terminal:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            self._line_open = True
        else:
            self._say(text)

    def _say(self, line: str) -> None:
        if not self._quiet:
            self._clear()
            say(line)

    def _clear(self) -> None:
        if self._line_open:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._line_open = False

    def _json(self, document: dict[str, Any]) -> None:
        print(json.dumps(document, ensure_ascii=False), flush=True)
