"""Commands that are refused in every mode, and those that are asked about even where all else runs."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Sequence

from pace_agent.safety.protected import protection
from pace_agent.shell.git_denials import force_push, grave_git
from pace_agent.shell.rules import PRIVILEGED, is_device
from pace_agent.shell.split import Split
from pace_agent.shell.words import SimpleCommand, Word, names
from pace_agent.shell.wrappers import SHELLS

_DISK_TOOLS = names(
    "fdisk sfdisk cfdisk gdisk sgdisk cgdisk parted wipefs blkdiscard mkswap swapon swapoff"
    " cryptsetup lvremove vgremove pvremove pvcreate zpool hdparm fsck diskutil mount umount losetup"
    " badblocks newfs format"
)
_POWER = names("shutdown reboot halt poweroff telinit")
_POWER_VERBS = names("poweroff reboot halt suspend hibernate kexec emergency rescue hybrid-sleep")
_DOWNLOADS = names("curl wget fetch aria2c http https lwp-request")
_INTERPRETERS = SHELLS | names("perl ruby node deno bun php lua osascript pwsh tclsh source . eval")
_PYTHON = re.compile(r"python[0-9.]*|pypy[0-9.]*")
_SYSTEM = names(
    "/ /bin /boot /dev /etc /home /lib /lib64 /opt /proc /root /run /sbin /srv /sys /usr /var /Users"
    " /System /Library /Applications /private /Volumes /mnt /media"
)
_HOME = re.compile(r"[\"']?(?:~|\$HOME|\$\{HOME\})[\"']?/?[\"']?(?:\*|\.\*|\.)?")

_FEW_NAMES = re.compile(r"\*\.(?!(?:pack|idx|rev|git)$)\w+|\*~|\w[\w-]*\.\w+|__pycache__|\.DS_Store")
"""Patterns for names that are neither those of most files nor those of git's own data."""
_PUBLISHING = {
    ("npm", "publish"), ("yarn", "publish"), ("pnpm", "publish"), ("cargo", "publish"), ("gem", "push"),
    ("twine", "upload"), ("uv", "publish"), ("poetry", "publish"), ("docker", "push"), ("terraform", "apply"),
    ("terraform", "destroy"), ("kubectl", "delete"), ("kubectl", "apply"),
}  # fmt: skip
_REMOTE = names("ssh scp sftp rsync telnet ftp nc ncat netcat socat")


def denied(split: Split) -> str | None:
    """Why a command is refused whatever the mode and the approvals; None if it is not."""
    if split.self_calling:
        return f"the function {split.self_calling[0]!r} starts itself again without end"
    for number, command in enumerate(split.commands):
        why = _denied(command) or _runs_download(split, number)
        if why is not None:
            return why
    return None


def grave(command: SimpleCommand, is_there: Callable[[str], bool]) -> str | None:
    """Why a command is asked about even in mode ``auto``; None if it is not.

    These cannot be undone from the repository: they reach other machines, other users, or work that is stored
    nowhere else.

    Args:
        command: what is run.
        is_there: whether a word is the name of a file or folder.
    """
    program, texts = command.program or "", _texts(command.words[1:])
    if privileged := PRIVILEGED.intersection({*command.via, program}):
        return f"{min(privileged)} runs it as another user"
    if program == "git":
        return grave_git([*texts, *(["."] if command.is_open else [])], is_there)
    if program == "find" and _deletes_anything(texts):
        return "it deletes whatever it finds"
    if any((program, text) in _PUBLISHING for text in texts[:1]):
        return "it publishes or changes what others use"
    if program in _REMOTE:
        return "it reaches another machine"
    if program in ("pkill", "killall"):
        return "it ends processes by name, and not only its own"
    if program == "crontab":
        return "it changes what runs on a schedule"
    if (
        program == "rm"
        and is_recursive(texts)
        and (command.is_open or any(word.text is None for word in command.words))
    ):
        return "what it deletes is only known when it runs"
    return None


def _texts(words: Sequence[Word]) -> list[str]:
    return [word.text if word.text is not None else word.raw for word in words]


def _denied(command: SimpleCommand) -> str | None:
    for redirection in command.redirections:
        target = redirection.target.text or ""
        if redirection.writes and _is_disk(target):
            return f"it writes to the device {target}"
    program, words = command.program, command.words[1:]
    if not program:
        return None
    texts = _texts(words)
    if program in _DISK_TOOLS or program.startswith(("mkfs", "newfs_", "fsck.")):
        return f"{program} changes disks or file systems"
    if _powers_off(program, texts):
        return f"{program} stops the machine"
    if program in ("dd", "shred", "tee", "cp", "mv") and (device := _device_written(program, texts)):
        return f"it writes to the device {device}"
    if program in ("rm", "rmdir", "chmod", "chown", "chgrp", "mv", "find", "shred", "unlink"):
        return _ruins(program, words, texts)
    if program == "kill" and re.search(r"(?:^| )(?:-1|-- -1)$", " ".join(texts)) and len(texts) > 1:
        return "it ends every process of the user"
    if program == "git":
        return force_push(texts)
    return None


