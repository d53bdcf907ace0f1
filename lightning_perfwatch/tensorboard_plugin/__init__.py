"""The PerfWatch tab of TensorBoard: the report of every run below the log directory, while it trains and after.

Owns what is served and how it is found. Decides nothing about bottlenecks and never imports torch.
"""
