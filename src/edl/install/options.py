"""Options of an installation: the one table from which `edl install`'s flags, the chart's values with their schema, and
the reference come. A new option is a field here, and its use in the objects.

`edl install -f FILE` reads the same file as `helm install -f FILE`.
"""

from typing import Annotated, Any

import msgspec

from edl import __version__
from edl.api.job_view import Installation
from edl.install.option import Option, Row, rows_of
from edl.operator.settings import NAMESPACE, cluster_name
from edl.scheduler.policies.registry import DEFAULT_POLICY, POLICIES

NAME = "edl-operator"  # of everything that has no reason to be called otherwise
PART_OF = {"app.kubernetes.io/part-of": "edl"}
SELECTOR = {"app.kubernetes.io/name": NAME}
VERSION = {"app.kubernetes.io/version": __version__}
LABELS = {**SELECTOR, **VERSION, **PART_OF}
METRICS_PORT = 8444
WEB, WEB_PORT = "edl-web", 8445
QUOTA_JOBS, QUOTA_MIB, QUOTA_CALLS = 2000, 32, 100  # of a namespace in Brain, unless it is told otherwise

_PLACE, _IMAGE, _OPERATORS, _SIZES = "Where", "Image", "Operators", "Decisions about jobs"
_PODS, _ACCESS, _JOBS, _BRAIN = "Pods of EDL", "Certificates and access", "Jobs", "Brain"
_MONITORING, _WEB = "Monitoring", "The page"
_SECONDS, _QUANTITY, _SECRET, _PAIRS = "SECONDS", "QUANTITY", "SECRET", "KEY=VALUE,..."
_DIGEST = "sha256: and 64 hexadecimal digits"


