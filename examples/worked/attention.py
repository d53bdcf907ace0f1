"""The loop on a small GPT: profile some steps, find the slowest operations, fix one thing, measure again.

With dropout 0.1 a CPU has no fast kernel for attention, and random numbers are made one by one. Without it the fast
kernel is back, and then larger batches are tried, since the bottleneck has moved.
"""

from collections.abc import Sequence
from pathlib import Path

from worked.runs import compare, explain, find, ratio, tell, train


def main(directory: Path, overrides: Sequence[str] = ()) -> None:
    """Train three times below `directory`, and compare each run with the one before."""
    print("1. As it is: dropout 0.1, batches of 16.")
    first = train(directory / "1_dropout", [*overrides, "model.dropout=0.1", "data.batch_size=16"])
    tell("   measured", first)
    for rule in ("slow-attention", "dropout-cost"):
        if (finding := find(first, rule)) is not None:
            explain(finding)

    print("2. One thing changed: dropout 0.")
    second = train(directory / "2_no_dropout", [*overrides, "model.dropout=0.0", "data.batch_size=16"])
    tell("   measured", second)
    print(f"   that is {ratio(first, second)}")
    compare(directory / "1_dropout", directory / "2_no_dropout")

    print("3. The next thing: batches of 64.")
    third = train(directory / "3_batch_64", [*overrides, "model.dropout=0.0", "data.batch_size=64"])
    tell("   measured", third)
    print(f"   that is {ratio(second, third)}")
    compare(directory / "2_no_dropout", directory / "3_batch_64")
