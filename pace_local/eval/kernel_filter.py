"""A seccomp filter of Linux: a process that applies it can no longer start processes, open sockets or
change files, whatever user it runs as.

It needs no privileges, and cannot be taken off. Calls on the list fail with EPERM; all others go on as
they were. The list names calls by what they can do, with their numbers on the two architectures that it
knows (asm/unistd_64.h of x86-64, and the generic table of aarch64).
"""

from __future__ import annotations

import errno
import os
import platform
import struct
import sys

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Machine -> column in the table below, and its AUDIT_ARCH value."""

_CALLS: tuple[tuple[int, int], ...] = (
    # processes: fork vfork clone clone3 execve execveat
    (57, -1), (58, -1), (56, 220), (435, 435), (59, 221), (322, 281),
    # network and ways around this list: socket socketpair io_uring_setup
    (41, 198), (53, 199), (425, 425),
    # other processes: kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo pidfd_send_signal ptrace
    # process_vm_writev
    (62, 129), (200, 130), (234, 131), (129, 138), (297, 240), (424, 424), (101, 117), (311, 271),
    # limits: setrlimit prlimit64
    (160, 164), (302, 261),
    # files by name: creat truncate rename renameat renameat2 mkdir mkdirat rmdir unlink unlinkat link linkat
    # symlink symlinkat mknod mknodat openat2
    (85, -1), (76, 45), (82, -1), (264, 38), (316, 276), (83, -1), (258, 34), (84, -1), (87, -1), (263, 35),
    (86, -1), (265, 37), (88, -1), (266, 36), (133, -1), (259, 33), (437, 437),
    # what is known of a file: chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes
    # utimensat futimesat setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr
    (90, -1), (91, 52), (268, 53), (452, 452), (92, -1), (93, 55), (94, -1), (260, 54), (132, -1), (235, -1),
    (280, 88), (261, -1), (188, 5), (189, 6), (190, 7), (197, 14), (198, 15), (199, 16),
    # the contents of open files: ftruncate fallocate
    (77, 46), (285, 47),
    # the system: mount umount2 chroot pivot_root setns unshare bpf reboot init_module finit_module
    (165, 40), (166, 39), (161, 51), (155, 41), (308, 268), (272, 97), (321, 280), (169, 142), (175, 105),
    (313, 273),
)  # fmt: skip
_OPEN, _OPENAT = (2, -1), (257, 56)
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | errno.EPERM
_X32 = 0x40000000
"""Bit of the call numbers of x86-64's second table, which no Python uses: refused whole."""


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
    refused = [numbers[column] for numbers in _CALLS if numbers[column] >= 0]
    program = [
        (_LOAD, 0, 0, 4),  # the architecture of the call
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, 0),  # the number of the call
        (_ANY_BIT, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE),
    ]
    for number in refused:
        program += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _REFUSE)]
    for numbers, argument in ((_OPEN, 1), (_OPENAT, 2)):
        if numbers[column] >= 0:
            program += [
                (_EQUAL, 0, 4, numbers[column]),
                (_LOAD, 0, 0, 16 + 8 * argument),  # the low half of the flags
                (_ANY_BIT, 0, 1, _WRITE_FLAGS),
                (_RETURN, 0, 0, _REFUSE),
                (_RETURN, 0, 0, _ALLOW),
            ]
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
