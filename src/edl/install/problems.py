"""Tells what is wrong with the options of an installation, by their names on the command line.

The chart's schema refuses the same as far as a schema can say it; the rest shows in `edl install` alone.
"""

import re
from collections.abc import Iterator
from ipaddress import ip_network

from edl.api.kubernetes.names import dns_label_problem
from edl.api.kubernetes.quantity import nano
from edl.install.option import Row
from edl.install.options import InstallOptions, rows
from edl.scheduler.policies.registry import policy_named
from edl.scheduler.settings import parse_load

_MAY_BE_EMPTY = {"brain_storage", "cpu_limit"}
_OWN_VARIABLES = {"POD_NAME", "POD_NAMESPACE", "POD_IP"}
HIGHEST_PORT = 65535


def problems(options: InstallOptions) -> list[str]:
    """Everything that is wrong, one line each."""
    return [
        *_of_places(options),
        *_of_texts(options),
        *_of_maps(options),
        *_of_scheduling(options),
        *_of_certificates(options),
    ]


def _of_places(options: InstallOptions) -> Iterator[str]:
    if problem := dns_label_problem(options.namespace):
        yield f"--namespace {options.namespace}: {problem}"
    for name in options.job_namespaces:
        if problem := dns_label_problem(name):
            yield f"--namespaces {name}: {problem}"
        elif name == options.namespace or name.startswith("kube-"):
            yield f"--namespaces {name}: the operator makes no pods there; name another one"
    for name in options.guarded_namespaces:
        if problem := dns_label_problem(name):
            yield f"--server-budgets {name}: {problem}"
    try:
        ip_network(options.api_server_cidr or "0.0.0.0/0")
    except ValueError as error:
        yield f"--api-server-cidr: {error}"
    if options.metrics_from and (problem := dns_label_problem(options.metrics_from)):
        yield f"--metrics-from {options.metrics_from}: {problem}"
    if options.metrics_port > HIGHEST_PORT:
        yield f"--metrics-port {options.metrics_port}: wants a port, {HIGHEST_PORT} at most"


def _of_texts(options: InstallOptions) -> Iterator[str]:
    if not options.image:
        yield "--image: wants the name of EDL's image"
    if not options.service_account:
        yield "--service-account: wants a name; --no-service-account says that it is there already"
    for row in rows():
        given, option = getattr(options, row.field), row.option
        if option.pattern and not re.fullmatch(option.pattern, given):
            yield f"{row.flag} {given}: wants {option.wants}"
        if option.metavar == "QUANTITY" and (given or row.field not in _MAY_BE_EMPTY):
            yield from _of_quantity(row, given)


def _of_quantity(row: Row, given: str) -> Iterator[str]:
    try:
        nano(given)
    except ValueError as error:
        yield f"{row.flag}: {error}"


def _of_maps(options: InstallOptions) -> Iterator[str]:
    for row in rows():
        for key in row.option.reserved:
            if key in getattr(options, row.field):
                yield f"{row.flag}: {key} is EDL's own, which finds its pods by it; name another one"
    for variable in options.extra_env:
        name = variable.get("name")
        if not name or not isinstance(name, str):
            yield "--extra-env: every variable wants a name"
        elif name in _OWN_VARIABLES or name.startswith("EDL_BRAIN_"):
            yield f"--extra-env: {name} is set by EDL; name another one"


def _of_scheduling(options: InstallOptions) -> Iterator[str]:
    try:
        policy_named(options.policy)
    except ValueError as error:
        yield f"--policy: {error}"
    try:
        parse_load(options.max_load)
    except ValueError as error:
        yield f"--max-load: {error}"


def _of_certificates(options: InstallOptions) -> Iterator[str]:
    if options.cert_manager_issuer and not options.authority_secret:
        yield "--cert-manager-issuer: wants --authority-secret, the Secret that cert-manager shall write"
