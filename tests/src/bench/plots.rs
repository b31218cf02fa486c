//! The plots of the measurements, and their files. A plot whose rows did not run is not drawn.

use std::{fs, path::Path};

use anyhow::{Context, Result};

use super::{
    machine::Machine,
    measurement::{DOWN, DOWN_STAGES, Measurement, UP, UP_STAGES, WHOLE},
    samples::{Summary, number},
    svg::{Chart, Data},
    table::title,
};

/// The modes in the order of drawing.
const MODES: [&str; 3] = ["baseline", "pull", "push"];

/// Draws all plots into the folder `output`.
pub(super) fn draw(output: &Path, machine: &Machine, found: &[Measurement]) -> Result<()> {
    let charts = [
        ("one-at-a-time", one_at_a_time(found)),
        ("stages", stages(found)),
        ("at-once", over_time(found, 'c')),
        ("at-once-10-statuses", over_time(found, 'd')),
        ("large-statuses", by_case(found, 'e', UP, |times| times.p50)),
        ("one-more", by_case(found, 'f', WHOLE, |times| times.p50)),
        ("fifty-clusters", over_time(found, 'g')),
        ("one-hangs", by_case(found, 'h', WHOLE, |times| times.p99)),
    ];
    for (name, chart) in charts {
        let Some((title, unit, data)) = chart else {
            continue;
        };
        let chart = Chart {
            title,
            unit,
            caption: machine.line(),
            data,
        };
        let path = output.join(format!("{name}.svg"));
        fs::write(&path, chart.draw()).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Picks a percentile.
type Pick = fn(&Summary) -> f64;

/// Title, unit and data of a chart.
type Parts = (String, &'static str, Data);

fn of<'a>(found: &'a [Measurement], row: char, mode: &str) -> impl Iterator<Item = &'a Measurement> {
    let found = found.iter().filter(|one| !one.best_cluster);
    found.filter(move |one| one.row == row && one.mode == mode)
}

fn one_at_a_time(found: &[Measurement]) -> Option<Parts> {
    let groups: [(&str, &str, Pick); 4] = [
        ("down, p50", DOWN, |times| times.p50),
        ("down, p99", DOWN, |times| times.p99),
        ("status back, p50", UP, |times| times.p50),
        ("status back, p99", UP, |times| times.p99),
    ];
    let series = MODES.iter().filter_map(|mode| {
        let one = of(found, 'a', mode).next()?;
        let bars = groups.iter().map(|(_, stage, pick)| one.time(stage, pick));
        Some(((*mode).to_owned(), bars.collect()))
    });
    let names = groups.iter().map(|(name, ..)| (*name).to_owned());
    bars(title('a').to_owned(), names.collect(), series.collect())
}

fn stages(found: &[Measurement]) -> Option<Parts> {
    let names = DOWN_STAGES
        .iter()
        .map(|(name, ..)| *name)
        .chain(UP_STAGES.iter().map(|(name, ..)| *name));
    let names: Vec<&str> = names
        .filter(|name| name.starts_with(|first: char| first.is_ascii_digit()))
        .collect();
    let series = MODES.iter().filter_map(|mode| {
        let one = of(found, 'a', mode).next()?;
        let bars = names.iter().map(|name| one.time(name, |times| times.p50));
        Some(((*mode).to_owned(), bars.collect()))
    });
    let groups = names.iter().map(|name| (*name).to_owned()).collect();
    bars(
        format!("{}: each stage, p50", title('a')),
        groups,
        series.collect(),
    )
}

/// A percentile of one stage, for each case of a row that has it.
fn by_case(found: &[Measurement], row: char, stage: &'static str, pick: Pick) -> Option<Parts> {
    // Workflows that are sent at once only to be live are not a case to compare.
    let is_compared = |one: &&Measurement| {
        one.row == row && !one.case.ends_with(" live") && !one.case.starts_with("restart")
    };
    let mut cases: Vec<String> = Vec::new();
    for one in found.iter().filter(is_compared) {
        if !cases.contains(&one.case) {
            cases.push(one.case.clone());
        }
    }
    let series = MODES.iter().filter_map(|mode| {
        let time = |case: &String| {
            let one = of(found, row, mode).find(|one| one.case == *case)?;
            if row == 'h' {
                one.median_of_turns(stage, pick)
            } else {
                one.time(stage, pick)
            }
        };
        let values: Vec<Option<f64>> = cases.iter().map(time).collect();
        let is_there = values.iter().any(Option::is_some);
        is_there.then(|| ((*mode).to_owned(), values))
    });
    let percentile = if row == 'h' { "p99, median of turns" } else { "p50" };
    bars(
        format!("{}: {stage}, {percentile}", title(row)),
        cases.clone(),
        series.collect(),
    )
}

fn bars(title: String, groups: Vec<String>, series: Vec<(String, Vec<Option<f64>>)>) -> Option<Parts> {
    (!series.is_empty()).then_some((title, "ms", Data::Bars(groups, series)))
}

/// The share of a row's Workflows that were reported, over time.
fn over_time(found: &[Measurement], row: char) -> Option<Parts> {
    let series = MODES.iter().filter_map(|mode| {
        let one = of(found, row, mode).next()?;
        let points = number(one.reported.len());
        let times = one.reported.iter().enumerate();
        let share = |at: usize| 100.0 * number(at + 1) / points;
        let line = times.map(|(at, seconds)| (*seconds, share(at)));
        Some(((*mode).to_owned(), [(0.0, 0.0)].into_iter().chain(line).collect()))
    });
    let series: Vec<(String, Vec<(f64, f64)>)> = series.collect();
    let count = found.iter().find(|one| one.row == row)?.workflows;
    let title = format!("{} ({count}): reported with the last status", title(row));
    Some((title, "%", Data::Lines("seconds since the first request", series)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{cost::Reading, environment::Mode, fake_argo::Script, samples::FIVE_TO_EIGHT};

    fn measurement(row: char, mode: Mode, case: &str) -> Measurement {
        let script = Script::ONE;
        Measurement {
            stages: [(UP, FIVE_TO_EIGHT), (WHOLE, FIVE_TO_EIGHT)].into(),
            reported: vec![1.0, 2.0],
            ..Measurement::new(row, mode, script, &[], &Reading::default()).called(case)
        }
    }

    #[test]
    fn a_row_that_did_not_run_is_not_drawn() {
        assert!(over_time(&[], 'c').is_none() && one_at_a_time(&[]).is_none());
        assert!(by_case(&[], 'e', UP, |times| times.p50).is_none());
    }

    #[test]
    fn cases_are_groups_in_the_order_in_which_they_were_measured() {
        let cases = [
            "one more, 10 bound",
            "10000 live",
            "one more, 10000 bound",
            "restart, 10000 bound",
        ];
        let found = cases.map(|case| measurement('f', Mode::Push, case));
        let Some((_, _, Data::Bars(groups, series))) = by_case(&found, 'f', WHOLE, |times| times.p50) else {
            panic!("bars are drawn");
        };
        assert_eq!(groups, ["one more, 10 bound", "one more, 10000 bound"]);
        assert_eq!(series, [("push".to_owned(), vec![Some(5.0), Some(5.0)])]);
    }

    #[test]
    fn over_time_all_are_reported_in_the_end() {
        let found = [
            measurement('c', Mode::Baseline, ""),
            measurement('c', Mode::Pull, ""),
        ];
        let Some((_, _, Data::Lines(_, series))) = over_time(&found, 'c') else {
            panic!("lines are drawn");
        };
        assert_eq!(series.len(), 2);
        assert_eq!(series[0].1, [(0.0, 0.0), (1.0, 50.0), (2.0, 100.0)]);
    }
}
