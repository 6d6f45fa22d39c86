"""Plans and wishes for an answer that cannot be met: one line that says what to do, and exit code 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import SMALL, refusal, run, write_project

from pace_local.testing import TinySpec, tiny_model


@pytest.fixture
def refused(tiny_models) -> Callable[..., str]:
    """Runs ``pace ask`` with what it refuses, and gives what it says."""
    model = tiny_model(TinySpec(n_layer=2, head_dim=16, n_ff=32), tiny_models)

    def refused(*words: object, prompt: str | None = "x", path: object = model) -> str:
        asked = ("-p", prompt) if prompt is not None else ()
        return refusal(run("ask", "--model", path, *SMALL, *asked, *words))

    return refused


# Plans


@pytest.fixture
def plan(tmp_path) -> Callable[[str | bytes], Path]:
    """Writes a plan."""

    def write(text: str | bytes) -> Path:
        path = tmp_path / "plan.toml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the plan {} has no steps; add a [[step]] table with a prompt and its reads"),
        ("step = 3", "the plan {} has no steps; add a [[step]] table with a prompt and its reads"),
        ("[step]\nprompt = 'x'", "the plan {} has no steps; add a [[step]] table"),
        ("step = [1]", "step 1 of the plan {} is not a table; write [[step]]"),
        ("[[step]]\nprompt = ", "the plan {} is not valid TOML: "),
        (b"[[step]]\nprompt = '\xff'", "the plan {} is not valid TOML: "),
        ("[[steps]]\nprompt = 'x'", "the plan {} has unknown keys: steps; use [[step]] tables"),
        (
            "[[step]]\nprompt = 'x'\nread = ['a']",
            "step 1 of the plan {} has unknown keys: read; known are prompt, reads, text",
        ),
        ("[[step]]\nreads = ['a']", "step 1 of the plan {} needs a prompt: the text to ask"),
        ("[[step]]\nprompt = 7", "step 1 of the plan {} needs a prompt: the text to ask"),
        ("[[step]]\ntext = 'x'\nprompt = 7", "step 1 of the plan {}: prompt must be a string, not 7"),
        (
            "[[step]]\ntext = 'x'\nprompt = ' '",
            "step 1 of the plan {} has an empty prompt; write what to ask",
        ),
        (
            "[[step]]\nprompt = 'x'\n[[step]]\nprompt = 'y'\nreads = 'a'",
            "step 2 of the plan {}: reads must be a list of names, not 'a'",
        ),
    ],
)
def test_a_plan_of_another_form(text, said, refused, plan):
    path = plan(text)
    assert refused("--plan", path, prompt=None).startswith(said.format(path))


def test_a_plan_that_is_missing(refused, tmp_path):
    path = tmp_path / "no.toml"
    assert refused("--plan", path, prompt=None) == f"cannot read the plan {path}: No such file or directory"
    assert refused("--plan", tmp_path, prompt=None) == f"cannot read the plan {tmp_path}: Is a directory"


@pytest.mark.parametrize("prompt", ["x", "", "-"])
def test_a_plan_and_a_prompt(prompt, refused, plan):
    said = refused("--plan", plan("[[step]]\nprompt = 'x'"), prompt=prompt)
    assert said == "--plan has a prompt for each step; leave out --prompt"


def test_a_plan_that_names_what_is_not_there(refused, plan, tmp_path):
    files = write_project(tmp_path, filler=2)
    said = refused("--plan", plan("[[step]]\nprompt = 'x'\nreads = ['surchage']"), *files, prompt=None)
    assert said == "the plan reads 'surchage', which no file holds; did you mean 'surcharge'?"
    assert "which no file holds" in refused(
        "--plan", plan("[[step]]\nprompt = 'x'\nreads = ['terms.py']"), prompt=None
    )


def test_a_plan_that_names_an_answer_to_come(refused, plan):
    said = refused("--plan", plan("[[step]]\nprompt = 'x'\nreads = ['answer:1']"), prompt=None)
    assert said == "step 1 reads 'answer:1', and no step comes before it; leave it out"


# How to answer


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--max-tokens", 0), "--max-tokens 0 is out of range; use 1 or more"),
        (("--time-limit", -1), "--time-limit -1 is out of range; use more than 0 seconds"),
        (("--time-limit", 0), "--time-limit 0 is out of range; use more than 0 seconds"),
        (("--time-limit", "nan"), "--time-limit nan is out of range; use more than 0 seconds"),
        (("--time-limit", "inf"), "--time-limit inf is out of range; use more than 0 seconds"),
        (("--temperature", -1), "temperature is -1.0; use a number from 0.001 to 10, or 0"),
        (("--temperature", "nan"), "temperature is nan; use a number from 0.001 to 10, or 0"),
        (("--top-p", 2), "top_p is 2.0; use a number from "),
        (("--top-k", -1), "top_k is -1; use a whole number from 0 to "),
        (("--min-p", 1.5), "min_p is 1.5; use a number from 0 to 1"),
        (("--repeat-penalty", 0), "repeat_penalty is 0.0; use a number from 0.1 to 10"),
        (("--seed", -1), "seed is -1; use a whole number from 0 to "),
        (("--stop", ""), "a --stop text is empty; leave it out"),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_answers_out_of_range(words, said, refused, tmp_path):
    # The model is missing: all this is said before it is looked for.
    assert refused(*words, path=tmp_path / "no.gguf").startswith(said)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("root ::= other", "grammar line 1, column 10: rule 'other' is used but never defined"),
        ('other ::= "x"', "grammar has no rule named 'root'"),
        ('root ::= "x', "grammar line 1, column 12: a string is not closed"),
        ("root ::= 'x'", "grammar line 1, column 10: not understood"),
        ("", "grammar has no rule named 'root'"),
        (b"root ::= \xff", "the grammar {} is not UTF-8 text: "),
    ],
)
def test_a_grammar_that_is_none(content, said, refused, tmp_path):
    path = tmp_path / "answer.gbnf"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert refused("--grammar", path, path=tmp_path / "no.gguf").startswith(said.format(path))


def test_a_grammar_that_cannot_be_read(refused, tmp_path):
    missing = tmp_path / "no.gbnf"
    said = refused("--grammar", missing)
    assert said == f"cannot read the grammar {missing}: No such file or directory"
    assert refused("--grammar", tmp_path) == f"cannot read the grammar {tmp_path}: Is a directory"
