"""The sandbox: each check apart, and nothing of the world outside can be used or changed."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from pace_local.errors import ConfigError
from pace_local.eval import sandbox, sandbox_child
from pace_local.eval.kernel_filter import ALLOWED, DECIDED_BY_COMMAND, OPENING, filter_program
from pace_local.eval.sandbox import Limits, Outcome, Run, run_checks

QUICK = Limits(seconds=20, cpu_seconds=1)
has_filter = pytest.mark.skipif(filter_program() is None, reason="no seccomp filter for this system")


def outcome(code: str, check: str = "assert ok", limits: Limits = QUICK) -> Outcome:
    return run_checks([code], [check], limits).outcomes[0]


def refused(code: str) -> bool:
    """Whether code is stopped by an error of the system's kind, so that it and the check can go on."""
    guarded = "try:\n" + "".join(f"    {line}\n" for line in code.splitlines())
    guarded += "    ok = 'done'\nexcept OSError:\n    ok = 'refused'\n"
    return outcome(guarded, "assert ok == 'refused', ok").passed


def test_every_check_is_reported_apart() -> None:
    checks = ["assert f(1) == 2", "assert f(1) == 3, f(1)", "assert g()", "assert f(2) == 3"]
    run = run_checks(["def f(x):\n    return x + 1\n"], checks)
    assert [each.passed for each in run.outcomes] == [True, False, False, True]
    assert run.outcomes[0].error is None
    assert run.outcomes[1].error == "AssertionError: 2"
    assert run.outcomes[2].error == "NameError: name 'g' is not defined"


def test_no_check_sees_what_another_did() -> None:
    run = run_checks(["seen = []"], ["seen.append(1)\nassert seen == [1]"] * 2)
    assert [each.passed for each in run.outcomes] == [True, True]


def test_blocks_run_in_order_in_one_module_and_one_that_fails_hides_no_other() -> None:
    blocks = ["RATE = 53", "raise ValueError('first')", "def f(x):\n    return RATE * x\n", "1 +"]
    run = run_checks(blocks, ["assert f(2) == 106", "assert f(2) == 0"])
    assert run.outcomes[0].passed
    assert run.outcomes[1].error == "AssertionError: (in the answer: ValueError: first)"


def test_the_module_is_a_real_one() -> None:
    code = (
        "from __future__ import annotations\nfrom dataclasses import dataclass\n"
        "@dataclass\nclass P:\n    x: int = 5\n"
        "if __name__ == '__main__':\n    raise SystemExit\n"
    )
    assert outcome(code, "assert P().x == 5") == Outcome(True, None)


@pytest.mark.parametrize("loop", ["while True:\n    pass", "while True:\n    print('x' * 1000)"])
def test_an_endless_loop_ends_and_leaves_the_other_checks_alone(loop: str) -> None:
    code = "def f(x):\n    if x == 2:\n" + "".join(f"        {line}\n" for line in loop.splitlines())
    run = run_checks([code + "    return x\n"], ["assert f(1) == 1", "f(2)", "assert f(3) == 3"], QUICK)
    assert [each.passed for each in run.outcomes] == [True, False, True]
    assert run.outcomes[1].error == "killed: CPU limit of 1 s reached"


def test_sleeping_ends_too() -> None:
    began = time.monotonic()
    result = outcome("import time\ntime.sleep(600)", limits=Limits(seconds=1))
    assert result == Outcome(False, "time limit of 1 s reached")
    assert time.monotonic() - began < 30


def test_a_process_that_closes_its_streams_and_runs_on_ends_too() -> None:
    code = "import os, time\nos.closerange(0, 64)\ntime.sleep(600)"
    result = outcome(code, limits=Limits(seconds=1))
    assert result == Outcome(False, "time limit of 1 s reached")


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS does not obey RLIMIT_AS")
def test_a_huge_allocation_is_refused() -> None:
    patient = Limits(seconds=60, cpu_seconds=30)
    assert outcome("", "x = bytearray(2**30)").error == "MemoryError:"
    assert outcome("", "x = []\nwhile True:\n    x.append(bytearray(2**24))", patient).error == "MemoryError:"
    assert outcome("", "x = bytearray(2**26)").passed


