"""Loading the configuration: files, variables, and every mistake a newcomer makes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.config import Config, ConfigError, ListenerConfig, QueueManagerConfig, load


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "broker.toml"


def loaded(file: Path, text: str) -> Config:
    file.write_text(text, "utf-8")
    return load(file, {})


def mistake(file: Path, text: str) -> str:
    """The message for a file with a mistake, without the folder of the file."""
    with pytest.raises(ConfigError) as caught:
        loaded(file, text)
    return str(caught.value).replace(str(file), "broker.toml")


def test_without_a_file_the_defaults_hold() -> None:
    assert load(None, {}) == Config()


def test_an_empty_file_is_the_defaults_beside_it(file: Path) -> None:
    here = QueueManagerConfig(data=file.parent / "evermq-data")
    assert loaded(file, "") == Config(queue_manager=here)


def test_settings_of_a_file_take_effect_and_the_others_keep_their_defaults(file: Path) -> None:
    config = loaded(file, '[queue_manager]\nname = "QM7"\nquiesce_timeout = 3\n[listener]\nport = 0\n')
    here = QueueManagerConfig(name="QM7", quiesce_timeout=3.0, data=file.parent / "evermq-data")
    assert config == Config(queue_manager=here, listener=ListenerConfig(port=0))


def test_paths_are_relative_to_the_folder_of_the_file(file: Path) -> None:
    config = loaded(
        file, '[queue_manager]\ndata = "d"\nstartup = ["a.mqsc", "/etc/b.mqsc"]\n[listener]\nunix = "s.sock"\n'
    )
    assert config.queue_manager.data == file.parent / "d"
    assert config.queue_manager.startup == (file.parent / "a.mqsc", Path("/etc/b.mqsc"))
    assert config.listener.unix == file.parent / "s.sock"


def test_an_empty_path_of_a_unix_socket_means_none(file: Path) -> None:
    assert loaded(file, '[listener]\nunix = ""\n').listener.unix is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[listener]\nprot = 1\n", "broker.toml: [listener] prot: unknown key; did you mean port?"),
        ("[listner]\nport = 1\n", "broker.toml: [listner]: unknown section; did you mean [listener]?"),
        ("[xyzzy]\n", "broker.toml: [xyzzy]: unknown section"),
        ("[logging]\nxyzzy = 1\n", "broker.toml: [logging] xyzzy: unknown key"),
        ("[logging]\nport = 1\n", "broker.toml: [logging] port: unknown key; did you mean [listener] port?"),
        ("port = 1\n", "broker.toml: port: a key outside every section; did you mean [listener] port?"),
        ("listener = 1\n", "broker.toml: [listener]: wants a table of settings"),
        ("[[listener]]\nport = 1\n", "broker.toml: [listener]: wants a table of settings"),
        ('[tls]\nminimum = "1.1"\n', 'broker.toml: [tls] minimum: wants one of 1.2, 1.3, not "1.1"'),
        (
            '[tls]\nhost = "all of them"\n',
            'broker.toml: [tls] host: wants an address or the name of a host, or "" for none, not "all of them"',
        ),
        (
            '[security]\nloopback = "maybe"\n',
            'broker.toml: [security] loopback: wants one of auto, trust, check, not "maybe"',
        ),
        (
            '[tokens]\nalgorithms = ["none"]\n',
            "broker.toml: [tokens] algorithms: wants a list of some of RS256, PS256, ES256, EdDSA, HS256, HS384, "
            "HS512, not ['none']",
        ),
        ("[http]\nport = 1\n", "broker.toml: [http] port: unknown key; did you mean [listener] port?"),
        (
            '[http]\nlisten = "9480"\n',
            'broker.toml: [http] listen: wants HOST:PORT, such as 127.0.0.1:9480 or [::1]:9480, or "" for none, '
            'not "9480"',
        ),
        (
            '[queue_sharing_group]\nname = "toolong"\n',
            "broker.toml: [queue_sharing_group] name: wants the name of a queue-sharing group (one to four of A-Z and "
            '0-9, a letter first), or nothing, not "toolong"',
        ),
        (
            '[queue_sharing_group]\ndsn = "mysql://host"\n',
            "broker.toml: [queue_sharing_group] dsn: wants the address of a PostgreSQL database "
            '(postgresql://user@host:5432/database), or nothing, not "mysql://host"',
        ),
        ("[listener]\nport =\n", "broker.toml: not TOML: Invalid value (at line 2, column 7)"),
        (
            "[listener]\nport = 65536\n",
            "broker.toml: [listener] port: wants a whole number from 0 to 65535, not 65536",
        ),
        (
            '[listener]\nport = "1414"\n',
            'broker.toml: [listener] port: wants a whole number from 0 to 65535, not "1414"',
        ),
        (
            "[listener]\nport = true\n",
            "broker.toml: [listener] port: wants a whole number from 0 to 65535, not true",
        ),
        (
            '[listener]\nhost = "0.0.0.0"\n',
            'broker.toml: [listener] host: wants a loopback address: 127.0.0.1, ::1 or localhost, not "0.0.0.0". '
            "Other machines are served by a listener with TLS",
        ),
        (
            "[listener]\nhost = 127\n",
            "broker.toml: [listener] host: wants a loopback address: 127.0.0.1, ::1 or localhost, not 127",
        ),
        (
            '[queue_manager]\nname = "QM 1"\n',
            'broker.toml: [queue_manager] name: wants 1 to 48 characters from A-Z a-z 0-9 . / _ %, not "QM 1"',
        ),
        ('[queue_manager]\ndata = ""\n', 'broker.toml: [queue_manager] data: wants a path, not ""'),
        (
            '[queue_manager]\nstartup = "a.mqsc"\n',
            'broker.toml: [queue_manager] startup: wants a list of paths, not "a.mqsc"',
        ),
        (
            "[queue_manager]\nstartup = [1]\n",
            "broker.toml: [queue_manager] startup: wants a list of paths, not [1]",
        ),
        (
            "[trigger_monitor]\nthrottle_delay = nan\n",
            "broker.toml: [trigger_monitor] throttle_delay: wants a number from 0 to 86400, not nan",
        ),
        (
            "[trigger_monitor]\nthrottle_delay = -1\n",
            "broker.toml: [trigger_monitor] throttle_delay: wants a number from 0 to 86400, not -1",
        ),
        (
            "[trigger_monitor]\nenabled = 1\n",
            "broker.toml: [trigger_monitor] enabled: wants true or false, not 1",
        ),
        (
            '[trigger_monitor]\nhandlers = ["handlers.py", "a-b"]\n',
            "broker.toml: [trigger_monitor] handlers: wants a list of dotted names of modules, "
            "not ['handlers.py', 'a-b']",
        ),
        (
            '[logging]\nlevel = "info"\n',
            'broker.toml: [logging] level: wants one of DEBUG, INFO, WARNING, ERROR, not "info"',
        ),
    ],
)
def test_a_mistake_is_one_line_that_names_its_place_and_the_nearest_right_name(
    file: Path, text: str, message: str
) -> None:
    assert mistake(file, text) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            f"[listener]\n# {'9' * 5000}\nport = {'9' * 5000}\n",
            f"broker.toml: [listener] port: wants a whole number from 0 to 65535, not {'9' * 57}...",
        ),
        (
            f"[listener]\nport = -{'1_' * 5000}0\n",
            f"broker.toml: [listener] port: wants a whole number from 0 to 65535, not -{'1' * 50}",
        ),
        (
            f"[listener]\nport = 0x{'f' * 5000}\n",
            "broker.toml: [listener] port: wants a whole number from 0 to 65535, not an integer of thousands of digits",
        ),
        (
            f"[queue_manager]\nquiesce_timeout = {'9' * 5000}\n",
            f"broker.toml: [queue_manager] quiesce_timeout: wants a number from 0 to 86400, not {'9' * 57}...",
        ),
        (
            f"[queue_manager]\nstartup = [\n  'a.mqsc',\n  {'9' * 5000}]\n",
            f"broker.toml: [queue_manager] startup: wants a list of paths, not ['a.mqsc', {'9' * 46}...",
        ),
        (f"[listener]\nprot = {'9' * 5000}\n", "broker.toml: [listener] prot: unknown key; did you mean port?"),
        (f"port = {'9' * 5000}\n", "broker.toml: port: a key outside every section; did you mean [listener] port?"),
    ],
    ids=["decimal", "with underscores", "hexadecimal", "seconds", "in a list", "unknown key", "no section"],
)
def test_an_integer_of_thousands_of_digits_is_a_mistake_with_its_key(file: Path, text: str, message: str) -> None:
    assert mistake(file, text) == message


def test_an_error_carries_its_place_and_the_nearest_right_name(file: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(file, "[listener]\nprot = 1\n")
    assert (caught.value.source, caught.value.place, caught.value.nearest) == (str(file), "[listener] prot", "port")


def test_a_missing_file_is_an_error(file: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load(file, {})


def test_a_file_that_is_no_text_is_an_error(file: Path) -> None:
    file.write_bytes(b"# \xff\n")
    with pytest.raises(ConfigError, match="not UTF-8 at byte 2"):
        load(file, {})


def test_a_variable_overrides_the_file(file: Path) -> None:
    file.write_text("[listener]\nport = 1\n", "utf-8")
    assert load(file, {"EVERMQ_LISTENER_PORT": "2"}).listener.port == 2


def test_variables_read_every_kind_of_value() -> None:
    config = load(
        None,
        {
            "EVERMQ_QUEUE_MANAGER_NAME": "QM2",
            "EVERMQ_QUEUE_MANAGER_DATA": "there",
            "EVERMQ_QUEUE_MANAGER_STARTUP": "a.mqsc, b.mqsc",
            "EVERMQ_QUEUE_MANAGER_QUIESCE_TIMEOUT": "1.5",
            "EVERMQ_LISTENER_UNIX": "",
            "EVERMQ_TRIGGER_MONITOR_ENABLED": "False",
            "EVERMQ_TRIGGER_MONITOR_HANDLERS": "orders.handlers,fares",
            "EVERMQ_LOGGING_FORMAT": "json",
        },
    )
    assert config.queue_manager == QueueManagerConfig(
        name="QM2", data=Path("there"), startup=(Path("a.mqsc"), Path("b.mqsc")), quiesce_timeout=1.5
    )
    assert config.listener.unix is None
    assert not config.trigger_monitor.enabled
    assert config.trigger_monitor.handlers == ("orders.handlers", "fares")
    assert config.logging.format == "json"


@pytest.mark.parametrize(
    "name", ["EVERMQ_URL", "EVERMQ_XYZZY", "LISTENER_PORT", "EVERMQ_LISTENER", "evermq_listener_prot"]
)
def test_variables_of_no_section_are_left_alone(name: str) -> None:
    assert load(None, {name: "1"}) == Config()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "EVERMQ_LISTENER_PROT",
            "1",
            "EVERMQ_LISTENER_PROT: unknown setting; did you mean EVERMQ_LISTENER_PORT?",
        ),
        ("EVERMQ_LISTENER_XYZZY", "1", "EVERMQ_LISTENER_XYZZY: unknown setting"),
        (
            "EVERMQ_LISTENER_PORT",
            "http",
            'EVERMQ_LISTENER_PORT: wants a whole number from 0 to 65535, not "http"',
        ),
        (
            "EVERMQ_TRIGGER_MONITOR_ENABLED",
            "perhaps",
            'EVERMQ_TRIGGER_MONITOR_ENABLED: wants true or false, not "perhaps"',
        ),
        ("EVERMQ_HTTP_PORT", "1", "EVERMQ_HTTP_PORT: unknown setting"),
        ("EVERMQ_TLS_MINIMUM", "1.1", 'EVERMQ_TLS_MINIMUM: wants one of 1.2, 1.3, not "1.1"'),
    ],
)
def test_a_mistake_in_a_variable_names_the_variable(name: str, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(None, {name: text})
    assert str(caught.value) == message


@pytest.mark.parametrize("mode", ["0600", "660", "0777"])
def test_the_mode_of_the_unix_socket_is_text_of_octal_digits(file: Path, mode: str) -> None:
    assert loaded(file, f'[listener]\nunix_mode = "{mode}"\n').listener.unix_mode == mode
    assert load(None, {"EVERMQ_LISTENER_UNIX_MODE": mode}).listener.unix_mode == mode


@pytest.mark.parametrize("value", ["0o660", "660", "'abc'", "'0680'", "'07777'", "''"])
def test_anything_else_is_a_mistake(file: Path, value: str) -> None:
    assert "unix_mode" in mistake(file, f"[listener]\nunix_mode = {value}\n")
    assert 'octal digits in quotes, such as "0660"' in mistake(file, f"[listener]\nunix_mode = {value}\n")


def test_the_group_of_the_unix_socket_is_a_name_or_a_number_in_quotes(file: Path) -> None:
    assert loaded(file, '[listener]\nunix_group = "staff"\n').listener.unix_group == "staff"
    assert load(None, {"EVERMQ_LISTENER_UNIX_GROUP": "1000"}).listener.unix_group == "1000"
    assert "the name or number of a group in quotes" in mistake(file, "[listener]\nunix_group = 1000\n")
    assert "the name or number of a group in quotes" in mistake(file, '[listener]\nunix_group = "a b"\n')
