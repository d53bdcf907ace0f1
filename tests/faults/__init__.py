"""The fault suite: runs with one known fault, or none, and what PerfWatch says of them.

Uses the public interface only: the examples, their configs, the command, and ``report.json``.
"""
