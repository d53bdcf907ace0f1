"""The subcommands of ``perfwatch`` that have a module of their own.

Each adds its parser with ``add_to`` and imports what it needs when it runs.
"""