def _powers_off(program: str, texts: Sequence[str]) -> bool:
    if program in _POWER:
        return True
    if program == "init":
        return bool(set(texts) & {"0", "1", "6", "s", "S"})
    return program in ("systemctl", "loginctl") and bool(set(texts) & _POWER_VERBS)


def _device_written(program: str, texts: Sequence[str]) -> str | None:
    if program == "dd":
        targets = [text[3:] for text in texts if text.startswith("of=")]
    elif program in ("cp", "mv"):
        targets = [text for text in texts if not text.startswith("-")][-1:]
    else:
        targets = [text for text in texts if not text.startswith("-")]
    return next(filter(_is_disk, targets), None)


def _is_disk(path: str) -> bool:
    """Whether a path is a device other than terminals, memory, the network and those that keep nothing."""
    return re.match(r"/+dev/(?!tty|shm/|pts/|tcp/|udp/)", path) is not None and not is_device(path)


def _ruins(program: str, words: Sequence[Word], texts: Sequence[str]) -> str | None:
    """Deleting, moving or opening up a whole system, a home folder, or everything in one."""
    if program == "find":
        if not {"-delete", "-exec", "-execdir"} & set(texts) or not deletes(texts):
            return None
    elif program in ("rm", "chmod", "chown", "chgrp"):
        if "--no-preserve-root" in texts:
            return "--no-preserve-root takes the guard of / away"
        if not is_recursive(texts):
            return None
    operands = words[:-1] if program == "mv" and words else words
    for word in operands:
        raw, text = word.raw, word.text
        if _HOME.fullmatch(raw) or (text is not None and _is_home(text)):
            return f"{raw} is a whole home folder"
        if text is not None and _is_system(text):
            return f"{raw} is a folder of the system"
    return None


def deletes(texts: Sequence[str]) -> bool:
    """Whether ``find`` deletes files, or has them deleted."""
    return "-delete" in texts or any(
        text.rpartition("/")[2] in ("rm", "shred", "unlink", "truncate") for text in texts[1:]
    )


def _deletes_anything(texts: Sequence[str]) -> bool:
    """Whether ``find`` deletes files that are not told by a part of their name."""
    if not deletes(texts) or not {"-delete", "-exec", "-execdir", "-ok", "-okdir"} & set(texts):
        return False
    told = any(
        test in ("-name", "-iname") and _FEW_NAMES.fullmatch(pattern) and protection((pattern,)) is None
        for test, pattern in itertools.pairwise(texts)
    )
    return not told or not {"-o", "-or", "-not", "!", ","}.isdisjoint(texts)


def is_recursive(texts: Sequence[str]) -> bool:
    """Whether options ask for whole folders, as ``rm`` and its like have them."""
    for text in texts:
        if text == "--":
            return False
        if re.fullmatch(r"-[A-Za-z]*[rR][A-Za-z]*", text) or (
            len(text) > 3 and "--recursive".startswith(text)
        ):
            return True
    return False


def _is_home(text: str) -> bool:
    home = os.path.expanduser("~")
    if home == "~":
        return False
    plain = os.path.normpath(os.path.expanduser(re.sub(r"/(?:\*|\.\*)?$", "", text) or "/"))
    return plain == os.path.normpath(home)


def _is_system(text: str) -> bool:
    if not text.startswith("/"):
        return False
    plain = os.path.normpath("/" + re.sub(r"/(?:\*|\.\*|\{,\.\}\*)?$", "", text).lstrip("/"))
    return plain in _SYSTEM or text == "/*"


def _runs_download(split: Split, number: int) -> str | None:
    command = split.commands[number]
    program = command.program or ""
    if program not in _INTERPRETERS and not _PYTHON.fullmatch(program):
        name_from_download = command.words and command.name is None
        if not name_from_download:
            return None
    sources = _all_inputs(split, number)
    source = next(
        (split.commands[n].program for n in sources if split.commands[n].program in _DOWNLOADS), None
    )
    if source is None or _has_own_program(command):
        return None
    return f"it runs what {source} fetches, unseen"


def _all_inputs(split: Split, number: int) -> list[int]:
    seen: set[int] = set()
    waiting = list(split.commands[number].inputs)
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            waiting += split.commands[each].inputs
    return sorted(seen)


def _has_own_program(command: SimpleCommand) -> bool:
    """Whether an interpreter has its program in the text or in a file, so that its input is data to it."""
    if command.program in ("eval", "source", "."):
        return False
    texts = [word.text for word in command.words[1:]]
    if None in texts:
        return False
    for text in filter(None, texts):
        if text in ("-", "--", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
            return False
        if command.program in SHELLS and re.fullmatch(r"-[a-z]*s[a-z]*", text):
            return False
        if text in ("-c", "-e", "-m") or not text.startswith("-"):
            return True
    return False
