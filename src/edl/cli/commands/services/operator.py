"""Run the operator against a cluster: it looks after jobs, plans their sizes and serves their pods.

Run as many as you like against one cluster: one of them leads, the others wait with warm caches. SIGTERM ends it in
good order; it ends by itself when it has lost its lease, and should then be started again.
"""

import argparse
import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

from edl.cli.connect.cluster import UNREACHABLE, chosen_kubeconfig

if TYPE_CHECKING:
    from edl.operator.settings import BrainSettings, OperatorSettings

SUMMARY = "run the operator against a cluster"
ORDER = 210


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kubeconfig", metavar="FILE", help="the cluster (default: $KUBECONFIG, else `edl up`'s)")
    parser.add_argument(
        "-n", "--namespace", metavar="NAME", default="edl-system", help="where its lease and Secret live (%(default)s)"
    )
    _size_arguments(parser)
    parser.add_argument(
        "--namespaces", metavar="A,B", default="", help="look after jobs of these namespaces only (default: of all)"
    )
    parser.add_argument("--image", metavar="IMAGE", help="EDL's own image, for masters and parameter servers")
    parser.add_argument(
        "--pull-secret", metavar="A,B", default="", help="Secrets of jobs' namespaces to fetch that image with"
    )
    parser.add_argument(
        "--carry-runtime",
        action="store_true",
        help="an init container of --image brings EDL's pod side to PyTorch workers, whose images need not have it",
    )
    parser.add_argument(
        "--lease", metavar="SECONDS", type=float, default=15.0, help="how long a silent leader leads (%(default)g)"
    )
    parser.add_argument("--workers", metavar="N", type=int, default=16, help="jobs looked at at a time (%(default)s)")
    parser.add_argument("--probes", metavar="HOST:PORT", help="serve /healthz and /readyz here")
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        help="serve /metrics here over TLS, to accounts that may get it (default: with the probes, to anybody)",
    )
    _service_arguments(parser)
    parser.add_argument("--no-crds", action="store_true", help="do not register the kinds")
    parser.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="json: an object per line (%(default)s)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="log every cycle and every call")


def _size_arguments(parser: argparse.ArgumentParser) -> None:
    from edl.scheduler.policies.registry import DEFAULT_POLICY, POLICIES

    parser.add_argument(
        "--policy", choices=tuple(POLICIES), default=DEFAULT_POLICY, help="how sizes are decided (%(default)s)"
    )
    parser.add_argument(
        "--max-load", metavar="X", default="0.97", help="share of the CPU that growth may use (%(default)s)"
    )
    parser.add_argument(
        "--available",
        choices=("limits", "requests"),
        default="limits",
        help="what counts as used: limits or requests (%(default)s)",
    )
    parser.add_argument(
        "--scale-hold",
        metavar="SECONDS",
        type=float,
        default=300.0,
        help="how long a size set by `kubectl scale` is held (%(default)g)",
    )
    parser.add_argument(
        "--stalled-after",
        metavar="SECONDS",
        type=_seconds,
        default=600.0,
        help="a running job is Stalled after so long without progress, unless it names a time; 0: never (%(default)g)",
    )


def _service_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--service",
        metavar="HOST:PORT",
        default="0.0.0.0:8443",
        help="where the job service listens; no HOST: everywhere (%(default)s)",
    )
    parser.add_argument(
        "--service-url", metavar="URL", default="", help="how pods reach it (default: the Service edl-job-service)"
    )
    parser.add_argument(
        "--service-address",
        metavar="IP",
        default=os.environ.get("POD_IP", ""),
        help="our address, to which the leader points the Service ($POD_IP)",
    )
    parser.add_argument(
        "--authority-secret",
        metavar="SECRET",
        default="",
        help="a Secret beside the operator with tls.crt and tls.key of a CA that is to issue its certificates",
    )
    parser.add_argument("--no-service", action="store_true", help="serve no job service")
    parser.add_argument(
        "--brain", action="store_true", help="trainers of EasyDL jobs find Brain beside the operator (`edl install`)"
    )
    parser.add_argument("--brain-url", metavar="URL", help="they find it here instead")
    parser.add_argument("--brain-key", metavar="FILE", help="the key that Brain's tokens are made with")
    parser.add_argument("--brain-ca", metavar="FILE", help="who signed its certificate, if nobody public did")
    parser.add_argument(
        "--webhook", metavar="HOST:PORT", help="check jobs for API servers here, before they are stored"
    )


