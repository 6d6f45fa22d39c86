"""A seccomp filter of Linux: a process that applies it can only do what a calculation in Python needs,
whatever user it runs as.

It needs no privileges, and cannot be taken off. Calls on the list go on as they were; all others fail with
EPERM, and those that are newer than the list with ENOSYS, upon which a library goes back to what it did
before. The list names calls, with their numbers on the two architectures that it knows (asm/unistd_64.h of
x86-64, and the generic table of aarch64), that change nothing but the process itself: no file, no other
process, no terminal, nothing of the system. Of the four that can do both, the arguments decide.
"""

from __future__ import annotations

import errno
import os
import platform
import struct
import sys

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Machine -> column in the tables below, and its AUDIT_ARCH value."""

ALLOWED: dict[str, tuple[int, int]] = {
    # its memory
    "brk": (12, 214), "mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216), "mprotect": (10, 226),
    "madvise": (28, 233),
    # its descriptors
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "lseek": (8, 62), "pread64": (17, 67),
    "readv": (19, 65), "writev": (20, 66), "preadv": (295, 69), "preadv2": (327, 286), "dup": (32, 23),
    "dup2": (33, -1), "dup3": (292, 24), "pipe": (22, -1), "pipe2": (293, 59), "close_range": (436, 436),
    "poll": (7, -1), "ppoll": (271, 73), "select": (23, -1), "pselect6": (270, 72), "epoll_create": (213, -1),
    "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, -1), "epoll_pwait": (281, 22),
    "epoll_pwait2": (441, 441),
    # what is known of files
    "stat": (4, -1), "fstat": (5, 80), "lstat": (6, -1), "newfstatat": (262, 79), "statx": (332, 291),
    "access": (21, -1), "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, -1),
    "readlinkat": (267, 78), "getdents": (78, -1), "getdents64": (217, 61), "statfs": (137, 43),
    "fstatfs": (138, 44), "getxattr": (191, 8), "lgetxattr": (192, 9), "fgetxattr": (193, 10),
    "listxattr": (194, 11), "llistxattr": (195, 12), "flistxattr": (196, 13), "getcwd": (79, 17),
    "chdir": (80, 49), "fchdir": (81, 50), "umask": (95, 166),
    # time
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, -1), "times": (100, 153),
    "alarm": (37, -1), "getitimer": (36, 102), "setitimer": (38, 103),
    # signals that come to it
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139),
    "rt_sigpending": (127, 136), "rt_sigsuspend": (130, 133), "rt_sigtimedwait": (128, 137),
    "sigaltstack": (131, 132), "pause": (34, -1), "restart_syscall": (219, 128),
    # itself
    "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178), "getuid": (102, 174),
    "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177), "getresuid": (118, 148),
    "getresgid": (120, 150), "getgroups": (115, 158), "getpgrp": (111, -1), "getpgid": (121, 155),
    "getsid": (124, 156), "getrusage": (98, 165), "getrlimit": (97, 163), "wait4": (61, 260),
    "waitid": (247, 95), "exit": (60, 93), "exit_group": (231, 94),
    # its one thread
    "futex": (202, 98), "set_robust_list": (273, 99), "set_tid_address": (218, 96), "rseq": (334, 293),
    "sched_yield": (24, 124), "sched_getaffinity": (204, 123), "getcpu": (309, 168),
    # the machine
    "uname": (63, 160), "sysinfo": (99, 179), "getrandom": (318, 278),
}  # fmt: skip
"""Calls that are allowed whatever their arguments; -1 where an architecture has none."""

OPENING = {"open": (2, -1), "openat": (257, 56)}
"""Allowed for reading alone."""

DECIDED_BY_COMMAND = {"ioctl": (16, 29), "fcntl": (72, 25)}
"""Allowed with some commands alone. Others type into terminals, change what a file system keeps of a file, or
have signals sent: F_SETOWN names who gets them, and so does F_SETFL with O_ASYNC on a terminal."""

_COMMANDS = {
    # TCGETS TCGETS2 FIONCLEX FIOCLEX
    "ioctl": (0x5401, 0x802C542A, 0x5450, 0x5451),
    # F_DUPFD F_GETFD F_SETFD F_GETFL F_DUPFD_CLOEXEC
    "fcntl": (0, 1, 2, 3, 1030),
}
_FLAGS_ARGUMENT = {"open": 1, "openat": 2}
_COMMAND_ARGUMENT = 1
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_LOAD, _EQUAL, _GREATER, _ANY_BIT, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06
_ALLOW, _REFUSE, _UNKNOWN = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS

_Instruction = tuple[int, int, int, int]


def filter_program(machine: str | None = None) -> bytes | None:
    """The filter as classic BPF: eight bytes an instruction, in the machine's byte order.

    Args:
        machine: as ``platform.machine()`` names it; None: this one.

    Returns:
        None where there is no such filter: not Linux, another architecture, a 32-bit Python.
    """
    machine = machine or platform.machine()
    if not sys.platform.startswith("linux") or machine not in _ARCHITECTURES or sys.maxsize < 2**32:
        return None
    column, architecture = _ARCHITECTURES[machine]
    program: list[_Instruction] = [
        (_LOAD, 0, 0, 4),  # the architecture of the call
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, 0),  # the number of the call
    ]
    for numbers in ALLOWED.values():
        if numbers[column] >= 0:
            program += [(_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, _ALLOW)]
    for name, numbers in OPENING.items():
        checked = [(_ANY_BIT, 0, 1, _WRITE_FLAGS), (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
        program += _by_argument(numbers[column], _FLAGS_ARGUMENT[name], checked)
    for name, numbers in DECIDED_BY_COMMAND.items():
        checked = []
        for command in _COMMANDS[name]:
            checked += [(_EQUAL, 0, 1, command), (_RETURN, 0, 0, _ALLOW)]
        program += _by_argument(numbers[column], _COMMAND_ARGUMENT, [*checked, (_RETURN, 0, 0, _REFUSE)])
    # Greater numbers are also those of x86-64's second table, x32, which no Python uses.
    newest = max(numbers[column] for numbers in ALLOWED.values())
    program += [(_GREATER, 0, 1, newest), (_RETURN, 0, 0, _UNKNOWN), (_RETURN, 0, 0, _REFUSE)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _by_argument(number: int, argument: int, checked: list[_Instruction]) -> list[_Instruction]:
    """What is done with one call; ``checked`` ends by returning.

    Flags and commands are the low half of their argument: the kernel looks at no more of it.
    """
    if number < 0:
        return []
    return [(_EQUAL, 0, 1 + len(checked), number), (_LOAD, 0, 0, 16 + 8 * argument), *checked]
