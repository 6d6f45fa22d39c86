"""A run from prompt to end, with a script in the model's place: every path, and every way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_runs import DONE, EDIT, FIX, PLAN, QUESTION, SHOP, Runs, call, make_repository, plan
from session_pair import TALKER

from pace_agent.events import (
    AgentEvent,
    Answer,
    Asked,
    Called,
    Changed,
    Decided,
    Ended,
    Missed,
    Noted,
    Output,
    Planned,
    Prompted,
    Returned,
    Started,
    StepEnded,
    StepStarted,
    Thought,
    Turned,
    Warned,
    Wrote,
)
from pace_agent.shell.running import Shell, ShellResult
from pace_agent.tool_type import tool
from pace_local import Model
from pace_local.errors import ConfigError
from pace_local.testing import TinySpec


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "shop", SHOP)


def test_a_task_is_done(model: Model, shop: Path) -> None:
    with Runs(model, shop, [PLAN, "I correct it.\n" + EDIT, DONE]) as runs:
        end = runs.run(FIX)
    assert (end.reason, end.result, end.changed) == ("done", "total adds all", ("shop/cart.py",))
    assert "for price in prices:" in (shop / "shop/cart.py").read_text()
    assert "".join(event.text for event in runs.of(Wrote)) == "I correct it.\n"
    assert [event.tool for event in runs.of(Called)] == ["edit", "done"]
    assert [event.ok for event in runs.of(Returned)] == [True, True]
    (changed,) = runs.of(Changed)
    assert "-    for price in prices[1:]:\n+    for price in prices:" in changed.diff
    assert changed.stale  # the step had read the lines that the edit replaced
    (started,) = runs.of(StepStarted)
    assert "prompt:1" in started.reads
    assert any(name.startswith("file:shop/cart.py") for name in started.reads)
    assert [event.state for event in runs.of(StepEnded)] == ["done"]
    assert [type(event) for event in runs.events[:1]] == [Started]
    assert isinstance(runs.events[-1], Ended)
    assert runs.of(Prompted)[0].number == 1


def test_a_model_that_plans_nothing_gets_the_machine_s_plan(model: Model, shop: Path) -> None:
    with Runs(model, shop, ["I would rather not.", EDIT, DONE]) as runs:
        end = runs.run(FIX)
    assert end.reason == "done"
    first = runs.of(Planned)[0]
    assert first.by == "machine"
    assert "no plan" in first.reason
    assert len(first.steps) == 1


def test_steps_come_one_after_the_other_each_with_what_it_reads(model: Model, shop: Path) -> None:
    steps = plan(("correct total", ["shop/cart.py"]), ("say so in the readme", ["README.md"]))
    readme = call(
        "edit", path="README.md", search="Carts with tax.", replacement="Carts with tax, all of it."
    )
    with Runs(model, shop, [steps, EDIT, DONE, readme, call("done", result="the readme says so")]) as runs:
        end = runs.run("Correct total and write it down in the readme of the repository")
        assert end.reason == "done"
        assert end.result == "total adds all\nthe readme says so"
        first, second = runs.of(StepStarted)
        assert (first.number, second.number, first.of) == (1, 2, 2)
        assert any("README.md" in name for name in second.reads)
        assert not any("README.md" in name for name in first.reads)
        # What the second step reads is resident when it starts, and what only the first did is not.
        cart = next(name for name in first.reads if "cart.py" in name)
        assert runs.agent.conversation.residency(cart)[0] == 0
        assert [step.state for step in runs.agent.plan] == ["done", "done"]


def test_the_model_can_change_its_plan(model: Model, shop: Path) -> None:
    new = plan("correct total", ("say so in the readme", ["README.md"]))
    lines = [PLAN, new, EDIT, DONE, "It says so already.", "The readme needs no change."]
    with Runs(model, shop, lines) as runs:
        end = runs.run(FIX)
    assert end.reason == "done"
    revised = [event for event in runs.of(Planned) if event.reason == "revised"]
    assert [step.text for step in revised[0].steps] == ["correct total", "say so in the readme"]
    assert len(runs.of(StepEnded)) == 2


def test_an_answer_in_words_is_enough_for_a_question(model: Model, shop: Path) -> None:
    with Runs(model, shop, ["It is 19."]) as runs:
        end = runs.run("What is RATE in shop/cart.py?")
    assert (end.reason, end.result) == ("done", "It is 19.")
    assert end.turns == 1  # it was not asked for a plan


def test_a_question_of_the_model_s_ends_the_run(model: Model, shop: Path) -> None:
    with Runs(model, shop, [PLAN, "Do you mean with or without tax?", EDIT, DONE]) as runs:
        end = runs.run(FIX)
        assert (end.reason, end.result) == ("question", "Do you mean with or without tax?")
        assert not end.is_success
        assert runs.run("Without. Correct total in shop/cart.py").reason in ("done", "turn_limit", "failed")


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_the_limit_of_turns_ends_a_run(model: Model, shop: Path, turns: int) -> None:
    lines = [PLAN, *(call("read", path="shop/cart.py", first=n, last=n) for n in range(1, 9))]
    with Runs(model, shop, lines) as runs:
        end = runs.run(FIX, max_turns=turns)
    assert (end.reason, end.turns) == ("turn_limit", turns)
    assert len(runs.of(Turned)) == turns


def test_three_calls_in_a_row_that_cannot_be_read_end_a_run(model: Model, shop: Path) -> None:
    broken = '```tool\n{"name": "read", "arguments": {"path": \n```'
    with Runs(model, shop, [PLAN, broken, broken, broken]) as runs:
        end = runs.run(FIX)
    assert end.reason == "format_errors"
    assert len(runs.of(Warned)) == 2
    assert runs.of(Called) == []


def test_the_model_is_told_what_was_wrong_with_its_call(model: Model, shop: Path) -> None:
    with Runs(model, shop, [PLAN, call("raed", path="a"), EDIT, DONE]) as runs:
        assert runs.run(FIX).reason == "done"
        told = [text for part in runs.agent.session.segments if "raed" in (text := runs.text_of(part.name))]
        assert any("there is no tool 'raed'; there are" in text for text in told)


def test_wrong_arguments_are_told_and_can_be_mended(model: Model, shop: Path) -> None:
    with Runs(model, shop, [PLAN, call("read", file="shop/cart.py"), EDIT, DONE]) as runs:
        assert runs.run(FIX).reason == "done"
    first = runs.of(Returned)[0]
    assert not first.ok
    assert "read(path, first?, last?)" in first.result


def test_the_same_call_again_and_again_is_warned_about_and_ends(model: Model, shop: Path) -> None:
    again = call("search", pattern="nothing like it")
    with Runs(model, shop, [PLAN, *[again] * 6]) as runs:
        end = runs.run(FIX)
        assert end.reason == "repeated"
        assert len(runs.of(Called)) == 5
        assert [event.message for event in runs.of(Warned)] == [
            "search was called three times in the same way"
        ]
        assert "something else" in runs.text_of("tool:3:search")


def test_a_call_in_reasoning_is_no_call_and_reasoning_is_released(model: Model, shop: Path) -> None:
    thought = f"<think>perhaps {call('write', path='x.py', content='no')}</think>"
    with Runs(model, shop, [PLAN, thought + EDIT, DONE]) as runs:
        assert runs.run(FIX).reason == "done"
        assert "perhaps" in "".join(event.written for event in runs.of(Thought))
        assert [event.tool for event in runs.of(Called)] == ["edit", "done"]
        assert not (shop / "x.py").exists()
        reasoning = [part.name for part in runs.agent.session.segments if part.kind == "reasoning"]
        assert reasoning
        assert all(runs.agent.conversation.residency(name)[0] == 0 for name in reasoning)


def test_prose_around_a_call_and_a_missing_end_tag(model: Model, shop: Path) -> None:
    without_end = "First this:\n" + EDIT.removesuffix("\n```")
    with Runs(model, shop, [PLAN, without_end, f"So.\n{DONE}\nThat was it."]) as runs:
        assert runs.run(FIX).reason == "done"
    assert runs.of(Called)[0].tool == "edit"
    assert "".join(event.text for event in runs.of(Wrote)) == "First this:\nSo.\n\nThat was it."


def test_several_calls_in_one_answer(model: Model, shop: Path) -> None:
    with Runs(model, shop, [PLAN, f"{EDIT}\n{DONE}"]) as runs:
        end = runs.run(FIX)
    assert (end.reason, end.turns) == ("done", 2)


def test_an_answer_that_is_cut_off_is_a_format_error(model: Model, shop: Path) -> None:
    with Runs(model, shop, [PLAN, "x" * 400, "y" * 400, "z" * 400], max_tokens=200) as runs:
        end = runs.run(FIX)
    assert end.reason == "format_errors"
    assert "cut off" in end.result


def test_a_call_that_is_cut_off_is_told_how_to_go_on(model: Model, shop: Path) -> None:
    """It was said to be no JSON, and to be written again, at the same length."""
    long = call("write", path="notes.md", content="notes\n" * 200)
    with Runs(model, shop, [PLAN, long, long, long], max_tokens=400) as runs:
        end = runs.run(FIX)
        asked = [runs.text_of(part.name) for part in runs.agent.session.segments if part.kind == "user"]
    assert (end.reason, runs.of(Called)) == ("format_errors", [])
    assert "cut off" in end.result
    assert [("limit of tokens" in text, "with edit" in text) for text in asked[-2:]] == [(True, True)] * 2
    assert not any("could not be read" in text for text in asked)


@pytest.mark.parametrize("last", ["cut off", "broken"])
def test_calls_before_one_that_cannot_be_read_are_made(model: Model, shop: Path, last: str) -> None:
    """They were left out, and nobody was told: the run ended as done without the edit."""
    long = call("write", path="notes.md", content="notes\n" * 200)
    unread = {"cut off": long, "broken": '```tool\n{"name": "read", "arguments": {\n```\n' + DONE}[last]
    with Runs(model, shop, [PLAN, f"{EDIT}\n{unread}", DONE], max_tokens=400) as runs:
        end = runs.run(FIX)
    assert (end.reason, end.changed, end.turns) == ("done", ("shop/cart.py",), 3)
    assert [event.tool for event in runs.of(Called)] == ["edit", "done"]
    assert len(runs.of(Warned)) == 1


def test_a_tool_that_fails_is_told_with_what_to_do(model: Model, shop: Path) -> None:
    wrong = call("edit", path="shop/cart.py", search="for price in all_prices:", replacement="x")
    with Runs(model, shop, [PLAN, wrong, EDIT, DONE]) as runs:
        assert runs.run(FIX).reason == "done"
    first = runs.of(Returned)[0]
    assert not first.ok
    assert "for price in prices[1:]" in first.result  # the nearest region
    assert "9" in first.result  # with line numbers


def test_text_without_a_call_is_not_taken_for_work(model: Model, shop: Path) -> None:
    with Runs(model, shop, [PLAN, "I have corrected it.", EDIT, DONE]) as runs:
        end = runs.run(FIX)
    assert (end.reason, end.changed) == ("done", ("shop/cart.py",))


def test_a_call_that_is_an_object_alone_is_made(model: Model, shop: Path) -> None:
    """It was taken for prose, and the run ended as done with nothing changed."""
    alone = EDIT.removeprefix("```tool\n").removesuffix("\n```")
    with Runs(model, shop, [PLAN, alone, f"<tools>\n{alone}\n</tools>", DONE]) as runs:
        end = runs.run(FIX)
    assert (end.reason, end.changed) == ("done", ("shop/cart.py",))
    assert [event.tool for event in runs.of(Called)] == ["edit", "edit", "done"]


def test_a_task_of_which_nothing_was_done_is_not_done(model: Model, shop: Path) -> None:
    with Runs(model, shop, [PLAN, "I will correct it.", "It is corrected."]) as runs:
        end = runs.run(FIX)
        assert [event.state for event in runs.of(StepEnded)] == ["failed"]
    assert (end.reason, end.result, end.changed) == ("question", "It is corrected.", ())
    assert "called no tool" in runs.of(Warned)[0].message


# Permissions


def test_what_nobody_allows_ends_the_run(model: Model, shop: Path) -> None:
    with Runs(model, shop, [PLAN, EDIT, DONE], mode="ask") as runs:
        end = runs.run(FIX)
    assert end.reason == "refused"
    assert "shop/cart.py" in end.result
    (asked,) = runs.of(Asked)
    assert "+    for price in prices:" in asked.diff
    assert [(event.allowed, event.by) for event in runs.of(Decided)] == [(False, "nobody")]
    assert "prices[1:]" in (shop / "shop/cart.py").read_text()


def test_the_user_is_asked_and_says_yes_once(model: Model, shop: Path) -> None:
    asked: list[Asked] = []

    def approve(question: Asked) -> Answer:
        asked.append(question)
        return Answer("once")

    second = call("edit", path="shop/cart.py", search="RATE = 19", replacement="RATE = 20")
    with Runs(model, shop, [PLAN, EDIT, second, DONE], mode="ask", approve=approve) as runs:
        assert runs.run(FIX).reason == "done"
    assert [one.tool for one in asked] == ["edit", "edit"]
    assert "RATE = 20" in (shop / "shop/cart.py").read_text()


def test_a_yes_for_the_session_is_asked_for_once(model: Model, shop: Path) -> None:
    asked: list[Asked] = []

    def approve(question: Asked) -> Answer:
        asked.append(question)
        return Answer("session")

    second = call("edit", path="shop/cart.py", search="RATE = 19", replacement="RATE = 20")
    with Runs(model, shop, [PLAN, EDIT, second, DONE], mode="ask", approve=approve) as runs:
        assert runs.run(FIX).reason == "done"
    assert len(asked) == 1
    assert asked[0].offers


def test_a_no_is_told_with_what_the_user_wants_instead(model: Model, shop: Path) -> None:
    lines = [PLAN, EDIT, call("done", result="as you wish")]
    with Runs(model, shop, lines, mode="ask", approve=lambda asked: Answer("no", "use sum()")) as runs:
        end = runs.run(FIX)
    assert end.reason == "refused"
    assert "use sum()" in runs.of(Returned)[0].result
    assert "prices[1:]" in (shop / "shop/cart.py").read_text()


def test_after_a_no_the_change_that_the_user_wants_is_asked_about(model: Model, shop: Path) -> None:
    """The first no barred the file: the corrected edit was refused and nobody was asked.

    The very change that was refused is not asked about again, until the next prompt.
    """
    better = call("edit", path="shop/cart.py", search="prices[1:]", replacement="list(prices)")
    answers = iter([Answer("no", "copy the list"), Answer("once"), Answer("no"), Answer("once")])
    asked: list[str] = []

    def approve(question: Asked) -> Answer:
        asked.append(question.diff)
        return next(answers)

    rate = call("edit", path="shop/cart.py", search="RATE = 19", replacement="RATE = 20")
    lines = [PLAN, EDIT, EDIT, better, DONE, PLAN, rate, DONE, PLAN, rate, DONE]
    with Runs(model, shop, lines, mode="ask", approve=approve) as runs:
        assert runs.run(FIX).reason == "done"
        assert [event.ok for event in runs.of(Returned)] == [False, False, True, True]
        assert "the user refused this before" in runs.of(Returned)[1].result
        assert runs.run("Set RATE in shop/cart.py to 20").reason == "refused"
        assert runs.run("Set RATE in shop/cart.py to 20 now").reason == "done"
    assert len(asked) == 4
    assert "list(prices)" in asked[1]
    assert "RATE = 20" in (shop / "shop/cart.py").read_text()


def test_a_no_to_a_tool_of_a_plug_in_holds_for_what_it_was_to_do(model: Model, shop: Path) -> None:
    done: list[str] = []

    @tool("write")
    def tidy(path: str, how: str) -> str:
        """Tidy a file.

        Args:
            path: of the file
            how: the way
        """
        done.append(how)
        return "tidied"

    @tool("run")
    def deploy(stage: str) -> str:
        """Deploy the shop.

        Args:
            stage: where to
        """
        done.append(stage)
        return "deployed"

    lines = [
        plan("tidy and deploy"),
        call("tidy", path="README.md", how="hard"),
        call("tidy", path="README.md", how="hard"),
        call("tidy", path="README.md", how="softly"),
        call("deploy", stage="live"),
        call("deploy", stage="test"),
        DONE,
    ]
    answers = iter([Answer("no"), Answer("once"), Answer("no"), Answer("once")])
    with Runs(
        model, shop, lines, mode="ask", approve=lambda asked: next(answers), tools=[tidy, deploy]
    ) as runs:
        assert runs.run("Tidy README.md and deploy").reason == "done"
        assert len(runs.of(Asked)) == 4
    assert done == ["softly", "test"]


def test_what_a_rule_refuses_is_told_and_the_task_can_still_be_done(model: Model, shop: Path) -> None:
    outside = call("read", path="/etc/hostname")
    with Runs(model, shop, [PLAN, outside, EDIT, DONE]) as runs:
        assert runs.run(FIX).reason == "done"
    assert "outside" in runs.of(Returned)[0].result


def test_a_refusal_that_the_task_ends_with_is_no_success(model: Model, shop: Path) -> None:
    lines = [PLAN, call("read", path="/etc/hostname"), call("done", result="I may not")]
    with Runs(model, shop, lines) as runs:
        end = runs.run(FIX)
    assert end.reason == "refused"
    assert "outside" in end.result
    assert "I may not" in end.result


def test_a_refusal_is_over_with_its_run(model: Model, shop: Path) -> None:
    lines = [PLAN, EDIT, call("done", result="as you wish"), "It is 19."]
    with Runs(model, shop, lines, mode="ask", approve=lambda asked: Answer("no")) as runs:
        assert runs.run(FIX).reason == "refused"
        assert runs.run("What is RATE in shop/cart.py?").reason == "done"


@pytest.mark.parametrize(
    ("called", "mode"),
    [
        (call("read", path="server.pem"), "plan"),
        (call("edit", path="server.pem", search="MIIE", replacement="MIIF"), "accept-edits"),
        (call("write", path="server.pem", content="MIIF\n"), "accept-edits"),
    ],
)
def test_a_private_key_is_known_by_its_beginning_by_all_tools(
    model: Model, shop: Path, called: str, mode: str
) -> None:
    """``read`` gave the model what ``cat`` and ``search`` refuse."""
    key = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"
    (shop / "server.pem").write_text(key)
    with Runs(model, shop, [plan("look at the shop"), called, DONE], mode=mode) as runs:
        runs.run("Look after this shop")
        (returned, _) = runs.of(Returned)
        assert not returned.ok
        read = [one.name for one in runs.agent.session.segments if one.kind in ("file", "tool")]
        assert read
        assert not any("MIIE" in runs.text_of(name) for name in read)
    assert (shop / "server.pem").read_text() == key
    with Runs(model, shop, [plan("look at the key"), called, DONE], mode=mode) as runs:
        runs.run("Look after server.pem")
        assert "private key" not in runs.of(Returned)[0].result  # the user has named it


def test_a_folder_that_becomes_a_link_while_the_user_is_asked_is_not_written_through(
    model: Model, shop: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "cart.py").write_text(SHOP["shop/cart.py"])

    def approve(question: Asked) -> Answer:
        (shop / "shop").rename(shop / "old")
        (shop / "shop").symlink_to(elsewhere)
        return Answer("once")

    with Runs(model, shop, [PLAN, EDIT, DONE], mode="ask", approve=approve) as runs:
        assert runs.run(FIX).reason == "refused"
        assert "outside" in runs.of(Returned)[0].result
    for folder in (elsewhere, shop / "old"):
        assert (folder / "cart.py").read_text() == SHOP["shop/cart.py"]
    assert list(elsewhere.iterdir()) == [elsewhere / "cart.py"]


def test_in_mode_plan_nothing_is_changed(model: Model, shop: Path) -> None:
    with Runs(model, shop, [PLAN, EDIT, call("done", result="no")], mode="plan") as runs:
        assert runs.run(FIX).reason == "refused"
    assert "prices[1:]" in (shop / "shop/cart.py").read_text()


def test_a_change_of_mode_is_appended(model: Model, shop: Path) -> None:
    from pace_agent.safety.permissions import Mode

    with Runs(model, shop, ["It is 19.", "It is 19."]) as runs:
        runs.run("What is RATE in shop/cart.py?")
        runs.agent.mode = Mode.PLAN
        runs.run("What is RATE in shop/cart.py?")
        assert "The mode is plan now." in [event.note for event in runs.of(Noted)]


# Shell


def test_a_command_runs_and_its_failure_is_told(model: Model, shop: Path) -> None:
    lines = [PLAN, call("shell", command="echo broken; exit 3"), EDIT, DONE]
    with Runs(model, shop, lines, mode="auto") as runs:
        assert runs.run(FIX).reason == "done"
    first = runs.of(Returned)[0]
    assert not first.ok
    assert "exit code 3" in first.result
    assert "broken" in first.result


def test_the_user_s_own_command_runs_unasked_and_the_model_is_told(model: Model, shop: Path) -> None:
    with Runs(model, shop, ["Noted."], mode="ask") as runs:
        events: list[AgentEvent] = []
        runs.agent._parts.outbox.listen(events.append)
        assert runs.agent.run_command("echo seen by all; rm README.md")
        assert not runs.agent.run_command("exit 3")
        runs.run(QUESTION)
        notes = [event.note for event in runs.of(Noted)]
    assert not [event for event in events if isinstance(event, (Asked, Decided))]
    assert [event.ok for event in events if isinstance(event, Returned)][:2] == [True, False]
    assert not (shop / "README.md").exists()
    assert "The user ran `echo seen by all; rm README.md`" in notes[0]
    assert "seen by all" in notes[0].partition("\n")[2]
    assert "exit code 3" in notes[1]


def test_what_a_command_prints_late_is_told_as_its_own(
    model: Model, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was shown as the output of whichever call was the last one by then."""
    takers: list[Callable[[bytes], None]] = []
    run = Shell.run

    def print_late(shell: Shell, command: str, **options: Any) -> ShellResult:
        takers.append(options["on_output"])
        takers[0](command.encode())
        return run(shell, ":", **options)

    monkeypatch.setattr(Shell, "run", print_late)
    with Runs(model, shop, []) as runs:
        runs.agent.run_command("one")
        runs.agent.run_command("two")
        assert [(event.id, event.written) for event in runs.of(Output)] == [(1, "one"), (1, "two")]


