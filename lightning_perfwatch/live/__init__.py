"""Inside the training process: measures the run and leaves what it measured in the run directory.

Only here and in ``callback.py`` are torch and lightning imported. Knows no rule and no reporter.
"""
