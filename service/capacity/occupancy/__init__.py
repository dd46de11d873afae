"""Users at a stated risk: how many requests run with at most so much chance that the cache overflows.

`steps` says how many tokens a running request holds at a random step, `holding` how many blocks that is in a pool,
`sums` how likely so many requests together hold more than there is, and `at_risk` how many may run because of it.
"""
