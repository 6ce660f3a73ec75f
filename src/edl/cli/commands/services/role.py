"""Runs a role of the runtime for its command: settings come from the pod's environment, options override them."""

import logging
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edl.runtime.environment import Environment


def run_role(name: str, role: "Callable[[Environment], int]", **options: Any) -> int:
    """`options` are members of the environment by name; those that were not given leave it as it is."""
    from dataclasses import replace

    from edl.runtime.environment import Environment, SettingError
    from edl.runtime.logs.own_output import copy_output

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    try:
        given = {member: value for member, value in options.items() if value}
        env = replace(Environment.read(os.environ), **given)
        copy_output(env)
        return role(env)
    except (SettingError, ValueError) as error:
        print(f"edl {name}: {error}", file=sys.stderr)
        return 2
