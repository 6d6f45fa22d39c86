from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pace_agent.fitting import first_lines, fit


def words(text: str) -> int:
    """A count of tokens: words and line ends."""
    return len(text.split()) + text.count("\n")


@given(st.lists(st.text(st.sampled_from("ab  "), max_size=60), max_size=60), st.integers(16, 200))
def test_it_fits_and_keeps_both_ends(lines: list[str], tokens: int) -> None:
    text = "\n".join(lines)
    kept = fit(text, tokens, words)
    if words(text) <= tokens:
        assert kept == text
        return
    assert words(kept) <= tokens
    lines = text.splitlines()  # an end of line at the very end is no line more
    out = kept.split("\n")
    gap = next(at for at, line in enumerate(out) if "left out" in line)
    n = int(out[gap].split()[1])
    assert out[:gap] == lines[:gap]
    assert out[gap + 1 :] == lines[gap + n :]
    assert gap + n + len(out[gap + 1 :]) == len(lines)


def test_long_lines_are_cut_within() -> None:
    kept = fit("x" * 100_000 + "\nthe end", 64, lambda text: len(text) // 4 + 1)
    assert "…" in kept
    assert kept.endswith("the end")
    assert len(kept) // 4 + 1 <= 64


def test_first_lines_takes_at_least_one() -> None:
    assert first_lines(["a b c", "d"], 1, words) == 1
    assert first_lines(["a", "b", "c"], 4, words) == 2
    assert first_lines([], 4, words) == 0
