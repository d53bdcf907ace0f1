"""One other tool looks at one trace and says which of our rules it would have named.

Run as a script by any interpreter that has the tool: ``python rivals.py TOOL TRACE``. Owns the translation of other
tools' words into rule ids. Imports nothing of this project, so that it runs where this project is not installed.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import sys
import tempfile
from pathlib import Path

MISSING = 3
"""Exit status where the interpreter does not have the tool."""

# What of a tool's words means which of our rules; its first match counts.
_GPU_IDLE = {"dataloader": "dataloader-starvation", "smallbatch": "launch-bound", "h2d_copy": "device-copy"}
_TB_PROFILER = {
    "input data loading": "dataloader-starvation",
    "Tensor Cores": "full-precision-matmul",
    "instead of DataParallel": "ddp-settings",
    "Nccl backend": "ddp-settings",
    "time cost on communication": "exposed-communication",
    "low utilization": "underfilled-device",
    "limit of device memory": "memory-pressure",
}


def gpu_idle(path: str) -> list[str]:
    """gpu-idle, whose module has a general name; a cause that it can't name is none."""
    import analyzer

    causes = [finding["cause"] for finding in analyzer.analyze(path)["findings"]]
    return [_GPU_IDLE.get(cause, cause) for cause in causes if cause != "unattributed"]


def tb_profiler(path: str) -> list[str]:
    """The recommendations of torch-tb-profiler's overview."""
    from torch_tb_profiler.profiler.data import RunProfileData

    profile = RunProfileData.parse("worker", "1", path, tempfile.gettempdir())
    profile.process()
    profile.analyze()
    return [
        next((rule for words, rule in _TB_PROFILER.items() if words in said), said) for said in profile.recommendations
    ]


TOOLS = {"gpu-idle": gpu_idle, "torch-tb-profiler": tb_profiler}


def main() -> int:
    """Print the rules as a JSON list, on a line of its own at the end."""
    tool, trace = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        plain = Path(folder, "trace.json")
        plain.write_bytes(
            gzip.decompress(Path(trace).read_bytes()) if trace.endswith(".gz") else Path(trace).read_bytes()
        )
        try:
            named = TOOLS[tool](os.fspath(plain))
        except ImportError:
            return MISSING
    sys.stdout.write(f"\n{json.dumps(named)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
