"""Tools that hold magneto to CPython: the conformance runner and the stress runner.

Run them as `python -m magneto.testing.conformance` and `python -m magneto.testing.stress`.
"""
