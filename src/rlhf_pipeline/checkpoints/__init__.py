"""Checkpoints that survive: a ledger per training run, and a version log of released policies.

Nothing here imports torch: the Ray driver, the stages and the flows all use it.
"""
