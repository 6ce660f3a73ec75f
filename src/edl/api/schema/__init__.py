"""Declaration and checks of the specs of our kinds: shapes, decoding with all problems, CRDs, CEL and the
reference. Knows no kind by name: the types themselves are in `edl.jobs`.
"""
