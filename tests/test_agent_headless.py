from __future__ import annotations

import io
import json
import math
import os
import threading
from pathlib import Path
from typing import Any, get_args

import pytest

from pace_agent.events import (
    EVENTS,
    AgentEvent,
    Asked,
    Called,
    Changed,
    Decided,
    Ended,
    EndReason,
    Memory,
    Missed,
    Output,
    Planned,
    Returned,
    Started,
    StepEnded,
    StepStarted,
    StepView,
    Thought,
    Turned,
    Warned,
    Wrote,
    as_dict,
    from_dict,
)
from pace_agent.headless import is_abandoned, print_error, run_headless
from pace_agent.reporting.event_lines import diff_lines, line_of
from pace_agent.reporting.progress import Progress
from pace_agent.reporting.run_summary import EXIT_CODES, RunSummary
from pace_agent.testing import FakeAgent
from pace_local.errors import FileError, ModelError
from pace_local.harmless_text import harmless

STARTED = Started("tide", "/repository", "coder-1b", "guided", "ask", "pace_focus", 2048, 8192)
DIFF = "--- a.py\n+++ a.py\n@@ -1,2 +1,3 @@\n-x = 1\n+++x\n+y = 2\n z = 3\n"


def turned(number: int) -> Turned:
    return Turned(number, 100, 20, 3, 9, 400, 300, 300, 0.5, 0.25)


