from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pace_agent.settings.config import KEYS, AgentConfig
from pace_agent.settings.config_file import Loaded, load_config, read_settings, variable_of
from pace_agent.settings.config_help import (
    config_help,
    config_template,
    documentation,
    toml_value,
    type_words,
)
from pace_local.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


class Places:
    """A user's config folder and a repository."""

    def __init__(self, folder: Path) -> None:
        self.user = folder / "config" / "config.toml"
        self.repository = folder / "repository"
        self.project = self.repository / ".pace" / "config.toml"
        self.user.parent.mkdir()
        self.project.parent.mkdir(parents=True)

    def load(self, *, trusted: bool = True, environ: dict[str, str] | None = None, **given: Any) -> Loaded:
        return load_config(
            self.repository, is_trusted=trusted, environ=environ or {}, user_file=self.user, **given
        )


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path)


def test_without_any_file_everything_is_default(places: Places) -> None:
    loaded = places.load()
    assert loaded.config == AgentConfig()
    assert loaded.sources == dict.fromkeys(KEYS, "default")
    assert loaded.warnings == ()


def test_each_place_goes_before_the_one_above(places: Places) -> None:
    places.user.write_text("max_turns = 1\ntries = 1\nseed = 1\ntop_k = 1\n")
    places.project.write_text("tries = 2\nseed = 2\ntop_k = 2\n")
    loaded = places.load(environ={"PACE_SEED": "3", "PACE_TOP_K": "3"}, top_k=4, max_tokens=None)
    config, sources = loaded.config, loaded.sources
    assert (config.max_turns, config.tries, config.seed, config.top_k) == (1, 2, 3, 4)
    assert [sources[key] for key in ("max_turns", "tries", "seed", "top_k", "max_tokens")] == [
        str(places.user),
        str(places.project),
        "PACE_SEED",
        "given",
        "default",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="XDG variables are Linux's")
def test_the_user_s_file_is_at_its_xdg_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "pace-local" / "config.toml"
    path.parent.mkdir()
    path.write_text('theme = "dark"\n')
    loaded = load_config(tmp_path, is_trusted=True, environ={})
    assert (loaded.config.theme, loaded.sources["theme"]) == ("dark", str(path))


def test_every_type_can_be_written_in_a_file(places: Places) -> None:
    places.user.write_bytes(
        b"\xef\xbb\xbf"
        b'model = "m"\r\nthreads = 2\r\ntemperature = 1\r\ntop_p = 0.5\r\nenable_thinking = false\r\n'
        b'extra_folders = ["/a/../b", "~/c"]\r\nwatch = false\r\ncheck = """make\r\ntest"""\r\n'
    )
    config = places.load().config
    assert config == AgentConfig(
        model="m",
        threads=2,
        temperature=1,
        top_p=0.5,
        enable_thinking=False,
        extra_folders=(os.path.abspath("/b"), str(Path("~/c").expanduser())),
        watch=False,
        check="make\ntest",
    )


def test_every_setting_can_be_given_by_the_environment(places: Places) -> None:
    environ = {
        "PACE_MODEL": " m ",
        "PACE_BUDGET": "1024",
        "PACE_POSITION_CAP": "4096",
        "PACE_POLICY": "pace",
        "PACE_THREADS": "2",
        "PACE_STYLE": "guided",
        "PACE_MODE": "auto",
        "PACE_MAX_TURNS": "5",
        "PACE_MAX_TOKENS": "6",
        "PACE_TEMPERATURE": "0.5",
        "PACE_TOP_P": "0.25",
        "PACE_TOP_K": "7",
        "PACE_SEED": "8",
        "PACE_ENABLE_THINKING": "No",
        "PACE_CHECK": "make test",
        "PACE_COMMAND_SECONDS": "9.5",
        "PACE_TRIES": "2",
        "PACE_EXTRA_FOLDERS": os.pathsep.join(["/a", "", "b"]),
        "PACE_WATCH": "off",
        "PACE_THEME": "dark",
        "PACE_EDITOR": "vi",
    }
    assert list(environ) == [variable_of(key) for key in KEYS]
    loaded = places.load(environ={**environ, "PACE_ELSE": "1"})
    assert loaded.config == AgentConfig(
        model="m",
        budget=1024,
        position_cap=4096,
        policy="pace",
        threads=2,
        style="guided",
        mode="auto",
        max_turns=5,
        max_tokens=6,
        temperature=0.5,
        top_p=0.25,
        top_k=7,
        seed=8,
        enable_thinking=False,
        check="make test",
        command_seconds=9.5,
        tries=2,
        extra_folders=(os.path.abspath("/a"), os.path.abspath("b")),
        watch=False,
        theme="dark",
        editor="vi",
    )
    assert loaded.sources == {key: variable_of(key) for key in KEYS}


