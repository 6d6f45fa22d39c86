"""Settings of an agent, with their defaults and valid ranges in one place."""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from typing import Any, Literal, get_args

from pace_local.config import LONGEST_POSITION, MINIMUM_BUDGET, MOST_THREADS, SessionConfig
from pace_local.errors import ConfigError
from pace_local.policies import POLICIES
from pace_local.sampling import GREATEST_SEED, Sampling

Style = Literal["auto", "tools", "guided"]
"""How the agent works with its model; ``auto``: as the model's entry in the registry or a probe says."""

ModeName = Literal["plan", "ask", "accept-edits", "auto"]
"""A value of :class:`pace_agent.safety.permissions.Mode`, from the least that is done unasked to the most."""

LONGEST_COMMAND_SECONDS = 86_400
"""As long as :mod:`pace_agent.shell.running` lets a command run at most: a day."""

_LONGEST_SHOWN = 200
_MOST_TOKENS = 2**20
_MOST_TURNS = 10_000
_MOST_TRIES = 20


class SettingError(ConfigError):
    """A setting is of the wrong type or out of range; ``key`` says which."""

    def __init__(self, key: str, value: object, use: str) -> None:
        shown = repr(value)
        if len(shown) > _LONGEST_SHOWN:
            shown = f"{shown[:_LONGEST_SHOWN]}…"
        super().__init__(f"{key} is {shown}; use {use}")
        self.key = key


