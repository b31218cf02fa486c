//! Compares the measurements with the targets. Targets for times are ratios to the baseline of the
//! same run, because a slower machine is not Argosy's fault.

use serde::Serialize;

use super::{
    measurement::{AGE, DOWN, Measurement, UP, WHOLE},
    rows::{logs, rest},
    samples::Summary,
};

/// A target and the measured value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Verdict {
    /// Description of the target.
    pub(super) target: String,
    /// The measured value.
    pub(super) found: f64,
    /// The highest value that meets the target.
    pub(super) limit: f64,
    /// Unit of both values.
    pub(super) unit: &'static str,
}

impl Verdict {
    /// True if the target is met.
    pub(super) fn is_met(&self) -> bool {
        self.found <= self.limit
    }
}

/// The verdicts on all targets that `found` has measurements for.
pub(super) fn verdicts(found: &[Measurement]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for mode in ["pull", "push"] {
        let find = |row: char, mode: &str, case: &str, best_cluster: bool| {
            let is_it = |one: &&Measurement| {
                one.row == row
                    && one.mode == mode
                    && one.case.starts_with(case)
                    && one.best_cluster == best_cluster
            };
            found.iter().find(is_it)
        };
        let of = |row: char, mode: &str, case: &str| find(row, mode, case, false);
        verdicts.extend(one_at_a_time(mode, of('a', mode, ""), of('a', "baseline", "")));
        verdicts.extend(at_once(mode, of('c', mode, ""), of('c', "baseline", "")));
        let large = |mode| of('e', mode, "1000 nodes");
        verdicts.extend(large_status(mode, large(mode), large("baseline")));
        verdicts.extend(chosen_one_at_a_time(
            mode,
            find('a', mode, "", true),
            of('a', "baseline", ""),
        ));
        for row in ['c', 'g'] {
            verdicts.extend(chosen_at_once(mode, find(row, mode, "", true), of(row, mode, "")));
        }
        for limits in [TEN_THOUSAND, HUNDRED_THOUSAND] {
            let live = found
                .iter()
                .filter(|one| one.row == limits.row && one.mode == mode);
            verdicts.extend(many_live(mode, &live.collect::<Vec<_>>(), &limits));
        }
        let (without, with) = (of('h', mode, "others, none"), of('h', mode, "others, one"));
        verdicts.extend(hanging(mode, without, with));
        let steady = found.iter().filter(|one| one.row == 'j' && one.mode == mode);
        verdicts.extend(steady.filter_map(age));
    }
    for measured in found.iter().filter(|one| one.row == 'i') {
        verdicts.extend(live_logs(measured));
    }
    for measured in found.iter().filter(|one| one.row == 'k') {
        verdicts.extend(at_rest(measured));
    }
    verdicts
}

fn at_rest(measured: &Measurement) -> Option<Verdict> {
    Some(Verdict {
        target: format!("{}, {}: {}", measured.mode, measured.case, rest::REQUESTS),
        found: measured.figures.get(rest::REQUESTS)?.round(),
        limit: 120.0,
        unit: "/s",
    })
}

fn age(measured: &Measurement) -> Option<Verdict> {
    Some(Verdict {
        target: format!("{}, one each second, {}: {AGE}", measured.mode, measured.case),
        found: *measured.figures.get(AGE)?,
        limit: 5.0,
        unit: "s",
    })
}

/// Picks a percentile.
type Pick = fn(&Summary) -> f64;

fn ratio(one: &Measurement, other: &Measurement, stage: &str, of: Pick) -> Option<f64> {
    Some(one.time(stage, of)? / one_above_nothing(other.time(stage, of)?))
}

/// Avoids a division by zero: a time may be so short that the watches see both ends at once.
fn one_above_nothing(milliseconds: f64) -> f64 {
    milliseconds.max(0.1)
}

fn times(target: String, limit: f64, found: Option<f64>) -> Option<Verdict> {
    Some(Verdict {
        target,
        found: found?,
        limit,
        unit: "x",
    })
}

fn one_at_a_time(mode: &str, argosy: Option<&Measurement>, baseline: Option<&Measurement>) -> Vec<Verdict> {
    let (Some(argosy), Some(baseline)) = (argosy, baseline) else {
        return Vec::new();
    };
    // A hosted agent takes its ManifestWorks from the controller's own process.
    let down = if mode == "pull" { 2.3 } else { 2.0 };
    let percentiles: [(&str, Pick); 2] = [("p50", |times| times.p50), ("p99", |times| times.p99)];
    let ways = [("down", DOWN, [down, 4.0]), ("up", UP, [1.8, 4.0])];
    let all = ways.into_iter().flat_map(|(way, stage, limits)| {
        percentiles
            .into_iter()
            .zip(limits)
            .filter_map(move |((name, of), limit)| {
                let target = format!("{mode}, one at a time, {way}, {name}: times the baseline's");
                times(target, limit, ratio(argosy, baseline, stage, of))
            })
    });
    all.collect()
}

