"""`loss.item()` in every step: what it costs on this device, and what it would on another."""

from collections.abc import Sequence
from pathlib import Path

from worked.runs import explain, find, ratio, tell, train


def main(directory: Path, overrides: Sequence[str] = ()) -> None:
    """Train with and without the call, and say what was found."""
    print("1. The step keeps its losses in a list: loss.item().")
    first = train(directory / "1_item", ["experiment=host_sync", *overrides])
    tell("   measured", first)
    finding = find(first, "host-sync")
    if finding is not None:
        explain(finding)

    print("2. The same without it.")
    second = train(directory / "2_no_item", ["experiment=host_sync", *overrides], ["model._target_=gpt.GPT"])
    tell("   measured", second)
    print(f"   that is {ratio(first, second)}")
    if first.run is not None and not first.run.device_is_asynchronous:
        print(
            "   A CPU has nothing to wait for, so a difference is noise. On a GPU the call waits for all queued work."
        )
