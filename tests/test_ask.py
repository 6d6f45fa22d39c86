from __future__ import annotations

import io
import json
import os
import re
import sys

import pytest
from command_line import QUESTION, SMALL, Run, pace, run, write_project

from pace_local import _native
from pace_local.commands.ask_report import AskReport
from pace_local.testing import TinySpec, tiny_model

SPEC = TinySpec(n_layer=2, head_dim=32, n_ff=32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("project")


@pytest.fixture(scope="module")
def ask(tiny_models, folder):
    """Runs ``pace ask`` on the small project, with a tiny model and a small cache."""
    model, files = tiny_model(SPEC, tiny_models), write_project(folder)

    def ask(*words: object, prompt: str | None = QUESTION, files: list[str] = files, **how) -> Run:
        asked = ("-p", prompt) if prompt is not None else ()
        return run("ask", "--model", model, *SMALL, *asked, *words, *files, **how)

    return ask


@pytest.fixture(scope="module")
def runs(ask) -> dict[str, Run]:
    """The same question in each form."""
    return {form: ask("--output-format", form) for form in ("text", "json", "stream-json")}


# The forms of an answer


def test_only_the_answer_is_on_stdout(runs, folder):
    text = runs["text"]
    assert text.code == 0
    answer = runs["json"].document["answer"]
    assert answer
    assert text.out == answer + "\n" * (not answer.endswith("\n"))
    lines = text.err.splitlines()
    assert lines[0].startswith("model: ")
    assert re.fullmatch(r"reading 2 files: \d,\d{3} tokens in \d+ excerpts", lines[1])
    assert lines[2].startswith(f"  the answer will read {folder}/terms.py:1-8 (")
    assert " · resident " in text.err
    assert f"  reads {folder}/terms.py:1-8: " in text.err


def test_json_is_one_object(runs, folder, tiny_models):
    document = runs["json"].document
    path = tiny_model(SPEC, tiny_models)
    assert document["model"] == {"path": str(path), "name": path.stem, "sha256": None}
    facts = _native.read_build().facts
    assert document["build"] == {
        "llama_cpp": facts["llama_cpp_python"],
        "patch": facts["patch"],
        "isa": facts["isa"],
    }
    (step,) = document["steps"]
    assert step["prompt"] == QUESTION
    assert step["answer"] == document["answer"]
    assert step["finish_reason"] == "length"
    assert step["reads"][0].keys() == {"excerpt", "tokens", "reason"}
    assert step["reads"][0]["excerpt"] == f"{folder}/terms.py:1-8"
    assert "defines" in step["reads"][0]["reason"]
    assert step["answers"] == []
    stats = step["stats"]
    assert document["tokens_to_read"] > 3 * stats["budget"]
    assert stats["session_tokens"] > document["tokens_to_read"]
    assert stats["residents"] <= stats["budget"] == 1024
    assert stats["highest_position"] < stats["position_cap"] == 2048
    assert stats["residency"] == 1.0
    assert stats["renumberings"] > 0
    assert stats["generated_tokens"] == 12
    assert stats["kv_bytes"] == stats["key_bytes"] + stats["value_bytes"] + stats["reference_bytes"]


def test_stream_json_is_a_line_an_event(runs):
    events = runs["stream-json"].events
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-2], kinds[-1]) == ("start", "finished", "end")
    assert set(kinds) == {"start", "progress", "evicted", "renumbered", "text", "finished", "end"}
    document = runs["json"].document
    start = events[0]
    assert start["tokens_to_read"] == document["tokens_to_read"]
    assert start["steps"][0]["reads"] == document["steps"][0]["reads"]
    assert "".join(event["written"] for event in events if event["type"] == "text") == document["answer"]
    finished = events[-2]
    assert finished["answer"] == document["answer"]
    assert finished["stats"]["residency"] == 1.0
    evicted = [event for event in events if event["type"] == "evicted"]
    assert max(event["residents"] for event in evicted) <= 1024
    assert sum(event["count"] for event in evicted) == finished["stats"]["evicted_in_session"]


