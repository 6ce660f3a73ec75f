"""Faults that acceptance and a red team once found, by name. Each has a test marked `case(name)`: `pytest -m case`."""

ACCEPTANCE: tuple[str, ...] = ()
ATTACKS: tuple[str, ...] = ()