PROCESSES = [
    "import os\nos.fork()",
    "import os\nwhile True:\n    os.fork()",
    "import os\nos.system('true')",
    "import os\nos.execv('/bin/true', ['true'])",
    "import os\nos.posix_spawn('/bin/true', ['true'], {})",
    "import subprocess\nsubprocess.run(['true'])",
    "import multiprocessing\nmultiprocessing.Process(target=print).start()",
    "import os, signal\nos.kill(os.getppid(), 0)",
    "import fcntl, os\nfcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, os.getppid())",
    "import fcntl, termios\nfcntl.ioctl(0, termios.TIOCSTI, b'x')",
]
NETWORK = [
    "import socket\nsocket.socket()",
    "import socket\nsocket.socketpair()",
    "import socket\nsocket.create_connection(('127.0.0.1', 9))",
    "import socket\nsocket.getaddrinfo('localhost', 80)",
    "from urllib.request import urlopen\nurlopen('http://127.0.0.1:9/')",
]
FILES = [
    "open('new', 'w')",
    "open('new', 'xb')",
    "open({there!r}, 'a')",
    "open({there!r}, 'r+')",
    "import os\nos.open('new', os.O_WRONLY | os.O_CREAT)",
    "import os\nos.open({there!r}, os.O_RDWR)",
    "from pathlib import Path\nPath('new').write_text('x')",
    "from pathlib import Path\nPath('new').touch()",
    "import os\nos.remove({there!r})",
    "import os\nos.rename({there!r}, {there!r} + '2')",
    "import os\nos.truncate({there!r}, 0)",
    "import os\nos.chmod({there!r}, 0)",
    "import os\nos.utime({there!r}, (0, 0))",
    "import os\nos.mkdir('new')",
    "import os\nos.symlink({there!r}, 'new')",
    "import os\nos.link({there!r}, {there!r} + '2')",
    "import shutil\nshutil.rmtree({folder!r})",
    "import tempfile\ntempfile.mkstemp()",
    "import sqlite3\nsqlite3.connect('new.db').execute('create table t (x)')",
]


@pytest.fixture
def there(tmp_path: Path) -> Path:
    file = tmp_path / "kept" / "file.txt"
    file.parent.mkdir()
    file.write_text("as it was")
    os.utime(file, (10**9, 10**9))
    return file


