"""An authority that issues the certificates of these tests."""

import pytest

from tests.kube.certificates import Authority


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()
