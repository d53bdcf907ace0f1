"""Rule: the step spends its time on random numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from lightning_perfwatch.evidence import Evidence
from lightning_perfwatch.finding import Finding, Severity, Where
from lightning_perfwatch.rules.rule import Rule
from lightning_perfwatch.settings import Settings
from lightning_perfwatch.trace import OpCosts, attention
from lightning_perfwatch.trace.columns import Bools


@dataclass(frozen=True)
class DropoutCost(Rule):
    """The step spends its time on random numbers.

    What it is: dropout, or another random draw, in the forward pass of every step.

    Why it costs: dropout draws a random number for each activation, scales and multiplies with the mask, and
    multiplies again in the backward pass. A CPU draws them one after the other in a single thread, so dropout easily
    costs more than the layer before it. On a GPU it is a memory-bound kernel of its own.

    How it is measured: from the trace, the operators of dropout and of random draws with their backward pass, on the
    device's clock where there are kernels. Dropout inside of attention is left out: ``slow-attention`` counts it.
    Draws of the data loader and of the optimizer are left out, too.

    Fix: train without dropout where the data is not seen many times (language models are, as a rule), or drop fewer
    and smaller activations; on a GPU let ``torch.compile`` fuse dropout with the operators around it.

    Silent when: it costs less than ``info_share``; under ``warning_share`` it is information.
    """

    info_share: float = 0.02
    warning_share: float = 0.05
    critical_share: float = 0.25

    needs: ClassVar[tuple[str, ...]] = ("trace",)

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """At most one finding."""
        costs = evidence.op_costs
        assert costs is not None
        found = attention(costs)
        apart = costs.in_forward & ~found.forward
        dropout = costs.inside(costs.named(_DROPOUT.__contains__)) & apart
        draws = costs.inside(costs.named(_DRAWS.__contains__)) & apart & ~dropout
        dropout_share, draws_share = _share(costs, dropout), costs.share(draws)
        share = min(1.0, dropout_share + draws_share)
        if share < self.info_share:
            return
        severity = Severity.of(share, self.warning_share, self.critical_share)
        is_dropout = dropout_share >= draws_share
        num_calls = int((costs.named(_DROPOUT.__contains__) & dropout & (costs.parent < 0)).sum())
        yield Finding(
            rule=self.id(),
            severity=severity,
            share=share,
            summary=_summary(share, dropout_share, draws_share),
            advice=_advice(costs, evidence.settings, is_dropout),
            where=_place(evidence.settings, is_dropout),
            evidence={
                "dropout_share": dropout_share,
                "other_draws_share": draws_share,
                "dropout_calls_per_step": costs.trace.per_step(num_calls),
                "clock": costs.clock,
            },
        )


_DROPOUT = frozenset(
    ("aten::dropout", "aten::native_dropout", "aten::_fused_dropout", "aten::feature_dropout", "aten::alpha_dropout")
)
_DRAWS = frozenset(
    f"aten::{name}"
    for name in (
        "bernoulli", "bernoulli_", "rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm",
        "normal", "normal_", "uniform_", "random_", "exponential_", "log_normal_", "cauchy_", "geometric_", "poisson",
        "multinomial", "binomial", "rrelu_with_noise",
    )
)  # fmt: skip


def _share(costs: OpCosts, forward: Bools) -> float:
    return costs.share_of_us(float(costs.us[forward].sum() + costs.backward_us(forward).sum()))


def _summary(share: float, dropout_share: float, draws_share: float) -> str:
    parts = [(dropout_share, "dropout"), (draws_share, "other random draws")]
    told = [f"{100 * part:.0f} % for {name}" for part, name in sorted(parts, reverse=True) if part >= _NOTABLE_SHARE]
    return f"Random numbers and what is done with them take {100 * share:.0f} % of the step ({', '.join(told)})."


_NOTABLE_SHARE = 0.005


def _advice(costs: OpCosts, settings: Settings | None, is_dropout: bool) -> str:
    if not is_dropout:
        return "Draw fewer random numbers in the training step, or draw them ahead, for several steps at once."
    named = "" if settings is None or not settings.dropouts else f" (p={_probabilities(settings)} now)"
    if costs.clock == "device":
        return f"Compile the model (torch.compile), which fuses dropout with its neighbours, or set it to 0{named}."
    return f"Set dropout to 0 where the model does not overfit{named}, or drop fewer and smaller activations."


def _probabilities(settings: Settings) -> str:
    return ", ".join(f"{value:g}" for value in sorted({layer.probability for layer in settings.dropouts}))


def _place(settings: Settings | None, is_dropout: bool) -> Where:
    if not is_dropout:
        return Where(op="random draws")
    if settings is None or not settings.dropouts:
        return Where(op="dropout")
    others = settings.num_dropouts - 1
    return Where(op="dropout", module=settings.dropouts[0].name + (f" and {others} more" if others else ""))