fn large_status(mode: &str, argosy: Option<&Measurement>, baseline: Option<&Measurement>) -> Option<Verdict> {
    let target = format!("{mode}, a status of 1,000 nodes, up, p50: times the baseline's");
    times(target, 1.3, ratio(argosy?, baseline?, UP, |times| times.p50))
}

fn at_once(mode: &str, argosy: Option<&Measurement>, baseline: Option<&Measurement>) -> Vec<Verdict> {
    let Some(argosy) = argosy else { return Vec::new() };
    let count = argosy.workflows;
    let slower = baseline.and_then(|baseline| Some(argosy.reported.last()? / baseline.reported.last()?));
    let target = format!("{mode}, {count} at once, until all are reported: times the baseline's");
    let writes = |what: &str, found: f64, limit| Verdict {
        target: format!("{mode}, {count} at once: writes for a Workflow, {what}"),
        found: (found * 100.0).round() / 100.0,
        limit,
        unit: "writes",
    };
    let to_the_end = argosy.writes_before_end;
    let to_the_end = to_the_end.map(|found| writes("before the last end is shown", found, 6.1));
    let to_rest = writes("to rest", argosy.writes_each, 8.1);
    let limit = if mode == "pull" { 1.9 } else { 1.7 };
    let times = times(target, limit, slower).into_iter();
    times.chain(to_the_end).chain([to_rest]).collect()
}

/// A policy chooses the cluster: one write and one decision more than in a row in which each Workflow
/// names its cluster.
fn chosen_one_at_a_time(
    mode: &str,
    chosen: Option<&Measurement>,
    baseline: Option<&Measurement>,
) -> Option<Verdict> {
    let target = format!("{mode}, best-cluster, one at a time, down, p50: times the baseline's");
    times(target, 4.0, ratio(chosen?, baseline?, DOWN, |times| times.p50))
}

fn chosen_at_once(mode: &str, chosen: Option<&Measurement>, pinned: Option<&Measurement>) -> Vec<Verdict> {
    let (Some(chosen), Some(pinned)) = (chosen, pinned) else {
        return Vec::new();
    };
    let comma = if chosen.case.is_empty() { "" } else { ", " };
    let what = format!(
        "{mode}, best-cluster{comma}{}, {} at once",
        chosen.case, chosen.workflows
    );
    let last = |measured: &Measurement| measured.reported.last().copied();
    let slower = last(chosen)
        .zip(last(pinned))
        .map(|(chosen, pinned)| chosen / pinned);
    let writes = Verdict {
        target: format!("{what}: writes for a Workflow, more than with a named cluster"),
        found: ((chosen.writes_each - pinned.writes_each) * 100.0).round() / 100.0,
        limit: 1.1,
        unit: "writes",
    };
    let target = format!("{what}, until all are reported: times that with a named cluster");
    times(target, 1.15, slower).into_iter().chain([writes]).collect()
}

/// Limits of a row of live Workflows.
struct Limits {
    row: char,
    /// MiB that the controller, and an agent, ever had.
    memory: [f64; 2],
    /// Seconds until a Workflow is on its cluster that is created while the controller is down.
    restart: f64,
}

/// The limits of row f. Those of memory are 150 and 60 MiB, less a tenth.
const TEN_THOUSAND: Limits = Limits {
    row: 'f',
    memory: [135.0, 54.0],
    restart: 15.0,
};

/// The limits of row l.
const HUNDRED_THOUSAND: Limits = Limits {
    row: 'l',
    memory: [800.0, 60.0],
    restart: 30.0,
};

fn many_live(mode: &str, found: &[&Measurement], limits: &Limits) -> Vec<Verdict> {
    let case = |begin: &'static str| found.iter().filter(move |one| one.case.starts_with(begin));
    let mut one_more = case("one more");
    let mut verdicts = Vec::new();
    if let (Some(few), Some(many)) = (one_more.next(), one_more.next()) {
        for (way, stage) in [("down", DOWN), ("up", UP)] {
            let target = format!("{mode}, {}, {way}, p50: times that of {}", many.case, few.case);
            verdicts.extend(times(target, 1.2, ratio(many, few, stage, |times| times.p50)));
        }
    }
    for live in found.iter().filter(|one| one.case.ends_with(" live")) {
        for (who, limit) in ["controller", "agents"].into_iter().zip(limits.memory) {
            // A hosted agent is part of the controller.
            let peaks = found.iter().filter_map(|one| Some(one.usage.get(who)?.peak_mib));
            let peak = peaks.fold(0.0, f64::max).round();
            verdicts.extend((peak > 0.0).then(|| Verdict {
                target: format!("{mode}, {}: peak of memory, {who}", live.case),
                found: peak,
                limit,
                unit: "MiB",
            }));
        }
    }
    for restart in case("restart") {
        let targets = [
            ("seconds to its cluster", limits.restart, "s"),
            ("needless writes", 0.0, "writes"),
        ];
        for (figure, limit, unit) in targets {
            let found = restart.figures.get(figure);
            verdicts.extend(found.map(|found| Verdict {
                target: format!("{mode}, {}: {figure}", restart.case),
                found: (found * 100.0).round() / 100.0,
                limit,
                unit,
            }));
        }
    }
    verdicts
}

