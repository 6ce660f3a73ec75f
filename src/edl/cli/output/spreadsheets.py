"""Cells of CSV files that people open with a spreadsheet: text of others must not become a formula there."""

_STARTS_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def plain_cell(cell: object) -> object:
    """Text that a spreadsheet would compute gets an apostrophe in front; numbers stay numbers."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_STARTS_FORMULA) else cell
