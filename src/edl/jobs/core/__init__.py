"""Everything that job kinds share: the row that describes a kind, slots and pod sets, children, conditions, grants, the
request to and the outcome of a reconcile. Knows no kind by name.
"""
