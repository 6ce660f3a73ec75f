"""Prepares the start of a container: inputs, directories, volumes, hosts file, devices."""

import asyncio
from pathlib import Path

from edl.embedded.node.network.hosts_file import own_text
from edl.embedded.node.pod.directories import PodDirectories, rewrite
from edl.embedded.node.pod.inputs import PodInputs
from edl.embedded.node.pod.launch import device_count, launch_of
from edl.embedded.node.pod.types import Container, Pod
from edl.embedded.node.pod_context import PodContext
from edl.embedded.node.runtime import Launch
from edl.embedded.node.volumes import prepare


class Preparer:
    """One pod's. What touches the disk much runs in a thread: a slow one must not hold up the whole process."""

    def __init__(self, context: PodContext, directories: PodDirectories, address: str) -> None:
        self._context = context
        self._directories = directories
        self._address = address
        self._made = False

    async def launch(self, pod: Pod, container: Container, run: int) -> Launch:
        """ConfigurationError and the like if the pod asks for something that is not there (yet)."""
        context = self._context
        inputs = await self._inputs(pod)
        devices = context.devices.take(pod.metadata.uid, container.name, device_count(container))
        volumes = await asyncio.to_thread(self._volumes, pod, inputs)
        self._made = True
        self.write_hosts(pod)
        return launch_of(
            container,
            pod,
            inputs=inputs,
            image=context.images.find(container.image),
            directories=self._directories,
            volumes=volumes,
            devices=devices,
            settings=context.settings,
            run=run,
        )

    async def refresh(self, pod: Pod) -> None:
        """Bring volumes of files up to date."""
        await asyncio.to_thread(self._volumes, pod, await self._inputs(pod))

    def write_hosts(self, pod: Pod) -> None:
        if self._made:
            services = self._context.services.hosts(pod.metadata.namespace)
            rewrite(self._directories.hosts, own_text(pod, self._address) + services)

    async def _inputs(self, pod: Pod) -> PodInputs:
        references, host_ip = self._context.references, self._context.host_ip
        return await references.resolve(pod, pod_ip=self._address, host_ip=host_ip)

    def _volumes(self, pod: Pod, inputs: PodInputs) -> dict[str, Path]:
        self._directories.make()
        return {volume.name: prepare(volume, pod, inputs, self._directories.volumes) for volume in pod.spec.volumes}
