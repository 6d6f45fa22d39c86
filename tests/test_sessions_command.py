from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import PATIENCE, environment, refusal, run
from sessions_samples import HEADER, Story, store, turn_record

from pace_local.plan import Plan, Step
from pace_local.segments import Segment
from pace_local.sessions import StoredSegment, StoredSession, log_path


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this test's sessions."""
    monkeypatch.setenv("PACE_SESSIONS_DIR", str(tmp_path / "sessions"))
    return tmp_path / "sessions"


def told(folder: Path) -> None:
    """Store a session of a system prompt and a file, of which a part is resident."""
    with StoredSession.create(folder, HEADER) as stored:
        stored.append(
            turn_record(
                tokens=range(10),
                n_tokens=10,
                segments=[
                    StoredSegment(Segment(0, "system", "system", 0, 4, 0, pinned=True)),
                    StoredSegment(Segment(1, "framing:1", "framing", 4, 6, 1)),
                    StoredSegment(Segment(2, "empty\x1b[2J", "user", 6, 6, 1)),
                    StoredSegment(Segment(3, "a.py", "file", 6, 10, 1), {"hash": "abc"}),
                ],
                n_segments=4,
                n_turns=2,
                residents=[(0, 0, 5), (8, 5, 2)],
                evictions=[[(5, 3)]],
                events=[{"type": "evicted"}, {"type": "progress"}, {"type": "progress"}],
                plan=Plan([Step("write it\nnow", ["a.py", "system"]), Step("rest")]),
                counters={"evicted": 3},
            )
        )
        segment = StoredSegment(Segment(2, "new.py", "file", 6, 7, 1))
        stored.append(
            turn_record(
                tokens=[5],
                n_tokens=7,
                segments=[segment],
                n_segments=3,
                n_turns=2,
                plan=Plan([Step("write it\nnow", ["new.py", "system"]), Step("rest")]),
                residents=[(0, 0, 5), (6, 5, 1)],
            )
        )


def cells(out: str) -> list[list[str]]:
    return [re.split(r" {2,}", line.strip()) for line in out.splitlines()]


# list


def test_list_of_nothing(root: Path) -> None:
    ended = run("sessions", "list")
    assert (ended.code, ended.out, ended.err) == (0, "", f"no session is in {root}\n")
    ended = run("sessions", "list", "--json")
    assert (ended.code, ended.out, ended.err) == (0, "[]\n", "")
    assert not root.exists()


