"""What this machine can measure: facts about it, how they are found out, and what they mean.

Knows no run and no report; torch is asked in a child process only.
"""
