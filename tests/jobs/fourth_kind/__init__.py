"""A fourth kind, which EDL does not have: a package with one row, as each kind of EDL is."""