RUN: list[AgentEvent] = [
    STARTED,
    Planned((StepView("look", ("a",)), StepView("change", (), ("a.py:x",))), "model", "the first"),
    StepStarted(1, 2, "look", {"file:a.py": "spliced"}),
    Thought("hm"),
    Called(1, "read", {"path": "a.py", "lines": [1, 40]}),
    Decided(1, True, "rule", "reading is allowed"),
    Output(1, "x = 1"),
    Returned(1, "read", True, "x = 1", 0.1),
    turned(1),
    StepEnded(1, "done", "seen"),
    StepStarted(2, 2, "change"),
    Missed("file:b.py", "reread", "named in a call"),
    Memory({"type": "recalled", "segment": "file:b.py", "means": "spliced", "tokens": 1200}),
    Asked(2, "edit", "a.py", "it changes a file"),
    Decided(2, True, "user", "once"),
    Changed("a.py", "agent", DIFF),
    Returned(2, "edit", False, "no such text\nnear line 3", 0.1),
    Warned("the disk is slow"),
    turned(2),
    StepEnded(2, "failed", "it did not apply"),
    Wrote("x is "),
    Ended("done", "x is 2 – done", 2, 3.25, ("a.py",), 1, 1, 40, 18),
]
EXPECTED_LINES = """\
session tide  coder-1b, guided style, mode ask, pace_focus with a budget of 2,048 tokens
plan of 2 steps, by the model: the first
step 1 of 2: look  (reads file:a.py spliced)
  read a.py lines=[1, 40]
step 2 of 2: change
  plan miss: file:b.py, reread: named in a call
  recalled file:b.py, spliced, 1,200 tokens
  asks for edit: a.py (it changes a file)
  allowed by the user: once
  changed a.py +2 -1
  edit failed: no such text↵near line 3
warning: the disk is slow
step 2 failed: it did not apply
done  (3.2 s, 2 turns, 1 file changed, 1 plan miss, 1 segment recalled, 40 tokens read, 18 tokens written)
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def run(agent: FakeAgent, prompt: str = "go", **more: Any) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = run_headless(agent, prompt, out=out, err=err, **more)
    return code, out.getvalue(), err.getvalue()


# What is printed


def test_text_is_the_answer_and_lines_of_progress() -> None:
    assert run(FakeAgent([RUN])) == (0, "x is 2 – done\n", EXPECTED_LINES)


def test_json_is_one_object() -> None:
    code, out, err = run(FakeAgent([RUN]), output="json")
    assert err == EXPECTED_LINES
    assert out.count("\n") == 1
    assert out.isascii()
    assert json.loads(out) == {
        "result": "x is 2 – done",
        "reason": "done",
        "exit_code": code,
        "session": "tide",
        "repository": "/repository",
        "model": "coder-1b",
        "turns": 2,
        "seconds": 3.25,
        "changed": ["a.py"],
        "tokens": {"reused": 200, "decoded": 40, "decoded_again": 6, "generated": 18},
        "misses": 1,
        "recalled": 1,
        "plan": [
            {"text": "look", "reads": ["a"], "wanted": [], "state": "done"},
            {"text": "change", "reads": [], "wanted": ["a.py:x"], "state": "failed"},
        ],
        "warnings": ["the disk is slow"],
    }


def test_stream_json_is_every_event() -> None:
    _, out, err = run(FakeAgent([RUN]), output="stream-json")
    assert [from_dict(json.loads(line)) for line in out.splitlines()] == RUN
    assert err == EXPECTED_LINES


def test_a_number_that_json_lacks_is_null() -> None:
    _, out, _ = run(FakeAgent([[Memory({"type": "evicted", "seconds": math.nan})]]), output="stream-json")
    assert json.loads(out.splitlines()[0], parse_constant=pytest.fail)["event"]["seconds"] is None


def test_each_line_is_there_when_its_event_is() -> None:
    """A program that reads the lines as they come must not wait for a buffer to be full."""
    reader, writer = os.pipe()
    with open(reader, encoding="utf-8") as lines, open(writer, "w", encoding="utf-8") as out:
        events = [STARTED, *[Wrote(str(number)) for number in range(3)]]

        def checked() -> Any:
            for event in events:
                yield event
                assert from_dict(json.loads(lines.readline())) == event

        assert (
            run_headless(FakeAgent([checked()]), "go", output="stream-json", out=out, err=io.StringIO()) == 0
        )


def test_the_agent_is_given_prompt_and_limits() -> None:
    agent = FakeAgent([RUN])
    run(agent, "do it", max_turns=7, time_limit=60.0)
    assert [(one.prompt, one.max_turns, one.time_limit) for one in agent.taken] == [("do it", 7, 60.0)]


def test_a_listener_hears_everything() -> None:
    heard: list[AgentEvent] = []
    run(FakeAgent([RUN]), listener=heard.append)
    assert heard == RUN


def test_a_plan_that_was_changed_is_the_one_that_is_told() -> None:
    summary = RunSummary()
    for event in (
        Planned((StepView("a"), StepView("b")), "model"),
        StepStarted(2, 2, "b"),
        StepStarted(9, 9, "of no plan"),
        Planned((StepView("a", state="done"), StepView("c")), "user"),
        StepStarted(2, 2, "c"),
        Ended("cancelled", "", 0, 0.0),
    ):
        summary.take(event)
    assert [(step["text"], step["state"]) for step in summary.document()["plan"]] == [
        ("a", "done"),
        ("c", "running"),
    ]


# How it ends


@pytest.mark.parametrize("reason", get_args(EndReason))
@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_exit_codes(reason: EndReason, output: Any) -> None:
    code, out, err = run(FakeAgent([[Ended(reason, "what came of it", 1, 1.0)]]), output=output)
    expected = {"done": 0, "turn_limit": 3, "refused": 4, "time": 124, "cancelled": 130}
    assert code == expected.get(reason, 1) == EXIT_CODES[reason]
    assert ("what came of it" in err) == (reason not in ("done", "question"))
    if output == "text":
        assert out == ("what came of it\n" if reason in ("done", "question") else "")
    else:
        assert json.loads(out)["reason"] == reason


def test_every_way_to_end_has_a_code_and_success_is_zero_alone() -> None:
    assert set(EXIT_CODES) == set(get_args(EndReason))
    assert [reason for reason, code in EXIT_CODES.items() if code == 0] == ["done"]
    assert [reason for reason in EXIT_CODES if Ended(reason, "", 0, 0.0).is_success] == ["done"]


def test_who_is_refused_is_told_how_to_allow_more() -> None:
    assert "--mode accept-edits" in run(FakeAgent([[Ended("refused", "no", 1, 1.0)]]))[2]


def test_the_limits_are_the_agent_s() -> None:
    endless = [turned(number) for number in range(1, 1000)]
    assert run(FakeAgent([endless]), max_turns=3)[0] == 3
    assert run(FakeAgent([endless], delay=0.01), time_limit=0.1)[0] == 124


def test_a_cancel_from_another_thread() -> None:
    agent = FakeAgent([[Wrote("a")] * 1000], delay=0.05)
    cancel = threading.Timer(0.2, agent.cancel)
    cancel.start()
    code, out, _ = run(agent, output="json")
    cancel.join()
    assert code == 130
    assert json.loads(out)["reason"] == "cancelled"


def test_an_error_of_the_agent_is_raised() -> None:
    def events() -> Any:
        yield STARTED
        raise ModelError("it is broken")

    with pytest.raises(ModelError):
        run(FakeAgent([events()]))


def test_errors_before_a_run_are_told_to_programs() -> None:
    def told(output: Any) -> str:
        out = io.StringIO()
        print_error(ModelError("no such model: 'x'"), output, out)
        return out.getvalue()

    assert told("text") == ""
    assert json.loads(told("json"))["reason"] == "failed"
    assert json.loads(told("stream-json")) == {
        "type": "error",
        "message": "no such model: 'x'",
        "exit_code": 2,
    }


# A reader that goes away


@pytest.mark.parametrize("output", ["text", "json", "stream-json"])
def test_a_reader_that_goes_away_cancels_the_run(output: Any) -> None:
    reader, writer = os.pipe()
    ended: list[Ended] = []

    def events() -> Any:
        yield STARTED
        os.close(reader)
        for _ in range(1000):
            yield Wrote("more")

    def heard(event: AgentEvent) -> None:
        if isinstance(event, Ended):
            ended.append(event)

    out = open(writer, "w", encoding="utf-8")  # noqa: SIM115 - its close fails, as nobody reads it
    code = run_headless(
        FakeAgent([events()]), "go", output=output, out=out, err=io.StringIO(), listener=heard
    )
    assert [one.reason for one in ended] == ["cancelled"]
    assert code == 1
    try:
        out.close()
    except BrokenPipeError:
        assert output == "stream-json"


def test_who_reads_nothing_at_the_end_gets_no_success() -> None:
    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    assert run_headless(FakeAgent([RUN]), "go", out=Gone(), err=io.StringIO()) == 1


def test_progress_that_nobody_reads_is_left_out() -> None:
    class Gone(io.StringIO):
        written = 0

        def write(self, text: str) -> int:
            self.written += 1
            raise BrokenPipeError

    out, err = io.StringIO(), Gone()
    assert run_headless(FakeAgent([RUN]), "go", out=out, err=err) == 0
    assert out.getvalue() == "x is 2 – done\n"
    assert err.written == 1


def test_files_and_open_pipes_are_not_abandoned(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with open(writer, "w") as pipe, open(tmp_path / "f", "w") as file:
        assert not is_abandoned(pipe)
        assert not is_abandoned(file)
        assert not is_abandoned(io.StringIO())
        assert not is_abandoned(None)
        os.close(reader)
        assert is_abandoned(pipe)


# The file


def test_the_file_gets_the_result(tmp_path: Path) -> None:
    text, one, many = tmp_path / "text", tmp_path / "one", tmp_path / "many"
    text.write_text("old, and much longer than what is new")
    text.chmod(0o640)
    assert run(FakeAgent([RUN]), file=text)[0] == 0
    out = run(FakeAgent([RUN]), file=one, output="json")[1]
    run(FakeAgent([RUN]), file=many, output="stream-json")
    assert text.read_text(encoding="utf-8") == "x is 2 – done\n"
    assert text.stat().st_mode & 0o777 == 0o640
    assert one.read_text() == many.read_text() == out
    assert sorted(each.name for each in tmp_path.iterdir()) == ["many", "one", "text"]


def test_a_link_to_a_file_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real").write_text("old")
    run(FakeAgent([RUN]), file=tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text(encoding="utf-8") == "x is 2 – done\n"


def test_a_file_is_left_alone_where_there_is_no_result(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    assert run(FakeAgent([[Ended("failed", "it broke", 1, 1.0)]]), file=tmp_path / "f")[0] == 1
    assert (tmp_path / "f").read_text() == "old"


def test_what_can_be_no_file_is_refused_before_any_work(tmp_path: Path) -> None:
    agent = FakeAgent([RUN])
    with pytest.raises(FileError, match="is a folder"):
        run(agent, file=tmp_path)
    with pytest.raises(FileError, match="no such folder"):
        run(agent, file=tmp_path / "no" / "file")
    assert agent.taken == []


def test_a_file_that_cannot_be_written_costs_no_result(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()

    def events() -> Any:
        yield STARTED
        (folder / "f").mkdir()
        yield from RUN

    code, out, err = run(FakeAgent([events()]), file=folder / "f")
    assert code == 2
    assert out == "x is 2 – done\n"
    assert "cannot write" in err.splitlines()[-1]


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text(encoding="utf-8")))
    reader.start()
    run(FakeAgent([RUN]), file=tmp_path / "pipe")
    reader.join(30)
    assert read == ["x is 2 – done\n"]


# What a terminal gets

HOSTILE = "a\x1b[2J\x07\x9bK\u202eb\r\nc\td"


def test_a_terminal_obeys_nothing_in_a_result_and_a_program_gets_all_of_it() -> None:
    ended = [Ended("done", HOSTILE, 1, 1.0)]
    out = Terminal()
    run_headless(FakeAgent([ended]), "go", out=out, err=io.StringIO())
    assert out.getvalue() == "a·[2J··K·b\nc\td\n"
    assert run(FakeAgent([ended]))[1] == HOSTILE + "\n"


def test_what_people_write_with_is_harmless_as_it_is() -> None:
    text = "naïve – 　日本語 👩\u200d💻 שלום\n\tindented\u00a0"
    assert harmless(text) == text


@pytest.mark.parametrize("colour", [True, False])
def test_progress_holds_no_control_characters_of_others(colour: bool) -> None:
    stream = Terminal() if colour else io.StringIO()
    progress = Progress(stream, {"TERM": "xterm"})
    texts: dict[str, Any] = {"reads": {HOSTILE: HOSTILE}, "arguments": {HOSTILE: HOSTILE, "b": [HOSTILE]}}
    kinds = [
        Called,
        Returned,
        Asked,
        Decided,
        Changed,
        Missed,
        Warned,
        StepStarted,
        StepEnded,
        Planned,
        Ended,
    ]
    for kind in (*kinds, Started, Memory):
        fields: dict[str, Any] = {}
        for name, hint in kind.__annotations__.items():
            if hint == "str":
                fields[name] = HOSTILE
            elif hint in ("int", "float", "int | None"):
                fields[name] = 3
        fields |= {name: value for name, value in texts.items() if name in kind.__annotations__}
        fields |= {
            Returned: {"ok": False},
            Decided: {"allowed": False, "by": "user"},
            Changed: {"by": "agent"},
            StepEnded: {"state": "failed"},
            Planned: {"steps": (), "by": "user"},
            Ended: {"reason": "failed"},
            Memory: {"event": {"type": "recalled", "segment": HOSTILE, "means": "spliced", "tokens": 1}},
        }.get(kind, {})
        progress.take(kind(**fields))
    shown = stream.getvalue()
    for code in ("1", "2", "31", "33", "0"):
        assert (f"\x1b[{code}m" in shown) == colour
        shown = shown.replace(f"\x1b[{code}m", "")
    assert shown.count("\n") == len(kinds) + 2
    assert not set(shown) & set("\x1b\x07\x9b\u202e\r\t")


@pytest.mark.parametrize(
    ("stream", "environ", "has_colours"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": ""}, True),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
        (io.StringIO(), {"TERM": "xterm"}, False),
    ],
)
def test_colours_are_for_terminals_whose_user_wants_them(
    stream: io.StringIO, environ: dict[str, str], has_colours: bool
) -> None:
    Progress(stream, environ).take(RUN[-1])
    assert ("\x1b[" in stream.getvalue()) == has_colours


def test_a_terminal_shows_what_is_done_just_now_and_a_log_does_not() -> None:
    times = iter(range(100))
    now = [Memory({"type": "progress", "done": 512, "total": 2048}), Wrote("abc"), Thought("de")]
    terminal, log = Terminal(), io.StringIO()
    progress = Progress(terminal, {"TERM": "xterm", "NO_COLOR": "1"}, clock=lambda: next(times))
    for event in (*now, Warned("it is late")):
        progress.take(event)
        Progress(log).take(event)
    assert terminal.getvalue() == (
        "\r\x1b[K  512 of 2,048 tokens read"
        "\r\x1b[K  3 characters written"
        "\r\x1b[K  5 characters written"
        "\r\x1b[Kwarning: it is late\n"
    )
    assert log.getvalue() == "warning: it is late\n"


def test_a_long_text_is_one_short_line() -> None:
    line = "".join(text for text, _ in line_of(Called(1, "write", {"path": "a", "text": "x" * 100_000})))
    assert len(line) < 120
    assert "characters …" in line


def test_a_notice_in_a_diff_s_place_is_shown() -> None:
    line = "".join(text for text, _ in line_of(Changed("a.py", "shell", "a.py: a binary file, changed")))
    assert line == "  a command changed a.py: a binary file, changed"


def test_lines_of_a_diff() -> None:
    assert diff_lines(DIFF) == (["++x", "y = 2"], ["x = 1"])
    assert diff_lines("a.py: deleted") is None


def test_every_kind_of_event_is_printed_or_left_out() -> None:
    printed = {event.type for event in RUN if line_of(event)}
    assert {"started", "planned", "step_started", "called", "changed", "missed", "memory", "ended"} <= printed
    assert {"wrote", "thought", "output", "turned"}.isdisjoint(printed)
    assert {as_dict(event)["type"] for event in RUN} <= set(EVENTS)