@pytest.mark.parametrize("code", PROCESSES + NETWORK)
@pytest.mark.parametrize("layer", ["all", "audit"])
def test_processes_and_network_are_refused(code: str, layer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if layer == "audit":
        monkeypatch.setattr(sandbox, "filter_program", lambda: None)
    assert refused(code)


@pytest.mark.parametrize("code", FILES)
@pytest.mark.parametrize("layer", ["all", "audit"])
def test_files_cannot_be_changed(code: str, layer: str, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if layer == "audit":
        monkeypatch.setattr(sandbox, "filter_program", lambda: None)
    assert refused(code.format(there=str(there), folder=str(there.parent)))
    assert there.read_text() == "as it was"
    assert there.stat().st_mtime == 10**9
    assert there.stat().st_mode & 0o200
    assert [path.name for path in there.parent.parent.rglob("*")] == ["kept", "file.txt"]


KERNEL_REFUSES = """
import ctypes, errno, fcntl, os, socket, sys, termios, threading
refused, allowed = [], []
libc = ctypes.CDLL(None, use_errno=True)
def attempt_number(name, number):
    def call():
        if libc.syscall(ctypes.c_long(number), *[ctypes.c_long(0)] * 6) == -1:
            raise OSError(ctypes.get_errno(), name)
    attempt(name, call)
def attempt(name, call, errors=(OSError,)):
    try:
        call()
    except errors as error:
        said = getattr(error, "errno", None)
        (refused if said in (None, errno.EPERM, errno.ENOSYS) else allowed).append(name)
    else:
        allowed.append(name)
pid = os.getpid()
there = sys.argv[1]
attempt("fork", os.fork)
attempt("thread", threading.Thread(target=print).start, RuntimeError)
attempt("exec", lambda: os.execv("/bin/true", ["true"]))
attempt("socket", socket.socket)
attempt("socketpair", socket.socketpair)
attempt("kill", lambda: os.kill(os.getppid(), 0))
attempt("write", lambda: open(there, "w"))
attempt("append", lambda: os.open(there, os.O_WRONLY | os.O_APPEND))
attempt("truncate on opening", lambda: os.open(there, os.O_RDONLY | os.O_TRUNC))
attempt("create", lambda: os.open(there + "2", os.O_RDONLY | os.O_CREAT))
attempt("truncate", lambda: os.truncate(there, 0))
attempt("remove", lambda: os.remove(there))
attempt("rename", lambda: os.rename(there, there + "2"))
attempt("mkdir", lambda: os.mkdir(there + "3"))
attempt("rmdir", lambda: os.rmdir(os.path.dirname(there)))
attempt("link", lambda: os.link(there, there + "2"))
attempt("symlink", lambda: os.symlink(there, there + "2"))
attempt("fifo", lambda: os.mkfifo(there + "2"))
attempt("chmod", lambda: os.chmod(there, 0))
attempt("chown", lambda: os.chown(there, 1, 1))
attempt("utime", lambda: os.utime(there, (0, 0)))
attempt("xattr", lambda: os.setxattr(there, "user.x", b""))
attempt("raise a limit", lambda: resource.setrlimit(resource.RLIMIT_CPU, (5, 5)), (OSError, ValueError))
reading, (ours, other) = os.open(there, os.O_RDONLY), os.pipe()
for name, command, argument in (
    ("own a descriptor", fcntl.F_SETOWN, pid), ("own it, extended", 15, b"\\0" * 8),
    ("choose its signal", 10, 9), ("signal on input", fcntl.F_SETFL, os.O_ASYNC),
    ("lease", fcntl.F_SETLEASE, fcntl.F_RDLCK), ("lock", fcntl.F_SETLK, b"\\0" * 32),
):
    attempt(name, lambda: fcntl.fcntl(ours, command, argument))
attempt("flock", lambda: fcntl.flock(reading, fcntl.LOCK_EX))
for name, descriptor, command, argument in (
    ("signal on input, by ioctl", ours, 0x5452, b"\\1\\0\\0\\0"),
    ("attributes of a file", reading, 0x40086602, b"\\0" * 8), ("type a key", ours, termios.TIOCSTI, b"x"),
):
    attempt(name, lambda: fcntl.ioctl(descriptor, command, argument))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, pid, 0))
attempt("processors", lambda: os.sched_setaffinity(pid, os.sched_getaffinity(0)))
attempt("user", lambda: os.setuid(os.getuid()))
attempt("memory as a file", lambda: os.memfd_create("x"))
for name, number in others.items():
    attempt_number(name, number)
# What a calculation needs goes on as it was.
assert fcntl.fcntl(ours, fcntl.F_GETFL) == os.O_RDONLY and os.dup(ours) > ours
assert os.write(other, b"x") == 1 and os.read(ours, 1) == b"x" and not os.isatty(ours)
assert open(there).read() == "as it was"
print(allowed, len(refused))
"""
OTHERS = {
    "x86_64": {
        "process_vm_readv": 310, "kcmp": 312, "perf_event_open": 298, "userfaultfd": 323, "keyctl": 250,
        "open_by_handle_at": 304, "mq_open": 240, "shmget": 29, "semget": 64, "ioprio_set": 251,
        "sethostname": 170,
    },
    "aarch64": {
        "process_vm_readv": 270, "kcmp": 272, "perf_event_open": 241, "userfaultfd": 282, "keyctl": 219,
        "open_by_handle_at": 265, "mq_open": 180, "shmget": 194, "semget": 190, "ioprio_set": 30,
        "sethostname": 161,
    },
}  # fmt: skip
NEWER = {"io_uring_setup": 425, "open_tree": 428, "fsopen": 430, "pidfd_open": 434, "mount_setattr": 442}
"""The same on both."""


@has_filter
def test_the_kernel_refuses_what_the_interpreter_would_let_through(there: Path) -> None:
    """Without the audit hook, so that the filter stands alone; as root too."""
    others = OTHERS[platform.machine()] | NEWER
    script = (
        f"import importlib.util, resource, sys\nothers = {others}\n"
        f"spec = importlib.util.spec_from_file_location('child', {sandbox_child.__file__!r})\n"
        "child = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(child)\n"
        f"assert child._apply_filter(bytes.fromhex({filter_program().hex()!r}))\n{KERNEL_REFUSES}"  # type: ignore[union-attr]
    )
    ended = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(there)], capture_output=True, text=True, timeout=60
    )
    assert ended.stderr == ""
    assert ended.stdout.split() == ["[]", str(23 + 14 + len(others))]
    assert there.read_text() == "as it was"


