"""What a session says about what it keeps, and about what another policy would keep."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from session_pair import TALKER, tiny_session

from pace_local import Model, Plan, Session, Step
from pace_local.dry_run import dry_run
from pace_local.errors import ConfigError
from pace_local.explain import Explanation, explain
from pace_local.memory import KeepPlan, Read, Reason
from pace_local.policies import POLICIES, CacheView, Observation, Policy, policy_named
from pace_local.policies.base import Scores
from pace_local.wording import columns, cut_middle, cut_start, in_one_line, number_words, wrapped

TEXT = "for the return of self and other ships in the harbour; "
UNNEEDING = [name for name in POLICIES if policy_named(name).observes is None]


@dataclass
class PoolPolicy(Policy):
    """Scores by a fixed rule that is no recency, marks entities, counts its calls and holds a pool."""

    name = "pool"
    marks_entities = True
    modulus: int = 7

    def __post_init__(self) -> None:
        self.calls = 0
        self.entities: list[bool] = []

    def check_target(self, target: int) -> None:
        if self.modulus > target:
            raise ConfigError(f"modulus {self.modulus} is out of range; use 1 to {target}")

    def score(self, view: CacheView) -> Scores:
        self.calls += 1
        PoolPolicy.last_entities = view.entity.copy()
        return (view.token_index % self.modulus) / 10

    def pool(self) -> dict[int, float]:
        return {5: 0.5, 6: 0.25, 20: 0.75, 10**9: 1.0}


@dataclass
class NeedyPolicy(Policy):
    """Needs attention; refuses residents that have received none."""

    name = "needy"

    @property
    def observes(self) -> Observation | None:
        return Observation()

    def score(self, view: CacheView) -> Scores:
        assert view.attention is not None
        return view.attention.total


class PickyPolicy(Policy):
    """Has no use for every second token."""

    name = "picky"

    def score(self, view: CacheView) -> Scores:
        return np.where(view.token_index % 2 == 1, -np.inf, 1.0)


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    for policy in (PoolPolicy, NeedyPolicy, PickyPolicy):
        monkeypatch.setitem(POLICIES, policy.name, policy)


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[Any], Model]) -> Model:
    return load_tiny(TALKER)


@pytest.fixture
def session_of(model: Model) -> Iterator[Callable[..., Session]]:
    """Makes sessions and closes them."""
    made: list[Session] = []

    def make(**settings: Any) -> Session:
        made.append(tiny_session(model, **settings))
        return made[-1]

    yield make
    for session in made:
        session.close()


def fill(session: Session, times: int = 6) -> None:
    """Read enough that something must go, with a plan that reads some of it."""
    session.append("Go.", name="rules", kind="system")
    session.append(TEXT, name="early", kind="file")
    session.append("RATE_X is 53", name="spec", kind="file", next_use=1)
    session.plan = Plan([Step("first"), Step("write", reads=["spec"])])
    for _ in range(times):
        session.append(TEXT, kind="file")
    session.append("why so?", name="question")
    session.append(TEXT, name="late", kind="tool")


def check(session: Session, told: Explanation) -> None:
    """That the parts are the residents, no more and no less, each part as long as it can be."""
    residents = session.residents
    parts = told.parts
    assert told.residents == len(residents) == sum(part.tokens for part in parts)
    ranks = 0
    for part in parts:
        own = slice(ranks, ranks + part.tokens)
        ranks += part.tokens
        assert residents.token_index[own].tolist() == list(range(part.first_index, part.last_index + 1))
        assert residents.position[own].tolist() == list(range(part.first_position, part.last_position + 1))
        segment = session.segments.named(part.segment)
        assert set(residents.segment[own].tolist()) == {segment.id}
        assert part.kind == segment.kind
        tokens = session.tokens_of(segment)[part.first_index - segment.start :][: part.tokens]
        assert part.text == session.model.text_of(tokens)
    for before, part in itertools.pairwise(parts):
        assert (
            part.first_index > before.last_index + 1
            or part.segment != before.segment
            or part.reason != before.reason
        )
    for segment in told.segments:
        assert segment.tokens == len(session.segments.named(segment.name))
        assert segment.resident == sum(part.tokens for part in segment.parts) <= segment.tokens
    assert [one.name for one in told.segments] == list(dict.fromkeys(part.segment for part in parts))


def snapshot(session: Session) -> dict[str, Any]:
    return {
        "residents": [column.copy().tolist() for column in session.residents._columns[:-1]],
        "length": session.session_length,
        "segments": list(session.segments),
        "plan": session.plan,
        "eviction": session.last_eviction,
        "policy": vars(session.policy).copy(),
        "counters": session._cache.counters.copy(),
        "logits": session.engine.logits().tolist(),
    }


def reasons(told: Explanation) -> dict[str, list[str]]:
    """Reasons by segment, each once."""
    return {
        segment.name: list(dict.fromkeys(part.reason for part in segment.parts)) for segment in told.segments
    }


# Explaining


def test_before_any_eviction(session_of: Callable[..., Session]) -> None:
    session = session_of()
    session.append("Go.", name="rules", kind="system")
    told = explain(session)
    check(session, told)
    assert {part.reason for part in told.parts} == {"everything fits"}
    assert told.segments[1].pinned
    assert told.segments[1].parts[0].lowest_score is None
    assert (told.evicted_at, told.evicted, told.needed_score, told.pool) == (None, (), None, ())
    assert "nothing was evicted yet" in list(told.lines())
    json.dumps(told.as_dict(), allow_nan=False)


def test_an_empty_session(session_of: Callable[..., Session]) -> None:
    told = explain(session_of())
    assert told.parts == ()
    assert next(iter(told.lines())).startswith("0 of 0 tokens are resident; policy pace, budget 96")


def test_every_reason(session_of: Callable[..., Session]) -> None:
    session = session_of(budget=128, position_cap=192, recent=12)
    fill(session)
    before = snapshot(session)
    told = explain(session)
    assert snapshot(session) == before
    check(session, told)
    why = reasons(told)
    assert why["rules"] == ["pinned"]
    assert why["spec"] == ["plan step 2"]
    assert why["question"] == ["asked now"]
    assert why["late"][-1] in ("recent", "new since the last eviction")
    everything = {reason for reasons in why.values() for reason in reasons}
    assert {"sink", "pinned", "plan step 2", "asked now", "recent", "role marker"} <= everything
    assert any(reason.startswith("score ") for reason in everything)
    session.append("go on", kind="tool", name="more")
    assert reasons(explain(session))["more"] in (["new since the last eviction"], ["recent"])


def test_reasons_are_those_of_the_eviction(session_of: Callable[..., Session]) -> None:
    session = session_of()
    fill(session)
    eviction = session.last_eviction
    assert eviction is not None
    words = {
        Reason.SINK: "sink",
        Reason.PINNED: "pinned",
        Reason.RECENT: "recent",
        Reason.FRAMING: "role marker",
    }
    rank_of = {int(index): rank for rank, index in enumerate(eviction.token_index)}
    seen = set()
    for part in explain(session).parts:
        for index in range(part.first_index, part.last_index + 1):
            rank = rank_of.get(index)
            if rank is None:
                assert part.reason == "new since the last eviction"
                assert part.lowest_score is part.highest_score is None
                continue
            reason = Reason(int(eviction.plan.reasons[rank]))
            seen.add(reason)
            score = eviction.plan.scores[rank]
            assert part.lowest_score is not None
            assert part.highest_score is not None
            assert part.lowest_score <= score <= part.highest_score
            if reason in words:
                assert part.reason == words[reason]
            elif reason == Reason.SCORE:
                assert part.reason.startswith("score ")
            else:
                assert reason == Reason.READ
                assert part.reason in ("asked now", "plan step 2")
    assert {Reason.SINK, Reason.PINNED, Reason.RECENT, Reason.READ} <= seen


def test_scores_of_a_part_are_a_range(session_of: Callable[..., Session]) -> None:
    session = session_of(policy="pool", recent=0, budget=256, position_cap=512)
    fill(session)
    told = explain(session)
    check(session, told)
    scored = [part for part in told.parts if part.reason.startswith("score ")]
    ranges = {part.reason for part in scored if part.lowest_score != part.highest_score}
    assert ranges
    assert all("–" in reason for reason in ranges)
    assert any(part.reason == f"score {number_words(part.lowest_score or 0.0)}" for part in scored)
    needed = told.needed_score
    assert needed == min(part.lowest_score for part in scored if part.lowest_score is not None)
    by_score = [gone for gone in told.evicted if gone.kind != "framing"]
    assert by_score
    for gone in by_score:
        assert gone.highest_score <= needed
        if gone.highest_score < needed:
            assert gone.reason == f"{number_words(gone.highest_score)}".join(
                ["score ", f", and {number_words(needed)} was needed"]
            )
        else:
            assert gone.reason.endswith("newer tokens with the same score had the room")


def test_what_was_evicted_last(session_of: Callable[..., Session]) -> None:
    session = session_of()
    fill(session)
    told, eviction = explain(session), session.last_eviction
    assert eviction is not None
    gone = np.delete(eviction.token_index, eviction.plan.keep)
    assert told.evicted_at == eviction.session_length
    assert sum(one.tokens for one in told.evicted) == len(gone) > 0
    for one in told.evicted:
        segment = session.segments.named(one.segment)
        mine = [i for i in gone if segment.start <= i < segment.end]
        assert one.tokens == len(mine)
        tokens = [session.tokens_of(segment)[i - segment.start] for i in mine]
        assert one.text.replace("…", "") == session.model.text_of(tokens)
        assert (one.kind == "framing") == (one.reason == "role marker of a turn of which nothing stayed")


def test_what_the_policy_has_no_use_for(session_of: Callable[..., Session]) -> None:
    session = session_of(policy="picky", recent=0)
    fill(session)
    told = explain(session)
    assert "the policy has no use for it" in {gone.reason for gone in told.evicted}
    assert None in {gone["highest_score"] for gone in told.as_dict()["evicted"]}
    json.dumps(told.as_dict(), allow_nan=False)


def test_no_room_was_left_for_scores(session_of: Callable[..., Session]) -> None:
    session = session_of(recent=48)
    session.append("Go.", kind="system")
    session.append(TEXT, name="early", kind="file")
    session.append(TEXT * 3, name="all of it", next_use=0)
    told = explain(session)
    assert told.needed_score is None
    assert any(
        gone.reason.startswith("score ")
        and gone.reason.endswith("no room was left for what is kept by score")
        for gone in told.evicted
    )


def test_the_pool(session_of: Callable[..., Session]) -> None:
    session = session_of(policy="pool")
    fill(session)
    told = explain(session)
    assert [
        (held.first_index, held.last_index, held.lowest_score, held.highest_score) for held in told.pool
    ] == [(5, 6, 0.25, 0.5), (20, 20, 0.75, 0.75)]
    assert all(session.segments.at(held.first_index).name == held.segment for held in told.pool)
    tokens = list(session._cache.tokens)
    assert [held.text for held in told.pool] == [
        *(session.model.text_of(tokens[5:7]), session.model.text_of(tokens[20:21])),
    ]
    lines = list(told.lines())
    assert "pool: 3 tokens" in lines
    assert any("score 0.25–0.50, " in line for line in lines)


def test_merged_entries_stand_for_what_was_merged(session_of: Callable[..., Session]) -> None:
    """Every token that left is in one entry of each merged layer, but for sinks, markers and pins."""
    session = session_of(policy="merge", budget=96, policy_options={"recent_share": 0.2})
    assert session.merged is not None
    for number in range(6):
        session.append(TEXT, name=f"part{number}", kind="file")
    told = session.explain()
    largest = session.merged.largest()
    assert largest
    assert sum(part.stands_for - part.tokens for part in told.parts) == sum(largest.values()) - len(largest)
    content = sum(len(one) for one in session.segments if one.kind != "framing")
    held = sum(part.stands_for for part in told.parts if part.kind != "framing")
    assert told.residents < held <= content + len(told.parts)
    merged = [segment for segment in told.segments if segment.stands_for > segment.resident]
    assert f", which stand for {merged[0].stands_for} · positions" in "\n".join(told.lines(120))
    assert session_of().merged is None


def test_characters_cut_in_two(session_of: Callable[..., Session]) -> None:
    """The tokens of a character are bytes here; some of them go and others stay."""
    session = session_of(policy="pool", recent=0)
    fill(session, 2)
    session.append("漢字😀é" * 20, name="signs", kind="file")
    told = explain(session)
    check(session, told)
    assert "\ufffd" in "".join(part.text for part in told.parts if part.segment == "signs")
    assert list(told.lines())
    assert list(told.lines(full_text=True))
    json.loads(json.dumps(told.as_dict()))


@pytest.mark.parametrize("policy", UNNEEDING)
def test_any_policy(session_of: Callable[..., Session], policy: str) -> None:
    session = session_of(policy=policy, budget=512, position_cap=1024)
    fill(session)
    if session.policy.evicts:
        fill(session, 12)
        assert session.last_eviction is not None
    told = explain(session)
    check(session, told)
    assert told.policy == policy
    document = json.loads(json.dumps(told.as_dict(), allow_nan=False))
    assert [part for segment in document["segments"] for part in segment["parts"]] == [
        vars(part) for part in told.parts
    ]
    assert document["parameters"].keys() == session.policy.parameters().keys()


def test_tokens_that_were_withdrawn_are_not_told(session_of: Callable[..., Session]) -> None:
    """A text that was cancelled has evicted others; its own tokens are no part of the session."""
    session = session_of()
    fill(session)
    eviction = session.last_eviction
    assert eviction is not None
    length = session.session_length
    shown = replace(
        eviction,
        token_index=np.append(eviction.token_index, [length, length + 1]),
        position=np.append(eviction.position, [0, 0]),
        plan=KeepPlan(
            eviction.plan.keep,
            np.append(eviction.plan.reasons, [0, 0]).astype(np.int8),
            np.append(eviction.plan.scores, [9.0, 9.0]),
        ),
        session_length=length + 2,
        reads=(*eviction.reads, Read(10**6, 0)),
    )
    before = explain(session)
    session._cache.last_eviction = shown
    after = explain(session)
    assert after.evicted == before.evicted
    assert after.parts == before.parts


def test_an_index_given_again_is_new(session_of: Callable[..., Session]) -> None:
    """An eviction record says nothing of tokens from the session's length then on."""
    session = session_of()
    fill(session)
    eviction = session.last_eviction
    assert eviction is not None
    kept = eviction.token_index[eviction.plan.keep]
    assert {part.reason for part in explain(session).parts if part.first_index == kept[-1]} != {
        "new since the last eviction"
    }
    session._cache.last_eviction = replace(eviction, session_length=int(kept[-3]))
    new = [part for part in explain(session).parts if part.reason == "new since the last eviction"]
    assert min(part.first_index for part in new) == kept[-3]
    assert sum(part.tokens for part in new) == np.count_nonzero(session.residents.token_index >= kept[-3])