def test_progress_adds_up(runs):
    """Each text that is read has its own run from its first micro-batch to its last."""
    done = [(e["done"], e["total"]) for e in runs["stream-json"].events if e["type"] == "progress"]
    before = 0
    for now, total in done:
        assert before < now <= total
        before = 0 if now == total else now
    assert before == 0


def test_quiet_is_quiet(runs, ask):
    quiet = ask("--quiet")
    assert (quiet.code, quiet.err, quiet.out) == (0, "", runs["text"].out)
    for form in ("json", "stream-json"):
        assert ask("--quiet", "--output-format", form, files=[]).err == ""


def test_two_runs_do_the_same(runs, ask):
    again = ask("--output-format", "stream-json")
    assert [untimed(event) for event in again.events] == [
        untimed(event) for event in runs["stream-json"].events
    ]


def untimed(value: object) -> object:
    """A JSON value without what cannot be the same twice: times, and this process's memory."""
    if isinstance(value, dict):
        return {
            key: untimed(one)
            for key, one in value.items()
            if not key.endswith("seconds") and key not in ("host_bytes", "device_bytes")
        }
    return [untimed(one) for one in value] if isinstance(value, list) else value


def test_in_a_process_of_its_own_it_is_the_same(runs, folder, tiny_models):
    files = (folder / "terms.py", folder / "quays.py")
    own = pace("ask", "-p", QUESTION, "--model", tiny_model(SPEC, tiny_models), *SMALL, *files)
    assert (own.returncode, own.stdout) == (0, runs["text"].out)
    said = [
        [line for line in shown.splitlines() if not line.startswith("read ")][:4]
        for shown in (own.stderr, runs["text"].err)
    ]
    assert said[0] == said[1]  # where it takes long, there are lines of progress between them


# What stays resident


def test_streaming_has_lost_what_the_answer_needs(ask, folder):
    shown = ask("--policy", "streaming", "--output-format", "json")
    assert re.search(r"reads \S+/terms\.py:1-8: 0 of \d+ tokens resident, gone", shown.err)
    stats = shown.document["steps"][0]["stats"]
    assert stats["residency"] < 1
    assert stats["reads"][0]["name"] == f"{folder}/terms.py:1-8"
    assert stats["reads"][0]["resident"] == 0
    assert stats["position_cap"] is None
    assert stats["highest_position"] > 4096


def test_policy_none_answers_what_fits_and_refuses_the_rest(ask, folder):
    small = ask("--policy", "none", files=[str(folder / "terms.py")])
    assert small.code == 0
    refused = ask("--policy", "none", "--output-format", "json")
    assert refused.code == 1
    assert refused.err.splitlines()[-1] == (
        "pace: policy 'none' evicts nothing and the budget of 1024 tokens is full; "
        "raise the budget or choose another policy"
    )
    assert refused.document["exit_code"] == 1


@pytest.mark.parametrize(
    "words",
    [
        ("--key-type", "q8_0", "--value-type", "q8_0"),
        ("--key-type", "f32", "--value-type", "f32"),
        ("--key-type", "bf16", "--no-flash-attn"),
        ("--policy", "bounded"),
        ("--policy", "plan"),
        ("--headroom", "32", "--budget", "1500"),
        ("--gpu-layers", "0"),
    ],
    ids=" ".join,
)
def test_settings_of_the_cache(words, ask, folder, tmp_path):
    """With every invariant checked after every step."""
    files = write_project(tmp_path, filler=9)
    shown = ask("--check", "--output-format", "json", *words, files=files)
    assert shown.code == 0
    stats = shown.document["steps"][0]["stats"]
    assert stats["evicted"] > 0
    assert stats["residents"] <= stats["budget"]


# Where it comes from


@pytest.mark.parametrize("words", [("-p", "-"), ()], ids=["dash", "pipe"])
def test_a_prompt_from_stdin(words, ask, runs):
    shown = ask(*words, prompt=None, stdin=QUESTION)
    assert (shown.code, shown.out) == (0, runs["text"].out)


