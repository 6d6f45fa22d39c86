from __future__ import annotations

import pytest
from command_line import QUESTION, write_project

from pace_local import Session, Step
from pace_local.asking import SYSTEM_PROMPT, Asking
from pace_local.errors import CancelledError, ConfigError, PlanError
from pace_local.events import Evicted, Finished, ReadsOverBudget
from pace_local.files import read_text
from pace_local.testing import TinySpec


@pytest.fixture
def model(load_tiny):
    return load_tiny(TinySpec(n_layer=2, head_dim=16, n_ff=32))


@pytest.fixture
def events():
    return []


@pytest.fixture
def asking(model, tmp_path, events):
    """The small project in a session of 1,024 tokens: an excerpt has at most 232, about as many bytes."""
    with small_session(model, events) as session:
        yield Asking(session, [read_text(path) for path in write_project(tmp_path)])


def small_session(model, events, **settings) -> Session:
    settings = {"budget": 1024, "headroom": 128, "position_cap": 2048, "threads": 1, "check": True} | settings
    return Session(model, listener=events.append, **settings)


def labels(step) -> list[str]:
    """Where a step's picks stand, without the folder."""
    return [pick.excerpt.label.rpartition("/")[2] for pick in step.picks]


def lines_of(asking, name: str) -> list[tuple[int, int]]:
    return [(e.start_line, e.end_line) for e in asking.excerpts if e.path.endswith(name)]


def ask(asking, planned, number=0, **settings) -> Finished:
    *_, last = asking.answer(planned, number, max_tokens=8, **settings)
    assert isinstance(last, Finished)
    return last


# What a step reads


def test_the_files_are_many_times_the_budget(asking):
    assert asking.tokens_to_read > 2 * asking.session.config.budget
    assert asking.tokens_to_decode > asking.tokens_to_read
    assert lines_of(asking, "terms.py") == [(1, 8)]


def test_a_prompt_reads_what_it_names(asking):
    (step,) = asking.plan([Step(QUESTION)])
    assert labels(step)[0] == "terms.py:1-8"
    assert "defines" in step.picks[0].reason
    assert step.answers == ()
    assert step.prompt == QUESTION


def test_a_step_reads_a_whole_file(asking):
    (step,) = asking.plan([Step("sum up", ["quays.py"])])
    assert labels(step) == [f"quays.py:{first}-{last}" for first, last in lines_of(asking, "quays.py")]
    assert {pick.reason for pick in step.picks} == {"the plan reads quays.py"}


def test_a_file_may_be_named_by_any_end_of_its_path(asking, tmp_path):
    for name in ("terms.py", f"{tmp_path.name}/terms.py", str(tmp_path / "terms.py"), "./terms.py"):
        (step,) = asking.plan([Step("x", [name])])
        assert labels(step) == ["terms.py:1-8"]
    with pytest.raises(PlanError):
        asking.plan([Step("x", ["ms.py"])])


@pytest.mark.parametrize(
    ("read", "first", "last"), [("quays.py:9", 9, 9), ("quays.py:5-20", 5, 20), ("terms.py:1-9", 1, 8)]
)
def test_a_step_reads_lines(asking, read, first, last):
    (step,) = asking.plan([Step("x", [read])])
    spans = lines_of(asking, read.partition(":")[0])
    expected = [span for span in spans if span[0] <= last and span[1] >= first]
    assert [(pick.excerpt.start_line, pick.excerpt.end_line) for pick in step.picks] == expected
    assert expected


def test_a_step_reads_definitions(asking):
    for read in ("surcharge", "terms.py:surcharge", "PIER_FEE"):
        (step,) = asking.plan([Step("x", [read])])
        assert labels(step) == ["terms.py:1-8"]
    (step,) = asking.plan([Step("x", ["berth_3", "quays.py:berth_20"])])
    assert len(step.picks) == 2
    assert all(f"def berth_{n}(" in pick.excerpt.text for n, pick in zip((3, 20), step.picks, strict=True))


def test_what_is_read_twice_is_picked_once(asking):
    (step,) = asking.plan([Step("x", ["surcharge", "terms.py", "terms.py:2"])])
    assert labels(step) == ["terms.py:1-8"]


def test_a_step_reads_answers_and_nothing_that_it_did_not_ask_for(asking):
    planned = asking.plan([Step("one"), Step("two", ["answer:1"]), Step("three", ["answer:2", "terms.py"])])
    assert planned[1].answers == (1,)
    assert planned[1].picks == ()
    assert planned[2].answers == (2,)
    assert labels(planned[2]) == ["terms.py:1-8"]


@pytest.mark.parametrize("read", ["answer:2", "answer:3", "answer:0", "answer:x", "answer:", "answer:²"])
def test_an_answer_that_is_not_there_yet(asking, read):
    with pytest.raises(PlanError, match=r"^step 2 reads .*; use answer:K with K from 1 to 1$"):
        asking.plan([Step("one"), Step("two", [read])])


