"""What a sandboxed process runs: it confines itself, then runs one answer and one check.

Started as a script by :mod:`pace_local.eval.sandbox`, with nothing of this package on its path. The job
comes as JSON on standard input; one JSON line goes to standard output. What the answer prints goes nowhere.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import types
from typing import Any

_REFUSED_EVENTS = (
    "ctypes.", "fcntl.", "ftplib.", "http.client.", "imaplib.", "os.add_dll_directory", "os.chflags",
    "os.chmod", "os.chown", "os.exec", "os.fork", "os.forkpty", "os.kill", "os.killpg", "os.link", "os.lockf",
    "os.mkdir", "os.posix_spawn", "os.remove", "os.removexattr", "os.rename", "os.rmdir", "os.setxattr",
    "os.spawn", "os.startfile", "os.symlink", "os.system", "os.truncate", "os.utime", "pty.spawn",
    "resource.", "shutil.", "signal.pthread_kill", "smtplib.", "socket.", "sqlite3.", "subprocess.Popen",
    "syslog.", "tempfile.", "urllib.Request", "webbrowser.open",
)  # fmt: skip
_REFUSED_IMPORTS = ("ctypes", "_ctypes", "_posixsubprocess", "multiprocessing")
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_LONGEST_ERROR = 400


def _limit(kinds: dict[str, int | None], missing: list[str]) -> None:
    """Set limits of the system; what it lacks is named in ``missing``."""
    for name, limit in kinds.items():
        kind = getattr(resource, name, None)
        try:
            if kind is None or limit is None:
                raise OSError(name)
            hard = resource.getrlimit(kind)[1]
            value = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.setrlimit(kind, (value, value))
            if sys.platform == "darwin" and name == "RLIMIT_AS":
                raise OSError(name)  # it can be set there, and is not obeyed
        except (OSError, ValueError):
            missing.append(name)


def _apply_filter(program: bytes) -> bool:
    """Give the system calls of this process a seccomp filter; whether that worked."""
    try:
        import ctypes

        class Program(ctypes.Structure):
            _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))

        libc = ctypes.CDLL(None, use_errno=True)
        no_new_privileges, set_seccomp, mode_filter = 38, 22, 2
        code = Program(len(program) // 8, program)
        zero, one = ctypes.c_ulong(0), ctypes.c_ulong(1)
        if libc.prctl(no_new_privileges, one, zero, zero, zero) != 0:
            return False
        return bool(libc.prctl(set_seccomp, ctypes.c_ulong(mode_filter), ctypes.byref(code), zero, zero) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse what changes the world outside this process. Cannot be removed again."""
    if event == "open":
        mode, flags = arguments[1], arguments[2]
        if (isinstance(mode, str) and set(mode) & set("wax+")) or (
            isinstance(flags, int) and flags & _WRITE_FLAGS
        ):
            raise PermissionError("writing files is refused here")
    elif event == "import":
        if arguments[0].partition(".")[0] in _REFUSED_IMPORTS:
            raise PermissionError(f"importing {arguments[0]} is refused here")
    elif event.startswith(_REFUSED_EVENTS):
        raise PermissionError(f"{event} is refused here")


def _said(error: BaseException) -> str:
    try:
        text = f"{type(error).__name__}: {error}"
    except BaseException:  # an answer's own exception class can fail in any way
        text = type(error).__name__
    return " ".join(text.split())[:_LONGEST_ERROR]


def _verdict(blocks: list[str], check: str) -> tuple[bool, str | None]:
    """Run blocks in one module, then the check; the error of a block shows where the check fails."""
    module = types.ModuleType("answer")
    sys.modules["answer"] = module  # dataclasses look their module up
    in_block = None
    for block in blocks:
        try:
            exec(compile(block, "<answer>", "exec"), module.__dict__)
        except BaseException as error:  # SystemExit too: a script's end is not the end of the check
            in_block = in_block or f"in the answer: {_said(error)}"
    try:
        exec(compile(check, "<check>", "exec"), dict(module.__dict__))
    except BaseException as error:
        return False, f"{_said(error)} ({in_block})" if in_block else _said(error)
    return True, None


def main() -> None:
    """Read a job, confine this process, run it, and write its verdict."""
    job = json.load(sys.stdin)
    missing: list[str] = []
    report = os.dup(1)
    os.set_inheritable(report, False)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    _limit(job["limits"], missing)
    if job["filter"] is None or not _apply_filter(bytes.fromhex(job["filter"])):
        missing.append("filter")
    sys.addaudithook(_audit)
    passed, error = _verdict(job["blocks"], job["check"])
    verdict = {"ticket": job["ticket"], "passed": passed, "error": error, "missing": missing}
    os.write(report, json.dumps(verdict).encode())
    os._exit(0)  # whatever the answer left behind must not run on


if __name__ == "__main__":
    main()
