"""CustomResourceDefinitions: their schemas, and the objects of the kinds that they define.

Not here: built-in kinds (`types`, `kinds`), and anything about EDL's own kinds.
"""
