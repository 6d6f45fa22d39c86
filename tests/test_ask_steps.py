"""Steps of a plan, and how an answer is chosen."""

from __future__ import annotations

import io
import re

import pytest
from command_line import QUESTION, SMALL, Run, run, write_project

from pace_local.commands.ask_report import AskReport
from pace_local.events import ReadsOverBudget, Text
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


# Plans


@pytest.fixture(scope="module")
def plan(folder):
    """Three steps with every way of naming what they read; the last reads more than there is room for."""
    path = folder / "plan.toml"
    path.write_text(
        """
        [[step]]
        text = "the fee"
        prompt = "What is PIER_FEE?"
        reads = ["terms.py", "quays.py:9"]

        [[step]]
        prompt = "And twice that?"
        reads = ["answer:1", "surcharge", "quays.py:berth_4"]

        [[step]]
        prompt = "Say it all again."
        reads = ["answer:1", "answer:2", "quays.py"]
        """,
        encoding="utf-8",
    )
    return path


@pytest.fixture(scope="module")
def walked(ask, plan) -> dict[str, Run]:
    forms = ("text", "json", "stream-json")
    return {form: ask("--plan", plan, "--output-format", form, prompt=None) for form in forms}


def test_a_plan_is_walked_step_by_step(walked):
    document = walked["json"].document
    prompts = [step["prompt"] for step in document["steps"]]
    assert prompts == ["What is PIER_FEE?", "And twice that?", "Say it all again."]
    assert [step["answers"] for step in document["steps"]] == [[], [1], [1, 2]]
    assert document["answer"] == document["steps"][2]["answer"]
    first, second, third = (step["stats"] for step in document["steps"])
    assert first["residency"] == second["residency"] == 1.0
    assert third["residency"] < 1
    read = [
        [name["name"].rpartition("/")[2] for name in stats["reads"] if name["step"] == 0]
        for stats in (first, second)
    ]
    assert read[0][0] == "terms.py:1-8"
    assert len(read[0]) == len(document["steps"][0]["reads"]) == 2
    assert (len(read[1]), read[1][0], read[1][2]) == (3, "terms.py:1-8", "answer:1")


def test_a_plan_in_text_has_a_heading_for_each_answer(walked):
    answers = [step["answer"] for step in walked["json"].document["steps"]]
    heads = ["the fee", "And twice that?", "Say it all again."]
    parts = [f"## {head}\n\n{answer}" for head, answer in zip(heads, answers, strict=True)]
    ended = [part + "\n" * (not part.endswith("\n")) for part in parts]
    assert walked["text"].out == "\n".join(ended)
    assert "  step 2 reads " in walked["text"].err


def test_a_plan_in_stream_json_finishes_once_a_step(walked):
    finished = [event for event in walked["stream-json"].events if event["type"] == "finished"]
    assert [event["answer"] for event in finished] == [
        step["answer"] for step in walked["json"].document["steps"]
    ]


def test_reads_over_the_budget_are_reported_with_their_step(walked):
    """They are the third step's, however near it has come."""
    said = re.findall(r"over budget: (\d+) of (\d+) tokens of \S+ stay \(step (\d)\)", walked["text"].err)
    assert said
    assert {step for _, _, step in said} == {"3"}
    assert all(int(kept) < int(resident) for kept, resident, _ in said)
    told = [event for event in walked["stream-json"].events if event["type"] == "reads_over_budget"]
    assert len(told) == len(said)


def test_a_step_keeps_its_number_as_it_comes_nearer(capsys):
    """Events count steps from the current one."""
    report = AskReport("text", quiet=False)
    report.question(1)
    report.take(ReadsOverBudget(1, "quays.py:1-9", 5, 80))
    assert capsys.readouterr().err == "  over budget: 5 of 80 tokens of quays.py:1-9 stay (step 3)\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


SPELL = "\x1b]52;c;cm0=\x07 and \x1b[2J\n"


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_no_terminal_obeys_what_a_model_or_a_file_says(stream, monkeypatch):
    out, err = stream(), stream()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    report = AskReport("text", quiet=False)
    report.question(0)
    report.take(Text(f"kept\ttab {SPELL}", 1))
    report.take(ReadsOverBudget(1, f"{SPELL}.py:1-9", 5, 80))
    seen = "kept\ttab ·]52;c;cm0=· and ·[2J\n"
    assert out.getvalue() == (seen if stream is Terminal else f"kept\ttab {SPELL}")
    assert err.getvalue() == "  over budget: 5 of 80 tokens of ·]52;c;cm0=· and ·[2J↵.py:1-9 stay (step 2)\n"


# How it answers


def test_a_stop_text_ends_the_answer(ask):
    answer = ask("--output-format", "json", files=[]).document["answer"]
    stop = answer[4:6]
    stopped = ask("--stop", "never", "--stop", stop, "--output-format", "json", files=[]).document
    assert stopped["answer"] == answer[: answer.index(stop)]
    assert stopped["steps"][0]["finish_reason"] == "stop"


def test_the_longest_answer(ask):
    step = ask("--max-tokens", "3", "--output-format", "json", files=[]).document["steps"][0]
    assert step["stats"]["generated_tokens"] == 3
    assert step["finish_reason"] == "length"


def test_a_model_that_ends_by_itself(ask, tiny_models):
    model = tiny_model(TinySpec(n_layer=2, head_dim=16, n_ff=32, speech="ends"), tiny_models)
    shown = run("ask", "-p", "x", "--model", model, *SMALL, "--max-tokens", 4000, "--output-format", "json")
    step = shown.document["steps"][0]
    assert step["finish_reason"] == "stop"
    assert step["stats"]["generated_tokens"] < 4000
    assert "<|im_end|>" not in step["answer"]


def test_a_grammar_is_followed(ask, tmp_path):
    (tmp_path / "choice.gbnf").write_text('root ::= "yes, " [0-9]+ "!"')
    shown = ask("--grammar", tmp_path / "choice.gbnf", "--max-tokens", "40", files=[])
    assert re.match(r"yes, \d", shown.out)


def test_seeds(ask):
    drawn = [
        ask(
            "--temperature", 1, "--top-p", 0.95, "--top-k", 80, "--min-p", 0.001, "--seed", seed, files=[]
        ).out
        for seed in (1, 1, 2)
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_repetition_is_penalised(ask):
    plain = ask("--max-tokens", 60, files=[]).out
    varied = ask("--max-tokens", 60, "--repeat-penalty", 2, files=[]).out
    assert len(set(varied)) > len(set(plain))


def test_thinking_is_a_wish_for_the_template(tiny_models):
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n"
        "{% if enable_thinking is defined and not enable_thinking %}none{% endif %}{% endif %}"
    )
    model = tiny_model(TinySpec(n_layer=2, head_dim=16, n_ff=32, chat_template=template), tiny_models)
    tokens = {}
    for wish in ((), ("--think",), ("--no-think",)):
        shown = run("ask", "-p", "x", "--model", model, *SMALL, *wish, "--output-format", "json")
        tokens[wish] = shown.document["steps"][0]["stats"]["prompt_tokens"]
    assert tokens["--think",] == tokens[()]
    assert tokens["--no-think",] > tokens[()]
