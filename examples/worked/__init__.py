"""Worked examples: each trains or times something, prints what this machine measured, changes one thing and measures
again. `tour.py` runs them by name.
"""