def test_an_empty_command_is_refused(model: Model, shop: Path) -> None:
    with Runs(model, shop, []) as runs, pytest.raises(ConfigError, match="empty"):
        runs.agent.run_command(" ")


# Memory


def test_each_request_extends_the_last_token_for_token(model: Model, shop: Path) -> None:
    lines = [PLAN, call("read", path="README.md"), EDIT, DONE, "It is 19.", PLAN, EDIT, "no more", DONE]
    with Runs(model, shop, lines) as runs:
        seen: list[list[int]] = []
        for prompt in (FIX, "What is RATE in shop/cart.py?"):
            for event in runs.agent.run(prompt):
                if isinstance(event, Turned):
                    now = list(runs.agent.session.tokens)
                    if seen:
                        assert now[: len(seen[-1])] == seen[-1]
                    assert event.session_tokens == event.reused + event.decoded + event.generated
                    seen.append(now)
        assert len(seen) == 5


def test_lines_that_are_there_are_not_read_twice(model: Model, shop: Path) -> None:
    lines = [PLAN, call("read", path="shop/cart.py"), EDIT, DONE]
    with Runs(model, shop, lines) as runs:
        assert runs.run(FIX).reason == "done"
        assert "have them already" in runs.of(Returned)[0].result
        files = [
            part.name for part in runs.agent.session.segments if part.name.startswith("file:shop/cart.py")
        ]
        assert len(files) == 1
        assert runs.of(Missed) == []


