"""Worked examples, each a minute or two on two CPU cores: measure, change one thing, measure again.

    python examples/tour.py attention   # a GPT with dropout: slow attention, fixed, then larger batches
    python examples/tour.py timing      # a matrix product timed with and without synchronize
    python examples/tour.py loading     # a training that starves, repaired with the advised number of workers
    python examples/tour.py reading     # loss.item() in every step

Settings of `configs/train.yaml` may follow, as in `trainer.max_steps=100`. Run directories go to
`outputs/tour/<date>_<time>/` below the directory it was started from.
"""

import argparse
import warnings
from datetime import datetime
from pathlib import Path

from worked import attention, loading, reading, timing

TRAINED = {"attention": attention.main, "loading": loading.main, "reading": reading.main}


def main() -> None:
    """Run the example that is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("example", choices=[*TRAINED, "timing"])
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--directory", type=Path, help="where the run directories go")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*does not have many workers")  # said of what is planted here
    warnings.filterwarnings("ignore", category=FutureWarning)  # Lightning's use of torch, not the example's
    if arguments.example == "timing":
        timing.main()
        return
    directory: Path = arguments.directory or Path("outputs/tour") / f"{datetime.now():%Y-%m-%d_%H-%M-%S}"
    TRAINED[arguments.example](directory, arguments.overrides)


if __name__ == "__main__":
    main()
