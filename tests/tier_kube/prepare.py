"""`python -m tests.tier_kube.prepare`: builds what the tier needs and says how far it is, before its tests begin.

The first time that takes minutes; workers, of which there are several, would all wait for it and could show nothing.
"""

import sys

from tests.tier_kube.cluster.build import BuildError, build
from tests.tier_kube.cluster.buildah import ImageError
from tests.tier_kube.cluster.cluster import provide
from tests.tier_kube.cluster.disk import disk_with
from tests.tier_kube.cluster.kubectl import existing_kubeconfig
from tests.tier_kube.cluster.packages import MissingError, require_root
from tests.tier_kube.cluster.processes import StartError
from tests.tier_kube.cluster.python_image import python_image, torch_directory
from tests.tier_kube.cluster.tiny_image import tiny_image
from tests.tier_kube.image import project_image


def main() -> None:
    """With a cluster of the user's, only an API server is ours: that of the conformance suite."""
    if existing_kubeconfig():
        provide(nodes=False)
    else:
        require_root()
        provide(nodes=True)
        disk_with([tiny_image()])
        disk_with([tiny_image(), project_image()])
        python_image()
        torch_directory()
    build("helm", "kwok", "promtool")


if __name__ == "__main__":
    try:
        main()
    except (BuildError, ImageError, MissingError, StartError) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("interrupted: the same command carries on from here")
