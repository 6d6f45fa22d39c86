"""Reads a log line by line, up to the first that is not whole or not right.

A line is ``{"n":NUMBER,"crc":"CHECKSUM","record":{…}}``. Numbers count from 0. The checksum is the CRC-32 of
the record's bytes, continued from that of the line before, so that a line is right only behind those it was
written behind.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pace_local.json_fields import as_object
from pace_local.sessions.versions import Record, Versions

Take = Callable[[Record], object]
"""Gets each record in order; raises ValueError for one that does not fit, which ends the reading there."""

_LINE = re.compile(rb'\{"n":(0|[1-9][0-9]{0,15}),"crc":"([0-9a-f]{8})","record":(\{.*\})\}\n')


@dataclass
class Scan:
    """What a log holds, up to where it can be trusted."""

    version: int
    """In which it is written."""
    n_records: int = 0
    good_bytes: int = 0
    """Bytes of the lines that are whole and right."""
    checksum: int = 0
    """Of the last of them."""
    problem: str | None = None
    """Why the rest is left out, for people; None: there is no rest."""
    torn: bool = False
    """Whether the rest is one line that was never finished, as a killed process leaves it."""


def line_of(record: Record, number: int, checksum: int) -> tuple[bytes, int]:
    """A record as a line, and its checksum.

    Args:
        record: plain values; numbers are finite.
        number: of the line, from 0.
        checksum: of the line before; 0 for the first.

    Raises:
        TypeError, ValueError: if the record holds what JSON has no form for.
    """
    # In ASCII, so that any text can be written, also half of a surrogate pair.
    body = json.dumps(record, separators=(",", ":"), allow_nan=False).encode("ascii")
    checksum = zlib.crc32(body, checksum)
    return b'{"n":%d,"crc":"%08x","record":%b}\n' % (number, checksum, body), checksum


def scan(lines: Iterable[bytes], take: Take, versions: Versions) -> Scan:
    """Read lines and hand their records on, up to the first that is not whole or right.

    Args:
        lines: of a log, from the first on, with their ends.
        take: gets records in the newest version's form.
        versions: which can be read.

    Raises:
        ValueError: if there is no header that can be read.
    """
    found: Scan | None = None
    for line in lines:
        if found is not None and found.problem is not None:
            break
        number, before = (found.n_records, found.checksum) if found is not None else (0, 0)
        try:
            record, checksum = _record(line, number, before)
            if found is None:
                found = Scan(_version(record, versions))
            take(versions.upgraded(record, found.version))
        except ValueError as error:
            if found is None or number == 0:
                raise ValueError(f"line 1: {error}") from None
            # Only the last line of a file can lack its end.
            found.torn = not line.endswith(b"\n")
            rest = "it is" if found.torn else "it and what follows are"
            found.problem = f"line {number + 1}: {error}; {rest} left out"
        else:
            found.n_records, found.checksum = number + 1, checksum
            found.good_bytes += len(line)
    if found is None:
        raise ValueError("it is empty")
    return found


def _version(record: Record, versions: Versions) -> int:
    if record.get("type") != "header":
        raise ValueError("it is not the header of a session")
    return versions.of(record)


def _record(line: bytes, number: int, before: int) -> tuple[dict[str, Any], int]:
    if not line.endswith(b"\n"):
        raise ValueError("it was never finished")
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError("it is no line of a session's log")
    count, checksum, body = int(match[1]), int(match[2], 16), match[3]
    if count != number:
        raise ValueError(f"it has the number {count} instead of {number}")
    if zlib.crc32(body, before) != checksum:
        raise ValueError("its checksum is wrong")
    try:
        return dict(as_object(json.loads(body))), checksum
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