fn hanging(mode: &str, without: Option<&Measurement>, with: Option<&Measurement>) -> Option<Verdict> {
    let p99 = |one: &Measurement| one.median_of_turns(WHOLE, |times| times.p99);
    let slower = p99(with?)? / one_above_nothing(p99(without?)?);
    times(
        format!("{mode}, one cluster hangs: the others' p99 (median of turns), times that without"),
        1.1,
        Some(slower),
    )
}

fn live_logs(measured: &Measurement) -> Vec<Verdict> {
    let limits = [
        (logs::MORE_MEMORY, 15.0, "MiB"),
        (logs::MORE_PROCESSOR, 1.0, "%"),
        (logs::SECONDS, 5.0, "s"),
        (logs::SLOWEST_LINE, 2000.0, "ms"),
    ];
    let judged = limits.into_iter().filter_map(|(figure, limit, unit)| {
        Some(Verdict {
            target: format!("{}, {}: {figure}", measured.mode, measured.case),
            found: *measured.figures.get(figure)?,
            limit,
            unit,
        })
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::bench::{
        cost::Reading, environment::Mode, fake_argo::Script, measurement::Turn, usage::Usage,
    };

    fn measurement(row: char, mode: Mode, case: &str, milliseconds: f64) -> Measurement {
        let script = Script::ONE;
        let summary = Summary {
            count: 1,
            p50: milliseconds,
            p90: milliseconds,
            p99: milliseconds,
            max: milliseconds,
        };
        Measurement {
            stages: [(DOWN, summary), (UP, summary), (WHOLE, summary)].into(),
            reported: vec![milliseconds],
            ..Measurement::new(row, mode, script, &[], &Reading::default()).called(case)
        }
    }

    fn missed(found: &[Measurement]) -> Vec<String> {
        let missed = verdicts(found).into_iter().filter(|verdict| !verdict.is_met());
        missed.map(|verdict| verdict.target).collect()
    }

    #[test]
    fn one_at_a_time_is_compared_with_the_baseline_of_the_same_run() {
        let baseline = measurement('a', Mode::Baseline, "", 2.0);
        let found = [baseline.clone(), measurement('a', Mode::Pull, "", 3.6)];
        assert_eq!(verdicts(&found).len(), 4);
        assert_eq!(missed(&found), [] as [&str; 0]);
        let missed_by = |mode, milliseconds| {
            let found = [baseline.clone(), measurement('a', mode, "", milliseconds)];
            missed(&found)
        };
        let name = |mode: &str, way: &str| format!("{mode}, one at a time, {way}: times the baseline's");
        assert_eq!(missed_by(Mode::Pull, 4.4), [name("pull", "up, p50")]);
        let both = ["down, p50", "up, p50"].map(|way| name("push", way));
        assert_eq!(missed_by(Mode::Push, 4.4), both);
        assert_eq!(missed_by(Mode::Pull, 9.0).len(), 4);
    }

    #[test]
    fn many_at_once_are_compared_by_time_and_by_writes() {
        let baseline = measurement('c', Mode::Baseline, "", 1.0);
        let mut push = measurement('c', Mode::Push, "", 1.7);
        push.writes_each = 8.1;
        push.writes_before_end = Some(6.1);
        assert_eq!(missed(&[baseline.clone(), push.clone()]), [] as [&str; 0]);
        push.writes_each = 8.2;
        push.writes_before_end = Some(6.2);
        push.reported = vec![1.8];
        assert_eq!(missed(&[baseline, push]).len(), 3);
    }

    #[test]
    fn a_large_status_is_compared_with_the_baseline_and_a_steady_one_with_five_seconds() {
        let baseline = measurement('e', Mode::Baseline, "1000 nodes", 100.0);
        let large = |milliseconds| measurement('e', Mode::Pull, "1000 nodes", milliseconds);
        assert_eq!(missed(&[baseline.clone(), large(130.0)]), [] as [&str; 0]);
        assert_eq!(missed(&[baseline, large(140.0)]).len(), 1);
        let steady = |case, seconds| {
            let mut steady = measurement('j', Mode::Push, case, 1.0);
            steady.figures.insert(AGE, seconds);
            steady
        };
        let (minute, minutes) = ("60 statuses", "200 statuses");
        assert_eq!(
            missed(&[steady(minute, 5.0), steady(minutes, 5.0)]),
            [] as [&str; 0]
        );
        assert_eq!(missed(&[steady(minute, 5.1), steady(minutes, 5.0)]).len(), 1);
        assert_eq!(missed(&[steady(minute, 5.0), steady(minutes, 5.1)]).len(), 1);
    }

    #[test]
    fn a_chosen_cluster_is_compared_with_a_named_one_of_the_same_run() {
        let named = |row| measurement(row, Mode::Pull, "50 clusters", 10.0);
        let chosen = |row, milliseconds, writes_each| {
            let mut chosen = measurement(row, Mode::Pull, "50 clusters", milliseconds).by_best_cluster(true);
            chosen.writes_each = writes_each;
            chosen
        };
        let baseline = measurement('a', Mode::Baseline, "", 2.0);
        let found = [
            baseline.clone(),
            chosen('a', 8.0, 0.0),
            named('g'),
            chosen('g', 11.0, 1.1),
        ];
        assert_eq!(verdicts(&found).len(), 3);
        assert_eq!(missed(&found), [] as [&str; 0]);
        let found = [
            baseline,
            chosen('a', 9.0, 0.0),
            chosen('c', 12.0, 1.2),
            named('c'),
        ];
        assert_eq!(
            missed(&found),
            [
                "pull, best-cluster, one at a time, down, p50: times the baseline's",
                "pull, best-cluster, 50 clusters, 0 at once, until all are reported: times that with a named cluster",
                "pull, best-cluster, 50 clusters, 0 at once: writes for a Workflow, more than with a named cluster",
            ]
        );
    }

    #[test]
    fn ten_thousand_live_are_compared_with_ten_and_bounded_in_memory() {
        let usage = |peak_mib| Usage {
            peak_mib,
            ..Usage::default()
        };
        let mut live = measurement('f', Mode::Pull, "10000 live", 1.0);
        live.usage = BTreeMap::from([("controller", usage(135.0)), ("agents", usage(55.0))]);
        let mut restart = measurement('f', Mode::Pull, "restart, 10000 bound", 1.0);
        restart.figures = BTreeMap::from([("seconds to its cluster", 14.0), ("needless writes", 1.0)]);
        let found = [
            measurement('f', Mode::Pull, "one more, 10 bound", 10.0),
            live,
            measurement('f', Mode::Pull, "one more, 10000 bound", 13.0),
            restart,
        ];
        assert_eq!(
            missed(&found),
            [
                "pull, one more, 10000 bound, down, p50: times that of one more, 10 bound",
                "pull, one more, 10000 bound, up, p50: times that of one more, 10 bound",
                "pull, 10000 live: peak of memory, agents",
                "pull, restart, 10000 bound: needless writes",
            ]
        );
    }

    #[test]
    fn a_cluster_that_hangs_may_cost_the_others_a_tenth() {
        let in_turns = |case, turns: [f64; 3]| {
            let one = |milliseconds| Turn {
                stages: measurement('h', Mode::Push, case, milliseconds).stages,
                consistency_checks: 0.0,
            };
            let mut all = measurement('h', Mode::Push, case, turns[2]);
            all.turns = turns.map(one).into();
            all
        };
        let without = in_turns("others, none hangs", [90.0, 100.0, 110.0]);
        let with = |turns| in_turns("others, one hangs", turns);
        // One burst in one turn is not caused by the hanging cluster.
        assert_eq!(
            missed(&[without.clone(), with([109.0, 60.0, 400.0])]),
            [] as [&str; 0]
        );
        assert_eq!(missed(&[without, with([111.0, 60.0, 111.0])]).len(), 1);
    }

    #[test]
    fn live_logs_have_limits_without_a_baseline() {
        let with = |case, figures: [(&'static str, f64); 2]| Measurement {
            figures: figures.into(),
            ..measurement('i', Mode::Pull, case, 1.0)
        };
        let found = [
            with(
                "100 idle tunnels",
                [(logs::MORE_MEMORY, 15.5), (logs::MORE_PROCESSOR, 0.9)],
            ),
            with("one log", [(logs::SECONDS, 5.1), (logs::RATE, 19.6)]),
            with("first line", [(logs::SLOWEST_LINE, 2000.0), ("other", 1.0)]),
        ];
        assert_eq!(verdicts(&found).len(), 4);
        assert_eq!(
            missed(&found),
            [
                format!("pull, 100 idle tunnels: {}", logs::MORE_MEMORY),
                format!("pull, one log: {}", logs::SECONDS),
            ]
        );
    }

    #[test]
    fn of_rows_that_did_not_run_nothing_is_said() {
        assert_eq!(verdicts(&[measurement('a', Mode::Pull, "", 6.0)]), []);
    }
}
