"""The pictures of the performance page: they show the kept figures, and only measured sections are rewritten."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks.curves import FOLDER, PAGE, kept, shown
from benchmarks.pages import rewrite
from benchmarks.plots import Chart, Series, svg, ticks
from hypothesis import given
from hypothesis import strategies as st

KEPT = PAGE.parent / FOLDER / "figures.json"
CHART = Chart(
    name="sample",
    title="Speed & size",
    x="events",
    y="ms",
    series=[
        Series(name="service", side="service", points=[(1, 2.0), (10, 2.5), (100, 30.0)]),
        Series(name="bare", side="bare", points=[(1, 0.2), (10, 0.25)]),
    ],
)
SVG = "{http://www.w3.org/2000/svg}"


@given(st.lists(st.floats(min_value=1e-3, max_value=1e7), min_size=1))
def test_axis_holds_every_value_between_its_ends(values: list[float]) -> None:
    marks = ticks(values)
    assert len(marks) > 1
    assert marks == sorted(marks)
    assert marks[0] <= min(values) * 1.0001
    assert max(values) <= marks[-1] * 1.0001


def test_picture_has_a_line_for_each_series_and_stays_inside_its_frame() -> None:
    picture = ElementTree.fromstring(svg(CHART))
    lines = picture.findall(f"{SVG}polyline")
    assert [len(line.attrib["points"].split()) for line in lines] == [3, 2]
    assert "bare" in lines[1].attrib["class"]
    width, height = (float(picture.attrib[name]) for name in ("width", "height"))
    for circle in picture.findall(f"{SVG}circle"):
        assert 0 < float(circle.attrib["cx"]) < width
        assert 0 < float(circle.attrib["cy"]) < height


def test_more_is_drawn_higher_and_further_right() -> None:
    line = ElementTree.fromstring(svg(CHART)).findall(f"{SVG}polyline")[0]
    places = [tuple(map(float, place.split(","))) for place in line.attrib["points"].split()]
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)


def test_table_says_where_nothing_was_measured() -> None:
    assert shown(CHART).endswith("| 100 | 30 | - |")


def test_only_what_stands_between_the_marks_is_rewritten(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- measured: a -->\nold\n<!-- end of a -->\nafter\n")
    for text in ("new \\1", "newer \\1"):
        rewrite(page, {"a": text})
        expected = f"before\n<!-- measured: a -->\n\n{text}\n\n<!-- end of a -->\nafter\n"
        assert page.read_text() == expected


def test_page_without_a_place_for_a_section_is_refused_and_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- measured: a -->\n<!-- end of a -->\n")
    with pytest.raises(ValueError, match="no place for b"):
        rewrite(page, {"a": "new", "b": "new"})
    assert "new" not in page.read_text()


def test_pictures_show_the_kept_figures() -> None:
    if not KEPT.exists():
        pytest.skip("nothing was measured yet")
    charts = [chart for curve in kept(PAGE).values() for chart in curve.charts]
    assert {path.stem for path in KEPT.parent.glob("*.svg")} == {chart.name for chart in charts}
    for chart in charts:
        assert (KEPT.parent / f"{chart.name}.svg").read_text() == svg(chart)
        assert shown(chart) in PAGE.read_text()
