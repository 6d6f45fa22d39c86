"""What users get wrong: each is one line that says what to do, exit code 2, and no traceback."""

from __future__ import annotations

import errno
import importlib
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import QUESTION, SMALL, is_one_line_error, pace, refusal, run, write_project

from pace_local import engine, terminal
from pace_local.models import REGISTRY, HubFile
from pace_local.models.testing import ScriptedFetcher, gguf_bytes
from pace_local.models.testing import tiny_model as registry_entry
from pace_local.testing import TinySpec, tiny_model

pull = importlib.import_module("pace_local.models.pull")  # the package has a function of that name

SPEC = TinySpec(n_layer=2, head_dim=16, n_ff=32)
ENDLESS = TinySpec(n_layer=2, head_dim=16, n_ff=32, n_ctx_train=2**31 - 1)


@pytest.fixture
def model(tiny_models) -> Path:
    return tiny_model(SPEC, tiny_models)


@pytest.fixture
def refused(model) -> Callable[..., str]:
    """Runs ``pace ask`` with what it refuses, and gives what it says."""

    def refused(*words: object, prompt: str | None = "x", path: object = model, code: int = 2, **how) -> str:
        asked = ("-p", prompt) if prompt is not None else ()
        return refusal(run("ask", "--model", path, *SMALL, *asked, *words, **how), code)

    return refused


# Models


def test_a_model_that_is_missing(refused, tmp_path):
    path = tmp_path / "no.gguf"
    assert refused(path=path) == f"{path} does not exist; give the path of a GGUF file"


def test_a_model_that_nobody_knows(refused):
    said = refused(path="qwen3-9b")
    assert said.startswith("no model is called 'qwen3-9b'; did you mean qwen3-8b")


def test_a_model_that_is_a_directory(refused, tmp_path):
    (tmp_path / "one.gguf").write_bytes(b"GGUF")
    said = refused(path=f"{tmp_path}/")
    assert said == f"{tmp_path} is a directory; it holds one.gguf; give the path of one GGUF file"


@pytest.mark.parametrize("share", [0.9, 0.02])
def test_a_model_that_is_cut_short(share, refused, model, tmp_path):
    path = tmp_path / "short.gguf"
    content = model.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert "is cut short" in refused(path=path)


