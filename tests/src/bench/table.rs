//! Measurements and verdicts as text.

use std::fmt::Write;

use super::{
    measurement::{DOWN, DOWN_STAGES, Measurement, Turn, UP, UP_STAGES, WHOLE},
    requests::Counts,
    samples::Summary,
    verdict::Verdict,
};

/// The title of a row.
pub(super) fn title(row: char) -> &'static str {
    match row {
        'a' => "one at a time",
        'b' => "a few hundred at once",
        'c' => "many at once, 1 status each",
        'd' => "many at once, 10 statuses each",
        'e' => "one at a time, large statuses",
        'f' | 'l' => "many live",
        'g' => "many at once over many clusters",
        'h' => "one of several clusters hangs",
        'j' => "a status each second",
        'k' => "clusters at rest",
        _ => "live logs",
    }
}

/// The heading of the lines of measurements.
pub(super) fn head() -> String {
    format!(
        "{:36}{:>7}  {:>22}  {:>22}  {:>15}{:>8}",
        "", "", DOWN, UP, "all reported", "writes"
    ) + &format!(
        "\n{:36}{:>7}  {}  {}  {:>15}{:>8}",
        "row, mode", "n", PERCENTILES, PERCENTILES, "s (ratio)", "of each (to the end)"
    )
}

const PERCENTILES: &str = " p50     p99   (ratio)";

/// A measurement in one line, with its factors relative to `baseline`.
pub(super) fn line(found: &Measurement, baseline: Option<&Measurement>) -> String {
    let mut what = format!("({}) {}{}", found.row, found.mode, chosen(found));
    if !found.case.is_empty() {
        let _ = write!(what, ", {}", found.case);
    }
    if found.workflows == 0 && !found.figures.is_empty() {
        return format!("{what:36}  {}", figures(found));
    }
    let way = |stage: &str| {
        let Some(times) = found.stages.get(stage) else {
            return String::new();
        };
        let factor = baseline.and_then(|baseline| Some(times.p50 / baseline.stages.get(stage)?.p50.max(0.1)));
        format!("{:.1} {:>7.1} {:>9}", times.p50, times.p99, factor_of(factor))
    };
    let all = found.reported.last().map_or(String::new(), |seconds| {
        let factor = baseline.and_then(|baseline| Some(seconds / baseline.reported.last()?));
        format!("{seconds:.2} {:>7}", factor_of(factor))
    });
    format!(
        "{what:36}{:>7}  {:>22}  {:>22}  {all:>15}{:>8.2}{}",
        found.workflows,
        way(DOWN),
        way(UP),
        found.writes_each,
        found
            .writes_before_end
            .map_or(String::new(), |before| format!(" ({before:.2})"))
    )
}

/// The figures of a row that sends no Workflows.
fn figures(found: &Measurement) -> String {
    let figures = found.figures.iter();
    let figures: Vec<String> = figures
        .map(|(what, value)| format!("{what}: {value:.2}"))
        .collect();
    figures.join(", ")
}

fn chosen(found: &Measurement) -> &'static str {
    if found.best_cluster { ", best-cluster" } else { "" }
}

fn factor_of(factor: Option<f64>) -> String {
    factor.map_or(String::new(), |factor| format!("({factor:.2})"))
}

/// A measurement in several lines.
pub(super) fn lines(found: &Measurement) -> String {
    let mut text = format!(
        "({}) {}: {}{}",
        found.row,
        title(found.row),
        found.mode,
        chosen(found)
    );
    if !found.case.is_empty() {
        let _ = write!(text, ", {}", found.case);
    }
    if found.workflows == 0 && !found.figures.is_empty() {
        let _ = writeln!(text, "\n    {}", figures(found));
        return text;
    }
    let _ = writeln!(
        text,
        " ({} Workflows, {} statuses of {} nodes)",
        found.workflows, found.statuses, found.nodes
    );
    let _ = writeln!(
        text,
        "    {:34}{:>8}{:>9}{:>9}{:>9}{:>9}",
        "ms", "n", "p50", "p90", "p99", "max"
    );
    let names = DOWN_STAGES
        .iter()
        .map(|(name, ..)| *name)
        .chain(UP_STAGES.iter().map(|(name, ..)| *name))
        .chain([WHOLE]);
    for name in names {
        if let Some(times) = found.stages.get(name) {
            text.push_str(&times_line(name, times));
        }
    }
    for (name, times) in &found.inside {
        text.push_str(&times_line(name, times));
    }
    text.push_str(&costs(found));
    text
}

fn times_line(name: &str, times: &Summary) -> String {
    format!(
        "    {name:34}{:>8}{:>9.1}{:>9.1}{:>9.1}{:>9.1}\n",
        times.count, times.p50, times.p90, times.p99, times.max
    )
}

