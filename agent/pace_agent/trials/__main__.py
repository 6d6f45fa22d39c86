"""Runs the trials: ``python -m pace_agent.trials --model qwen2.5-coder-1.5b --out results``."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pace_agent import Agent, AgentConfig
from pace_agent.events import AgentEvent, Ended, Turned
from pace_agent.trials import LONG_SESSION, TASKS
from pace_local import Model
from pace_local.cli import guarded
from pace_local.models import find_model
from pace_local.sampling import Writer
from pace_local.terminal import Stop, run_stoppable, say
from pace_local.testing import Script

_POLICIES = ("streaming", "h2o", "pace", "pace_focus")


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is asked for; each result is a line of JSON, in a file and on stdout."""
    parser = argparse.ArgumentParser(prog="python -m pace_agent.trials", description=__doc__)
    parser.add_argument("--model", required=True, help="a name of `pace models list`, or a GGUF's path")
    parser.add_argument("--trials", default=",".join([*TASKS, LONG_SESSION.name]), help="which, with commas")
    parser.add_argument("--policies", default=",".join(_POLICIES), help="of the long session")
    parser.add_argument("--tokens", type=int, default=LONG_SESSION.tokens, help="of the long session")
    parser.add_argument("--scripted", action="store_true", help="answers that solve it, in the model's place")
    parser.add_argument("--out", type=Path, required=True, help="folder of results; what is there is kept")
    arguments = parser.parse_args(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)
    return guarded(lambda: run_stoppable(lambda stop: _run_all(arguments, stop)))


def _run_all(arguments: argparse.Namespace, stop: Stop) -> int:
    path = arguments.out / "results.jsonl"
    known = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    done = {(each["trial"], each["policy"], each["scripted"]) for each in known}
    with Model.load(find_model(arguments.model)) as model, path.open("a", encoding="utf-8") as file:
        for trial, policy in _wanted(arguments):
            if (trial, policy, arguments.scripted) in done:
                continue
            stop.raise_if_asked()
            say(f"{trial}, {policy}")
            events: list[AgentEvent] = []
            began = time.monotonic()
            if trial == LONG_SESSION.name:
                result = _long(model, policy, arguments, events, stop)
            else:
                result = _task(model, trial, arguments, events, stop)
            line = {
                "trial": trial,
                "policy": policy,
                "scripted": arguments.scripted,
                "model": model.name,
                "fingerprint": model.fingerprint.hex(),
                "command": shlex.join(["python", "-m", "pace_agent.trials", *sys.argv[1:]]),
                "date": time.strftime("%Y-%m-%d"),
                "seconds": round(time.monotonic() - began, 1),
                **result,
                **_memory(events),
            }
            print(json.dumps(line), flush=True)
            file.write(json.dumps(line) + "\n")
            file.flush()
    return 0


def _wanted(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for trial in arguments.trials.split(","):
        for policy in arguments.policies.split(",") if trial == LONG_SESSION.name else ["pace_focus"]:
            yield trial, policy


def _task(
    model: Model, name: str, arguments: argparse.Namespace, events: list[AgentEvent], stop: Stop
) -> dict[str, Any]:
    task = TASKS[name]
    with tempfile.TemporaryDirectory(prefix="pace-trial-") as folder:
        for path, text in task.files.items():
            (Path(folder) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(folder) / path).write_text(text)
        config = AgentConfig(mode="auto", style="guided")
        writer = Script(task.answers) if arguments.scripted else None
        with _agent(model, folder, config, writer, events, stop) as agent:
            end = _end(list(agent.run(task.prompt)))
        stop.raise_if_asked()
        problem = task.judge(Path(folder))
    return {"passed": not problem, "problem": problem, **_ended(end)}


def _long(
    model: Model, policy: str, arguments: argparse.Namespace, events: list[AgentEvent], stop: Stop
) -> dict[str, Any]:
    trial = dataclasses.replace(LONG_SESSION, tokens=arguments.tokens)
    writer: Writer | None = Script(trial.answers) if arguments.scripted else None
    with tempfile.TemporaryDirectory(prefix="pace-trial-") as folder:
        config = AgentConfig(mode="plan", style="guided", policy=policy, max_tokens=300)
        with _agent(model, folder, config, writer, events, stop) as agent:
            for number, prompt in enumerate(trial.prompts(lambda text: len(model.tokenize(text))), 1):
                end = _end(list(agent.run(prompt)))
                stop.raise_if_asked()
                say(f"  prompt {number}: {end.reason}, {agent.session.session_length:,} tokens")
    checks, facts = trial.judge(end.result)
    return {
        "passed": checks == 5,
        "checks": checks,
        "facts": facts,
        "answer": end.result,
        **_ended(end),
    }


@contextmanager
def _agent(
    model: Model,
    folder: str,
    config: AgentConfig,
    writer: Writer | None,
    events: list[AgentEvent],
    stop: Stop,
) -> Iterator[Agent]:
    """An agent that keeps nothing, adds its events to a list and is cancelled when that is asked for."""
    with (
        Agent(
            model, folder, config=config, session="", writer=writer, listener=events.append, is_trusted=True
        ) as agent,
        stop.calling(agent.cancel),
    ):
        yield agent


def _end(events: Sequence[AgentEvent]) -> Ended:
    last = events[-1]
    assert isinstance(last, Ended)
    return last


def _ended(end: Ended) -> dict[str, Any]:
    return {"reason": end.reason, "turns": end.turns, "misses": end.misses, "recalled": end.recalled}


def _memory(events: Sequence[AgentEvent]) -> dict[str, Any]:
    """Tokens of the whole session."""
    turned = [event for event in events if isinstance(event, Turned)]
    return {
        "session_tokens": turned[-1].session_tokens if turned else 0,
        "most_residents": max((event.residents for event in turned), default=0),
        "highest_next_position": max((event.next_position for event in turned), default=0),
        "decoded": sum(event.decoded for event in turned),
        "decoded_again": sum(event.decoded_again for event in turned),
        "generated": sum(event.generated for event in turned),
    }


if __name__ == "__main__":
    sys.exit(main())