def test_the_first_step_has_no_answers_to_read(asking):
    with pytest.raises(PlanError, match="no step comes before it"):
        asking.plan([Step("one", ["answer:1"])])


@pytest.mark.parametrize("digits", ["9" * 5000, "1-" + "9" * 5000])
def test_endless_numbers_are_unknown_reads(asking, digits):
    """Python refuses to turn so many digits into a number, with a ValueError."""
    for read in (f"answer:{digits}", f"quays.py:{digits}"):
        with pytest.raises(PlanError):
            asking.plan([Step("one"), Step("two", [read])])


@pytest.mark.parametrize(
    ("read", "hint"),
    [
        ("surcharges", "did you mean 'surcharge'"),
        ("PIER_FEES", "did you mean 'PIER_FEE'"),
        ("quays.py:berth_99", "berth_9"),
        ("terms.py:100-200", "terms.py"),
        ("zzz", "name a file, file:lines or a definition"),
        ("", "name a file, file:lines or a definition"),
    ],
)
def test_an_unknown_read_names_what_is_close(asking, read, hint):
    with pytest.raises(PlanError) as caught:
        asking.plan([Step("x", [read])])
    assert str(caught.value).startswith(f"the plan reads {read!r}, which no file holds; ")
    assert hint in str(caught.value)


# Prompts and budgets


def test_a_prompt_that_does_not_fit(asking):
    for steps in ([Step("long " * 300)], [Step("short"), Step("long " * 300, ["terms.py"])]):
        with pytest.raises(ConfigError, match="do not fit a budget of 1024; raise the budget or shorten"):
            asking.plan(steps)


def test_a_prompt_that_leaves_no_room_for_what_it_needs(asking):
    with pytest.raises(ConfigError, match="a budget of 1024 tokens has no room beside the prompt of"):
        asking.plan([Step("word " * 140)])
    assert asking.plan([Step("word " * 140, ["terms.py"])])


def test_a_prompt_that_does_not_fit_is_refused_without_files_too(model, events):
    with small_session(model, events) as session, pytest.raises(ConfigError, match="do not fit"):
        Asking(session, []).plan([Step("long " * 300)])


def test_picks_leave_room_for_prompt_answer_and_recent_text(asking):
    prompt = "What do all the berths do? " * 4
    (step,) = asking.plan([Step(prompt)])
    session = asking.session
    taken = sum(len(session.model.tokenize(text)) for text in (SYSTEM_PROMPT, prompt))
    picked = sum(pick.tokens for pick in step.picks)
    assert 0 < picked < session.config.soft_budget - session.config.recent_tokens - taken


def test_blank_files_are_left_out(model, tmp_path, events):
    (tmp_path / "blank.py").write_text(" \n\n")
    (tmp_path / "one.py").write_text("x = 1\n")
    with small_session(model, events) as session:
        asking = Asking(session, [read_text(tmp_path / "blank.py"), read_text(tmp_path / "one.py")])
        assert [excerpt.label.rpartition("/")[2] for excerpt in asking.excerpts] == ["one.py:1-1"]


def test_work_on_files_can_be_stopped(model, tmp_path, events):
    """Cutting a large file and reading it both take long."""
    calls, limit = 0, 1

    def proceed() -> None:
        nonlocal calls
        calls += 1
        if calls == limit:
            raise CancelledError("enough")

    sources = [read_text(path) for path in write_project(tmp_path)]
    with small_session(model, events) as session, pytest.raises(CancelledError):
        Asking(session, sources, proceed)
    with small_session(model, events) as session:
        asking = Asking(session, sources, proceed)
        planned = asking.plan([Step(QUESTION)])
        limit = calls + 3
        with pytest.raises(CancelledError):
            asking.read(planned)
        assert sum(segment.kind == "file" for segment in session.segments) == 2


# Reading and answering


def test_what_a_question_reads_is_there_when_it_comes(asking, events):
    """The answer's file comes first, and more than four budgets of other text after it."""
    planned = asking.plan([Step(QUESTION)])
    asking.read(planned)
    assert asking.session.session_length > 4 * asking.session.config.budget
    assert sum(event.count for event in events if isinstance(event, Evicted)) > 3000
    finished = ask(asking, planned)
    assert finished.stats.residency == 1.0
    assert finished.stats.reads[0].name.endswith("terms.py:1-8")
    assert finished.stats.reads[0].farthest < asking.session.config.position_cap
    assert finished.stats.highest_position < 2048


def test_without_a_plan_it_is_gone(model, tmp_path, events):
    """What the policy is for: the same text under ``streaming`` keeps nothing of the first file."""
    with small_session(model, events, policy="streaming") as session:
        asking = Asking(session, [read_text(path) for path in write_project(tmp_path)])
        planned = asking.plan([Step(QUESTION)])
        asking.read(planned)
        stats = ask(asking, planned).stats
    first = stats.reads[0]
    assert first.name.endswith("terms.py:1-8")
    assert (first.resident, first.nearest, first.farthest) == (0, None, None)
    assert stats.residency < 1
    assert stats.highest_position > 4000


