"""Table of the built-in resources (docs/concepts/embedded-api-server.md lists what is left out).

Under each group and version, one line per resource: plural, kind, scope (ns or cluster), short names, categories,
subresources. Verbs are the usual eight unless the last column gives others. Reviews (`auth can-i` and the like) are
created and answered, never stored.
"""

from edl.embedded.server.registry import READ_WRITE, Resource, Subresource, resource
from edl.embedded.server.types.model import builtin_type

_TABLE = """
v1:
  bindings                  Binding                  ns      -        -              - create
  configmaps                ConfigMap                ns      cm       -              -
  events                    Event                    ns      ev       -              -
  limitranges               LimitRange               ns      limits   -              -
  namespaces                Namespace                cluster ns       -              finalize,status no-collection
  nodes                     Node                     cluster no       -              status
  pods                      Pod                      ns      po       all            pod
  resourcequotas            ResourceQuota            ns      quota    -              status
  secrets                   Secret                   ns      -        -              -
  serviceaccounts           ServiceAccount           ns      sa       -              token
  services                  Service                  ns      svc      all            status
apiextensions.k8s.io/v1:
  customresourcedefinitions CustomResourceDefinition cluster crd,crds api-extensions status
apps/v1:
  deployments               Deployment               ns      deploy   all            scale,status
  replicasets               ReplicaSet               ns      rs       all            scale,status
  statefulsets              StatefulSet              ns      sts      all            scale,status
authentication.k8s.io/v1:
  selfsubjectreviews        SelfSubjectReview        cluster -        -              - create
  tokenreviews              TokenReview              cluster -        -              - create
authorization.k8s.io/v1:
  localsubjectaccessreviews LocalSubjectAccessReview ns      -        -              - create
  selfsubjectaccessreviews  SelfSubjectAccessReview  cluster -        -              - create
  selfsubjectrulesreviews   SelfSubjectRulesReview   cluster -        -              - create
  subjectaccessreviews      SubjectAccessReview      cluster -        -              - create
batch/v1:
  jobs                      Job                      ns      -        all            status
coordination.k8s.io/v1:
  leases                    Lease                    ns      -        -              -
discovery.k8s.io/v1:
  endpointslices            EndpointSlice            ns      -        -              -
events.k8s.io/v1:
  events                    Event                    ns      ev       -              -
rbac.authorization.k8s.io/v1:
  clusterrolebindings       ClusterRoleBinding       cluster -        -              -
  clusterroles              ClusterRole              cluster -        -              -
  rolebindings              RoleBinding              ns      -        -              -
  roles                     Role                     ns      -        -              -
scheduling.k8s.io/v1:
  priorityclasses           PriorityClass            cluster pc       -              -
"""

_VERBS = {"create": ("create",), "no-collection": tuple(verb for verb in READ_WRITE if verb != "deletecollection")}
_POD = "attach,binding,eviction,exec,log,portforward,resize,status"
_GET_WRITE = ("get", "patch", "update")
_SUBRESOURCES = {
    "attach": Subresource("attach", "PodAttachOptions", ("create", "get")),
    "binding": Subresource("binding", "Binding", ("create",)),
    "eviction": Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
    "exec": Subresource("exec", "PodExecOptions", ("create", "get")),
    "finalize": Subresource("finalize", "Namespace", ("update",)),
    "log": Subresource("log", "Pod", ("get",)),
    "portforward": Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
    "resize": Subresource("resize", "Pod", _GET_WRITE),
    "scale": Subresource("scale", "Scale", _GET_WRITE, "autoscaling", "v1"),
    "token": Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),
}


def builtin_resources() -> list[Resource]:
    resources: list[Resource] = []
    group = version = ""
    for line in _TABLE.strip().splitlines():
        if line.endswith(":"):
            group, _, version = line[:-1].rpartition("/")
        else:
            resources.append(_row(group, version, line.split()))
    return resources


def _row(group: str, version: str, columns: list[str]) -> Resource:
    plural, kind, scope, short, categories, subresources = columns[:6]
    return resource(
        group=group,
        version=version,
        plural=plural,
        singular=kind.lower(),
        kind=kind,
        namespaced=scope == "ns",
        short_names=_words(short),
        categories=_words(categories),
        subresources=tuple(
            _SUBRESOURCES.get(name) or Subresource(name, kind, _GET_WRITE) for name in _words(subresources)
        ),
        verbs=_VERBS[columns[6]] if len(columns) > 6 else READ_WRITE,
        type=builtin_type(group, kind),
        storage="/events" if plural == "events" else f"{group}/{plural}",
    )


def _words(column: str) -> tuple[str, ...]:
    return () if column == "-" else tuple((_POD if column == "pod" else column).split(","))
