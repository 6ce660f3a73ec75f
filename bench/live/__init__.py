"""Jobs on an embedded cluster whose speed follows a declared curve by sleeping: `cfs` beside `goodput`, and beside what
`edl simulate` says of the same situation.
"""