def test_a_prompt_from_stdin_is_utf_8_whatever_the_locale(ask):
    shown = ask("-p", "-", "--output-format", "json", prompt=None, stdin="naïve …?\n", files=[])
    assert shown.document["steps"][0]["prompt"] == "naïve …?\n"


def test_a_prompt_on_the_command_line_leaves_stdin_alone(ask):
    assert ask(stdin=b"\xff\xfe", files=[]).code == 0


def test_empty_files_are_skipped_and_files_named_twice_read_once(ask, folder, tmp_path):
    (tmp_path / "empty.py").write_text("\n")
    terms = str(folder / "terms.py")
    shown = ask(files=[str(tmp_path / "empty.py"), terms, f"{folder}/../{folder.name}/terms.py"])
    assert shown.code == 0
    assert f"{tmp_path}/empty.py: empty, skipped" in shown.err
    assert "reading 1 file: " in shown.err
    quiet = ask("--quiet", files=[str(tmp_path / "empty.py"), terms])
    assert quiet.err == ""


def test_without_files_it_is_just_a_question(ask):
    shown = ask("--output-format", "json", files=[])
    assert shown.document["steps"][0]["reads"] == []
    assert shown.document["steps"][0]["stats"]["residency"] is None
    assert "reading" not in shown.err


def test_the_model_can_be_chosen_once_and_for_all(tiny_models, tmp_path, monkeypatch):
    model = tiny_model(SPEC, tiny_models)
    monkeypatch.setenv("PACE_MODEL", str(model))
    shown = run("ask", "-p", "x", *SMALL)
    assert shown.code == 0
    assert shown.err.startswith(f"model: {model}, chosen by PACE_MODEL; --model changes it\n")


# Any text, on any terminal


def test_answers_that_are_no_text_can_be_printed_anywhere(tiny_models):
    """A terminal of one byte a character, and a model that writes arbitrary bytes."""
    model = tiny_model(TinySpec(n_layer=2, head_dim=16, n_ff=32, speech="bytes"), tiny_models)
    arguments = ("ask", "-p", "naïve …?", "--model", model, *SMALL, "--max-tokens", "40")
    for form in ("text", "json", "stream-json"):
        shown = pace(*arguments, "--output-format", form, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
        assert shown.returncode == 0, shown.stderr
        assert shown.stdout.isascii()
        if form == "json":
            document = json.loads(shown.stdout)
            assert document["steps"][0]["prompt"] == "naïve …?"
            assert "\N{REPLACEMENT CHARACTER}" in document["answer"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_file_whose_name_is_no_text(ask, tmp_path):
    """It broke the JSON, and under some locales the command."""
    path = os.fsencode(tmp_path) + b"/caf\xe9.py"
    with open(path, "w") as file:
        file.write("X = 1\n")
    for form in ("text", "json", "stream-json"):
        shown = ask("--output-format", form, files=[os.fsdecode(path)])
        assert shown.code == 0
        assert shown.out.encode("utf-8") or form == "text"
    first = shown.events[0]["steps"][0]["reads"][0]["excerpt"]
    assert first == f"{os.fsdecode(path)}:1-1"


# On a terminal


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_progress_is_one_line_that_goes_away(ask, runs, monkeypatch):
    shown = Terminal()

    class AtOnce(AskReport):
        def __init__(self, *arguments: object, **settings: bool) -> None:
            monkeypatch.setattr(sys, "stderr", shown)
            super().__init__(*arguments, **settings)
            self._shown = float("-inf")

    monkeypatch.setattr("pace_local.commands.ask.AskReport", AtOnce)
    ended = ask()
    assert ended.out == runs["text"].out
    text = shown.getvalue()
    assert re.search(r"\r\x1b\[Kread [\d,]+ of [\d,]+ tokens, \d+ a second, \d+ s left\r\x1b\[K", text)
    assert re.search(r"renumbered \d+ residents from below [12],\d{3} to below \d+ in \d+ ms\n", text)
    # Whatever comes after a line of progress wipes it first.
    assert not re.search(r"s left(?!\r\x1b\[K)", text)
