"""torchrun's options become the agent's greeting; what is missing or wrong is named."""

from types import SimpleNamespace
from typing import Any

import pytest

from edl.runtime.environment import SettingError
from edl.runtime.torch import plugin
from edl.runtime.torch.plugin import Settings, connect

ENV = {
    "EDL_SERVICE_URL": "http://127.0.0.1:1",
    "EDL_JOB_NAMESPACE": "ns",
    "EDL_JOB_NAME": "j",
    "EDL_JOB_TOKEN": "secret",
    "EDL_POD_NAME": "j-worker-0",
}


def parameters(**fields: Any) -> Any:
    usual = {"run_id": "u-1", "endpoint": "", "min_nodes": 2, "max_nodes": 4, "local_addr": None, "config": {}}
    return SimpleNamespace(**{**usual, **fields})


def test_torchrun_is_offered_the_backend_without_importing_anything() -> None:
    assert plugin.handler() is plugin.create


def test_an_agent_says_who_it_is() -> None:
    connection = connect(parameters(), Settings(window=1.5), ENV)
    connection.close()
    hello = connection.state.hello
    assert hello.agent.startswith("j-worker-0/")
    assert (hello.run, hello.minimum, hello.maximum, hello.window) == ("u-1", 2, 4, 1.5)


@pytest.mark.parametrize(
    ("env", "follows"),
    [({"MIN_SIZE": "2", "MAX_SIZE": "4"}, True), ({"MIN_SIZE": "2", "MAX_SIZE": "3"}, False), ({}, False)],
)
def test_an_agent_follows_the_job_unless_its_user_said_otherwise(env: dict[str, str], follows: bool) -> None:
    connection = connect(parameters(), Settings(), {**ENV, **env})
    connection.close()
    assert connection.state.hello.follows is follows


@pytest.mark.parametrize(
    ("endpoint", "url", "wanted"),
    [
        ("", "http://127.0.0.1:1", "http://127.0.0.1:1/v1/jobs/ns/j/rendezvous"),
        ("other:1", "http://127.0.0.1:1", "http://127.0.0.1:1/v1/jobs/ns/j/rendezvous"),
        ("127.0.0.1:2", "", "https://127.0.0.1:2/v1/jobs/ns/j/rendezvous"),
        ("http://127.0.0.1:2/", "", "http://127.0.0.1:2/v1/jobs/ns/j/rendezvous"),
    ],
)
def test_where_the_service_is(endpoint: str, url: str, wanted: str) -> None:
    connection = connect(parameters(endpoint=endpoint), Settings(), {**ENV, "EDL_SERVICE_URL": url})
    connection.close()
    assert connection._connection._address.url == wanted


@pytest.mark.parametrize("missing", ["EDL_SERVICE_URL", "EDL_JOB_NAMESPACE", "EDL_JOB_NAME", "EDL_JOB_TOKEN"])
def test_what_is_missing_is_named(missing: str) -> None:
    with pytest.raises(SettingError, match=missing):
        connect(parameters(), Settings(), {key: value for key, value in ENV.items() if key != missing})


def test_settings_come_from_rdzv_conf() -> None:
    config = {"join_window": "0.5", "linger": "2", "stop_timeout": "7", "join_timeout": "60", "warm": "0"}
    assert Settings.read(config) == Settings(window=0.5, linger=2.0, stop=7.0, patience=60.0, warm=False)
    assert Settings.read({}) == Settings()


@pytest.mark.parametrize("value", ["soon", "-1", "1e9"])
def test_a_setting_that_is_no_time_is_refused(value: str) -> None:
    with pytest.raises(SettingError, match="join_window"):
        Settings.read({"join_window": value})
