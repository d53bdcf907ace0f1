"""Two reports side by side: what changed, by how much, and whether that is more than noise.

Owns the comparison of finished reports, and the judgement of one against the runs of a baseline. Pure: reads no file,
draws nothing, knows no rule by name.
"""

from lightning_perfwatch.comparison.comparison import Comparison, Pair, Side, compare
from lightning_perfwatch.comparison.finding_changes import FindingChange
from lightning_perfwatch.comparison.gate import Failure, Limits, Verdict, comparable, judge, require_speed
from lightning_perfwatch.comparison.setup import Difference
from lightning_perfwatch.comparison.slowdown import Slowdown
from lightning_perfwatch.comparison.speed import Answer, Change

__all__ = [
    "Answer",
    "Change",
    "Comparison",
    "Difference",
    "Failure",
    "FindingChange",
    "Limits",
    "Pair",
    "Side",
    "Slowdown",
    "Verdict",
    "comparable",
    "compare",
    "judge",
    "require_speed",
]
