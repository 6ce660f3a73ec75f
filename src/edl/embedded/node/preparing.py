"""Everything that must be there before a container of a pod can start: facts, directories, volumes, hosts, devices."""

import asyncio
from pathlib import Path

from edl.embedded.node.equipment import Equipment
from edl.embedded.node.facts import Facts
from edl.embedded.node.hosts import own_text
from edl.embedded.node.launching import device_count, launch_of
from edl.embedded.node.places import PodPlaces, rewrite
from edl.embedded.node.pod import Container, Pod
from edl.embedded.node.runtime import Launch
from edl.embedded.node.volumes import prepare


class Preparer:
    """One pod's. What touches the disk much runs in a thread: a slow one must not hold up the whole process."""

    def __init__(self, equipment: Equipment, places: PodPlaces, address: str) -> None:
        self._equipment = equipment
        self._places = places
        self._address = address
        self._made = False

    async def launch(self, pod: Pod, container: Container, run: int) -> Launch:
        """ConfigurationError and the like if the pod asks for something that is not there (yet)."""
        equipment = self._equipment
        facts = await self._facts(pod)
        devices = equipment.devices.take(pod.metadata.uid, container.name, device_count(container))
        volumes = await asyncio.to_thread(self._volumes, pod, facts)
        self._made = True
        self.write_hosts(pod)
        return launch_of(
            container,
            pod,
            facts=facts,
            image=equipment.images.find(container.image),
            places=self._places,
            volumes=volumes,
            devices=devices,
            settings=equipment.settings,
            run=run,
        )

    async def refresh(self, pod: Pod) -> None:
        """Bring volumes of files up to date."""
        await asyncio.to_thread(self._volumes, pod, await self._facts(pod))

    def write_hosts(self, pod: Pod) -> None:
        if self._made:
            services = self._equipment.directory.hosts(pod.metadata.namespace)
            rewrite(self._places.hosts, own_text(pod, self._address) + services)

    async def _facts(self, pod: Pod) -> Facts:
        gatherer, host_ip = self._equipment.gatherer, self._equipment.host_ip
        return await gatherer.gather(pod, pod_ip=self._address, host_ip=host_ip)

    def _volumes(self, pod: Pod, facts: Facts) -> dict[str, Path]:
        self._places.make()
        return {volume.name: prepare(volume, pod, facts, self._places.volumes) for volume in pod.spec.volumes}
