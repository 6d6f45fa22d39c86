from __future__ import annotations

import io

import pytest

from pace_local.models import ProgressLine, format_bytes


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (98_362_432, "98 MB"),
        (999_600_000, "1.0 GB"),
        (16_388_000_000, "16.4 GB"),
        (3 * 10**12, "3000.0 GB"),
    ],
)
def test_bytes_for_people(count, text):
    assert format_bytes(count) == text


def test_a_terminal_has_one_line_that_is_redrawn(clock):
    stream = Terminal()
    line = ProgressLine(stream, clock, width=80)
    for step in range(101):
        clock.now += 0.05
        line(step * 10**6, 100 * 10**6, "tiny")
    line.close()
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert text.count("\r") <= 55  # at most ten a second
    assert "\r".join(text.split("\r")[-1:]).startswith("tiny  100 MB of 100 MB  100%")
    assert "20 MB/s" in text
    assert "0:0" in text


def test_a_narrow_terminal_is_not_overrun(clock):
    stream = Terminal()
    ProgressLine(stream, clock, width=20)(1, 10**9, "a-model-with-a-long-name")
    assert stream.getvalue() == "\ra-model-with-a-long\x1b[K"


def test_a_log_gets_few_lines(clock):
    stream = io.StringIO()
    line = ProgressLine(stream, clock)
    for step in range(1001):
        clock.now += 0.05
        line(step * 10**5, 10**8, "tiny")
    line.close()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 11
    assert lines[0].startswith("tiny  0 B of 100 MB    0%")
    assert lines[-1].startswith("tiny  100 MB of 100 MB  100%")
    assert "\r" not in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_quick_work_leaves_its_begin_and_its_end_in_a_log(clock):
    stream = io.StringIO()
    line = ProgressLine(stream, clock)
    for step in range(101):
        clock.now += 0.001
        line(step, 100, "quick")
    line(100, 100, "quick")
    assert stream.getvalue().splitlines() == ["quick  0 B of 100 B    0%", "quick  100 B of 100 B  100%"]


def test_a_slow_download_shows_that_it_lives(clock):
    stream = io.StringIO()
    line = ProgressLine(stream, clock)
    for step in range(120):
        clock.now += 1
        line(step, 10**9, "tiny")
    assert 4 <= len(stream.getvalue().splitlines()) <= 6


def test_what_was_there_before_does_not_count_as_speed(clock):
    stream = Terminal()
    line = ProgressLine(stream, clock, width=120)
    line(9 * 10**9, 10**10, "tiny")
    clock.now += 1
    line(9 * 10**9 + 10**6, 10**10, "tiny")
    assert "1 MB/s" in stream.getvalue()


def test_a_new_phase_has_its_own_speed(clock):
    stream = Terminal()
    line = ProgressLine(stream, clock, width=120)
    line(10**9, 10**9, "tiny")
    clock.now += 1
    line(0, 10**9, "verifying tiny")
    clock.now += 1
    line(5 * 10**8, 10**9, "verifying tiny")
    assert (
        stream.getvalue()
        .split("\r")[-1]
        .startswith("verifying tiny  500 MB of 1.0 GB   50%  500 MB/s  0:01 left")
    )


def test_a_said_line_does_not_tear_the_progress_line(clock):
    stream = Terminal()
    line = ProgressLine(stream, clock, width=80)
    line(1, 2, "tiny")
    line.say("the hub is out of reach")
    assert stream.getvalue().endswith("\x1b[K\nthe hub is out of reach\n")
    line.close()
    assert stream.getvalue().endswith("reach\n")


def test_nothing_to_do_is_done(clock):
    stream = io.StringIO()
    ProgressLine(stream, clock)(0, 0, "empty")
    assert stream.getvalue() == "empty  0 B of 0 B  100%\n"
