"""A training that starves, repaired with the number of workers that its finding advises."""

from collections.abc import Sequence
from pathlib import Path

from lightning_perfwatch import Finding
from worked.runs import compare, explain, find, ratio, tell, train


def advised_workers(finding: Finding) -> int:
    """The `num_workers` that hide the loading, within the CPUs that this process may use."""
    needed, num_cpus = finding.evidence["needed_workers"], finding.evidence["num_cpus"]
    if not isinstance(needed, int) or not isinstance(num_cpus, int):
        raise TypeError(f"the finding tells no number of workers: {finding.evidence}")
    return min(needed, num_cpus)


def main(directory: Path, overrides: Sequence[str] = ()) -> None:
    """Train with samples that take long to load, read the advice, follow it and train again."""
    settings = ["experiment=dataloader_starvation", *overrides]
    print("1. Every sample takes 6 ms to load, in the training process.")
    first = train(directory / "1_starving", settings, ["data.num_workers=0"])
    tell("   measured", first)
    finding = find(first, "dataloader-starvation")
    if finding is None:
        print("   On this machine the training does not starve: there is nothing to repair.")
        return
    explain(finding)

    num_workers = advised_workers(finding)
    print(f"2. As advised: num_workers={num_workers}.")
    second = train(directory / "2_repaired", settings, [f"data.num_workers={num_workers}"])
    tell("   measured", second)
    print(f"   that is {ratio(first, second)}")
    compare(directory / "1_starving", directory / "2_repaired")
