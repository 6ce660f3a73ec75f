"""The roles of a TrainingJob: etcd, master, parameter servers, trainers, in the order in which they are made."""

from collections.abc import Mapping, Sequence
from typing import Any

from edl.api.job_view import Installation, Role
from edl.api.kubernetes.meta import EMPTY
from edl.api.kubernetes.templates import Data, joined, resources_data, role_template, verbatim
from edl.jobs.training.types import Master, Pserver, TrainingJob, TrainingJobSpec

MASTER, PSERVER, TRAINER, ETCD = "master", "pserver", "trainer", "etcd"
DATA_VOLUME = "data"


def training_roles(job: TrainingJob, installation: Installation) -> tuple[Role, ...]:
    """`job` is defaulted."""
    spec = job.spec
    found = (_etcd(spec, installation), _master(spec, installation), _pserver(spec, installation))
    return (*(role for role in found if role is not None), _trainer(spec, installation))


def runs_user_code(role: Role) -> bool:
    """Trainers, and servers that the job names a command for."""
    if role.name == ETCD:
        return False
    return role.name == TRAINER or role.template["spec"]["containers"][0].get("command") != own_command(role.name)


def own_command(role: str) -> list[str]:
    return ["edl", role]


def _sizes(spec: TrainingJobSpec) -> tuple[int, int]:
    return spec.trainer.min_instance, spec.trainer.max_instance or spec.trainer.min_instance


def _trainer(spec: TrainingJobSpec, installation: Installation) -> Role:
    trainer = spec.trainer
    least, most = _sizes(spec)
    container = {
        **_image(spec, trainer.template, TRAINER, installation),
        "command": ["sh", "-c", verbatim(trainer.entrypoint)],
        **({"workingDir": trainer.workspace} if trainer.workspace else {}),
        **resources_data(trainer.resources),
    }
    template = _shared(spec, role_template(trainer.template, TRAINER, container))
    return Role(name=TRAINER, min=least, max=most, sizes=(least, most), lead=True, template=template)


def _master(spec: TrainingJobSpec, installation: Installation) -> Role | None:
    if spec.master is None:
        return None
    return Role(
        name=MASTER, min=1, max=1, sizes=_sizes(spec), template=_server(spec, spec.master, MASTER, installation)
    )


def _pserver(spec: TrainingJobSpec, installation: Installation) -> Role | None:
    pserver = spec.pserver
    if pserver is None:
        return None
    least = pserver.min_instance or 0
    template = _server(spec, pserver, PSERVER, installation)
    return Role(name=PSERVER, min=least, max=pserver.max_instance or least, sizes=_sizes(spec), template=template)


def _server(spec: TrainingJobSpec, role: Master | Pserver, name: str, installation: Installation) -> Data:
    """EDL's own program unless the role names a command, which then runs in the job's image."""
    command = role.command or _container_of(role.template, name).get("command")
    program = (
        {**_image(spec, role.template, name, installation), "command": list(command)}
        if command
        else {"image": installation.image, "command": own_command(name)}
    )
    return _shared(spec, role_template(role.template, name, {**program, **resources_data(role.resources)}))


def _etcd(spec: TrainingJobSpec, installation: Installation) -> Role | None:
    etcd = spec.etcd
    if etcd is None:
        return None
    image = etcd.image or _container_of(etcd.template, ETCD).get("image") or installation.etcd_image
    container = {"image": image, **resources_data(etcd.resources)}
    members = etcd.replicas or 1
    template = _shared(spec, role_template(etcd.template, ETCD, container))
    return Role(name=ETCD, min=members, max=members, sizes=_sizes(spec), template=template)


def _image(
    spec: TrainingJobSpec, template: Mapping[str, Any] | None, name: str, installation: Installation
) -> dict[str, str]:
    return {"image": spec.image or _container_of(template, name).get("image") or installation.image}


def _container_of(template: Mapping[str, Any] | None, name: str) -> Mapping[str, Any]:
    pod = (template or EMPTY).get("spec")
    containers = pod.get("containers") if isinstance(pod, Mapping) else None
    named = (item for item in containers or () if isinstance(item, Mapping) and item.get("name") == name)
    return next(named, EMPTY)


def _shared(spec: TrainingJobSpec, template: Data) -> Data:
    """What the job says of all its pods."""
    pod: Data = template["spec"]
    if spec.node_selector:
        pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), **spec.node_selector}
    if spec.image_pull_secrets:
        pod["imagePullSecrets"] = joined(pod.get("imagePullSecrets"), spec.image_pull_secrets, "name")
    if spec.host_network:
        pod["hostNetwork"] = True
        pod.setdefault("dnsPolicy", "ClusterFirstWithHostNet")
    _mount(spec, pod)
    return template


def _mount(spec: TrainingJobSpec, pod: Data) -> None:
    """`mountPath` shows the volume named data, which is empty unless the job or the template has one."""
    volumes = joined(pod.get("volumes"), spec.volumes, "name")
    mounts: Sequence[Mapping[str, Any]] = spec.volume_mounts or ()
    if spec.mount_path:
        mounts = joined([{"name": DATA_VOLUME, "mountPath": spec.mount_path}], mounts, "mountPath")
        if not any(volume.get("name") == DATA_VOLUME for volume in volumes):
            volumes = [*volumes, {"name": DATA_VOLUME, "emptyDir": {}}]
    if volumes:
        pod["volumes"] = volumes
    if mounts:
        container: Data = pod["containers"][0]
        container["volumeMounts"] = joined(container.get("volumeMounts"), mounts, "mountPath")
