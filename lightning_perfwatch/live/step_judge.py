"""How well a step stands for the run, by the schedule and by what else was going on.

Keeps what does not change from step to step. Knows no clock and no Trainer.
"""

from __future__ import annotations

from lightning_perfwatch.live.plan import Plan
from lightning_perfwatch.live.schedule import Action, Schedule
from lightning_perfwatch.live.steps import Kind


class StepJudge:
    """Judges the steps of a fit in their order."""

    def __init__(self, schedule: Schedule) -> None:
        self._plan = Plan(schedule)
        self.usual = Kind.EPOCH_START  # of the steps before usual_until
        self.usual_until = 0
        self.num_epochs = 0  # that had begun with the last step

    def replan(self, plan: Plan) -> None:
        """From the next step on, ``plan`` says what is done with a step."""
        self._plan = plan
        self.usual_until = 0

    def judge(self, step: int, num_epochs: int, *, is_disturbed: bool, is_recorded: bool) -> Kind:
        """The kind of the step that has just ended.

        ``num_epochs`` are those that have begun; ``is_recorded`` says whether a window is open.
        """
        if step >= self.usual_until:
            self.usual, self.usual_until = self._usually(step), self._plan.next_change(step)
        kind = self.usual
        begins_epoch, self.num_epochs = num_epochs != self.num_epochs, num_epochs
        if step == 0:
            return Kind.EPOCH_START
        if is_disturbed or (kind is Kind.RECORDED and not is_recorded):  # a window may close early or be left out
            return Kind.DISTURBED
        return max(kind, Kind.EPOCH_START) if begins_epoch else kind

    def _usually(self, step: int) -> Kind:
        """The same for a step that nothing but the schedule makes a special one."""
        action = self._plan.action(step)
        if action is not Action.IDLE:
            return Kind.RECORDED if action is Action.ACTIVE else Kind.DISTURBED
        return Kind.EARLY if step < self._plan.schedule.skip_first else Kind.STEADY
