"""Sessions on disk: what comes back is what was there, bit for bit, and nothing is decoded for it."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from session_pair import QUICK, TALKER, tiny_session

from pace_local import Model, Plan, Session, Step, events
from pace_local.engine import Engine
from pace_local.errors import ConfigError, FileError, StorageError
from pace_local.policies import POLICIES, policy_named
from pace_local.recall.piece_files import PieceFiles
from pace_local.sessions import SessionInUseError, kv_folder, log_path, state_of
from pace_local.sessions.log_file import LogFile
from pace_local.testing import TinySpec

TEXT = "return the self and other "
WINDOWED = {name for name in POLICIES if policy_named(name).looks_at_steps}
"""Their steps start anew."""


@pytest.fixture(scope="module")
def model(load_tiny: Callable[[TinySpec], Model]) -> Model:
    return load_tiny(TALKER)


def answer(session: Session, prompt: str, tokens: int = 8) -> str:
    return "".join(event.text for event in session.generate(prompt, max_tokens=tokens))


def begin(model: Model, folder: Path, **settings: Any) -> Session:
    session = tiny_session(model, folder=folder, **settings)
    session.append("be brief", kind="system")
    for number in range(3):
        session.append(f"the RATE is {number}3", name=f"spec:{number}")
    session.plan = Plan([Step("x", reads=["spec:1"]), Step("y", reads=["spec:0"])])
    answer(session, TEXT)
    return session


def go_on(session: Session) -> tuple[list[str], bytes, list[int], list[int], list[int]]:
    said = []
    for number in range(3):
        said.append(answer(session, f"{TEXT}{number}"))
        session.plan = Plan([Step("x", reads=[f"spec:{number}"])])
        session.append(f"{number} x y z" * 4)
    residents = session.residents
    return (
        said, session.engine.logits().tobytes(), residents.position.tolist(),
        residents.token_index.tolist(), list(session.tokens),
    )  # fmt: skip


def copy_of(session: Session, folder: Path) -> Path:
    """The folder as a process that is killed now would leave it, but for what is still being written."""
    shutil.copytree(session.save(), folder)
    (folder / "lock").unlink()
    return folder


def rows(session: Session) -> list[bytes]:
    cache = session.engine.cache
    assert cache is not None
    layers = range(session.engine.capabilities.n_layers)
    return [cache.read_rows(kind, layer).tobytes() for kind in ("key", "value") for layer in layers]


def cached(session: Session) -> Any:
    """All keys and values, shape [2 * n_layers, n_residents, width]."""
    parts = [np.frombuffer(part, dtype=np.float32) for part in rows(session)]
    return np.stack(parts).reshape(len(parts), session.n_residents, -1)


@pytest.mark.parametrize("policy", sorted(POLICIES.keys() - {"merge"} - WINDOWED))
def test_an_opened_session_goes_on_as_the_first_would(model: Model, tmp_path: Path, policy: str) -> None:
    settings = {"budget": 400, "position_cap": 1000} if policy == "none" else {}
    with begin(model, tmp_path / "first", policy=policy, **settings) as first:
        copy_of(first, tmp_path / "second")
        before, residents = rows(first), first.residents.token_index.tolist()
        with Session.open(model, tmp_path / "second") as second:
            assert second.residents.token_index.tolist() == residents
            assert rows(second) == before
            assert second.plan == first.plan
            assert [*second.segments] == [*first.segments]
            assert second.stats.evicted_in_session == first.stats.evicted_in_session
            second.check()
            assert go_on(second) == go_on(first)


@pytest.mark.parametrize(
    "settings",
    [
        {"key_type": "q8_0", "value_type": "q8_0"},
        {"key_type": "f32", "value_type": "f32"},
        {"flash_attn": False},
        {"observe": True},
        {"policy": "pace_hybrid", "policy_options": {"alpha": 2.0}},
    ],
    ids=str,
)
def test_whatever_the_cache_is_like(
    load_tiny: Callable[[TinySpec], Model], tmp_path: Path, settings: dict[str, Any]
) -> None:
    model = load_tiny(replace(QUICK, head_dim=64, speech="text"))
    with begin(model, tmp_path / "first", **settings) as first:
        copy_of(first, tmp_path / "second")
        with Session.open(model, tmp_path / "second") as second:
            assert second.config == first.config
            assert go_on(second) == go_on(first)


def test_opening_decodes_nothing(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(model, tmp_path / "it").close()
    decoded: list[int] = []
    decode = Engine.decode

    def counting(engine: Engine, tokens: Any, position: int) -> None:
        decoded.append(len(tokens))
        decode(engine, tokens, position)

    monkeypatch.setattr(Engine, "decode", counting)
    heard: list[events.Event] = []
    with Session.open(model, tmp_path / "it", listener=heard.append) as session:
        assert session.n_residents > 50
        assert not decoded
        assert not heard
        answer(session, "go on", 2)
    assert decoded


def test_what_was_evicted_can_be_recalled_after_opening(model: Model, tmp_path: Path) -> None:
    with begin(model, tmp_path / "it", policy="pace") as session:
        session.plan = Plan()
        for _ in range(5):
            session.append(TEXT * 2)
        gone = session.segments.named("spec:2")
        assert not np.any(session.residents.segment == gone.id)
    heard: list[events.Event] = []
    with Session.open(model, tmp_path / "it", listener=heard.append) as session:
        session.recall("spec:2")
        assert np.count_nonzero(session.residents.segment == gone.id) == len(gone)
    (recalled,) = [event for event in heard if isinstance(event, events.Recalled)]
    assert recalled.means == "spliced"


def test_saving_later_and_pins_and_undo(model: Model, tmp_path: Path) -> None:
    with tiny_session(model) as session:
        session.append("be brief", kind="system")
        session.append("the RATE is 53", name="spec")
        with pytest.raises(ConfigError, match="not kept on disk yet"):
            session.save()
        folder = session.save(tmp_path / "it")
        assert folder == tmp_path / "it"
        assert state_of(folder).tokens == session.tokens
        with pytest.raises(ConfigError, match=r"kept in .* already"):
            session.save(tmp_path / "other")
        checkpoint = session.checkpoint()
        session.pin("spec")
        answer(session, TEXT * 2)
        assert state_of(folder).tokens == session.tokens
        assert [stored.segment.name for stored in state_of(folder).pinned][-1] == "spec"
        session.restore(checkpoint)
        assert state_of(folder).tokens == session.tokens
        assert "spec" not in [stored.segment.name for stored in state_of(folder).pinned]
        kept, residents = list(session.segments), session.residents.token_index.tolist()
    with Session.open(model, tmp_path / "it") as session:
        assert list(session.segments) == kept
        assert session.residents.token_index.tolist() == residents


def test_a_turn_that_fails_is_not_there(model: Model, tmp_path: Path) -> None:
    with begin(model, tmp_path / "it") as session:
        tokens = list(session.tokens)

        def cancel(event: events.Event) -> None:
            if isinstance(event, events.Progress) and event.done > 32:
                session.cancel()

        session._listener = cancel
        with pytest.raises(Exception, match="cancelled"):
            session.append(TEXT * 20)
        session._listener = None
        assert list(session.tokens) == tokens
        residents = session.residents.token_index.tolist()
    with Session.open(model, tmp_path / "it") as session:
        assert list(session.tokens) == tokens
        assert session.residents.token_index.tolist() == residents
        session.check()


def test_one_process_at_a_time(model: Model, tmp_path: Path) -> None:
    with begin(model, tmp_path / "it"):
        script = f"""
            from pace_local.sessions import SessionInUseError, StoredSession
            try:
                StoredSession.open(__import__("pathlib").Path({str(tmp_path / "it")!r}))
            except SessionInUseError as error:
                print(error)
        """
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60
        )
        assert "is in use" in done.stdout, done.stderr
        with pytest.raises(SessionInUseError):
            Session.open(model, tmp_path / "it")
    Session.open(model, tmp_path / "it").close()


def test_what_cannot_be_kept_or_opened(model: Model, tmp_path: Path, load_tiny: Any) -> None:
    with pytest.raises(FileError, match="no session"):
        Session.open(model, tmp_path / "none")
    begin(model, tmp_path / "it").close()
    with pytest.raises(FileError):
        tiny_session(model, folder=tmp_path / "it")
    with pytest.raises(ConfigError, match="merges what it evicts"):
        tiny_session(model, policy="merge", folder=tmp_path / "merged")
    with pytest.raises(ConfigError, match="disk bytes is 0"):
        tiny_session(model, disk_bytes=0, folder=tmp_path / "nowhere")
    other = load_tiny(replace(TALKER, n_ff=32))
    with pytest.raises(ConfigError, match="another file than"):
        Session.open(other, tmp_path / "it")
    Session.open(model, tmp_path / "it").close()  # all that was refused has let go of it


def spoil(piece: Path) -> None:
    content = bytearray(piece.read_bytes())
    content[-100] ^= 1
    piece.write_bytes(content)


@pytest.mark.parametrize("policy", ["pace", "pace_focus"])
@pytest.mark.parametrize("damage", [spoil, Path.unlink], ids=["broken", "missing"])
def test_lost_keys_and_values_are_computed_again(
    model: Model, tmp_path: Path, damage: Callable[[Path], Any], policy: str
) -> None:
    """To the bit: isolated segments in isolation, and others in the batches in which they were read first.

    An answer was written token by token and is read at once now; of it, and of what saw it, sums may differ.
    """
    settings = {"budget": 1024, "position_cap": 2048, "key_type": "f32", "value_type": "f32"}
    with tiny_session(model, folder=tmp_path / "it", policy=policy, **settings) as session:
        session.append("be brief", kind="system")
        for number in range(3):
            session.append(f"the RATE is {number}3", name=f"spec:{number}")
        answer(session, TEXT)
        session.append("the REGION is north", name="last")
        session.save()
        tokens, residents, before = list(session.tokens), session.residents, cached(session)
        assert len(residents) == len(tokens)
        (written,) = [segment.start for segment in session.segments if segment.kind == "answer"]
        alone = np.isin(residents.segment, [segment.id for segment in session.segments if segment.isolated])
    assert alone.any() == (policy == "pace_focus")
    pieces = np.unique(residents.piece[alone] if alone.any() else residents.piece[residents.token_index > 30])
    assert len(pieces) > 1
    for piece in pieces.tolist():
        (file,) = kv_folder(tmp_path / "it").glob(f"piece-{piece:012d}*")
        damage(file)
    heard: list[events.Event] = []
    with Session.open(model, tmp_path / "it", listener=heard.append) as session:
        assert list(session.tokens) == tokens
        assert np.array_equal(session.residents.token_index, residents.token_index)
        assert np.array_equal(session.residents.position, residents.position)
        session.check()
        now = cached(session)
    (rebuilt,) = [event for event in heard if isinstance(event, events.Rebuilt)]
    assert rebuilt.residents == np.count_nonzero(np.isin(residents.piece, pieces))
    exact = alone | (residents.token_index < written)
    assert np.array_equal(now[:, exact], before[:, exact])
    largest = np.abs(now - before).max()
    print(f"largest difference {largest:.1e}")
    # Activations are rounded to the weights' f16 before they are multiplied: some to the other neighbour.
    assert largest <= 2**-10 * np.abs(before).max()


def test_pieces_of_another_build_are_computed_again(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(model, tmp_path / "it").close()
    monkeypatch.setattr("pace_local.engine._build_digest", lambda: b"\1" * 32)
    heard: list[events.Event] = []
    with Session.open(model, tmp_path / "it", listener=heard.append) as session:
        (rebuilt,) = [event for event in heard if isinstance(event, events.Rebuilt)]
        assert rebuilt.residents == session.n_residents
        session.check()
        answer(session, "go on")


def test_a_disk_that_fails_is_said(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the session goes on once it works again."""
    with begin(model, tmp_path / "it") as session:
        disk = session._disk
        assert disk is not None
        append = disk.stored.append

        def full(*_: Any, **__: Any) -> None:
            raise StorageError("no room on the disk")

        disk.stored.append = full  # type: ignore[method-assign]
        with pytest.raises(StorageError, match="no room"):
            session.append("one more")
        disk.stored.append = append  # type: ignore[method-assign]
        session.append("and another")
        tokens = list(session.tokens)
    with Session.open(model, tmp_path / "it") as session:
        assert list(session.tokens) == tokens