def run(options: argparse.Namespace) -> int:
    import uvloop  # calls over TLS are most of its work, and cost less on it

    from edl.cli.errors import CommandError
    from edl.kube.rest.errors import KubeError
    from edl.operator.crds import UnsupportedError
    from edl.operator.logs import configure_logging

    configure_logging(options.log_format, verbose=options.verbose)
    try:
        settings = settings_of(options)
        return uvloop.run(_serve(options.kubeconfig, settings))
    except (UnsupportedError, ValueError) as error:
        raise CommandError(str(error)) from None
    except KubeError as error:
        print(f"edl: {error}", file=sys.stderr)
        return UNREACHABLE


def settings_of(options: argparse.Namespace) -> "OperatorSettings":
    from edl.api.job_view import Installation
    from edl.jobs.core.pods.pod_builder import PodSettings
    from edl.operator.settings import OperatorSettings, ServiceSettings
    from edl.scheduler.settings import Settings, parse_load

    parse_load(options.max_load)
    pull_secrets = tuple(filter(None, options.pull_secret.split(",")))
    installation = Installation(image=options.image or Installation().image, pull_secrets=pull_secrets)
    host, port = _address(options.service, "--service")
    service = ServiceSettings(host, port, options.service_url, options.service_address)
    if not options.no_service and not service.url and not service.address:
        raise ValueError(
            "pods must know where the job service is: give --service-url, or --service-address (in a pod: $POD_IP), "
            "or --no-service"
        )
    return OperatorSettings(
        namespace=options.namespace,
        namespaces=tuple(filter(None, options.namespaces.split(","))),
        lease=options.lease,
        workers=options.workers,
        stalled_after=options.stalled_after,
        probes=_address(options.probes, "--probes") if options.probes else None,
        metrics=_address(options.metrics, "--metrics") if options.metrics else None,
        pods=PodSettings(installation=installation, carries_runtime=options.carry_runtime),
        scheduler=Settings(
            policy=options.policy,
            max_load=options.max_load,
            available=options.available,
            scale_hold=options.scale_hold,
        ),
        service=None if options.no_service else service,
        webhook=_address(options.webhook, "--webhook") if options.webhook else None,
        brain=_brain(options),
        own_brain=options.brain,
        authority_secret=options.authority_secret,
        register_crds=not options.no_crds,
    )


def _brain(options: argparse.Namespace) -> "BrainSettings | None":
    from pathlib import Path

    from edl.brain.keys import key_at
    from edl.operator.settings import BrainSettings

    if not options.brain_url:
        return None
    if options.brain:
        raise ValueError("--brain-url names another Brain than --brain, which is the one beside the operator: give one")
    if not options.brain_key:
        raise ValueError("--brain-url needs --brain-key: the key that Brain checks its callers' tokens with")
    try:
        authority = Path(options.brain_ca).read_text() if options.brain_ca else ""
        return BrainSettings(options.brain_url, key_at(Path(options.brain_key)), authority, logs=True)
    except OSError as error:
        raise ValueError(f"{error.filename} cannot be read: {error.strerror}") from None


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < float("inf"):
        raise ValueError
    return seconds


def _address(text: str, option: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{option} {text}: wants HOST:PORT, such as 0.0.0.0:8443")
    return host.strip("[]"), int(port)


async def _serve(kubeconfig: str | None, settings: "OperatorSettings") -> int:
    from edl.kube.auth.kubeconfig import load_client_config
    from edl.kube.rest.transport import HttpTransport
    from edl.operator.main import run_operator

    transport = HttpTransport(load_client_config(chosen_kubeconfig(kubeconfig)))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await run_operator(transport, settings, stop=stop)
    finally:
        await transport.close()
    return 0
