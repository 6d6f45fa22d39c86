from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pace_agent.editing.line_moves import line_move
from pace_agent.planning.planned_step import PlannedStep

LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n"]), max_size=5)


@settings(max_examples=200, deadline=None)
@given(LINES, LINES, LINES, LINES)
def test_lines_beside_an_edit_are_found_again(
    head: list[str], old: list[str], new: list[str], tail: list[str]
) -> None:
    """Each line before and behind what was replaced reads the same where it is said to be now."""
    before, after = [*head, "<\n", *old, ">\n", *tail], [*head, "<\n", *new, ">\n", *tail]
    move = line_move("".join(before), "".join(after))
    for line in [*range(1, len(head) + 2), *range(len(head) + len(old) + 2, len(before) + 1)]:
        first, last = move.lines(line, line)
        assert (first, last) == (move.line(line),) * 2
        assert after[first - 1] == before[line - 1]
    first, last = move.lines(len(head) + 1, len(head) + len(old) + 2)
    assert "".join(after[first - 1 : last]) == "".join(["<\n", *new, ">\n"])


def test_a_step_names_lines_where_they_are_now() -> None:
    step = PlannedStep(
        "x",
        ("a.py",),
        ("a.py:A.b", "b.py:c"),
        reads=("a.py:9-9", "b.py:9-9", "a.py:f"),
        at_lines=(("a.py:A.b", 7),),
    )
    moved = step.moved("a.py", line_move("1\n2\n3\n", "1\n2\nx\ny\n3\n"))
    assert moved.reads == ("a.py:11-11", "b.py:9-9", "a.py:f")
    assert moved.at_lines == (("a.py:A.b", 9),)
    assert step.moved("c.py", line_move("1\n", "")) == step
