"""Files that hold secrets, or that make git run commands: known by name, or by how they begin."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence

from pace_agent.shell.words import names

HEADER_BYTES = 4096
"""How much of a file's beginning is looked at for a private key."""

_ENV_SAMPLES = frozenset(f".env.{kind}" for kind in ("example", "sample", "template", "dist"))
_KEY_NAME = re.compile(r"id_(?:rsa|dsa|ecdsa|ed25519|xmss)(?:_sk)?|.+\.(?:key|p12|pfx|ppk|jks|keystore|kdbx)")
_CREDENTIAL_NAMES = names(
    ".netrc _netrc .npmrc .pypirc .pgpass .my.cnf .mylogin.cnf .git-credentials .htpasswd .dockercfg"
    " .s3cfg .boto .vault-token .terraformrc credentials.tfrc.json"
    " application_default_credentials.json"
)
_CREDENTIAL_FOLDERS = names(".ssh .gnupg .aws .azure .kube .password-store")
_CREDENTIAL_PATHS = (
    (".docker", "config.json"),
    (".config", "gcloud"),
    (".config", "gh"),
    (".cargo", "credentials"),
    (".cargo", "credentials.toml"),
    (".gem", "credentials"),
    (".m2", "settings.xml"),
    (".huggingface", "token"),
    ("huggingface", "token"),
)
_KEY_HEADER = re.compile(
    rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|^PuTTY-User-Key-File-[0-9]+:|^openssh-key-v1\0"
)


def protection(parts: Sequence[str]) -> str | None:
    """Why a file is not read or written unless the user names it; None if its name says nothing.

    Args:
        parts: of its path, outermost folder first. Upper and lower case are alike, as they are on some file
            systems, and so are spellings that some take for the same.
    """
    names = [folded(part) for part in parts]
    for name in names:
        if name == ".git" or name.startswith("git~"):
            return "it is part of git's own data"
        if name.startswith(".env") and name not in _ENV_SAMPLES:
            return "files named .env… hold secrets"
        if name in _CREDENTIAL_FOLDERS:
            return f"the folder {name} holds credentials"
    last = names[-1] if names else ""
    if _KEY_NAME.fullmatch(last):
        return "it is a private key by its name"
    pairs = itertools.pairwise(names)
    if last in _CREDENTIAL_NAMES or any(pair in _CREDENTIAL_PATHS for pair in pairs):
        return "it holds credentials"
    return None


def header_protection(beginning: bytes) -> str | None:
    """Why a file that begins like this is not read; None if it is no private key."""
    if _KEY_HEADER.search(beginning[:HEADER_BYTES]):
        return "it holds a private key"
    return None


def folded(name: str) -> str:
    """A name as a forgiving file system compares it: without case, invisible signs and final dots."""
    plain = "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
    return unicodedata.normalize("NFKC", plain.casefold()).rstrip(". ") or name
