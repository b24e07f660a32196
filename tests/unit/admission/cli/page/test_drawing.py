"""Charts: what is drawn is what was, and everything drawn is also told."""

from typing import Any

from admission.cli.page.charts import ChartLine, drawn_chart
from admission.cli.page.layout import form


def chart(title: str, *shown: Any, **more: Any) -> str:
    html = form("charts.html", "chart", title, drawn_chart(title, *shown, **more))
    return html.replace("\n", "")


TIMES = ("10:00", "11:00", "12:00", "13:00")


def test_a_value_is_drawn_for_the_whole_of_its_slot() -> None:
    html = str(chart("GPUs", TIMES, [ChartLine(name="a", values=(0, 4, 8, 2), is_area=True)], unit="gpu"))
    assert 'd="M0 200H250L250 100H500L500 0H750L750 150H1000"' in html
    assert 'class="area series-0" d="M0 200H250L250 100H500L500 0H750L750 150H1000V200H0Z"' in html
    assert "<span>8</span><span>6</span><span>4</span><span>2</span><span>0</span>" in html


def test_nothing_is_drawn_where_nothing_is_known() -> None:
    html = str(chart("Waits", TIMES, [ChartLine(name="half", values=(1, None, 3, 4))], unit="minutes"))
    assert "M0 150H250M500 50H750L750 0H1000" in html
    assert "area" not in html
    assert "nothing is known" in str(
        chart("Waits", TIMES, [ChartLine(name="half", values=(None,) * 4)], unit="m")
    )
    assert "nothing is known" in str(chart("Waits", (), [], unit="m"))


def test_a_chart_is_told_to_who_does_not_see_it() -> None:
    lines = [
        ChartLine(name="a", values=(1, 2, 3, 2.5)),
        ChartLine(name="limit", values=(4,) * 4, is_limit=True),
    ]
    html = str(chart("GPUs", TIMES, lines, unit="gpu"))
    assert 'aria-label="GPUs, in gpu. a: lowest 1.0, highest 3.0, last 2.5; limit: 4.0."' in html
    for time, value in zip(TIMES, ("1.0", "2.0", "3.0", "2.5"), strict=True):
        assert f'data-column="Time, UTC">{time}</td><td data-column="a" class="number">{value}</td>' in html


def test_names_of_others_stay_text() -> None:
    html = str(chart("<b>", ("<i>",), [ChartLine(name="<script>", values=(1,))], unit="<u>"))
    assert not any(tag in html for tag in ("<b>", "<i>", "<script>", "<u>"))


def test_levels_are_round_whatever_the_values_are() -> None:
    for most, level in ((0, "0"), (0.003, "0.003"), (7, "8"), (1234, "1500"), (99_999, "100k")):
        html = str(chart("x", ("t",), [ChartLine(name="a", values=(most,))], unit="u"))
        levels = html.split('aria-hidden="true">')[2 if "sample" in html else 1]
        assert level in levels, (most, levels[:200])
