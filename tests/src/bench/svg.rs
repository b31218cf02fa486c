//! Charts as SVG: grouped bars, and lines over time. Text in, text out; [`super::plots`] chooses
//! the data.

use std::fmt::Write;

/// A chart.
#[derive(Clone, Debug)]
pub(super) struct Chart {
    /// Title of the chart.
    pub(super) title: String,
    /// Unit of the values.
    pub(super) unit: &'static str,
    /// The machine that was measured on.
    pub(super) caption: String,
    /// The data.
    pub(super) data: Data,
}

/// The data of a chart, in series with names.
#[derive(Clone, Debug)]
pub(super) enum Data {
    /// Names of groups, and for each series a bar per group. A bar that was not measured is left
    /// out.
    Bars(Vec<String>, Vec<(String, Vec<Option<f64>>)>),
    /// Unit of the horizontal axis, and for each series points from left to right.
    Lines(&'static str, Vec<(String, Vec<(f64, f64)>)>),
}

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
/// Edges of the drawing area.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 840.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 340.0;
/// The color of a series, the same in every chart. Gray, blue and orange are distinguishable with
/// red-green color blindness.
fn color(series: &str) -> &'static str {
    match series {
        "baseline" => "#8a8f98",
        "pull" => "#1f6feb",
        _ => "#d97706",
    }
}

impl Chart {
    /// The chart as a document.
    pub(super) fn draw(&self) -> String {
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n"
        );
        line_of_text(
            &mut text,
            (LEFT, 28.0),
            "start",
            "font-size=\"16\" font-weight=\"bold\"",
            &self.title,
        );
        line_of_text(
            &mut text,
            (LEFT, HEIGHT - 12.0),
            "start",
            "font-size=\"8\" fill=\"#666\"",
            &self.caption,
        );
        self.legend(&mut text);
        let top = self.top();
        for value in ticks(top) {
            let y = height(value, top);
            let _ = writeln!(
                text,
                "<line x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>"
            );
            line_of_text(&mut text, (LEFT - 6.0, y + 4.0), "end", "", &plain(value));
        }
        line_of_text(&mut text, (LEFT - 6.0, TOP - 12.0), "end", "", self.unit);
        match &self.data {
            Data::Bars(groups, series) => bars(&mut text, groups, series, top),
            Data::Lines(unit, series) => lines(&mut text, unit, series, top),
        }
        text.push_str("</svg>\n");
        text
    }

    /// The end of the vertical axis.
    fn top(&self) -> f64 {
        let largest = match &self.data {
            Data::Bars(_, series) => series
                .iter()
                .flat_map(|(_, values)| values.iter().flatten().copied())
                .fold(0.0, f64::max),
            Data::Lines(_, series) => series
                .iter()
                .flat_map(|(_, points)| points.iter().map(|(_, y)| *y))
                .fold(0.0, f64::max),
        };
        rounded_up(largest)
    }

    fn legend(&self, text: &mut String) {
        let names: Vec<&String> = match &self.data {
            Data::Bars(_, series) => series.iter().map(|(name, _)| name).collect(),
            Data::Lines(_, series) => series.iter().map(|(name, _)| name).collect(),
        };
        let mut x = LEFT;
        for name in names {
            let color = color(name);
            let _ = writeln!(
                text,
                "<rect x=\"{x:.1}\" y=\"40\" width=\"10\" height=\"10\" fill=\"{color}\"/>"
            );
            line_of_text(text, (x + 14.0, 49.0), "start", "", name);
            x += 40.0 + 7.0 * count(name.chars().count());
        }
    }
}

fn bars(text: &mut String, groups: &[String], series: &[(String, Vec<Option<f64>>)], top: f64) {
    let slot = (RIGHT - LEFT) / count(groups.len()).max(1.0);
    let width = slot * 0.8 / count(series.len()).max(1.0);
    for (at, group) in groups.iter().enumerate() {
        let left = LEFT + slot * (count(at) + 0.1);
        line_of_text(text, (left + slot * 0.4, BOTTOM + 18.0), "middle", "", group);
        for (number, (name, values)) in series.iter().enumerate() {
            let color = color(name);
            let Some(value) = values.get(at).copied().flatten() else {
                continue;
            };
            let (x, y) = (left + width * count(number), height(value, top));
            let _ = writeln!(
                text,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{color}\"/>",
                width * 0.92,
                BOTTOM - y
            );
            line_of_text(
                text,
                (x + width * 0.46, y - 4.0),
                "middle",
                "font-size=\"10\"",
                &plain(value),
            );
        }
    }
}

