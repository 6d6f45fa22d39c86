"""Sessions on disk: a folder each, with a log, a lock, and blocks of keys and values."""

from __future__ import annotations

from pace_local.sessions.folder import (
    SESSIONS_DIR_VARIABLE,
    kv_folder,
    lock_path,
    log_path,
    make_folder,
    remove_session,
    session_folder,
    sessions_root,
)
from pace_local.sessions.lock import Holder, SessionInUseError, SessionLock, holder_of
from pace_local.sessions.log import LogContents, SessionLog
from pace_local.sessions.packing import (
    decode_ranges,
    decode_runs,
    encode_ranges,
    encode_runs,
    pack_array,
    unpack_array,
)
from pace_local.sessions.records import Header, StoredSegment, TurnRecord, record_of
from pace_local.sessions.state import SessionState, state_of
from pace_local.sessions.stored import StoredSession
from pace_local.sessions.summary import SessionSummary, list_sessions, summarize
from pace_local.sessions.versions import FORMAT

__all__ = [
    "FORMAT",
    "SESSIONS_DIR_VARIABLE",
    "Header",
    "Holder",
    "LogContents",
    "SessionInUseError",
    "SessionLock",
    "SessionLog",
    "SessionState",
    "SessionSummary",
    "StoredSegment",
    "StoredSession",
    "TurnRecord",
    "decode_ranges",
    "decode_runs",
    "encode_ranges",
    "encode_runs",
    "holder_of",
    "kv_folder",
    "list_sessions",
    "lock_path",
    "log_path",
    "make_folder",
    "pack_array",
    "record_of",
    "remove_session",
    "session_folder",
    "sessions_root",
    "state_of",
    "summarize",
    "unpack_array",
]