fn costs(found: &Measurement) -> String {
    let mut text = String::new();
    if let (Some(rate), Some(applied), Some(reported)) =
        (found.per_second(), found.applied.last(), found.reported.last())
    {
        let _ = writeln!(
            text,
            "    all applied after {applied:.2} s, reported after {reported:.2} s: {rate:.0} a second; {:.2} statuses of each shown",
            found.statuses_shown
        );
    }
    let _ = writeln!(
        text,
        "    writes of each: {:.2} ({}); Events: {:.2}",
        found.writes_each,
        counts(&found.writes),
        found.events_each
    );
    if let Some(before) = found.writes_before_end {
        let _ = writeln!(text, "    writes of each before the end is shown: {before:.2}");
    }
    for who in ["controller", "agents"] {
        // The baseline has no metrics, and a hosted agent is part of the controller.
        if found.mode != "baseline" && (who == "controller" || found.mode == "pull") {
            let told = found.requests.get(who).map_or("-".to_owned(), counts);
            let _ = writeln!(text, "    requests of each, {who}: {told}");
        }
    }
    let usage = found.usage.iter();
    let usage: Vec<String> = usage
        .filter(|(_, usage)| usage.resident_mib > 0.0)
        .map(|(who, usage)| {
            format!(
                "{who} {:.2} s, {:.0} MiB (peak {:.0})",
                usage.cpu_seconds, usage.resident_mib, usage.peak_mib
            )
        })
        .collect();
    let _ = writeln!(
        text,
        "    processor time, memory of the largest: {}",
        usage.join("; ")
    );
    for (what, value) in &found.figures {
        let _ = writeln!(text, "    {what}: {value:.2}");
    }
    for (number, turn) in found.turns.iter().enumerate() {
        let _ = writeln!(text, "    turn {}: {}", number + 1, of_turn(turn));
    }
    text
}

fn of_turn(turn: &Turn) -> String {
    let ways = [DOWN, UP, WHOLE].into_iter().filter_map(|stage| {
        let times = turn.stages.get(stage)?;
        Some(format!("{stage} {:.1} (p99 {:.1})", times.p50, times.p99))
    });
    let ways: Vec<String> = ways.collect();
    format!(
        "{}; {:.0} consistency checks",
        ways.join(", "),
        turn.consistency_checks
    )
}

/// The counts of at least one per hundred Workflows.
fn counts(counts: &Counts) -> String {
    let mut shown: Vec<(&String, &f64)> = counts.iter().filter(|(_, count)| **count >= 0.01).collect();
    shown.sort_by(|one, other| other.1.total_cmp(one.1));
    let shown: Vec<String> = shown
        .iter()
        .map(|(what, count)| format!("{count:.2} {what}"))
        .collect();
    shown.join(", ")
}

/// The verdicts, one per line.
pub(super) fn judged(verdicts: &[Verdict]) -> String {
    let mut text = String::new();
    for verdict in verdicts {
        let word = if verdict.is_met() { "met   " } else { "MISSED" };
        let _ = writeln!(
            text,
            "{word}  {:82}{:>8.2} {} (at most {})",
            verdict.target, verdict.found, verdict.unit, verdict.limit
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{cost::Reading, environment::Mode, fake_argo::Script, samples::FIVE_TO_EIGHT};

    #[test]
    fn a_measurement_shows_what_was_counted_and_what_was_not() {
        let script = Script::ONE;
        let mut found = Measurement::new('c', Mode::Pull, script, &[], &Reading::default()).called("x");
        found.writes = [("POST workflows".to_owned(), 2.0), ("PUT rare".to_owned(), 0.001)].into();
        found.writes_each = 2.0;
        found
            .requests
            .insert("agents", [("get nodes".to_owned(), 0.5)].into());
        found.turns = vec![Turn {
            stages: [(UP, FIVE_TO_EIGHT)].into(),
            consistency_checks: 2.0,
        }];
        let text = lines(&found);
        for line in [
            "(c) many at once, 1 status each: pull, x (0 Workflows, 1 statuses of 10 nodes)",
            "    writes of each: 2.00 (2.00 POST workflows); Events: 0.00",
            "    requests of each, controller: -",
            "    requests of each, agents: 0.50 get nodes",
            "    turn 1: status back 5.0 (p99 7.0); 2 consistency checks",
        ] {
            assert!(text.lines().any(|there| there == line), "{line}\n{text}");
        }
    }

    #[test]
    fn a_line_has_the_times_and_what_they_are_times_the_baseline_s() {
        let script = Script::ONE;
        let measured = |mode, seconds| {
            let mut found = Measurement::new('c', mode, script, &[], &Reading::default());
            found.stages = [(DOWN, FIVE_TO_EIGHT)].into();
            found.reported = vec![seconds];
            found.writes_each = 9.0;
            found
        };
        let text = line(&measured(Mode::Pull, 5.0), Some(&measured(Mode::Baseline, 2.0)));
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(
            words,
            [
                "(c)", "pull", "0", "5.0", "7.0", "(1.00)", "5.00", "(2.50)", "9.00"
            ]
        );
        let alone = line(&measured(Mode::Pull, 5.0), None);
        assert!(!alone.contains("(1.00)") && alone.contains("5.00"), "{alone}");
    }

    #[test]
    fn a_row_without_workflows_has_its_figures_in_its_line() {
        let script = Script {
            statuses: 0,
            nodes: 0,
            ends: false,
            ..Script::ONE
        };
        let mut found = Measurement::new('i', Mode::Pull, script, &[], &Reading::default()).called("one log");
        found.figures = [("MB a second", 55.0)].into();
        let text = line(&found, None);
        assert!(
            text.starts_with("(i) pull, one log ") && text.ends_with("MB a second: 55.00"),
            "{text}"
        );
    }

    #[test]
    fn a_target_that_is_missed_stands_out() {
        let verdict = |found| Verdict {
            target: "t".to_owned(),
            found,
            limit: 3.0,
            unit: "x",
        };
        let text = judged(&[verdict(2.0), verdict(4.0)]);
        assert!(text.starts_with("met") && text.contains("\nMISSED"), "{text}");
    }
}
