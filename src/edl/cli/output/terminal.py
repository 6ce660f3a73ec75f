"""Text of others made harmless for a terminal: names, reasons, messages and log lines are shown, never obeyed."""

import re

_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def harmless(text: str) -> str:
    """The text with every character that a terminal would act upon written out, as \\x1b. Newlines and tabs stay."""
    return _CONTROLS.sub(_written, text)


def _written(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