def test_a_long_session_writes_little_a_turn(model: Model, tmp_path: Path) -> None:
    """What a turn adds to the log does not grow with the session."""
    with begin(model, tmp_path / "it") as session:
        log = log_path(tmp_path / "it")
        sizes = []
        for _ in range(40):
            before = log.stat().st_size
            session.append("one more turn")
            sizes.append(log.stat().st_size - before)
        assert max(sizes[20:]) <= 1.5 * max(sizes[:20])


def test_closing_twice_and_in_the_midst_of_an_answer(model: Model, tmp_path: Path) -> None:
    """Either way the folder is free, and what was completed is there."""
    session = begin(model, tmp_path / "it")
    session.close()
    session.close()
    session = Session.open(model, tmp_path / "it")
    tokens = list(session.tokens)
    stream = session.generate("go on", max_tokens=20)
    next(stream)
    session.close()
    with Session.open(model, tmp_path / "it") as again:
        assert list(again.tokens)[: len(tokens)] == tokens
        again.check()
    stream.close()


def test_a_turn_that_cannot_be_written_can_be_tried_again(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with begin(model, tmp_path / "kept") as session:
        assert session._disk is not None
        length, names = session.session_length, [segment.name for segment in session.segments]

        def full(record: Any, *, sync: bool) -> None:
            raise StorageError("no room on the disk")

        with monkeypatch.context() as patch:
            patch.setattr(session._disk.stored, "append", full)
            with pytest.raises(StorageError, match="no room"):
                session.append("the only copy", name="copy")
            with pytest.raises(StorageError, match="no room"):
                session.write(model.tokenize("it is"), prompt="say it", name="copy")
            assert session.session_length == length
            assert [segment.name for segment in session.segments] == names
            session.check()
        session.append("the only copy", name="copy")
        tokens = list(session.tokens)
    with Session.open(model, tmp_path / "kept") as session:
        assert list(session.tokens) == tokens
        assert [segment.name for segment in session.segments if "copy" in segment.name] == ["copy"]


def test_what_took_the_place_of_a_text_is_forgotten_on_disk_too(model: Model, tmp_path: Path) -> None:
    settings = {"policy": "pace_focus", "means": "reread", "budget": 384, "position_cap": 1024}
    with tiny_session(model, folder=tmp_path / "kept", **settings) as session:
        session.append("be brief", kind="system")
        own = session.append("class Orders: RATE = 53", name="spec", kind="file")
        checkpoint = session.checkpoint()
        session.plan = Plan([Step("write orders", reads=["spec"])])
        answer(session, "write it")
        assert session.segments.named("spec").id != own.id
        session.restore(checkpoint)
        for name in ("one", "two", "three"):
            session.append(f"another text, {name}", name=name, kind="file")
    with Session.open(model, tmp_path / "kept") as session:
        assert session.segments.named("spec").id == own.id


def test_isolated_texts_behind_a_broken_piece_do_not_count_as_isolated(model: Model, tmp_path: Path) -> None:
    settings = {"policy": "pace_focus", "budget": 384, "position_cap": 1024}

    def values(session: Session) -> Any:
        assert session.engine.cache is not None
        at = session.residents.segment == session.segments.named("spec").id
        return session.engine.cache.read_rows("value", 1)[at]

    with tiny_session(model, folder=tmp_path / "kept", **settings) as session:
        session.append("be brief", kind="system")
        talk = session.append("tell me of the ships", kind="user")
        session.append("class Orders: RATE = 53", name="spec", kind="file")
        expected = values(session)
        (piece,) = np.unique(session.residents.piece[session.residents.segment == talk.id]).tolist()
    (file,) = kv_folder(tmp_path / "kept").glob(f"piece-{piece:012d}*")
    broken = bytearray(file.read_bytes())
    broken[-1] ^= 1
    file.write_bytes(broken)
    with Session.open(model, tmp_path / "kept") as session:
        assert not np.array_equal(values(session), expected), "it was computed among the others"
        session.evict("spec")
        session.recall("spec")
        assert np.array_equal(values(session), expected)


def kept_files(folder: Path) -> list[str]:
    return sorted(path.name for path in kv_folder(folder).glob("*.kept.kv"))


@pytest.mark.parametrize("policy", ["pace", "pace_focus", "pace_hybrid"])
def test_opening_and_closing_writes_nothing(model: Model, tmp_path: Path, policy: str) -> None:
    begin(model, tmp_path / "it", policy=policy).close()
    size, kept = log_path(tmp_path / "it").stat().st_size, kept_files(tmp_path / "it")
    Session.open(model, tmp_path / "it").close()
    assert log_path(tmp_path / "it").stat().st_size == size
    assert kept_files(tmp_path / "it") == kept


@pytest.mark.parametrize("policy", ["pace", "pace_focus"])
def test_pieces_that_leave_right_after_opening_are_kept_no_longer(
    model: Model, tmp_path: Path, policy: str
) -> None:
    """They stayed marked as kept for good, beyond the budget of the disk, and more with each opening."""
    begin(model, tmp_path / "it", policy=policy).close()
    for _ in range(2):
        with Session.open(model, tmp_path / "it") as session:
            session.append(TEXT * 20)
            residents = {piece for piece in session.residents.piece.tolist() if piece >= 0}
        assert kept_files(tmp_path / "it") == [f"piece-{piece:012d}.kept.kv" for piece in sorted(residents)]


@pytest.mark.parametrize(
    "settings",
    [{"policy": "pace_focus", "observe": True}, {"policy": "pace_hybrid", "isolate": True}],
    ids=str,
)
def test_a_text_that_was_resident_in_part_is_computed_again_whole(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    """There are other residents then than attention was written down for: the session could not be opened."""
    with begin(model, tmp_path / "it", **settings) as session:
        file = session.append("the LIMIT is 1200 and the REGION north", name="file", kind="file")
        while np.count_nonzero(session.residents.segment == file.id) == len(file):
            session.append("and so on")
        assert np.any(session.residents.segment == file.id)
        before, attention = session.residents.token_index.copy(), session._cache.attention_state()
        assert attention is not None
    monkeypatch.setattr("pace_local.engine._build_digest", lambda: b"\1" * 32)
    with Session.open(model, tmp_path / "it") as session:
        session.check()
        assert session.n_residents != len(before)
        now = session._cache.attention_state()
        assert now is not None
        _, old, new = np.intersect1d(before, session.residents.token_index, return_indices=True)
        assert len(old) > len(before) // 2
        for was, is_ in zip(attention, now, strict=True):
            assert np.array_equal(was[old], is_[new], equal_nan=True)
        answer(session, "go on")


def no_room(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_disk_with_room_for_the_log_alone_keeps_the_turns(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys and values can be computed again; that they could not be written stopped the log as well."""
    with begin(model, tmp_path / "it") as session:
        session.save()
        assert session._disk is not None
        append, store = session._disk.stored.append, session._memory.store

        def looking(*record: Any, **settings: Any) -> None:
            assert not number or not store.stats.waiting_bytes, "what is half written takes the log's room"
            append(*record, **settings)

        with monkeypatch.context() as patch:
            patch.setattr(PieceFiles, "write_draft", no_room)
            patch.setattr(session._disk.stored, "append", looking)
            for number in range(3):
                session.append(f"turn {number}")
                session.write(model.tokenize("it is"))
                store.settle()
            assert state_of(tmp_path / "it").tokens == session.tokens
            shutil.copytree(tmp_path / "it", tmp_path / "killed")
            (tmp_path / "killed" / "lock").unlink()
            with pytest.raises(StorageError, match=r"could not be written .* No space left on device"):
                session.save()
        session.save()
        tokens, residents = list(session.tokens), session.residents.token_index.tolist()
    for name, rebuilds in (("killed", True), ("it", False)):
        heard: list[events.Event] = []
        with Session.open(model, tmp_path / name, listener=heard.append) as session:
            assert list(session.tokens) == tokens
            assert session.residents.token_index.tolist() == residents
            assert any(isinstance(event, events.Rebuilt) for event in heard) == rebuilds
            session.check()


@pytest.mark.parametrize("is_full", [False, True], ids=["room again", "full"])
def test_closing_writes_what_could_not_be_written_as_an_answer_was_left(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_full: bool
) -> None:
    """Leaving the loop hides that the answer could not be written; nothing tried again, or said so."""
    session = begin(model, tmp_path / "it")
    assert session._disk is not None
    with monkeypatch.context() as patch:
        patch.setattr(LogFile, "write", no_room)
        stream = session.generate("go on", max_tokens=20)
        next(stream)
        stream.close()  # type: ignore[attr-defined]
        length = session.session_length
        if is_full:
            with pytest.raises(StorageError, match="No space left on device"):
                session.close()
    session.close()
    with Session.open(model, tmp_path / "it") as again:
        assert (again.session_length == length) != is_full