fn lines(text: &mut String, unit: &str, series: &[(String, Vec<(f64, f64)>)], top: f64) {
    let points = series.iter().flat_map(|(_, points)| points);
    let end = rounded_up(points.map(|(x, _)| *x).fold(0.0, f64::max));
    let across = |value: f64| LEFT + (RIGHT - LEFT) * value / end;
    for value in ticks(end) {
        line_of_text(text, (across(value), BOTTOM + 18.0), "middle", "", &plain(value));
    }
    line_of_text(text, (RIGHT, BOTTOM + 36.0), "end", "", unit);
    for (name, points) in series {
        let color = color(name);
        let points = points.iter();
        let places: Vec<String> = points
            .map(|(x, y)| format!("{:.1},{:.1}", across(*x), height(*y, top)))
            .collect();
        let _ = writeln!(
            text,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
            places.join(" ")
        );
    }
}

fn height(value: f64, top: f64) -> f64 {
    BOTTOM - (BOTTOM - TOP) * value / top
}

fn line_of_text(text: &mut String, (x, y): (f64, f64), anchor: &str, style: &str, content: &str) {
    let content = content
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    let _ = writeln!(
        text,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {style}>{content}</text>"
    );
}

/// The value with its significant digits.
fn plain(value: f64) -> String {
    match value {
        value if value >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// The smallest round number (1, 2, 2.5, 4, 5, 6 or 8 times a power of ten) that is not below
/// `value`.
fn rounded_up(value: f64) -> f64 {
    if value <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 2.5, 4.0, 5.0, 6.0, 8.0, 10.0].map(|step| step * power);
    // Tolerates rounding errors of numbers such as 0.3.
    let found = steps.into_iter().find(|step| *step * 1.000_001 >= value);
    found.unwrap_or(10.0 * power)
}

fn ticks(top: f64) -> impl Iterator<Item = f64> {
    (0..=4_u32).map(move |quarter| top * f64::from(quarter) / 4.0)
}

fn count(number: usize) -> f64 {
    super::samples::number(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(data: Data) -> String {
        let chart = Chart {
            title: "a < b & c".to_owned(),
            unit: "ms",
            caption: "here".to_owned(),
            data,
        };
        chart.draw()
    }

    #[test]
    fn a_bar_is_as_high_as_its_value_and_one_that_was_not_measured_is_not_drawn() {
        let series = vec![
            ("baseline".to_owned(), vec![Some(50.0), None]),
            ("pull".to_owned(), vec![Some(100.0), Some(25.0)]),
        ];
        let drawn = chart(Data::Bars(vec!["p50".to_owned(), "p99".to_owned()], series));
        let bars: Vec<&str> = drawn
            .lines()
            .filter(|line| {
                line.contains("y=")
                    && line.contains("height=\"")
                    && !line.contains("height=\"10\"")
                    && line.starts_with("<rect x")
            })
            .collect();
        assert_eq!(bars.len(), 3);
        for (bar, height) in bars.iter().zip(["135.0", "270.0", "67.5"]) {
            assert!(bar.contains(&format!("height=\"{height}\"")), "{bar}");
        }
    }

    #[test]
    fn a_line_goes_through_its_points() {
        let series = vec![("baseline".to_owned(), vec![(0.0, 0.0), (10.0, 100.0)])];
        let drawn = chart(Data::Lines("s", series));
        assert!(drawn.contains("points=\"64.0,340.0 840.0,70.0\""), "{drawn}");
    }

    #[test]
    fn what_means_something_in_xml_is_escaped() {
        assert!(chart(Data::Lines("s", Vec::new())).contains(">a &lt; b &amp; c</text>"));
    }

    #[test]
    fn an_axis_ends_with_a_round_number() {
        let ends = [0.0, 0.3, 7.0, 10.0, 101.0, 420.0].map(|value| plain(rounded_up(value)));
        assert_eq!(ends, ["1", "0.40", "8", "10", "200", "500"]);
    }
}
