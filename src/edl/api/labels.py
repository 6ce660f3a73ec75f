"""Names of the labels and annotations that EDL itself writes on objects, each spelt once.

Annotations that users write on a job, and what may stand under them, are in `edl.api.annotations`.
"""

LABEL_JOB = "edl.dev/job"
LABEL_KIND = "edl.dev/kind"  # of the job: two kinds may each have one of the same name
LABEL_UID = "edl.dev/job-uid"
LABEL_ROLE = "edl.dev/role"
LABEL_INDEX = "edl.dev/index"
LABEL_ATTEMPT = "edl.dev/attempt"

FINGERPRINT = "edl.dev/fingerprint"  # of the spec we last wrote, and the generation that writing it led to
SEAL = "edl.dev/seal"  # proves that the operator made the object: what lost its owner is known by it
BEGUN_WITH = "edl.dev/begun-with"  # the part of a TrainingJob's spec that its run cannot change
RESOURCES = "edl.dev/resources"  # what a pod was asked to have when it was made
PLAN_REASON = "edl.dev/plan-reason"
PLAN_DIGEST = "edl.dev/plan-digest"  # of the plan that was written for a trainer; a spec of another is a person's
PLAN_URGENT = "edl.dev/plan-urgent"  # a trainer's answer to a pod that ran out of memory

LABEL_PROCESS_NODE = "edl.dev/node"  # of a node whose pods are processes
LABEL_EMBEDDED = "edl.dev/embedded"  # of a node that `edl up` started

CONTROLLER = "edl.dev/operator"  # the operator's name as a controller: in Events, and in `managedBy` of Jobs
