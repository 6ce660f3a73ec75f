"""An authority that issues the certificates of these tests."""

import pytest

from tests.kube_runtime.certificates import Authority


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()