@pytest.mark.parametrize("content", [b"", b"GG", b"\x7fELF" + bytes(100), b"import os\n" * 20])
def test_a_model_that_is_no_gguf(content, refused, tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    assert f"{path} is not a GGUF file: it " in refused(path=path)


def test_a_model_that_llama_cpp_does_not_know(refused, tmp_path):
    path = tmp_path / "odd.gguf"
    path.write_bytes(gguf_bytes("nosucharch"))
    said = refused(path=path)
    assert said.startswith(f"cannot load {path} (architecture nosucharch): ")
    assert "unknown model architecture: 'nosucharch'" in said


def test_a_model_whose_tensors_are_missing(refused, tmp_path):
    path = tmp_path / "hollow.gguf"
    path.write_bytes(gguf_bytes("llama"))
    said = refused(path=path)
    assert said.startswith(f"cannot load {path} (architecture llama): ")
    assert "no reason" not in said


@pytest.mark.parametrize(
    ("arch", "why"),
    [
        ("mamba", "the model is recurrent"),
        ("lfm2", "the model is a hybrid"),
        ("gemma3", "sliding-window"),
        ("qwen2vl", "M-RoPE"),
        ("bert", "no KV cache"),
    ],
)
def test_a_kind_of_memory_that_cannot_be_managed(arch, why, refused, tiny_models):
    path = tiny_model(TinySpec(arch=arch), tiny_models)
    said = refused("--budget", 500, path=path)
    assert said.startswith(f"{path.name} cannot be used: ")
    assert why in said


# Settings of the cache


def test_a_budget_above_the_trained_context(refused):
    said = refused("--budget", 40_000, "--position-cap", 100_000)
    assert said.startswith("budget 40000 is above the 32768 tokens of context that ")


def test_a_budget_above_what_memory_holds(refused, tiny_models):
    """Upstream writes to every cell at once: without a check the system kills the process."""
    path = tiny_model(ENDLESS, tiny_models)
    said = refused("--budget", 10**9, "--position-cap", 2**31 - 1, path=path)
    assert said.startswith("a budget of 1000000000 tokens needs 384.0 GB of memory with ")
    assert said.endswith(" are free; lower the budget")


@pytest.mark.parametrize(
    ("words", "cell_bytes"),
    [
        ((), 64 * (2 + 2 + 2)),
        (("--key-type", "f32", "--value-type", "f32"), 64 * (4 + 4 + 4)),
        (("--key-type", "bf16"), 64 * (2 + 2 + 4)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_memory_is_counted_to_the_byte(words, cell_bytes, refused, tiny_models, monkeypatch):
    """Two layers of two KV heads of 16 make 64 elements of keys, of values and of references a cell."""
    needed = (1024 + 128) * cell_bytes
    monkeypatch.setattr(engine, "available_memory", lambda: needed - 1)
    assert "lower the budget" in refused(*words)
    monkeypatch.setattr(engine, "available_memory", lambda: needed)
    assert run("ask", "-p", "x", "--model", tiny_model(SPEC, tiny_models), *SMALL, *words).code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", 10), "budget 10 is too small; at least 64 tokens are needed"),
        (("--budget", -5), "budget -5 is too small; at least 64 tokens are needed"),
        (("--headroom", 0), "headroom 0 is out of range; use 16 to 8192 tokens"),
        (("--headroom", 9000), "headroom 9000 is out of range; use 16 to 8192 tokens"),
        (
            ("--position-cap", 1000),
            "position cap 1000 is below budget + headroom = 1152; raise the cap or lower the budget",
        ),
        (("--position-cap", 2**31), "position cap 2147483648 is above 2147483647"),
        (("--threads", 0), "threads 0 is out of range; use 1 to 512"),
        (("--threads", 10_000), "threads 10000 is out of range; use 1 to 512"),
        (
            ("--value-type", "q8_0", "--no-flash-attn"),
            "value type 'q8_0' needs flash attention; turn it on or use 'f16'",
        ),
    ],
    ids=lambda value: " ".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_settings_out_of_range(words, said, refused):
    assert refused(*words) == said


def test_a_type_that_does_not_fit_the_model(refused):
    said = refused("--key-type", "q8_0")
    assert "q8_0 with block size 32 does not divide n_embd_head_k=16" in said
    assert said.endswith("lower the budget, or change the types of keys and values")


# Prompts


@pytest.mark.parametrize("prompt", ["", "  \n\t"])
def test_an_empty_prompt(prompt, refused):
    assert refused(prompt=prompt) == "the prompt is empty; ask something"
    assert refused(prompt="-", stdin=prompt) == "the prompt is empty; ask something"


def test_no_prompt_at_all(refused):
    assert refused(prompt=None) == "there is nothing to ask; give -p PROMPT or --plan FILE"


def test_no_stdin_at_all(refused, monkeypatch):
    """As ``<&-`` leaves it."""
    ask = importlib.import_module("pace_local.commands.ask")
    closed = SimpleNamespace(stdin=None, stderr=sys.stderr)
    monkeypatch.setattr(ask, "sys", closed)
    monkeypatch.setattr(terminal, "sys", closed)
    assert refused(prompt=None) == "there is nothing to ask; give -p PROMPT or --plan FILE"
    assert refused(prompt="-") == "stdin is closed; give -p PROMPT"


def test_a_prompt_larger_than_the_budget(refused, tmp_path):
    for files in ([], write_project(tmp_path)):
        said = refused(*files, prompt="why? " * 400)
        assert said.endswith("do not fit a budget of 1024; raise the budget or shorten the prompt")
        assert said.startswith("a prompt of ")


def test_a_prompt_that_is_no_text(refused):
    assert refused(prompt="caf\udce9") == r"the prompt 'caf\udce9' is not UTF-8 text; convert it"
    assert refused(prompt="-", stdin=b"caf\xe9\n") == (
        "the prompt on stdin is not UTF-8 text: byte 0xE9 at offset 3; convert it"
    )


# Files


def test_a_file_that_is_missing(refused, tmp_path):
    (tmp_path / "orders.py").write_text("x = 1\n")
    said = refused(tmp_path / "order.py")
    assert said == f"no such file: '{tmp_path}/order.py'; did you mean '{tmp_path}/orders.py'?"


def test_a_file_that_is_a_directory(refused, tmp_path):
    (tmp_path / "orders.py").write_text("x = 1\n")
    said = refused(tmp_path)
    assert said == f"'{tmp_path}' is a directory; name its files, for example {tmp_path}/*.py"


def test_a_file_that_is_not_utf_8(refused, tmp_path):
    (tmp_path / "latin.txt").write_bytes(b"one\ncaf\xe9\n")
    said = refused(tmp_path / "latin.txt")
    assert said.startswith(f"'{tmp_path}/latin.txt' is not UTF-8 text: byte 0xE9 at offset 7 (line 2); ")


def test_a_file_that_is_binary(refused, model):
    assert "is a binary file" in refused(model)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_file_that_is_a_pipe_does_not_block(refused, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "is a pipe" in refused(tmp_path / "pipe")


def test_files_are_looked_at_before_the_model_is_loaded(refused, tmp_path):
    """Or fetched: a typing error is not found only after 16 GB."""
    said = refused(tmp_path / "order.py", path=tmp_path / "no.gguf")
    assert said.startswith("no such file: ")


# Fetching a model


@pytest.fixture
def fetching(tmp_path, monkeypatch):
    """A store of this test's own and a model ``tiny`` that is fetched as a script says."""
    content = gguf_bytes(tensor_bytes=1 << 16)
    info = registry_entry(content, (HubFile("someone/tiny-GGUF", "tiny.gguf", None),))
    monkeypatch.setenv("PACE_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setitem(REGISTRY, "tiny", info)

    def fetch_with(error: Exception | None) -> None:
        fetcher = ScriptedFetcher(HubFile, content, error)
        monkeypatch.setattr(pull, "default_fetchers", lambda: (fetcher,))

    return fetch_with


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_disk_that_gets_full_while_a_model_is_fetched(number, fetching, refused, tmp_path):
    fetching(OSError(number, os.strerror(number)))
    said = refused(path="tiny")
    assert said.startswith(f"the disk of {tmp_path}/models is full; free ")
    assert said.endswith("what was fetched is kept")


def test_a_disk_without_room_for_a_model(fetching, refused, monkeypatch):
    fetching(None)
    usage = shutil.disk_usage(".")
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=1000))
    assert refused(path="tiny").startswith("no room for tiny in ")


def test_a_folder_that_cannot_be_written(fetching, refused, tmp_path):
    fetching(PermissionError(errno.EACCES, "Permission denied"))
    assert refused(path="tiny").startswith(f"tiny cannot be stored in {tmp_path}/models: Permission denied; ")


# Errors for programs


@pytest.mark.parametrize("words", [("--max-tokens", "0"), ("--plan", "no.toml")], ids=" ".join)
def test_errors_as_json(words, model):
    """Whatever goes wrong, and however early, a program that reads stdout learns of it there."""
    prompt = () if "--plan" in words else ("-p", "x")
    whole = run("ask", "--model", model, *SMALL, *prompt, *words, "--output-format", "json")
    assert whole.code == 2
    assert whole.document["exit_code"] == 2
    assert whole.err == f"pace: {whole.document['error']}\n"
    lines = run("ask", "--model", model, *SMALL, *prompt, *words, "--output-format", "stream-json")
    assert lines.events == [{"type": "error", "message": whole.document["error"], "exit_code": 2}]


def test_errors_come_through_quiet(refused, tmp_path):
    assert refused("--quiet", "--max-tokens", 0)


# In a process of its own


@pytest.mark.parametrize(
    "words",
    [
        ("--model", "."),
        ("--budget", "3"),
        ("--plan", "."),
        ("--model", "{tiny}", "{tiny}"),
        ("--model", "{mamba}"),
        ("--model", "{endless}", "--budget", "1000000000", "--position-cap", "2147483647"),
    ],
    ids=" ".join,
)
def test_there_is_no_traceback(words, model, tiny_models, tmp_path):
    """Nor any line of the native library, however it fails."""
    paths = {
        "tiny": model,
        "mamba": tiny_model(TinySpec(arch="mamba"), tiny_models),
        "endless": tiny_model(ENDLESS, tiny_models),
    }
    prompt = () if "--plan" in words else ("-p", QUESTION)
    ended = pace("ask", *prompt, *(word.format(**paths) for word in words), "--quiet")
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert is_one_line_error(ended.stderr)


def test_stdin_that_is_no_text_in_a_process_of_its_own(model):
    """Under UTF-8, Python itself refused it, with a traceback."""
    ended = pace("ask", "--model", model, *SMALL, stdin=b"caf\xe9")
    assert ended.returncode == 2
    assert is_one_line_error(ended.stderr)