def test_list(root: Path) -> None:
    facts = {name: store(root / name, n)[-1] for name, n in (("b", 3), ("a", 6))}
    log_path(root / "b").write_bytes(b"")
    (root / "b" / "lock").unlink()
    with StoredSession.open(root / "a"):
        ended = run("sessions", "list")
    assert (ended.code, ended.err) == (0, "")
    head, first, second = cells(ended.out)
    assert head == ["NAME", "MODEL", "TURNS", "TOKENS", "SIZE", "CHANGED", "STATE"]
    assert first[:4] == ["a", "tiny", str(facts["a"].n_turns), f"{len(facts['a'].tokens):,}"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d", first[5])
    assert first[6].startswith(f"in use by this process ({os.getpid()}) since ")
    assert second[:4] == ["b", "–", "0", "0"]
    assert second[6] == f"broken: {log_path(root / 'b')} cannot be read as a session's log: it is empty"
    head, first, _ = cells(run("sessions", "list").out)
    assert first[6] == "ready"


def test_list_as_json(root: Path) -> None:
    facts = store(root / "a", 6)[-1]
    log_path(root / "b").parent.mkdir()
    with StoredSession.open(root / "a"):
        rows = json.loads(run("sessions", "list", "--json").out)
    first, second = rows
    assert first["in_use"].keys() == {"pid", "since"}
    assert first["in_use"]["pid"] == os.getpid()
    assert first | {"in_use": None} == {
        "name": "a",
        "path": str(root / "a"),
        "model": "tiny",
        "turns": facts.n_turns,
        "tokens": len(facts.tokens),
        "bytes": first["bytes"],
        "changed": log_path(root / "a").stat().st_mtime,
        "in_use": None,
        "problem": None,
    }
    assert first["bytes"] > 0
    assert second["model"] is None
    assert second["problem"] == f"{root / 'b'} is no session: it has no pace-session.jsonl"


# show


def test_show(root: Path) -> None:
    told(root / "a")
    (root / "a" / "kv").mkdir()
    (root / "a" / "kv" / "0.block").write_bytes(b"x" * 500_000)
    ended = run("sessions", "show", "a")
    assert (ended.code, ended.err) == (0, "")
    assert "\x1b" not in ended.out
    lines = dict(line.split(None, 1) for line in ended.out.splitlines()[:6])
    assert lines == {
        "session": str(root / "a"),
        "model": "tiny (/models/tiny.gguf)",
        "begun": "2026-01-31T12:00:00+00:00 with pace 0.1.0 (llama_cpp 0.3.36, patch abc123)",
        "settings": "budget=1024, policy=plan",
        "turns": "2",
        "tokens": "7, of which 6 are resident",
    }
    assert re.search(r"^disk +5\d\d kB, keys and values 50\d kB$", ended.out, re.MULTILINE)
    assert re.search(r"^in use +no$", ended.out, re.MULTILINE)
    assert ["SEGMENT", "KIND", "TURN", "TOKENS", "RESIDENT"] in cells(ended.out)
    assert ["system", "system", "0", "4", "4", "pinned"] in cells(ended.out)
    assert ["new.py", "file", "1", "1", "1"] in cells(ended.out)
    assert "and 2 tokens of role markers\n" in ended.out
    assert "\nplan\n   1. write it↵now  reads new.py, system\n   2. rest\n" in ended.out
    assert "RECORD" not in ended.out


def test_show_what_each_record_did(root: Path) -> None:
    told(root / "a")
    out = run("sessions", "show", "a", "--turns").out
    table = cells(out[out.index("RECORD") :])
    assert table == [
        ["RECORD", "WITHDRAWN", "ADDED", "TOKENS", "RESIDENT", "EVICTED", "SEGMENTS"],
        ["1", "0", "10", "10", "7", "3", "system, empty·[2J, a.py"],
        ["2", "4", "1", "7", "6", "0", "new.py"],
    ]


def test_show_as_json(root: Path) -> None:
    told(root / "a")
    document = json.loads(run("sessions", "show", str(root / "a"), "--json").out)
    assert document["model"] == {"name": "tiny", "path": "/models/tiny.gguf", "fingerprint": "ab" * 32}
    assert (document["name"], document["path"]) == ("a", str(root / "a"))
    assert (document["turns"], document["tokens"], document["residents"]) == (2, 7, 6)
    assert (document["format"], document["pace_version"]) == (1, "0.1.0")
    assert document["config"] == dict(HEADER.config)
    assert (document["in_use"], document["problem"], document["kv_bytes"]) == (None, None, 0)
    assert [step["reads"] for step in document["plan"]] == [["new.py", "system"], []]
    assert [(part["name"], part["resident"]) for part in document["segments"]] == [
        ("system", 4),
        ("framing:1", 1),
        ("new.py", 1),
    ]
    assert "records" not in document
    document = json.loads(run("sessions", "show", "a", "--json", "--turns").out)
    assert document["records"][0] == {
        "withdrawn": 0,
        "added": 10,
        "tokens": 10,
        "residents": 7,
        "evicted": 3,
        "segments": ["system", "empty\x1b[2J", "a.py"],
        "events": {"evicted": 1, "progress": 2},
    }


def test_residents_are_shared_out_among_all_segments(root: Path) -> None:
    for seed in range(5):
        facts = store(root / str(seed), 8, seed)[-1]
        document = json.loads(run("sessions", "show", str(seed), "--json").out)
        indices = [index for index, _ in facts.residents]
        assert document["residents"] == len(indices)
        for part in document["segments"]:
            assert part["resident"] == sum(part["start"] <= index < part["end"] for index in indices)


def test_show_an_empty_session(root: Path) -> None:
    StoredSession.create(root / "a", HEADER).close()
    ended = run("sessions", "show", "a", "--turns")
    assert ended.code == 0
    assert "tokens    0, of which 0 are resident" in ended.out
    assert "SEGMENT " not in ended.out


def test_show_one_in_use_that_is_torn(root: Path) -> None:
    told(root / "a")
    path = log_path(root / "a")
    with StoredSession.open(root / "a"):
        path.write_bytes(path.read_bytes()[:-3])
        out = run("sessions", "show", "a").out
    assert f"in use    by this process ({os.getpid()}) since " in out
    assert f"problem   {path}, line 3: it was never finished; it is left out" in out
    assert "tokens    10, of which 7 are resident" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "none"), "there is no session in .*none; `pace sessions list` shows those with a name"),
        (("show", "../x y"), "there is no session in .*x y"),
        (("show", "x y"), "'x y' is no name of a session; use up to 100 letters"),
        (("show", "broken"), "broken/pace-session.jsonl cannot be read as a session's log: it is empty"),
        (("show", "empty"), "empty is no session: it has no pace-session.jsonl"),
        (("rm", "none"), "there is no session in .*none; `pace sessions list` shows those with a name"),
        (("rm", "x y"), "'x y' is no name of a session"),
    ],
)
def test_what_cannot_be_done(words: tuple[str, ...], said: str, root: Path) -> None:
    (root / "empty").mkdir(parents=True)
    (root / "broken").mkdir()
    log_path(root / "broken").touch()
    assert re.search(said, refusal(run("sessions", *words)))


