from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import time

import pytest

from pace_local.commands import models as command
from pace_local.errors import CancelledError, ModelError, StorageError
from pace_local.models import REGISTRY, Device, Store
from pace_local.models.testing import gguf_bytes, tiny_model

CONTENT = gguf_bytes(tensor_bytes=1 << 16)
INFO = tiny_model(CONTENT, ())
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    """A store, a config folder and a registry with one model more, all of this test's own."""
    monkeypatch.setenv("PACE_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("PACE_MODEL", raising=False)
    monkeypatch.setitem(REGISTRY, "tiny", INFO)


@pytest.fixture
def here() -> Store:
    store = Store()
    store.folder.mkdir()
    store.path(INFO).write_bytes(CONTENT)
    return store


def run(*arguments: str, devices=command.no_devices) -> int:
    parser = argparse.ArgumentParser(prog="pace")
    command.add_parser(parser.add_subparsers(required=True), devices)
    parsed = parser.parse_args(["models", *arguments])
    return parsed.handler(parsed)


def test_list_shows_every_model_and_marks_the_default(here, capsys):
    assert run("list", devices=lambda: [Device("card", 24 * 2**30)]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert len(lines) == 1 + len(REGISTRY)
    assert lines[0].split() == ["NAME", "SIZE", "CONTEXT", "LICENCE", "TYPE", "STATE"]
    rows = {line[1:].split()[0]: line for line in lines[1:]}
    assert rows["qwen3-8b"].split() == ["*", "qwen3-8b", "16.4", "GB", "40960", "Apache-2.0", "F16", "absent"]
    assert rows["tiny"].endswith("present")
    assert [line for line in lines if line.startswith("*")] == [rows["qwen3-8b"]]
    assert err == "* qwen3-8b (F16, 16.4 GB), chosen for card with 25.8 GB; --model changes it\n"


def test_list_as_json(here, capsys):
    assert run("list", "--json") == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == set(REGISTRY)
    assert rows["tiny"]["state"] == "present"
    assert rows["tiny"]["path"] == str(here.path(INFO))
    assert rows["qwen3-8b"]["state"] == "absent"
    assert rows["qwen3-8b"]["sha256"] is None
    assert rows["qwen3-8b"]["kv_bytes_per_token"] == 147_456
    assert sum(row["default"] for row in rows.values()) == 1


def test_list_shows_an_unfinished_pull(capsys):
    folder = Store().partial(INFO) / "wheels"
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(b"x" * 40_960)
    run("list")
    assert "41 kB fetched" in capsys.readouterr().out


def test_list_marks_the_configured_default(monkeypatch, capsys):
    monkeypatch.setenv("PACE_MODEL", "TINY")
    run("list")
    out, err = capsys.readouterr()
    assert [line.split()[1] for line in out.splitlines() if line.startswith("*")] == ["tiny"]
    assert "chosen by PACE_MODEL" in err


def test_list_needs_no_store(capsys):
    assert run("list") == 0
    assert not Store().folder.exists()


def test_pull_of_what_is_here_prints_its_path(here, capsys):
    assert run("pull", "tiny") == 0
    out, err = capsys.readouterr()
    assert out == f"{here.path(INFO)}\n"
    assert f"tiny: sha256 {SHA256}, as registered; from a file put here by hand" in err


def test_pull_without_a_name_takes_the_default(here, monkeypatch, capsys):
    monkeypatch.setenv("PACE_MODEL", "tiny")
    assert run("pull") == 0
    assert capsys.readouterr().out == f"{here.path(INFO)}\n"


def test_pull_of_an_unknown_name(capsys):
    with pytest.raises(ModelError, match=r"no model is called 'tyni'; did you mean tiny\?"):
        run("pull", "tyni")
    assert capsys.readouterr().out == ""


def test_pull_that_fails_prints_nothing_on_standard_output(capsys):
    with pytest.raises(StorageError, match="tiny could not be pulled"):
        run("pull", "tiny")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_pull_that_is_stopped_says_how_to_go_on(monkeypatch, number):
    """SIGTERM ended this process alone; pip went on to the end of its wheel."""
    fetched = []

    def fetching(info, *, progress, say):
        os.kill(os.getpid(), number)
        for done in range(3_000):
            fetched.append(done)
            progress(done, 3_000, info.name)
            time.sleep(0.01)

    monkeypatch.setattr(command, "pull", fetching)
    before = signal.signal(number, signal.SIG_DFL)  # a shell's job in the background ignores SIGINT
    try:
        with pytest.raises(CancelledError, match="`pace models pull tiny` goes on from here"):
            run("pull", "tiny")
    finally:
        signal.signal(number, before)
    assert len(fetched) < 3_000


def test_path(here, capsys):
    assert run("path", "tiny") == 0
    assert capsys.readouterr().out == f"{here.path(INFO)}\n"


def test_path_of_a_path(tmp_path, capsys, monkeypatch):
    (tmp_path / "own.gguf").write_bytes(CONTENT)
    monkeypatch.chdir(tmp_path)
    assert run("path", "own.gguf") == 0
    assert capsys.readouterr().out == f"{tmp_path / 'own.gguf'}\n"


def test_path_of_what_is_not_here(capsys):
    with pytest.raises(ModelError, match="not on this machine; run `pace models pull tiny`"):
        run("path", "tiny")
    assert capsys.readouterr().out == ""


def test_verify_hashes_again(here, capsys):
    run("pull", "tiny")
    path = here.path(INFO)
    status = path.stat()
    capsys.readouterr()
    assert run("verify", "tiny") == 0
    assert capsys.readouterr().out == f"tiny  ok  {SHA256}\n"
    path.write_bytes(CONTENT[:-1] + b"x")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert run("verify", "tiny") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert f"expected {SHA256}" in err
    assert not path.exists()


def test_verify_of_all_goes_on_after_a_wrong_one(here, monkeypatch, capsys):
    other = tiny_model(CONTENT, (), name="aaa")
    monkeypatch.setitem(REGISTRY, "aaa", other)
    here.path(INFO).write_bytes(b"wrong")
    here.path(other).write_bytes(CONTENT)
    assert run("verify") == 2
    out, err = capsys.readouterr()
    assert out == f"aaa  ok  {SHA256}\n"
    assert "wrong sha256" in err


def test_verify_says_when_nothing_vouches(here, monkeypatch, capsys):
    monkeypatch.setitem(REGISTRY, "tiny", tiny_model(CONTENT, (), pinned=False))
    assert run("verify") == 0
    assert capsys.readouterr().out == f"tiny  unverified: no hash to compare with  {SHA256}\n"


def test_verify_of_nothing(capsys):
    assert run("verify") == 0
    assert "no model is in" in capsys.readouterr().err
    assert run("verify", "tiny") == 2


def test_rm(here, capsys):
    assert run("rm", "tiny") == 0
    assert re.fullmatch(r"tiny: \d\d kB freed\n", capsys.readouterr().out)
    assert not here.present(INFO)
    with pytest.raises(ModelError, match="tiny is not in"):
        run("rm", "tiny")


def test_rm_of_an_unfinished_pull():
    folder = Store().partial(INFO) / "hub"
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(b"x" * 5000)
    assert run("rm", "tiny") == 0
    assert not folder.exists()


@pytest.mark.parametrize("arguments", [(), ("frobnicate",), ("path",), ("rm",)])
def test_usage_errors(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2
    assert "usage: pace models" in capsys.readouterr().err
