"""Three minutes of `make soak`: every job right, and memory, descriptors, store and logs bounded."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.case("attack-1"), pytest.mark.kube, pytest.mark.timeout(900)]


def test_three_minutes_of_faults_leave_every_job_right() -> None:
    ran = subprocess.run([sys.executable, "-m", "tests.soak", "3"], capture_output=True, text=True, check=False)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