# rm


def test_rm(root: Path) -> None:
    for name in "abc":
        store(root / name, 2)
    ended = run("sessions", "rm", "a", root / "b")
    assert (ended.code, ended.err) == (0, "")
    assert re.fullmatch(rf"a: \d+ kB freed\n{root}/b: \d+ kB freed\n", ended.out)
    assert [item.name for item in root.iterdir()] == ["c"]


def test_rm_of_some_that_cannot_be_deleted(root: Path) -> None:
    """The others are, and the exit code says that not all were."""
    for name in "abc":
        store(root / name, 2)
    with StoredSession.open(root / "b"):
        ended = run("sessions", "rm", "a", "b", "none", "c")
    assert ended.code == 2
    assert [line.split(":")[0] for line in ended.out.splitlines()] == ["a", "c"]
    first, second = ended.err.splitlines()
    assert first.startswith(f"pace: the session b is in use by this process ({os.getpid()}) since ")
    assert second.startswith("pace: there is no session in ")
    assert [item.name for item in root.iterdir()] == ["b"]


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ((), ("rm",), ("show",), ("show", "a", "b"), ("rm", "--force", "a"), ("list", "a")):
        with pytest.raises(SystemExit) as caught:
            run("sessions", *words)
        assert caught.value.code == 2


# How it ends


def test_a_list_loads_no_native_library(root: Path) -> None:
    store(root / "a", 2)
    script = (
        "import sys\n"
        "from pace_local import cli\n"
        "assert cli.main(['sessions', 'list']) == 0\n"
        "assert cli.main(['sessions', 'show', 'a']) == 0\n"
        "assert 'llama_cpp' not in sys.modules and 'pace_local._native' not in sys.modules\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, env=environment())
    assert ended.returncode == 0, ended.stderr


def test_a_reader_that_goes_away(root: Path) -> None:
    story = Story(2)
    with StoredSession.create(root / "a", HEADER) as stored:
        for _ in range(40):
            story.read(3)
            stored.append(story.record())
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "pace_local.cli", "sessions", "show", "a", "--json"]
    ended = subprocess.run(
        words, stdout=writer, stderr=subprocess.PIPE, encoding="utf-8", timeout=PATIENCE, env=environment()
    )
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (1, "")