@dataclass(frozen=True)
class AgentConfig:
    """How an agent works: its model, its memory, its rights and its limits.

    Raises:
        SettingError: when a value is of the wrong type or out of range, with key, value and range.
    """

    model: str = ""
    """Name of a model in the registry, or path of a GGUF file; empty: what this machine can run well."""

    budget: int = 2048
    """Most tokens resident in the KV cache after any decode returns, 64 or more."""

    position_cap: int = 8192
    """No token's position reaches it; at least 512 above the budget."""

    policy: str = "pace_focus"
    """What says which tokens stay, by its name in ``pace_local.policies.POLICIES``."""

    threads: int | None = None
    """Threads of the CPU, 1 to 512; None: the physical cores."""

    style: Style = "auto"
    """``tools`` for models that can call tools, ``guided`` for small ones, ``auto``: as the model can."""

    mode: ModeName = "ask"
    """What is done without asking: ``plan`` reads and nothing else, ``ask`` asks before all else,
    ``accept-edits`` changes files, ``auto`` runs commands too."""

    max_turns: int = 50
    """Most answers of the model to one prompt, 1 to 10,000."""

    max_tokens: int = 1024
    """Longest answer of the model, in tokens, 1 to 1,048,576."""

    temperature: float = 0.0
    """Divides the logits before the draw of a token, 0.001 to 10; 0 always takes the highest."""

    top_p: float = 1.0
    """Draw among the fewest likeliest tokens whose probabilities reach this sum, 0.000001 to 1; 1 is off."""

    top_k: int = 0
    """Draw among this many of the likeliest tokens; 0 is off."""

    seed: int = 0
    """Seed of the draw, 0 to 4,294,967,294."""

    enable_thinking: bool | None = None
    """Whether a model that can reason before it answers does; None: as its chat template has it."""

    check: str = ""
    """Command that says by its exit code whether the work is right, such as ``pytest -q``; empty: found by
    looking at the repository."""

    command_seconds: float = 120.0
    """Time limit of a shell command, in seconds, 0.001 to 86,400."""

    tries: int = 3
    """Attempts at one definition in guided style, 1 to 20."""

    extra_folders: tuple[str, ...] = ()
    """Folders outside of the repository in which the agent may work too."""

    watch: bool = True
    """Whether changes that others make in the repository are noticed and told to the model."""

    theme: str = ""
    """Colours of a screen, by name; empty: the screen's own choice."""

    editor: str = ""
    """Command that opens a file for editing from a screen; empty: ``VISUAL`` or ``EDITOR``."""

    def __post_init__(self) -> None:
        """Check every type and range."""
        for key in ("model", "policy", "check", "theme", "editor"):
            self._check_text(key)
        self._check_choice("policy", tuple(POLICIES))
        self._check_choice("style", get_args(Style))
        self._check_choice("mode", get_args(ModeName))
        headroom = SessionConfig.headroom
        self._check_whole("budget", MINIMUM_BUDGET, LONGEST_POSITION - headroom)
        low = self.budget + headroom
        self._check_whole("position_cap", low, LONGEST_POSITION, f" (budget + {headroom})")
        if self.threads is not None:
            self._check_whole("threads", 1, MOST_THREADS)
        self._check_whole("max_turns", 1, _MOST_TURNS)
        self._check_whole("max_tokens", 1, _MOST_TOKENS)
        self._check_whole("tries", 1, _MOST_TRIES)
        self._check_number("temperature", 0.001, 10, also=" or 0")
        self._check_number("top_p", 1e-6, 1)
        self._check_whole("top_k", 0, 2**31 - 1)
        self._check_whole("seed", 0, GREATEST_SEED)
        self._check_number("command_seconds", 0.001, LONGEST_COMMAND_SECONDS)
        if type(self.watch) is not bool:
            raise SettingError("watch", self.watch, "true or false")
        if self.enable_thinking is not None and type(self.enable_thinking) is not bool:
            raise SettingError("enable_thinking", self.enable_thinking, "true or false, or leave it out")
        folders: object = self.extra_folders
        if not isinstance(folders, tuple) or not all(_is_path(folder) for folder in folders):
            raise SettingError("extra_folders", folders, "a list of paths, which is a tuple in Python")

    def _check_text(self, key: str) -> None:
        value = getattr(self, key)
        if not isinstance(value, str) or "\0" in value:
            raise SettingError(key, value, "a text without a zero character")

    def _check_choice(self, key: str, choices: tuple[str, ...]) -> None:
        value = getattr(self, key)
        if not isinstance(value, str) or value not in choices:
            raise SettingError(key, value, f"one of {', '.join(choices)}")

    def _check_whole(self, key: str, low: int, high: int, why: str = "") -> None:
        value = getattr(self, key)
        if type(value) is not int or not low <= value <= high:
            raise SettingError(key, value, f"a whole number from {low:,}{why} to {high:,}")

    def _check_number(self, key: str, low: float, high: float, also: str = "") -> None:
        value = getattr(self, key)
        is_number = type(value) in (int, float)
        if not is_number or not (low <= value <= high or (also and value == 0)):
            raise SettingError(key, value, f"a number from {low:g} to {high:,g}{also}")

    def replace(self, **settings: Any) -> AgentConfig:
        """A copy with some settings changed.

        Raises:
            ConfigError: when a setting is unknown, of the wrong type or out of range.
        """
        for key in settings:
            check_key(key)
        return dataclasses.replace(self, **settings)

    def session_config(self) -> SessionConfig:
        """What the library's session is made with; what is no setting of an agent has its default."""
        return SessionConfig(
            budget=self.budget,
            position_cap=self.position_cap,
            policy=self.policy,
            threads=self.threads,
            enable_thinking=self.enable_thinking,
        )

    def sampling(self) -> Sampling:
        """How tokens are chosen, where no grammar holds the answer."""
        return Sampling(temperature=self.temperature, top_p=self.top_p, top_k=self.top_k, seed=self.seed)


KEYS: tuple[str, ...] = tuple(each.name for each in dataclasses.fields(AgentConfig))
"""All settings by name, in the order in which they are documented."""


def check_key(key: str) -> None:
    """Refuse what is no setting.

    Raises:
        ConfigError: naming the closest setting, or all of them if none is close.
    """
    if key in KEYS:
        return
    close = difflib.get_close_matches(key.lower().replace("-", "_"), KEYS, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(KEYS)}"
    raise ConfigError(f"unknown setting {key!r}; {hint}")


def _is_path(text: object) -> bool:
    return isinstance(text, str) and text.strip() != "" and "\0" not in text
