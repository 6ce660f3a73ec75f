"""The environment of a pod: values, defaults, and refusals that name the variable."""

import pytest

from edl.runtime.environment import Environment, SettingError


def test_everything_the_operator_sets_is_read() -> None:
    env = Environment.read(
        {
            "EDL_JOB_NAMESPACE": "ns",
            "EDL_JOB_NAME": "j",
            "EDL_JOB_TOKEN": "t",
            "EDL_SERVICE_URL": "https://edl:1",
            "EDL_POD_NAME": "j-pserver-x",
            "EDL_INDEX": "3",
            "MASTER": "j-master",
            "PADDLE_INIT_PORT": "9000",
            "PADDLE_INIT_NUM_PASSES": "10",
            "EDL_TASK_LEASE": "2.5",
            "EDL_CHECKPOINT_SECONDS": "7",
        }
    )
    assert (env.index, env.master, env.pserver_port, env.passes) == (3, "j-master:8080", 9000, 10)
    assert (env.task_lease, env.checkpoint_seconds, env.pod) == (2.5, 7.0, "j-pserver-x")
    env.require("namespace", "job", "token", "service_url")


def test_what_is_missing_has_a_default_or_is_named() -> None:
    env = Environment.read({})
    assert (env.index, env.master, env.pserver_port, env.passes, env.task_lease) == (None, "", 7164, 1, 16.0)
    with pytest.raises(SettingError, match="EDL_JOB_TOKEN is not set"):
        env.require("token")


@pytest.mark.parametrize(
    ("name", "value"),
    [("EDL_INDEX", "one"), ("PADDLE_INIT_NUM_PASSES", "-1"), ("EDL_TASK_LEASE", "soon"), ("EDL_TASK_LEASE", "0")],
)
def test_nonsense_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingError, match=name):
        Environment.read({name: value})