@has_filter
@pytest.mark.parametrize("layer", ["all", "audit"])
def test_no_signal_reaches_another_process_by_way_of_a_pipe(
    layer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if layer == "audit":
        monkeypatch.setattr(sandbox, "filter_program", lambda: None)
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        outcome(
            "import fcntl, os\nours, end = os.pipe()\n"
            f"fcntl.fcntl(ours, fcntl.F_SETOWN, {other.pid})\nfcntl.fcntl(ours, 10, 9)\n"
            "fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC)\nos.write(end, b'x')\n"
        )
        other.communicate(b"\n", timeout=60)
    finally:
        other.kill()
    assert other.returncode == 0


HEADERS = (
    (0, (f"/usr/include/{folder}asm/unistd_64.h" for folder in ("x86_64-linux-gnu/", ""))),
    (1, ("/usr/include/asm-generic/unistd.h",)),
)


@pytest.mark.parametrize(("column", "headers"), HEADERS, ids=["x86_64", "aarch64"])
def test_calls_have_the_numbers_that_the_system_gives_them(column: int, headers: Iterable[str]) -> None:
    found = next((Path(header) for header in headers if Path(header).exists()), None)
    if found is None:
        pytest.skip("the headers of Linux are not here")
    defined = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", found.read_text()))
    if column == 1:
        defined["newfstatat"] = defined["fstatat"]
    for name, numbers in (ALLOWED | OPENING | DECIDED_BY_COMMAND).items():
        assert int(defined.get(name, -1)) == numbers[column], name


@has_filter
def test_a_fifo_has_no_audit_event_and_is_refused() -> None:
    assert refused("import os\nos.mkfifo('new')")


@has_filter
def test_nothing_is_missing_on_linux() -> None:
    assert run_checks(["x = 1"], ["assert x"]).missing == frozenset()


def test_what_the_system_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "filter_program", lambda: None)
    run = run_checks(["x = 1"], ["assert x"])
    assert run.outcomes == (Outcome(True, None),)
    assert "filter" in run.missing


def test_a_filter_that_the_kernel_does_not_take_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "filter_program", lambda: b"\xff" * 8)
    assert "filter" in run_checks(["x = 1"], ["assert x"]).missing


def test_there_is_no_filter_for_an_unknown_machine() -> None:
    assert filter_program("vax") is None
    known = [filter_program(machine) for machine in ("x86_64", "aarch64")]
    if sys.platform.startswith("linux"):
        assert all(program is not None and len(program) % 8 == 0 for program in known)
        assert known[0] != known[1]


