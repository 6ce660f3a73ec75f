"""Runs a PaddlePaddle script as a parameter server or a trainer of a TrainingJob: `python -m edl.paddle train.py`.

The script is one for Paddle's own parameter servers (`fleet.init(is_collective=False)`, `a_sync`) and knows nothing of
EDL. It gets the list of servers in its environment, files from the job's queue if the job has a master, and a model
that is initialised once, however often trainers come and go. For PaddlePaddle 2.6, see docs/train/paddle.md.
"""

import argparse
import contextlib
import logging
import os
import runpy
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from edl.runtime.environment import Environment, SettingError
from edl.runtime.logs.own_output import copy_output, exit_now
from edl.runtime.paddle import hooks
from edl.runtime.paddle.servers import (
    PSERVER,
    TRAINER,
    LostServerError,
    Servers,
    await_loss,
    await_servers,
    check_unchanged,
    model_servers,
)
from edl.runtime.service_client import ServiceClient
from edl.runtime.slots import claim_slot, new_holder

log = logging.getLogger(__name__)

LEFT = 143


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m edl.paddle", description=__doc__.splitlines()[0])
    parser.add_argument("script", help="a Paddle training script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")
    options = parser.parse_args(arguments)
    try:
        env = Environment.read(os.environ)
        env.require("namespace", "job", "token", "service_url")
        serves = os.environ.get("TRAINING_ROLE") == "PSERVER"
        copy_output(env, leads=not serves and env.index == 0)
        _log_to_stderr()
        run = _serve if serves else _train
        run(env, options.script, options.arguments)
    except SettingError as error:
        print(f"edl.paddle: {error}", file=sys.stderr)
        return 2
    except LostServerError as error:
        _give_up(error)
    except SystemExit as ended:
        if ended.code == LEFT:
            _end(LEFT)
        raise
    return 0


def _log_to_stderr() -> None:
    """Uses a handler of its own: Paddle takes over the root logger."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    ours = logging.getLogger("edl")
    ours.addHandler(handler)
    ours.setLevel(logging.INFO)
    ours.propagate = False


def _give_up(error: LostServerError) -> None:
    print(f"edl.paddle: {error}", file=sys.stderr)
    _end(1)


def _end(code: int) -> None:
    """Exits at once: Paddle's threads abort the process if the interpreter ends before they do."""
    sys.stdout.flush()
    sys.stderr.flush()
    exit_now(code)


def _serve(env: Environment, script: str, arguments: list[str]) -> None:
    service = ServiceClient.of(env)
    slot = claim_slot(service, PSERVER, env.index, new_holder(env), f"{env.pod_ip}:{env.pserver_port}")
    servers = await_servers(service, _count())
    check_unchanged(model_servers(service), servers)
    log.info("parameter server %d of %d", slot.index, len(servers))
    _run(script, arguments, servers)


def _train(env: Environment, script: str, arguments: list[str]) -> None:
    service = ServiceClient.of(env)
    slot = claim_slot(service, TRAINER, env.index, new_holder(env))
    servers = await_servers(service, _count())
    check_unchanged(model_servers(service), servers)
    queue = hooks.FileQueue(servers) if env.master else None
    hooks.install(hooks.ModelInitializer(service, servers, slot), queue)
    threading.Thread(target=lambda: _give_up(await_loss(ServiceClient.of(env), servers)), daemon=True).start()
    with queue or contextlib.nullcontext():
        _run(script, arguments, servers)


def _run(script: str, arguments: list[str], servers: Servers) -> None:
    os.environ["PADDLE_PSERVERS_IP_PORT_LIST"] = ",".join(server.address for server in servers)
    os.environ.setdefault("PADDLE_WITH_GLOO", "0")  # its barriers want a fixed number of trainers
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).resolve().parent))
    runpy.run_path(script, run_name="__main__")


def _count() -> int:
    count = os.environ.get("PSERVERS", "")
    if not count.isdecimal() or count == "0":
        raise SettingError("PSERVERS is not set: give the job's spec a `pserver` role with this command")
    return int(count)


if __name__ == "__main__":
    sys.exit(main())
