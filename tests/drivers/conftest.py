"""What the tests of both drivers share."""

import pytest

from tests.drivers.line import Line


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    """The line to every engine that a client of this test opens."""
    made = Line()
    monkeypatch.setattr("holdfast.client.open_engine", made.open_engine)
    return made
