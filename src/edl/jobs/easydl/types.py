"""ElasticJob (elastic.iml.github.io, EasyDL): what runs; how many and how large is a JobResource's to say."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from edl.api.kubernetes.meta import ObjectMeta
from edl.api.schema.spec import Count, RequiredUnless, Rule, Seconds, Spec, Status, Template, Unchanging
from edl.api.status import ElasticStatus
from edl.jobs.easydl.job_resource import ResourceUpdate, RoleResource

GROUP = "elastic.iml.github.io"
API_VERSIONS = (f"{GROUP}/v1alpha1",)
KIND = "ElasticJob"
PLURAL = "elasticjobs"
SHORT_NAME = "edlej"

PARAMETER_SERVER = "parameter_server"
RING_ALLREDUCE = "ring-allreduce"

_RESTARTS = "How often one pod of the role is replaced after it failed. Omitted: 3."


class RoleSpec(Spec, frozen=True, kw_only=True, rename="camel"):
    """One role of the job."""

    template: Annotated[
        Template,
        Meta(description="Pod template of the role: a container at least, which runs in EDL's image if it names none."),
    ]
    restart_count: Annotated[Count | None, Meta(description=_RESTARTS)] = None


class OptionalRoleSpec(Spec, frozen=True, kw_only=True, rename="camel"):
    """A role that runs without a template of its own."""

    template: Annotated[
        Template | None,
        Meta(description="Pod template of the role. Omitted: EDL's own trainer; for the evaluator, the worker's."),
    ] = None
    restart_count: Annotated[Count | None, Meta(description=_RESTARTS)] = None


class ElasticJobSpec(Spec, frozen=True, kw_only=True, rename="camel"):
    """The roles of the job; sizes and resources come from a JobResource."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        RequiredUnless("parameterServer", "distributionStrategy", ("ring-allreduce", "AllreduceStrategy")),
        Unchanging("distributionStrategy", "running pods cannot change it; make a new job"),
    )

    worker: Annotated[RoleSpec, Meta(description="The workers.")]
    parameter_server: Annotated[
        RoleSpec | None, Meta(description="The parameter servers; required for parameter_server.")
    ] = None
    evaluator: Annotated[
        OptionalRoleSpec | None, Meta(description="The evaluators. Omitted: as the workers, if a JobResource asks.")
    ] = None
    trainer: Annotated[
        OptionalRoleSpec | None, Meta(description="The trainer, which plans resources. Omitted: EDL's own.")
    ] = None
    distribution_strategy: Annotated[
        Literal["parameter_server", "ring-allreduce", "ParameterServerStrategy", "AllreduceStrategy"] | None,
        Meta(
            description="parameter_server (default) or ring-allreduce; also by their later names "
            "ParameterServerStrategy and AllreduceStrategy."
        ),
    ] = None
    ttl_seconds_after_finished: Annotated[
        Seconds | None, Meta(description="The job is deleted this long after its end. Omitted: never.")
    ] = None
    suspend: Annotated[bool | None, Meta(description="true: the job gives up its pods and keeps its place.")] = None


class FollowedPlan(Status, frozen=True, kw_only=True):
    """The plan that the job follows, kept so that roles which no JobResource names any more stay as they are."""

    source: Annotated[str, Meta(description="The JobResource that it was last taken from.")] = ""
    generation: Annotated[int, Meta(description="Its generation.")] = 0
    roles: Annotated[dict[str, RoleResource] | None, Meta(description="Most pods and resources, by role.")] = None
    updates: Annotated[
        tuple[ResourceUpdate, ...], Meta(description="Slots with resources of their own.", extra={"key": "name"})
    ] = ()


class EasydlStatus(ElasticStatus, frozen=True, kw_only=True, rename="camel"):
    """Status of an EasyDL ElasticJob."""

    plan: Annotated[FollowedPlan | None, Meta(description="The plan that the job follows.")] = None


class ElasticJob(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False, kw_only=True):
    """An elastic EasyDL job: a trainer that plans, parameter servers and workers."""

    api_version: str = msgspec.field(default=API_VERSIONS[0], name="apiVersion")
    kind: str = KIND
    metadata: ObjectMeta = ObjectMeta()
    spec: ElasticJobSpec
    status: EasydlStatus = EasydlStatus()
