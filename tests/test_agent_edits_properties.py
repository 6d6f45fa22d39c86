"""The ladder on any text: one change where the search says, and nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pace_agent.editing.edited import LINE_END
from pace_agent.editing.edits import replace_once
from pace_agent.errors import EditError

FEW = settings(deadline=None, max_examples=150)

pieces = st.sampled_from(
    [
        "a",
        "b",
        "ab",
        "é",
        "數",
        "x = 1",
        "f(",
        ")",
        ":",
        "1:",
        " ",
        "    ",
        "\t",
        "\f",
        "\n",
        "\r\n",
        "\r",
        "\n\n",
    ]
)
texts = st.lists(pieces, max_size=40).map("".join)
words = st.sampled_from(["x", "total", "rate_2", "f(a,", "b)", "=", "1", "{", "}", "return", "größe"])
line = st.lists(words, min_size=1, max_size=5).map(" ".join)


def splits_pair(text: str, at: int) -> bool:
    return text[at - 1 : at + 1] == "\r\n" if at else False


def places(text: str, part: str) -> list[int]:
    """Where a part stands, also with the text's own line ends; a slow reference."""
    forms = {part} | {LINE_END.sub(lambda _, end=end: end, part) for end in ("\n", "\r\n", "\r")}
    return [
        at
        for form in forms
        for at in range(len(text))
        if text.startswith(form, at) and not splits_pair(text, at) and not splits_pair(text, at + len(form))
    ]


@FEW
@given(texts, texts, st.data())
def test_a_unique_part_is_replaced_and_only_it(text: str, replacement: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    search = text[start:end]
    assume(search and not splits_pair(text, start) and not splits_pair(text, end))
    assume(len(places(text, search)) == 1)
    try:
        edited = replace_once(text, search, replacement, path="f")
    except EditError as error:
        message = str(error)
    else:
        message = None
    if message is not None:
        assert "nothing to change" in message
        same = LINE_END.sub("\n", search)
        assert LINE_END.sub("\n", replacement) in (same, same.removesuffix("\n"))
        return
    assert edited.rung == "exact"
    assert edited.text.startswith(text[:start])
    assert edited.text.endswith(text[end:])
    put = edited.text[start : len(edited.text) - len(text) + end]
    forms = {re.sub(r"\r\n|\n", end, replacement) for end in ("\n", "\r\n", "\r")}
    # The last line end of whole lines stays if the replacement has none.
    kept = {form + end for form in forms for end in ("\n", "\r\n", "\r") if search.endswith(("\n", "\r"))}
    assert put in forms | kept
    changed = re.findall(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+", edited.text)
    assert 1 <= edited.first_line <= edited.last_line <= max(1, len(changed))


@FEW
@given(texts, texts, texts)
def test_at_most_one_place_changes_or_the_text_is_refused(text: str, search: str, replacement: str) -> None:
    try:
        edited = replace_once(text, search, replacement, path="f")
    except EditError as error:
        with pytest.raises(EditError, match=re.escape(str(error))):
            replace_once(text, search, replacement, path="f")
        return
    assert edited.text != text
    if edited.rung == "whole":
        assert not text.strip()
        return
    # What is before and after the change is the text's own, and the words between are those of the search
    # (without line numbers, which a search may have): one place.
    shorter = min(len(text), len(edited.text))
    start = next((at for at in range(shorter) if text[at] != edited.text[at]), shorter)
    rest = shorter - start
    tail = next((n for n in range(rest) if text[-1 - n] != edited.text[-1 - n]), rest)
    gone = text[start : len(text) - tail].split()
    wanted = "".join(search.split())
    assert "".join(gone) in wanted


@st.composite
def blocks(draw: st.DrawFn) -> tuple[list[str], list[int], int]:
    """Lines, their depths, and how many of them come before those that are searched."""
    lines = draw(st.lists(line, min_size=3, max_size=9))
    depths = [0]
    for _ in lines[1:]:
        depths.append(draw(st.integers(0, depths[-1] + 1)))
    return lines, depths, draw(st.integers(0, len(lines) - 1))


@FEW
@given(
    blocks(),
    st.integers(1, 3),
    st.sampled_from(["\t", "    "]),
    st.sampled_from(["\t", "    "]),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.lists(st.sampled_from(["", " ", "\t", "  "]), min_size=9, max_size=9),
    st.booleans(),
)
@example((["x", "x =", "x"], [0, 1, 2], 1), 1, "\t", "    ", "\r\n", ["  "] * 9, False)
def test_lines_with_other_white_space_match_and_the_rest_stays(
    block: tuple[list[str], list[int], int],
    count: int,
    file_step: str,
    model_step: str,
    line_end: str,
    trailing: list[str],
    final: bool,
) -> None:
    lines, depths, first = block
    last = min(len(lines), first + count)
    raw = [
        file_step * depth + text + trail for text, depth, trail in zip(lines, depths, trailing, strict=False)
    ]
    text = line_end.join(raw) + (line_end if final else "")
    assume(any(depths))  # else the file does not show how it indents
    base = min(depths[first:last])
    search = "".join(
        model_step * (depth - base) + text.replace(" ", "  ") + " \n"
        for text, depth in zip(lines[first:last], depths[first:last], strict=True)
    )
    searched = [one.split() for one in lines[first:last]]
    flat = [one.split() for one in lines]
    assume(sum(flat[at : at + len(searched)] == searched for at in range(len(flat))) == 1)
    joined = [" ".join(one) for one in flat]
    if len(searched) == 1:  # a single line may also be a part of another
        assume(sum(one.count(joined[first]) for one in joined) == 1)
    else:
        whole, part = "\n".join(joined), "\n".join(joined[first:last])
        assume(len([at for at in range(len(whole)) if whole.startswith(part, at)]) == 1)
    deeper = model_step * (depths[last - 1] - base + 1)
    edited = replace_once(text, search, search + deeper + "NEW LINE\n", path="f")
    assume(edited.rung != "exact")  # what stands there to the letter is replaced to the letter
    expected = [*raw[:last], file_step * (depths[last - 1] + 1) + "NEW LINE", *raw[last:]]
    found = re.split(r"\r\n|\r|\n", edited.text)
    assert [one.rstrip() for one in found if one.strip()] == [one.rstrip() for one in expected]
    before = line_end.join(raw[:first]) + (line_end if first else "")
    after = (line_end if last < len(raw) or final else "") + line_end.join(raw[last:])
    assert edited.text.startswith(before)
    assert edited.text.endswith(after + (line_end if final and last < len(raw) else ""))
