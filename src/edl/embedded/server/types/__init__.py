"""The types of built-in objects: decoding into them, and the canonical form of what is stored.

Not here: their rules (`kinds`), and kinds that a CustomResourceDefinition defines (`crds`).
"""
