"""The chart's README says what values.yaml says."""

from __future__ import annotations

from tests.chart import CHART
from tests.unit.chart.scripts import load

readme = load("readme")


def test_the_table_of_values_is_fresh() -> None:
    text = (CHART / "README.md").read_text()
    assert readme.with_table(text, (CHART / "values.yaml").read_text()) == text, "run: python3 charts/readme.py"
    assert readme.main(["--check"]) == 0


def test_every_value_is_explained() -> None:
    values = list(readme.values((CHART / "values.yaml").read_text()))
    assert len(values) > 40
    assert [item.path for item in values if not item.words] == []


def test_a_mapping_of_one_line_is_one_value() -> None:
    text = '# Rights.\na:\n  # One, | and\n  # two.\n  b: {c: 1}\n  # Three.\n  d:\n    - {e: "x"}\n    - f\n'
    assert readme.table(text).splitlines()[2:] == [
        "| `a.b` | `{c: 1}` | One, \\| and two. |",
        '| `a.d` | `[{e: "x"}, f]` | Three. |',
    ]