def test_reading_what_was_evicted_is_a_plan_miss_and_brings_it_back(model: Model, shop: Path) -> None:
    steps = plan(("correct total", ["shop/cart.py"]), ("say so in the readme", ["README.md"]))
    read = call("read", path="tests/test_cart.py")
    lines = [steps, read, EDIT, DONE, read, "The readme needs no change."]
    with Runs(model, shop, lines) as runs:
        end = runs.run("Correct total and write it down in the readme of the repository")
        assert end.reason == "done"
        (missed,) = runs.of(Missed)
        assert missed.segment.startswith("file:tests/test_cart.py")
        assert missed.means in ("spliced", "recomputed")
        assert end.misses == 1


def test_stale_text_is_evicted_and_not_read_again(model: Model, shop: Path) -> None:
    with Runs(model, shop, [PLAN, EDIT, call("read", path="shop/cart.py"), DONE]) as runs:
        assert runs.run(FIX).reason == "done"
        old = runs.of(StepStarted)[0].reads
        stale = next(name for name in old if name.startswith("file:shop/cart.py"))
        assert runs.agent.conversation.residency(stale)[0] == 0
        assert "for price in prices:" in runs.of(Returned)[1].result


@pytest.mark.parametrize("policy", ["pace_focus", "pace", "streaming", "h2o", "hybrid"])
def test_a_tight_budget_is_kept(model: Model, shop: Path, policy: str) -> None:
    lines = [
        PLAN,
        *(call("read", path="shop/cart.py", first=n, last=n + 2) for n in range(1, 12)),
        EDIT,
        DONE,
    ]
    with Runs(model, shop, lines, budget=2304, position_cap=4096, policy=policy) as runs:
        end = runs.run(FIX)
        assert end.reason == "done"
        assert all(event.residents <= 2304 for event in runs.of(Turned))
        assert all(event.next_position <= 4096 for event in runs.of(Turned))
