from __future__ import annotations

import re

import pytest

from lightning_perfwatch.report import Report
from lightning_perfwatch.reporters import FORMATS, render
from tests.reporters.factories import REPORTS


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS.keys())
@pytest.mark.parametrize("format_", FORMATS)
def test_every_format_renders_every_report(format_: str, report: Report) -> None:
    text = render(report, format_)

    assert text.endswith("\n")
    assert text.encode()
    assert "\x1b" not in text
    # Bokeh's own script has its own words
    assert "None" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


def test_an_unknown_format_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ValueError, match=r"Unknown format 'markdwon': did you mean 'markdown'\?"):
        render(Report(), "markdwon")
