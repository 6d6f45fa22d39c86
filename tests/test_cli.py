from __future__ import annotations

import argparse
import errno
import io
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import PACE, PATIENCE, SMALL, environment, is_one_line_error, pace, start, write_project

from pace_local import __version__, cli
from pace_local.commands.eval_options import EVALUATIONS
from pace_local.errors import CancelledError, FileError, InputError, PaceError, TimeLimitError
from pace_local.testing import TinySpec, tiny_model


def parsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """A parser and all below it, by what is typed for them."""
    found = {parser.prog: parser}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                found |= parsers(below)
    return found


ALL = parsers(cli.build_parser())


@pytest.fixture
def failing(monkeypatch):
    """Makes the command line fail with an error."""

    def fail_with(error: BaseException) -> None:
        def run(words, more):
            raise error

        monkeypatch.setattr(cli, "_run", run)

    return fail_with


@pytest.fixture(scope="module")
def tiny(tiny_models) -> Path:
    return tiny_model(TinySpec(n_layer=2, head_dim=16, n_ff=32), tiny_models)


# Help and usage


def test_all_commands_are_there():
    evaluations = {evaluation.name for evaluation in EVALUATIONS}
    assert evaluations >= {"spec", "gap", "facts", "codegen", "dialogue", "knowledge", "planning"}
    assert set(ALL) == {
        *(f"pace eval {name}" for name in evaluations),
        *(
            "pace",
            "pace ask",
            "pace doctor",
            "pace eval",
            "pace inspect",
            "pace models",
            "pace sessions",
            "pace tune",
        ),
        *(f"pace models {action}" for action in ("list", "pull", "path", "verify", "rm")),
        *(f"pace sessions {action}" for action in ("list", "show", "rm")),
    }


@pytest.mark.parametrize("prog", ALL)
def test_every_option_says_what_it_is_for(prog):
    for action in ALL[prog]._actions:
        if not isinstance(action, argparse._SubParsersAction):
            assert action.help, f"{action.option_strings or action.dest} has no help"
    assert ALL[prog].description


@pytest.mark.parametrize("prog", ALL)
def test_help_is_a_result(prog, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main([*prog.split()[1:], "--help"])
    assert caught.value.code == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"usage: {prog} ")
    assert err == ""


def test_help_names_commands_and_exit_codes(capsys):
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    out = capsys.readouterr().out
    for what in ("ask", "inspect", "tune", "sessions", "models", "doctor", "124 time limit", "130 cancelled"):
        assert what in out


def test_the_cheap_help_is_the_whole_help():
    assert cli.build_parser("").format_help() == cli.build_parser().format_help()


def test_options_of_one_command_are_those_of_all():
    for name in ("ask", "inspect", "tune", "sessions", "models", "doctor"):
        alone = parsers(cli.build_parser(name))
        for prog, parser in alone.items():
            if prog.startswith(f"pace {name}"):
                assert parser.format_help() == ALL[prog].format_help()


def test_commands_of_others_come_first_and_are_imported_when_they_are_called(tmp_path, monkeypatch, capsys):
    (tmp_path / "tide_command.py").write_text(
        "def add_parser(actions):\n"
        "    parser = actions.add_parser('tide', description='Waits.')\n"
        "    parser.set_defaults(handler=lambda arguments: 7)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    more = [cli.Command("tide", "wait for high water", "tide_command")]
    with pytest.raises(SystemExit):
        cli.main(["--help"], more)
    out = capsys.readouterr().out
    assert out.index("wait for high water") < out.index("ask about files")
    assert "tide_command" not in sys.modules
    assert cli.main(["tide"], more) == 7
    assert cli.build_parser("tide", more=more).parse_args(["tide", "--verbose"]).verbose is True
    with pytest.raises(SystemExit) as caught:
        cli.main(["tide"])
    assert caught.value.code == 2


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr() == (f"pace {__version__}\n", "")


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("frobnicate",),
        ("--frobnicate",),
        ("ask", "--frobnicate"),
        ("ask", "--budget", "many"),
        ("ask", "--policy", "lru"),
        ("ask", "--output-format", "xml"),
        ("ask", "--key-type", "q3_k"),
        ("doctor", "stray"),
        ("models",),
        ("sessions",),
    ],
    ids=" ".join,
)
def test_usage_errors(words, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(words)
    assert caught.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("usage: pace")


def test_an_unknown_command_names_those_that_there_are(capsys):
    with pytest.raises(SystemExit):
        cli.main(["frobnicate"])
    err = capsys.readouterr().err
    assert all(name in err for name in ("ask", "inspect", "tune", "sessions", "models", "doctor"))


# What start-up costs

_HEAVY = (
    *("numpy", "llama_cpp", "psutil", "jinja2", "gguf", "bm25s", "tree_sitter", "huggingface_hub"),
    *("pace_local._native", "pace_local.models", "pace_local.session"),
)


@pytest.mark.parametrize("words", [("--version",), ("--help",), ("frobnicate",), ()], ids=" ".join)
def test_what_needs_no_command_imports_none(words):
    script = (
        "import sys\nfrom pace_local import cli\n"
        f"try: cli.main({list(words)})\n"
        "except SystemExit: pass\n"
        f"print([name for name in {_HEAVY} if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, encoding="utf-8", env=environment(), check=True
    )
    assert ended.stderr.splitlines()[-1] == "[]"


def test_help_of_commands_does_not_load_the_native_library():
    for command in ("ask", "inspect", "tune", "sessions", "models", "doctor"):
        script = (
            "import sys\nfrom pace_local import cli\n"
            f"try: cli.main(['{command}', '--help'])\n"
            "except SystemExit: pass\n"
            "assert 'llama_cpp' not in sys.modules"
        )
        ended = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment())
        assert ended.returncode == 0, ended.stderr