class InstallOptions(msgspec.Struct, frozen=True, kw_only=True):
    namespace: Annotated[
        str, Option(_PLACE, "Where everything goes. It is created, unless a release of Helm lives in it", "NAME")
    ] = NAMESPACE
    namespaces: Annotated[
        str, Option(_PLACE, "Where jobs may be, as a,b: the operator may write there alone; '': everywhere", "A,B")
    ] = ""
    create_namespace: Annotated[
        bool,
        Option(_PLACE, "Create the namespace, with Pod Security set to restricted", flag="--no-namespace",
               without="The namespace is there; leave it as it is, also when uninstalling"),
    ] = True  # fmt: skip
    crds: Annotated[
        bool,
        Option(_PLACE, "Install and upgrade the kinds, which stay when a release of Helm goes",
               without="Leave the kinds out"),
    ] = True  # fmt: skip

    image: Annotated[str, Option(_IMAGE, "EDL's image, for operators and for jobs that bring none", "IMAGE")] = (
        Installation().image
    )
    image_digest: Annotated[
        str,
        Option(_IMAGE, "Its digest, which alone counts then", "DIGEST",
               pattern="^(sha256:[0-9a-f]{64})?$", wants=_DIGEST),
    ] = ""  # fmt: skip
    pull_policy: Annotated[str, Option(_IMAGE, "When nodes fetch it", choices=("IfNotPresent", "Always", "Never"))] = (
        "IfNotPresent"
    )
    pull_secret: Annotated[
        str,
        Option(_IMAGE, "Secrets to fetch it with, as a,b: of the namespace, and of each namespace where pods of jobs "
               "run EDL's image", "A,B"),
    ] = ""  # fmt: skip

    replicas: Annotated[int, Option(_OPERATORS, "Operators; one leads, the others wait with warm caches", "N")] = 2
    lease: Annotated[
        str,
        Option(_OPERATORS, "How long a silent leader leads", _SECONDS,
               pattern="^([3-9]|[1-9][0-9]+)$", wants="whole seconds, 3 or more"),
    ] = "15"  # fmt: skip
    cpu: Annotated[str, Option(_OPERATORS, "CPU that an operator requests", _QUANTITY)] = "100m"
    cpu_limit: Annotated[
        str, Option(_OPERATORS, "Its limit of CPU; '': none, for an operator that is throttled loses its lease",
                    _QUANTITY)
    ] = ""  # fmt: skip
    memory: Annotated[str, Option(_OPERATORS, "Memory that an operator requests", _QUANTITY)] = "256Mi"
    memory_limit: Annotated[str, Option(_OPERATORS, "Its limit of memory", _QUANTITY)] = "1Gi"
    log_format: Annotated[
        str, Option(_OPERATORS, "Logs of operators and Brain (json is an object per line)", choices=("text", "json"))
    ] = "text"
    verbose: Annotated[bool, Option(_OPERATORS, "Log every cycle and every call")] = False
    extra_args: Annotated[list[str], Option(_OPERATORS, "More arguments of `edl operator`", "WORD")] = []
    service_account: Annotated[str, Option(_OPERATORS, "The account of the operators", "NAME")] = NAME
    create_service_account: Annotated[
        bool,
        Option(_OPERATORS, "Create that account", flag="--no-service-account", without="That account is there already"),
    ] = True

    policy: Annotated[str, Option(_SIZES, "How sizes are decided", choices=POLICIES)] = DEFAULT_POLICY
    max_load: Annotated[str, Option(_SIZES, "The share of the CPU that growth may use", "X")] = "0.97"
    available: Annotated[str, Option(_SIZES, "What counts as used", choices=("limits", "requests"))] = "limits"
    scale_hold: Annotated[
        str,
        Option(_SIZES, "How long a size set by `kubectl scale` is held before the scheduler goes on from there",
               _SECONDS, pattern="^[0-9]+$", wants="whole seconds, 0 for none"),
    ] = "300"  # fmt: skip

    stalled_after: Annotated[
        str,
        Option(_SIZES, "How long a running job may make no progress before it is Stalled, unless it names a time; 0: "
               "for ever", _SECONDS, pattern="^[0-9]+$", wants="whole seconds, 0 for never"),
    ] = "600"  # fmt: skip

    node_selector: Annotated[
        dict[str, str], Option(_PODS, "Labels of the nodes that may take pods of EDL", _PAIRS)
    ] = {}
    tolerations: Annotated[
        list[dict[str, Any]], Option(_PODS, "Taints of nodes that pods of EDL tolerate", "YAML")
    ] = []
    affinity: Annotated[
        dict[str, Any], Option(_PODS, "Affinity of operators, instead of their wish for different nodes", "YAML")
    ] = {}
    topology_spread_constraints: Annotated[
        list[dict[str, Any]], Option(_PODS, "How operators spread over zones or nodes", "YAML")
    ] = []
    priority_class_name: Annotated[str, Option(_PODS, "PriorityClass of EDL's pods", "NAME")] = ""
    pod_labels: Annotated[
        dict[str, str], Option(_PODS, "More labels of EDL's pods", _PAIRS, reserved=tuple(LABELS))
    ] = {}
    pod_annotations: Annotated[dict[str, str], Option(_PODS, "Annotations of EDL's pods", _PAIRS)] = {}
    extra_env: Annotated[
        list[dict[str, Any]], Option(_PODS, "More environment of EDL's pods, such as proxies", "NAME=VALUE")
    ] = []

    webhook: Annotated[
        bool, Option(_ACCESS, "Check jobs before they are stored", without="Let jobs be stored unchecked")
    ] = True
    authority_secret: Annotated[
        str,
        Option(_ACCESS, "A Secret of the namespace with an authority of yours (tls.crt and tls.key of a CA) that "
               "issues the certificates of job service, webhook, metrics and Brain; '': operators make one", _SECRET),
    ] = ""  # fmt: skip
    cert_manager_issuer: Annotated[
        str, Option(_ACCESS, "Have cert-manager write that Secret: the issuer that signs the authority", "NAME")
    ] = ""
    cert_manager_issuer_kind: Annotated[
        str, Option(_ACCESS, "What the issuer is", choices=("Issuer", "ClusterIssuer"))
    ] = "Issuer"
    api_server_cidr: Annotated[
        str,
        Option(_ACCESS, "Addresses of API servers, which alone reach the webhook then, and the job service for "
               "`edl describe`; '': the webhook is open to all pods", "CIDR"),
    ] = ""  # fmt: skip

    server_budgets: Annotated[
        str,
        Option(_JOBS, "Namespaces that get a PodDisruptionBudget, as a,b: of all masters and parameter servers of "
               "their TrainingJobs one is evicted at a time", "A,B"),
    ] = ""  # fmt: skip

    brain: Annotated[
        bool,
        Option(_BRAIN, "Brain, which advises EasyDL jobs, beside the operators",
               without="Install no Brain to advise EasyDL jobs"),
    ] = True  # fmt: skip
    brain_storage: Annotated[
        str, Option(_BRAIN, "Size of the claim that its history lasts in; '': it goes with the pod", _QUANTITY)
    ] = "1Gi"
    brain_storage_class: Annotated[
        str, Option(_BRAIN, "The claim's StorageClass; '': the cluster's default one", "NAME")
    ] = ""
    brain_database: Annotated[
        str,
        Option(_BRAIN, "A Secret of the namespace whose `url` names a PostgreSQL, which keeps the history instead",
               _SECRET),
    ] = ""  # fmt: skip
    brain_share_history: Annotated[
        bool, Option(_BRAIN, "Let jobs learn from those of every namespace, not only of their own")
    ] = False
    brain_quota_jobs: Annotated[int, Option(_BRAIN, "Jobs kept of each namespace", "N")] = QUOTA_JOBS
    brain_quota_mib: Annotated[int, Option(_BRAIN, "MiB kept of each namespace", "N")] = QUOTA_MIB
    brain_quota_calls: Annotated[int, Option(_BRAIN, "Calls a second of each namespace", "N")] = QUOTA_CALLS
    brain_cpu: Annotated[str, Option(_BRAIN, "CPU that its pod requests", _QUANTITY)] = "50m"
    brain_memory: Annotated[str, Option(_BRAIN, "Memory that its pod requests", _QUANTITY)] = "128Mi"
    brain_memory_limit: Annotated[str, Option(_BRAIN, "Its pod's limit of memory", _QUANTITY)] = "1Gi"
    brain_service_account: Annotated[
        str, Option(_BRAIN, "Its account, which is there; it has no token of it; '': the default one", "NAME")
    ] = ""
    brain_extra_args: Annotated[list[str], Option(_BRAIN, "More arguments of `edl brain`", "WORD")] = []

    web: Annotated[bool, Option(_WEB, "The page in the browser, for whoever has a token of the cluster")] = False
    web_secret: Annotated[
        str, Option(_WEB, "A Secret of the namespace with its certificate (tls.crt and tls.key); where there is none, "
                    "the page makes one of its own", _SECRET)
    ] = "edl-web-tls"  # fmt: skip
    web_actions: Annotated[bool, Option(_WEB, "Viewers may scale, pause and delete with their own rights")] = False
    web_memory: Annotated[str, Option(_WEB, "Memory that its pod requests", _QUANTITY)] = "256Mi"
    web_memory_limit: Annotated[str, Option(_WEB, "Its pod's limit of memory", _QUANTITY)] = "1Gi"

    metrics_from: Annotated[
        str, Option(_MONITORING, "The namespace whose pods may collect metrics; '': none", "NAMESPACE")
    ] = ""
    metrics_port: Annotated[int, Option(_MONITORING, "Where operators serve metrics", "PORT")] = METRICS_PORT
    service_monitor: Annotated[bool, Option(_MONITORING, "A ServiceMonitor, for Prometheus' operator")] = False
    pod_monitor: Annotated[
        str,
        Option(_MONITORING, "A PodMonitor instead: the Secret of the namespace whose `token` may get /metrics",
               _SECRET),
    ] = ""  # fmt: skip
    monitor_labels: Annotated[
        dict[str, str], Option(_MONITORING, "More labels of the monitors", _PAIRS, reserved=tuple(LABELS))
    ] = {}
    alerts: Annotated[bool, Option(_MONITORING, "PrometheusRules, for Prometheus' operator")] = False
    dashboard: Annotated[bool, Option(_MONITORING, "A dashboard, for Grafana's sidecar")] = False

    @property
    def job_namespaces(self) -> tuple[str, ...]:
        return tuple(filter(None, self.namespaces.split(",")))

    def cluster_name(self, name: str) -> str:
        """Of an object that is in no namespace."""
        return cluster_name(name, self.namespace, limited=bool(self.job_namespaces))

    @property
    def guarded_namespaces(self) -> tuple[str, ...]:
        return tuple(filter(None, self.server_budgets.split(",")))

    @property
    def pull_secrets(self) -> tuple[str, ...]:
        return tuple(filter(None, self.pull_secret.split(",")))

    @property
    def whole_image(self) -> str:
        """With its digest, if that is given."""
        return f"{self.image}@{self.image_digest}" if self.image_digest else self.image


def rows() -> list[Row]:
    return rows_of(InstallOptions)
