"""Field names of Kubernetes' PodTemplateSpec, PodSpec and Container, only to find a misspelt one."""

TEMPLATE_FIELDS = ("apiVersion", "kind", "metadata", "spec")

POD_SPEC_FIELDS = tuple(
    """
    activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks
    ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets
    initContainers nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates
    resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates securityContext serviceAccount
    serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds tolerations
    topologySpreadConstraints volumes workloadRef
    """.split()  # noqa: SIM905  # forty quoted names would hide what this is
)

CONTAINER_FIELDS = tuple(
    """
    args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy
    resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath
    terminationMessagePolicy tty volumeDevices volumeMounts workingDir
    """.split()  # noqa: SIM905  # forty quoted names would hide what this is
)
