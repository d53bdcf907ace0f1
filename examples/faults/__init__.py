"""Faults planted on purpose, so that a watcher has something to find: each is a healthy model, data module or callback
of the examples with one common mistake in it. `configs/experiment/` names them by the rule that should find them.
"""
