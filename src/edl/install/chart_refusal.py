"""The template by which the chart refuses an installation beside another one, as `edl install --apply` does.

It makes no object. It sees what is in the cluster, so `helm template` and dry runs are never refused.
"""

from edl.install.options import NAME
from edl.install.permissions import JOBS_ROLE

_RBAC = "rbac.authorization.k8s.io/v1"

OTHERS = f"""{{{{- range $binding := (lookup "{_RBAC}" "ClusterRoleBinding" "" "").items }}}}
{{{{- if eq "{NAME}" (dig "metadata" "labels" "app.kubernetes.io/name" "" $binding) }}}}
{{{{- range $binding.subjects }}}}
{{{{- $everywhere := not $.Values.namespaces }}}}
{{{{- range (lookup "{_RBAC}" "ClusterRole" "" $binding.roleRef.name).rules }}}}
{{{{- if and (has "pods" (.resources | default list)) (has "create" .verbs) }}}}
{{{{- $everywhere = true }}}}
{{{{- end }}}}
{{{{- end }}}}
{{{{- if and $everywhere (ne .namespace $.Values.namespace) }}}}
{{{{- fail (printf "EDL is in namespace %s of this cluster already, by ClusterRoleBinding %s. Change that one, remove \
it first, or limit both to namespaces of their own (namespaces)" .namespace $binding.metadata.name) }}}}
{{{{- end }}}}
{{{{- end }}}}
{{{{- end }}}}
{{{{- end }}}}
{{{{- range $place := without (splitList "," .Values.namespaces) "" }}}}
{{{{- range (lookup "{_RBAC}" "RoleBinding" $place "{JOBS_ROLE}").subjects }}}}
{{{{- if ne .namespace $.Values.namespace }}}}
{{{{- fail (printf "EDL in namespace %s has jobs in %s already; name other namespaces" .namespace $place) }}}}
{{{{- end }}}}
{{{{- end }}}}
{{{{- end }}}}
"""