def test_bounded_positions_alone_lose_it_too_and_a_plan_alone_leaves_it_far(model, tmp_path, events):
    found = {}
    for policy in ("bounded", "plan"):
        with small_session(model, events, policy=policy) as session:
            asking = Asking(session, [read_text(path) for path in write_project(tmp_path)])
            planned = asking.plan([Step(QUESTION)])
            asking.read(planned)
            found[policy] = ask(asking, planned).stats
    assert found["bounded"].reads[0].resident == 0
    assert found["bounded"].highest_position < 2048
    assert found["plan"].residency == 1.0
    assert found["plan"].reads[0].nearest > 4000


def test_each_question_reads_its_own(asking):
    steps = [
        Step("first", ["terms.py"]),
        Step("second", ["quays.py:berth_0"]),
        Step("third", ["answer:1", "answer:2"]),
    ]
    planned = asking.plan(steps)
    asking.read(planned)
    reads = []
    for number in range(3):
        stats = ask(asking, planned, number).stats
        assert stats.residency == 1.0
        reads.append([read.name.rpartition("/")[2] for read in stats.reads if read.step == 0])
    assert reads[0] == ["terms.py:1-8"]
    assert len(reads[1]) == 1
    assert reads[1][0].startswith("quays.py:1-")
    assert reads[2] == ["answer:1", "answer:2"]


def test_all_coming_steps_are_in_the_plan_while_files_are_read(asking):
    planned = asking.plan([Step("first", ["terms.py"]), Step("second", ["berth_2"])])
    asking.read(planned)
    uses = {name.rpartition("/")[2]: step for name, step in asking.session.plan.next_use().items()}
    assert uses.pop("terms.py:1-8") == 0
    assert list(uses.values()) == [1]


def test_reads_over_the_budget_are_told(asking, events):
    """The nearest step's reads come first, and what did not fit is no secret."""
    planned = asking.plan([Step("first", ["terms.py"]), Step("second", ["quays.py"])])
    asking.read(planned)
    told = [event for event in events if isinstance(event, ReadsOverBudget)]
    assert told
    assert {event.step for event in told} == {1}
    assert all(event.kept < event.resident for event in told)
    assert ask(asking, planned).stats.residency == 1.0
    assert ask(asking, planned, 1).stats.residency < 1


def test_a_read_stays_whole_while_it_comes_in(asking):
    """It is longer than the recent window, and lost its beginning before the plan could name it."""
    planned = asking.plan(
        [Step("1", ["terms.py", "quays.py:9"]), Step("2", ["berth_4"]), Step("3", ["quays.py"])]
    )
    late = planned[1].picks[0]
    assert late.tokens > asking.session.config.recent_tokens
    asking.read(planned)
    reads = {read.name: read for read in asking.session.stats.reads}
    assert reads[late.excerpt.label].resident == reads[late.excerpt.label].tokens > 0


def test_an_answer_stays_whole_while_it_is_written(asking):
    """It was kept only once it was complete; the plan of a later step had taken its place by then."""
    planned = asking.plan([Step("1"), Step("2", ["answer:1"]), Step("3", ["quays.py"])])
    asking.read(planned)
    *_, finished = asking.answer(planned, 0, max_tokens=250)
    assert finished.stats.evicted > 0
    second = ask(asking, planned, 1).stats
    (answer,) = (read for read in second.reads if read.name == "answer:1")
    assert (answer.step, answer.resident) == (0, 250)


def test_an_excerpt_is_shown_with_its_place_and_cannot_end_its_own_fence(model, tmp_path, events):
    path = tmp_path / "notes.md"
    path.write_text("Some text.\n\n```python\nx = 1\n```\n\n````\ninner\n````\n")
    with small_session(model, events) as session:
        asking = Asking(session, [read_text(path)])
        asking.read(asking.plan([Step("x", ["notes.md"])]))
        segment = next(segment for segment in session.segments if segment.kind == "file")
        shown = session.text_of(segment)
    assert shown == f"{path}:1-9\n`````\n{path.read_text().rstrip()}\n`````"


def test_an_excerpt_inside_a_class_is_shown_under_its_head(model, tmp_path, events):
    path = tmp_path / "dock.py"
    body = "".join(f"    def move_{n}(self):\n        return self.place + {n}\n\n" for n in range(12))
    path.write_text(f"class Crane:\n{body}")
    with small_session(model, events) as session:
        asking = Asking(session, [read_text(path)])
        asking.read(asking.plan([Step("x", ["Crane.move_11"])]))
        *_, last = (segment for segment in session.segments if segment.kind == "file")
        shown = session.text_of(last)
    assert "\nclass Crane:\n…\n" in shown
    assert "def move_11" in shown


def test_no_excerpt_is_larger_than_a_quarter_of_the_soft_budget(asking):
    count = asking.session.model.tokenize
    assert max(len(count(excerpt.text)) for excerpt in asking.excerpts) <= 232