def test_its_time_follows_the_residents(
    session_of: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = session_of()
    session.append(TEXT * 60, kind="file")
    assert session.session_length > 15 * session.n_residents
    seen: list[int] = []
    monkeypatch.setattr(session, "text_of", lambda segment: seen.append(len(segment)) or "text")
    told = explain(session)
    gone = sum(one.tokens for one in told.evicted)
    assert sum(seen) == told.residents + gone < 300


# For people


@pytest.mark.parametrize("width", [10, 80, 100, 120])
@pytest.mark.parametrize("full_text", [False, True])
@pytest.mark.parametrize("budget", [256, 2048])
def test_lines_fit(session_of: Callable[..., Session], width: int, full_text: bool, budget: int) -> None:
    session = session_of(policy="pool", budget=budget, position_cap=4096)
    session.append("a\tb\n\x1b[31mred" * 9, name="odd\nname" + "/long" * 40, kind="file")
    session.append("漢字" * 40, name="漢字" * 60, kind="file")
    fill(session, 5)
    told = explain(session)
    lines = list(told.lines(width, full_text=full_text))
    assert max(map(columns, lines)) <= max(80, width)
    assert all(line.isprintable() for line in lines), "nothing that a terminal obeys"
    text = "\n".join(lines)
    assert budget != 2048 or ("characters" in text) == (not full_text)
    assert ("evicted last" in text) == (budget == 256)
    if full_text and budget == 2048:
        shown = "".join(line[12:] for line in lines if line.startswith(" " * 10 + "│ "))
        assert "漢字" * 20 in shown
        assert "·[31mred" in shown


def test_lines_by_segment(session_of: Callable[..., Session]) -> None:
    session = session_of(budget=128, position_cap=192, recent=12)
    fill(session)
    told = explain(session)
    lines = list(told.lines())
    spec = next(segment for segment in told.segments if segment.name == "spec")
    first, last = spec.parts[0].first_position, spec.parts[-1].last_position
    title = f"spec · file · {spec.resident} of {spec.tokens} tokens · positions {first}–{last}"
    assert lines[lines.index(title) + 1] == f"  {spec.resident:>6}  {'plan step 2':<27}  “RATE_X is 53”"
    rules = next(segment for segment in told.segments if segment.name == "rules")
    assert any(
        line.startswith(f"rules · system · pinned · {rules.resident} of {rules.tokens} ") for line in lines
    )
    assert (
        lines.count(
            f"evicted last, at {told.evicted_at} tokens of session: "
            f"{sum(gone.tokens for gone in told.evicted)} tokens"
        )
        == 1
    )


def test_neighbours_kept_by_score_share_a_line(session_of: Callable[..., Session]) -> None:
    session = session_of(policy="pool", recent=0, budget=256, position_cap=512)
    fill(session)
    told = explain(session)
    split = next(
        segment
        for segment in told.segments
        if len(segment.parts) > 2 and all(part.reason.startswith("score") for part in segment.parts)
    )
    lines = list(told.lines())
    at = next(number for number, line in enumerate(lines) if line.startswith(f"{split.name} · "))
    row, after = lines[at + 1], lines[at + 2]
    assert after == ""
    assert row.startswith(f"  {split.resident:>6}  score ")
    assert "…" in row


def test_numbers() -> None:
    values = [0.0, 1.0, 0.834, -0.5, 0.012, 1234.5, 2e6, float("inf"), float("-inf")]
    assert [number_words(value) for value in values] == [
        *("0.00", "1.00", "0.83", "-0.50", "0.012", "1,234", "2,000,000", "inf", "-inf")
    ]


def test_texts_in_a_column() -> None:
    assert in_one_line("a\nb\tc\r\x1bd é") == "a↵b→c␍·d é"
    assert cut_middle("short", 40) == "short"
    cut = cut_middle("a" * 500 + "z" * 500, 60)
    assert columns(cut) <= 60
    head, tail = cut.split(" … ")[0], cut.split(" … ")[2]
    assert set(head) == {"a"}
    assert set(tail) == {"z"}
    assert f" {1000 - len(head) - len(tail):,} characters " in cut
    assert columns(cut_middle("漢" * 500, 60)) <= 60
    assert cut_start("a/b/c.py", 9) == "a/b/c.py"
    assert cut_start("some/folder/c.py", 9) == "…der/c.py"
    assert list(wrapped("abcdef\r\ngh\n", 4)) == ["abcd", "ef", "gh", ""]
    assert list(wrapped("漢字", 1)) == ["漢", "字"], "it ends even where nothing fits"


# Dry run


@pytest.mark.parametrize("name", UNNEEDING)
def test_a_dry_run_changes_nothing(session_of: Callable[..., Session], name: str) -> None:
    session = session_of(policy="pool", budget=512, position_cap=1024)
    fill(session)
    fill(session, 12)
    before = snapshot(session)
    run = dry_run(session, name)
    assert snapshot(session) == before
    assert run.policy == name
    assert run.own_policy == "pool"
    kept, own = set(run.plan.keep.tolist()), set(run.own_plan.keep.tolist())
    assert run.both == len(kept & own)
    assert run.only_other == len(kept - own)
    assert run.only_own == len(own - kept)
    assert sum(s.both + s.only_other + s.only_own + s.neither for s in run.segments) == run.residents
    assert run.residents == session.n_residents
    if POLICIES[name].evicts:
        assert len(kept) <= run.target == session.config.soft_budget
    else:
        assert len(kept) == run.residents
    document = json.loads(json.dumps(run.as_dict(), allow_nan=False))
    assert document["keep"] == session.residents.token_index[run.plan.keep].tolist()
    assert sum(document["reasons"].values()) == run.residents
    assert max(map(columns, run.lines(10))) <= 80


def test_its_own_policy_keeps_the_same(session_of: Callable[..., Session]) -> None:
    session = session_of()
    fill(session)
    run = dry_run(session, "pace")
    assert np.array_equal(run.plan.keep, run.own_plan.keep)
    assert (run.only_other, run.only_own) == (0, 0)
    assert len(list(run.lines())) == 1


def test_a_dry_run_is_what_the_next_eviction_does(session_of: Callable[..., Session]) -> None:
    session = session_of(recent=8)
    fill(session)
    while session.n_residents <= session.config.soft_budget:
        session.append("x", kind="tool")
    run = dry_run(session, "pace")
    own = session.residents.token_index[run.own_plan.keep].tolist()
    session._cache.evict()
    assert session.residents.token_index.tolist() == own
    assert len(own) < run.residents


def test_segments_differ(session_of: Callable[..., Session]) -> None:
    session = session_of(recent=8, budget=128, position_cap=192)
    fill(session)
    while session.n_residents <= session.config.soft_budget:
        session.append("x", kind="tool")
    run = dry_run(session, "streaming")
    spec = next(segment for segment in run.segments if segment.segment == "spec")
    assert spec.only_own > 0
    lines = list(run.lines())
    assert lines[0].startswith(f"streaming would keep {len(run.plan.keep)} of {run.residents} residents")
    assert any(line.endswith("  spec") and f"{spec.only_own:,}" in line for line in lines)


def test_entities_are_marked_for_one_that_asks(session_of: Callable[..., Session]) -> None:
    session = session_of(budget=512, position_cap=1024)
    fill(session)
    dry_run(session, "pool")
    marked = session.residents.token_index[PoolPolicy.last_entities].tolist()
    tokens = list(session._cache.tokens)
    text = b"".join(session.model.piece(tokens[index]) for index in marked).decode()
    assert text.replace(" ", "") == "RATE_X53"
    assert not session.residents.entity.any()


@pytest.mark.parametrize("name", [name for name in POLICIES if name not in UNNEEDING])
def test_policies_that_need_attention(session_of: Callable[..., Session], name: str) -> None:
    session = session_of(observe=True, recent=8)
    fill(session)
    while session.n_residents <= session.config.soft_budget:
        session.append("x", kind="tool")
    before = snapshot(session)
    run = dry_run(session, name)
    assert snapshot(session) == before
    assert 0 < len(run.plan.keep) <= run.target


def test_attention_that_nobody_measures(session_of: Callable[..., Session]) -> None:
    session = session_of()
    fill(session)
    with pytest.raises(ConfigError, match=r"'needy' needs measured attention.*observe=True"):
        dry_run(session, "needy")


def test_parameters(session_of: Callable[..., Session]) -> None:
    session = session_of()
    fill(session)
    assert dry_run(session, "pool", {"modulus": 3}).parameters == {"modulus": 3}
    with pytest.raises(ConfigError, match="modulus 999 is out of range"):
        dry_run(session, "pool", {"modulus": 999})
    with pytest.raises(ConfigError, match="no parameter 'colour'"):
        dry_run(session, "pool", {"colour": 1})
    with pytest.raises(ConfigError, match="is not one of"):
        dry_run(session, "best")
