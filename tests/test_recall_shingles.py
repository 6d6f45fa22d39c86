"""Shingles: near copies stand out, and the most alike of several segments is found."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recall_texts import NAMES, specifications, unlike_texts

from pace_local import Model
from pace_local.recall import Shingles, overlap

token_lists = st.lists(st.integers(0, 5), max_size=30)


def slow_overlap(a: list[int], b: list[int], size: int) -> float:
    """By sets of tuples."""
    one, other = ({tuple(text[at : at + size]) for at in range(len(text) - size + 1)} for text in (a, b))
    return len(one & other) / len(one) if one and other else 0.0


@settings(deadline=None)
@given(a=token_lists, b=token_lists, size=st.integers(1, 6))
def test_overlap_is_the_share_of_common_runs(a: list[int], b: list[int], size: int) -> None:
    assert overlap(a, b, size) == pytest.approx(slow_overlap(a, b, size))


def test_the_order_of_tokens_counts() -> None:
    assert overlap([1, 2, 3], [3, 2, 1], 3) == 0
    assert overlap([1, 2, 3], [0, 1, 2, 3, 4], 3) == 1
    assert overlap([0, 1, 2, 3, 4], [1, 2, 3], 3) == pytest.approx(1 / 3)
    assert overlap([0, 0, 0, 0], [0, 0], 2) == 1
    assert overlap([151_000, 0], [0, 151_000], 2) == 0
    assert overlap([1, 2], [1, 2], 3) == 0


@settings(deadline=None)
@given(texts=st.lists(token_lists, min_size=1, max_size=8), data=st.data())
def test_the_most_alike_is_found(texts: list[list[int]], data: st.DataObject) -> None:
    shingles = Shingles(2)
    order = data.draw(st.permutations(range(len(texts))))
    for segment in order:
        shingles.add(segment, [9, 9, 9, 9])
        shingles.add(segment, texts[segment])
    end = data.draw(st.integers(0, len(texts)))
    shingles.remove_from(end)
    assert len(shingles) == end
    among = data.draw(st.lists(st.integers(0, len(texts))))
    for segment, text in enumerate(texts):
        shares = {
            other: slow_overlap(text, texts[other], 2)
            for other in sorted(set(among))
            if other < end and other != segment
        }
        best = max(shares.values(), default=0.0) if segment < end else 0.0
        expected = next(other for other, share in shares.items() if share == best) if best else None
        assert shingles.most_alike(segment, among) == (expected, pytest.approx(best))


def table(tokenize: Callable[[str], list[int]], size: int) -> tuple[float, float]:
    """The least share among specifications of one form, and the greatest between texts that are not alike."""
    alike = [tokenize(text) for text in specifications().values()]
    others = [tokenize(text) for text in unlike_texts().values()]
    least = min(overlap(a, b, size) for a, b in permutations(alike, 2))
    unlike = [
        *permutations(others, 2),
        *((a, b) for a in alike for b in others),
        *((b, a) for a in alike for b in others),
    ]
    return least, max(overlap(a, b, size) for a, b in unlike)


def test_near_copies_score_high_by_words_too() -> None:
    """A stand-in for a tokenizer: each word and each sign is a token."""
    ids: dict[str, int] = {}

    def tokenize(text: str) -> list[int]:
        return [ids.setdefault(word, len(ids)) for word in re.findall(r" ?\w+|\W", text)]

    least, greatest = table(tokenize, 3)
    assert least > 0.45
    assert greatest < 0.3


@pytest.mark.model
def test_near_copies_score_high_with_a_real_tokenizer(small_models: Mapping[str, Path]) -> None:
    """The measurement that the module's table is from; ``pytest -s`` shows it."""
    with Model.load(small_models["qwen2.5-coder-0.5b"]) as model:
        lengths = [len(model.tokenize(text)) for text in specifications().values()]
        rows = {size: table(model.tokenize, size) for size in (1, 2, 3, 4, 6, 8)}
    print(f"\n{len(NAMES)} texts of {min(lengths)} to {max(lengths)} tokens")
    for size, (least, greatest) in rows.items():
        print(f"{size} {least:.2f} {greatest:.2f}")
    assert rows[3][0] > 0.5
    assert rows[3][1] < 0.25
