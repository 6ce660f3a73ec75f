"""Capacity of a node: what is declared, else its share of the machine."""

import shutil
from pathlib import Path

import pytest

from edl.embedded.node.registration import DeclaredCapacity, capacity_of


@pytest.mark.case("acceptance-9")
def test_nodes_share_the_free_disk_of_their_home(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free >> 20
    offered = capacity_of(4, directory=tmp_path, declared=DeclaredCapacity(cpu="1", memory="1Gi"))
    share = int(offered["ephemeral-storage"].removesuffix("Mi"))
    assert abs(share - free // 4) < free // 8, "others write to the same disk"


def test_what_is_declared_is_offered(tmp_path: Path) -> None:
    declared = DeclaredCapacity(cpu="8", memory="8Gi", disk="100Gi", gpu=2, resources={"example.com/fpga": "1"})
    assert capacity_of(4, directory=tmp_path, declared=declared) == {
        "cpu": "8",
        "memory": "8Gi",
        "ephemeral-storage": "100Gi",
        "nvidia.com/gpu": "2",
        "example.com/fpga": "1",
    }


def test_a_directory_that_is_not_made_yet_counts_as_where_it_will_be(tmp_path: Path) -> None:
    declared = DeclaredCapacity(cpu="1", memory="1Gi")
    assert "ephemeral-storage" in capacity_of(1, directory=tmp_path / "no" / "home", declared=declared)
