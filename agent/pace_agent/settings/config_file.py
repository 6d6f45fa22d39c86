"""Settings from where people keep them: their config file, the repository's, the environment, and a call.

Each place goes before the one above it::

    default
    config.toml in the user's config folder
    .pace/config.toml in the repository, if the user trusts it; it cannot widen what the agent may do
    PACE_<KEY> in the environment, such as PACE_BUDGET
    given: an option of a command, an argument of a function
"""

from __future__ import annotations

import os
import stat
import sys
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pace_agent.settings.config import KEYS, AgentConfig, ModeName, SettingError, check_key
from pace_local.errors import ConfigError
from pace_local.models.choose import config_path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPOSITORY_FILE = Path(".pace", "config.toml")
"""The repository's own settings, from its root."""

DEFAULT = "default"
GIVEN = "given"
"""Where a setting came from, if from neither a file nor the environment."""

_MOST_BYTES = 2**20
_NEVER_FROM_REPOSITORY = {
    "extra_folders": "folders outside of it are the user's to open",
    "editor": "the command is run without asking",
}
_MODES: tuple[str, ...] = typing.get_args(ModeName)
_BOOLEANS = {
    **dict.fromkeys(("1", "true", "yes", "on"), True),
    **dict.fromkeys(("0", "false", "no", "off"), False),
}


@dataclass(frozen=True)
class Loaded:
    """Settings, and where each came from."""

    config: AgentConfig
    sources: Mapping[str, str]
    """Key -> ``default``, the path of a file, the name of a variable, or ``given``; has every key."""

    warnings: tuple[str, ...] = ()
    """What was left out, and why; for the user to see."""


@dataclass
class _Layers:
    """Settings of all places so far."""

    values: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=lambda: dict.fromkeys(KEYS, DEFAULT))
    warnings: list[str] = field(default_factory=list)

    def put(self, key: str, value: Any, source: str) -> None:
        self.values[key] = tuple(value) if isinstance(value, list) else value
        self.sources[key] = source


def load_config(
    repository: str | os.PathLike[str],
    *,
    is_trusted: bool,
    environ: Mapping[str, str] = os.environ,
    user_file: Path | None = None,
    **given: Any,
) -> Loaded:
    """The settings for work in a repository.

    Only what counts in the end is checked for its range: a wrong value in a file does no harm where an option
    goes before it. An unknown key is always refused.

    Args:
        repository: its root folder.
        is_trusted: whether the user trusts it; else its own settings are left out, with a warning.
        environ: the environment; an empty variable counts as none.
        user_file: the user's config file; None: the one in their config folder.
        given: settings by name; None counts as not given. Relative folders start from the working folder.

    Raises:
        ConfigError: a file cannot be used, or a setting is unknown, of the wrong type or out of range; the
            message says where it came from.
    """
    layers = _Layers()
    path = config_path() if user_file is None else user_file
    for key, value in read_settings(path).items():
        layers.put(key, value, str(path))
    _add_repository(layers, Path(repository), is_trusted)
    _add_environment(layers, environ)
    for key, value in given.items():
        check_key(key)
        if value is not None:
            layers.put(key, value, GIVEN)
    folders = layers.values.get("extra_folders")
    try:
        config = AgentConfig(**layers.values)
        if folders:
            config = config.replace(extra_folders=_absolute(folders, layers.sources["extra_folders"]))
    except SettingError as error:
        source = layers.sources[error.key]
        # The default of one setting can be out of the range that another one leaves it.
        raise ConfigError(str(error) if source in (DEFAULT, GIVEN) else f"{source}: {error}") from None
    return Loaded(config, layers.sources, tuple(layers.warnings))


def read_settings(path: Path) -> dict[str, Any]:
    """What a config file says; empty if there is none. Types and ranges are not checked.

    Raises:
        ConfigError: if it cannot be read, is larger than 1 MiB, no UTF-8, no TOML, or has an unknown key.
    """
    data = _read(path)
    if data is None:
        return {}
    try:
        settings = tomllib.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line} is not UTF-8; save the file as UTF-8") from None
    except ValueError as error:  # also for a number of thousands of digits
        raise ConfigError(f"{path} is not valid TOML: {error}; put it right") from None
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: nested too deeply; put it right") from None
    for key in settings:
        try:
            check_key(key)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from None
    return settings


def _read(path: Path) -> bytes | None:
    try:
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            raise ConfigError(f"{path} is a folder; put a file of settings in its place, or remove it")
        if not stat.S_ISREG(mode):  # opening a pipe would wait
            raise ConfigError(f"{path} is no regular file; put a file of settings in its place")
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{path} is larger than {_MOST_BYTES:,} bytes; that is no file of settings")
    return data


def _add_repository(layers: _Layers, repository: Path, is_trusted: bool) -> None:
    path = repository / REPOSITORY_FILE
    if not os.path.lexists(path):
        return
    if not is_trusted:
        layers.warnings.append(f"{path} is not used: the folder is not trusted")
        return
    root = Path(os.path.realpath(repository))
    if not Path(os.path.realpath(path)).is_relative_to(root):
        layers.warnings.append(f"{path} is not used: it is a link that leads out of the repository")
        return
    for key, value in read_settings(path).items():
        if key in _NEVER_FROM_REPOSITORY:
            why = _NEVER_FROM_REPOSITORY[key]
            layers.warnings.append(f"{path}: {key} is not used in a repository's settings: {why}")
            continue
        if key == "mode" and value in _MODES:
            own = layers.values.get("mode", AgentConfig.mode)
            if own in _MODES and _MODES.index(value) > _MODES.index(own):
                layers.warnings.append(
                    f"{path}: mode {value!r} is not used: a repository can only narrow the user's, {own!r}"
                )
                continue
        layers.put(key, value, str(path))


def variable_of(key: str) -> str:
    """The environment variable of a setting."""
    return f"PACE_{key.upper()}"


def _add_environment(layers: _Layers, environ: Mapping[str, str]) -> None:
    types = typing.get_type_hints(AgentConfig)
    for key in KEYS:
        name = variable_of(key)
        text = environ.get(name, "").strip()
        if text:
            layers.put(key, _parsed(types[key], name, text), name)


def _parsed(kind: Any, name: str, text: str) -> Any:
    """The value that a variable's text stands for."""
    kinds = typing.get_args(kind) or (kind,)
    if bool in kinds:
        if text.lower() not in _BOOLEANS:
            raise ConfigError(f"{name} is {text!r}; use true or false")
        return _BOOLEANS[text.lower()]
    numbers: tuple[tuple[type, Callable[[str], Any], str], ...] = (
        (int, int, "a whole number"),
        (float, float, "a number"),
    )
    for number, parse, words in numbers:
        if number in kinds:
            try:
                return parse(text)
            except ValueError:
                raise ConfigError(f"{name} is {text!r}; use {words}") from None
    if typing.get_origin(kind) is tuple:
        return tuple(part for part in text.split(os.pathsep) if part.strip())
    return text


def _absolute(folders: tuple[str, ...], source: str) -> tuple[str, ...]:
    """Folders by paths that lead to the same place from everywhere."""
    found = []
    for folder in folders:
        try:
            path = Path(folder).expanduser()
        except RuntimeError:  # ~name of a user that there is not
            raise SettingError("extra_folders", folder, "the path of a folder") from None
        if not path.is_absolute() and source not in (GIVEN, variable_of("extra_folders")):
            raise SettingError("extra_folders", folder, "a path that begins with / or ~ in a file")
        found.append(os.path.abspath(path))
    return tuple(found)