def test_an_empty_variable_counts_as_none(places: Places) -> None:
    loaded = places.load(environ={variable_of(key): " " for key in KEYS})
    assert loaded.config == AgentConfig()


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("PACE_BUDGET", "many", "PACE_BUDGET is 'many'; use a whole number"),
        ("PACE_BUDGET", "1.5", "use a whole number"),
        ("PACE_BUDGET", "3", "PACE_BUDGET: budget is 3; use a whole number from 64"),
        ("PACE_TEMPERATURE", "hot", "use a number"),
        ("PACE_TEMPERATURE", "nan", "PACE_TEMPERATURE: temperature is nan"),
        ("PACE_WATCH", "maybe", "use true or false"),
        ("PACE_ENABLE_THINKING", "2", "use true or false"),
        ("PACE_MODE", "yolo", "PACE_MODE: mode is 'yolo'; use one of plan"),
        ("PACE_THREADS", "0", "PACE_THREADS: threads is 0"),
    ],
)
def test_a_wrong_variable_is_named(places: Places, name: str, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        places.load(environ={name: text})
    assert says in str(raised.value)


def test_the_place_of_a_wrong_value_is_named(places: Places) -> None:
    places.user.write_text("budget = 1_000\n")
    places.project.write_text('budget = "x"\n')
    with pytest.raises(ConfigError) as raised:
        places.load()
    assert str(raised.value).startswith(f"{places.project}: budget is 'x'; use a whole number")
    assert places.load(budget=512).config.budget == 512  # what counts is right


def test_a_budget_that_needs_a_higher_cap_says_so(places: Places) -> None:
    places.user.write_text("budget = 16384\n")
    with pytest.raises(ConfigError, match=r"^position_cap is 8192; use .* 16,896 \(budget \+ 512\)"):
        places.load()


@pytest.mark.parametrize("place", ["user", "project"])
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("buget = 1", "unknown setting 'buget'; did you mean budget?"),
        ("[mode]\nx = 1", "mode is {'x': 1}; use one of plan"),
        ("[tui]\ntheme = 'x'", "unknown setting 'tui'; known are model, "),
        ("mode = 2000-01-01", "mode is datetime.date(2000, 1, 1); use one of"),
        ("budget = 1\nbudget = 2\n", "line 2"),
        ("a\nb = ", "not valid TOML"),
        ("mode = 'ask'\n\nseed = x", "line 3"),
        (f"seed = {'9' * 5000}", "not valid TOML"),
        (f"seed = {'[' * 100_000}", "not valid TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_place(places: Places, place: str, text: str, says: str) -> None:
    path = getattr(places, place)
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        places.load()
    message = str(raised.value)
    assert message.startswith(str(path))
    assert says in message
    assert "\n" not in message


def test_a_value_with_a_zero_character_is_refused(places: Places) -> None:
    places.user.write_text('theme = "a\\u0000b"\n')
    with pytest.raises(ConfigError, match="zero character"):
        places.load()


def test_a_file_that_is_not_utf8_is_refused_with_the_line(places: Places) -> None:
    places.user.write_bytes(b"# one\n# two\ntheme = '\xe4'\n")
    with pytest.raises(ConfigError, match="line 3 is not UTF-8"):
        places.load()


def test_a_folder_in_the_file_s_place_is_refused(places: Places) -> None:
    places.user.mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        places.load()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name")
def test_a_pipe_in_the_file_s_place_is_refused_at_once(places: Places) -> None:
    os.mkfifo(places.user)
    with pytest.raises(ConfigError, match="no regular file"):
        places.load()


def test_a_file_is_read_up_to_a_mebibyte(places: Places) -> None:
    places.user.write_bytes(b"#" * (2**20 - 10) + b"\nseed = 5\n")
    assert places.user.stat().st_size == 2**20
    assert places.load().config.seed == 5
    places.user.write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(ConfigError, match="larger than 1,048,576 bytes"):
        places.load()


def test_a_file_that_cannot_be_read_is_refused(places: Places) -> None:
    places.user.symlink_to(places.user)
    with pytest.raises(ConfigError, match="cannot be read"):
        places.load()


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser reads everything")
def test_a_file_without_the_right_to_read_is_refused(places: Places) -> None:
    places.user.write_text("seed = 1")
    places.user.chmod(0)
    with pytest.raises(ConfigError, match="Permission denied"):
        places.load()


def test_a_file_in_the_folder_s_place_counts_as_no_file(places: Places) -> None:
    places.project.parent.rmdir()
    places.project.parent.write_text("x")
    assert places.load().config == AgentConfig()


def test_an_untrusted_repository_s_file_is_not_even_read(places: Places) -> None:
    places.project.write_text("no TOML at all")
    loaded = places.load(trusted=False)
    assert loaded.config == AgentConfig()
    (warning,) = loaded.warnings
    assert str(places.project) in warning
    assert "not trusted" in warning


def test_a_trusted_repository_sets_its_check_but_no_further_rights(places: Places) -> None:
    places.project.write_text(
        'check = "make test"\nextra_folders = ["/"]\neditor = "rm -r"\nmode = "auto"\nseed = 3\n'
    )
    loaded = places.load()
    assert loaded.config == AgentConfig(check="make test", seed=3)
    assert loaded.sources["mode"] == loaded.sources["editor"] == "default"
    assert [warning.split(":")[1].split()[0] for warning in loaded.warnings] == [
        "extra_folders",
        "editor",
        "mode",
    ]


@pytest.mark.parametrize("own", ["plan", "ask", "accept-edits", "auto"])
@pytest.mark.parametrize("wanted", ["plan", "ask", "accept-edits", "auto"])
def test_a_repository_can_only_narrow_the_mode(places: Places, own: str, wanted: str) -> None:
    order = ["plan", "ask", "accept-edits", "auto"]
    places.user.write_text(f'mode = "{own}"\n')
    places.project.write_text(f'mode = "{wanted}"\n')
    loaded = places.load()
    assert loaded.config.mode == min(own, wanted, key=order.index)
    assert bool(loaded.warnings) == (order.index(wanted) > order.index(own))
    assert places.load(mode="auto").config.mode == "auto"  # the user's word, with the command


def test_a_repository_s_file_that_is_a_link_to_outside_is_not_used(places: Places, tmp_path: Path) -> None:
    outside = tmp_path / "outside.toml"
    outside.write_text("seed = 9\n")
    places.project.symlink_to(outside)
    loaded = places.load()
    assert loaded.config.seed == 0
    assert "leads out of the repository" in loaded.warnings[0]
    inside = places.repository / "settings.toml"
    inside.write_text("seed = 8\n")
    places.project.unlink()
    places.project.symlink_to(inside)
    assert places.load().config.seed == 8


def test_relative_folders_are_those_of_the_command(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(places.repository)
    assert places.load(extra_folders=["../x"]).config.extra_folders == (str(places.repository.parent / "x"),)
    places.user.write_text('extra_folders = ["x"]\n')
    with pytest.raises(ConfigError, match="begins with / or ~") as raised:
        places.load()
    assert str(raised.value).startswith(f"{places.user}: extra_folders is 'x'")


def test_a_home_of_nobody_is_refused(places: Places) -> None:
    with pytest.raises(ConfigError, match="extra_folders is '~no-such-user-here/x'"):
        places.load(extra_folders=("~no-such-user-here/x",))


def test_an_unknown_setting_is_refused_also_when_given(places: Places) -> None:
    with pytest.raises(ConfigError, match="did you mean tries"):
        places.load(trie=1)


@given(st.binary(max_size=60))
def test_any_bytes_are_settings_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.toml"
    path.write_bytes(data)
    refused = ""
    settings: dict[str, Any] = {}
    try:
        settings = read_settings(path)
    except ConfigError as error:
        refused = str(error)
    assert "\n" not in refused
    assert set(settings) <= set(KEYS)


def test_help_has_every_setting_with_value_type_and_source(places: Places) -> None:
    places.user.write_text('max_turns = 7\nextra_folders = ["/a"]\n')
    places.project.write_text('mode = "auto"\n')
    loaded = places.load(environ={"PACE_WATCH": "0"}, theme='"\\')
    text = config_help(loaded)
    for key in KEYS:
        assert documentation()[key]
        assert type_words(key) in text.replace("\n    ", " ")
        assert f"\n{key} = {toml_value(getattr(loaded.config, key))}  (" in text
        assert variable_of(key) in text.replace("\n    ", " ")
        assert " ".join(documentation()[key].split()) in " ".join(text.split())
    assert f"max_turns = 7  (from {places.user})" in text
    assert "watch = false  (from PACE_WATCH)" in text
    assert 'theme = "\\"\\\\"  (given with the command)' in text
    assert "seed = 0  (the default)" in text
    assert "threads = unset  (the default)" in text
    assert f"warning: {places.project}: mode 'auto' is not used" in text


def test_the_template_changes_nothing_until_a_line_is_uncommented(places: Places) -> None:
    template = config_template()
    places.user.write_text(template)
    assert places.load().sources == dict.fromkeys(KEYS, "default")
    lines = [line.removeprefix("# ") if line.startswith("# ") else line for line in template.splitlines()]
    places.user.write_text("\n".join(lines))
    loaded = places.load()
    assert loaded.sources == dict.fromkeys(KEYS, str(places.user))
    unlike = {key for key in KEYS if getattr(loaded.config, key) != getattr(AgentConfig(), key)}
    assert unlike == {"model", "threads", "enable_thinking", "check", "extra_folders", "theme", "editor"}


@given(st.text(st.characters(exclude_categories=["Cs"])) | st.booleans() | st.integers(-(2**40), 2**40))
def test_a_value_is_written_as_toml_reads_it(value: object) -> None:
    assert tomllib.loads(f"key = {toml_value(value)}")["key"] == value