# How it ends


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PaceError("it failed"), 1),
        (InputError("it failed"), 2),
        (TimeLimitError("it failed"), 124),
        (CancelledError("it failed"), 130),
    ],
)
def test_errors_are_a_line_and_an_exit_code(failing, error, code, capsys):
    failing(error)
    assert cli.main([]) == code
    assert capsys.readouterr() == ("", "pace: it failed\n")


def test_an_error_is_one_line_whatever_it_names(failing, capsys):
    failing(FileError("no such file: 'two\nlines\r\nand \u2028more'"))
    assert cli.main([]) == 2
    assert is_one_line_error(capsys.readouterr().err)


def test_ctrl_c_where_nothing_listens(failing, capsys):
    failing(KeyboardInterrupt())
    assert cli.main([]) == 130
    assert capsys.readouterr() == ("", "pace: cancelled\n")


def test_ctrl_c_while_modules_are_imported(monkeypatch, capsys):
    """It printed a traceback through numpy."""

    def build_parser(*names, more):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "build_parser", build_parser)
    assert cli.main(["ask"]) == 130
    assert capsys.readouterr().err == "pace: cancelled\n"


def test_a_fault_of_ours_shows_where_it_is(failing):
    failing(RuntimeError("a fault"))
    with pytest.raises(RuntimeError, match="a fault"):
        cli.main([])
    failing(PermissionError(errno.EACCES, "a fault"))
    with pytest.raises(PermissionError, match="a fault"):
        cli.main([])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [("models", "list"), ("--help",), ("doctor", "--json")], ids=" ".join)
def test_a_full_disk_under_stdout(words):
    with open("/dev/full", "w") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "pace_local.cli", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            timeout=PATIENCE,
            env=environment(PYTHONUNBUFFERED=""),
        )
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-1] == "pace: no room is left where the output goes; free some"
    assert "Traceback" not in ended.stderr


def test_a_reader_that_goes_away(tiny):
    """As in ``pace ask … | head -c 1``."""
    arguments = ("ask", "-p", "x", "--model", tiny, *SMALL, "--max-tokens", "1000000")
    process = start(PACE, *arguments)
    assert process.stdout.read(1)
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(PATIENCE) == 1
    process.stderr.close()
    assert "Traceback" not in err
    assert "BrokenPipe" not in err
    assert "Exception ignored" not in err


def test_a_reader_that_reads_nothing():
    """What was printed last is written when the process ends, where an error is Python's own to report."""
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-m", "pace_local.cli", "models", "list"],
        stdout=writer,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=PATIENCE,
        env=environment(PYTHONUNBUFFERED=""),
    )
    os.close(writer)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "Exception ignored" not in ended.stderr


def test_without_stdout():
    script = (
        "import sys; sys.stdout = None; from pace_local import cli; sys.exit(cli.main(['models', 'list']))"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment())
    assert ended.returncode == 0, ended.stderr


def test_text_that_the_terminal_cannot_show(monkeypatch):
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", stdout)
    monkeypatch.setattr(cli, "_run", lambda words, more: print("naïve … \udcff") or 0)
    assert cli.main([]) == 0
    assert stdout.buffer.getvalue().rstrip() == rb"na\xefve \u2026 \udcff"


# Native logging


@pytest.fixture(scope="module")
def plain(tiny, tmp_path_factory):
    """A run without ``--verbose``, its arguments, and one with it."""
    files = write_project(tmp_path_factory.mktemp("project"), filler=6)
    arguments = ("ask", "-p", "x", "--model", tiny, *SMALL, *files)
    return pace(*arguments), pace("--verbose", *arguments), pace(*arguments, "--verbose")


def test_native_log_lines_are_for_those_who_ask(plain):
    run, *verbose = plain
    assert run.returncode == 0
    for stream in (run.stdout, run.stderr):
        for mark in ("llama_", "ggml", "load:", "print_info", "tensor", "pace_local"):
            assert mark not in stream
    for loud in verbose:
        assert loud.returncode == 0
        assert loud.stdout == run.stdout
        native = [line for line in loud.stderr.splitlines() if line.startswith("pace_local.native: ")]
        assert len(native) > 20
        assert any("llama_context" in line for line in native)


def test_verbose_shows_nobody_elses_log(plain):
    expected = {line.split()[0] for line in plain[0].stderr.splitlines()}
    for loud in plain[1:]:
        starts = {line.split(maxsplit=1)[0] for line in loud.stderr.splitlines()}
        assert starts - expected == {"pace_local.native:"}


def test_verbose_is_off_unless_said():
    assert cli.build_parser("ask").parse_args(["ask"]).verbose is False
    assert cli.build_parser("ask").parse_args(["--verbose", "ask"]).verbose is True
    assert cli.build_parser("doctor").parse_args(["doctor", "--verbose"]).verbose is True
    assert logging.getLogger("pace_local").getEffectiveLevel() > logging.DEBUG


# Interrupts


def test_an_interrupt_while_the_prompt_is_typed():
    """It is read before any work begins, by the main thread."""
    process = start(
        "import sys, pace_local.commands.ask as ask\n"
        "def wait():\n"
        "    import time\n"
        "    print('waiting', flush=True)\n"
        "    time.sleep(600)\n"
        "ask.stdin_text = wait\n" + PACE,
        *("ask", "-p", "-"),
    )
    assert process.stdout.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (130, "", "pace: cancelled\n")