def test_output_goes_nowhere(capfd: pytest.CaptureFixture[str]) -> None:
    code = "import sys\nprint('x' * 10**6)\nprint('y' * 10**6, file=sys.stderr)\nok = True"
    assert outcome(code) == Outcome(True, None)
    assert capfd.readouterr() == ("", "")


def test_a_long_error_is_cut() -> None:
    error = outcome("", "raise ValueError('x\\n' * 10**6)").error
    assert error is not None
    assert error.startswith("ValueError: x x x")
    assert len(error) <= 400
    assert "\n" not in error


def test_an_error_that_cannot_be_shown_is_named() -> None:
    code = "class Odd(Exception):\n    def __str__(self):\n        raise Odd\n"
    assert outcome(code, "raise Odd").error == "Odd"


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys\nsys.exit(0)", "NameError: name 'ok' is not defined (in the answer: SystemExit: 0)"),
        ("import os\nos._exit(0)", "ended by itself with status 0 before the check was done"),
        ("import os\nos._exit(3)", "ended by itself with status 3 before the check was done"),
        ('print(\'{"passed": true, "ticket": "x"}\')', "NameError: name 'ok' is not defined"),
    ],
)
def test_ending_early_is_not_passing(code: str, said: str) -> None:
    assert outcome(code) == Outcome(False, said)


@pytest.mark.parametrize(
    "lie", ['{"passed": true, "ticket": "x", "error": null, "missing": []}', "[]", "no JSON"]
)
def test_a_verdict_without_the_ticket_does_not_count(lie: str) -> None:
    code = (
        "import os\nfor i in range(3, 30):\n    try:\n        os.write(i, "
        f"{lie.encode()!r})\n    except OSError:\n        pass\nos._exit(0)\n"
    )
    result = outcome(code)
    assert not result.passed
    assert "before the check was done" in str(result.error)


def test_a_flood_on_the_report_is_cut() -> None:
    code = (
        "import os\ndef write(i):\n    try:\n        os.write(i, b'x' * 65536)\n    except OSError:\n"
        "        pass\nwhile True:\n    for i in range(3, 9):\n        write(i)\n"
    )
    assert outcome(code) == Outcome(False, "something other than a verdict was written in its place")


def test_a_crash_is_named() -> None:
    result = outcome("import os\nos.abort()")
    assert not result.passed
    assert str(result.error).startswith("ended by signal SIG")


def test_nothing_of_this_process_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PACE_TEST_SECRET", "x")
    code = "import os, sys\nfound = os.environ.get('PACE_TEST_SECRET')\npath = sys.path\n"
    assert outcome(code, "assert found is None") == Outcome(True, None)
    assert outcome(code, "assert not [p for p in path if 'site-packages' in p], path").passed
    assert outcome("", "import pace_local").error == "ModuleNotFoundError: No module named 'pace_local'"
    assert outcome("", "import os\nassert os.listdir() == []").passed


def test_the_library_can_be_used() -> None:
    code = "import re, math, json, decimal, datetime, collections, itertools, functools, typing, enum, string"
    assert outcome(f"{code}\nok = True") == Outcome(True, None)


def test_no_process_is_left() -> None:
    for limits in (QUICK, Limits(seconds=0.1)):
        outcome("ok = True", limits=limits)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_checks_can_run_in_threads() -> None:
    """A runner may grade while the model writes."""
    results: list[Run] = []
    threads = [
        threading.Thread(target=lambda i=i: results.append(run_checks([f"x = {i}"], [f"assert x == {i}"])))  # type: ignore[misc]
        for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [run.outcomes for run in results] == [(Outcome(True, None),)] * 4


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"seconds": 0}, "time limit of 0 s is out of range; use 0.1 to 600"),
        ({"cpu_seconds": 0}, "CPU limit of 0 s is out of range; use 1 to 600"),
        ({"memory": 1}, "memory limit of 1 bytes is out of range; use 128 MiB to 1 TiB"),
    ],
)
def test_limits_out_of_range_are_refused(settings: dict[str, int], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Limits(**settings)  # type: ignore[arg-type]
