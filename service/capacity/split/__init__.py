"""A pool of its own for long requests: what it buys to route them elsewhere, and when it buys nothing.

`parting` tells the short requests of a workload from the long ones, `places` says where a split may lie, `counting` how
many requests run in a pool, `pair` what two pools of the right sizes hold together; `splitting` is the entrance.
"""
