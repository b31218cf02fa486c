//! The same rows with two sets of programs (A/B), in turns, three times each, each run in a process of
//! its own with its own servers.
//!
//! Not here: targets. The baseline is measured in each run, too: where it differs between the two sets,
//! the machine has changed, and not Argosy.

use std::{
    collections::BTreeMap,
    env,
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use super::{
    measurement::{DOWN, UP},
    options::Options,
    progress::{clear, tell},
};

/// Runs with each set of programs.
const RUNS: usize = 3;

/// The programs that are measured.
const PROGRAMS: [&str; 2] = ["argosy-controller", "argosy-agent"];

/// The rows that have agents in the process of the benchmark, which another set does not change.
const WITH_AGENTS_HERE: [char; 2] = ['k', 'l'];

/// Measures with the programs of this build and with those in `theirs`, and returns the comparison.
pub(super) async fn compare(options: &Options, theirs: &Path) -> Result<String> {
    let rows = options.rows()?;
    ensure!(
        !rows.iter().any(|row| WITH_AGENTS_HERE.contains(row)),
        "rows k and l run agents of this build in the benchmark's process, so they cannot be compared with others"
    );
    let ours =
        env::var_os("ARGOSY_BINARIES").context("ARGOSY_BINARIES does not name the folder of the programs")?;
    let sets = [("this", PathBuf::from(ours)), ("that", theirs.to_owned())];
    for program in sets
        .iter()
        .flat_map(|(_, programs)| PROGRAMS.map(|name| programs.join(name)))
    {
        // Without it, that of another set would be measured.
        ensure!(program.is_file(), "there is no {}", program.display());
    }
    let output = options
        .output
        .clone()
        .unwrap_or_else(|| "target/bench/against".into());
    let rows: Vec<String> = rows.iter().map(ToString::to_string).collect();
    let mut found = Vec::new();
    for run in 1..=RUNS {
        let mut turn = sets.each_ref();
        // The second of two runs may profit from the first, so each set is the first one in turn.
        if run % 2 == 0 {
            turn.reverse();
        }
        for (name, programs) in turn {
            tell(&format!("run {run} of {RUNS} with {}", programs.display()));
            let output = output.join(format!("{name}-{run}"));
            found.push((*name, once(options, &rows, programs, &output).await?));
        }
    }
    let of = |set: &str| -> Vec<&Value> {
        let runs = found.iter().filter(|(name, _)| *name == set);
        runs.map(|(_, run)| run).collect()
    };
    let table = table(&of("this"), &of("that"));
    let path = output.join("compared.txt");
    fs::write(&path, &table).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(table)
}

/// One run in a process of its own, and its results.
async fn once(options: &Options, rows: &[String], programs: &Path, output: &Path) -> Result<Value> {
    let results = output.join("results.json");
    if results.exists() {
        fs::remove_file(&results).with_context(|| format!("cannot remove {}", results.display()))?;
    }
    let mut command = Command::new(env::current_exe()?);
    command
        .args(["--rows", &rows.join(","), "--modes", &options.modes.join(",")])
        .args(["--share", &options.share.to_string()])
        .arg("--output")
        .arg(output)
        .args(options.quick.then_some("--quick"))
        .args(options.verbose.then_some("--verbose"))
        .env("ARGOSY_BINARIES", programs)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    clear();
    let status = command.status().await.context("cannot run the benchmark")?;
    // It exits with 1 if a target is missed, too, so its results count.
    ensure!(
        matches!(status.code(), Some(0 | 1)),
        "the benchmark has ended with {status}"
    );
    let read = fs::read(&results).with_context(|| format!("the run has left no {}", results.display()))?;
    let read: Value = serde_json::from_slice(&read)?;
    let failures = read.get("failures").and_then(Value::as_array);
    ensure!(
        failures.is_some_and(Vec::is_empty),
        "a row could not be measured: {failures:?}"
    );
    for row in rows {
        let is_there =
            |measurement: &Value| measurement.get("row").and_then(Value::as_str) == Some(row.as_str());
        let mut measurements = measurements(&read);
        ensure!(measurements.any(is_there), "row {row} was not measured");
    }
    Ok(read)
}

/// The values of one figure of one measurement, in all runs.
type Values = BTreeMap<(String, String), Vec<f64>>;

/// Each figure with its median and range in both sets, and the ratio of the medians.
fn table(this: &[&Value], that: &[&Value]) -> String {
    let (this, that) = (values(this), values(that));
    let mut text = format!(
        "{:62}{:>26}{:>26}{:>9}\n",
        "median (least to most)", "this", "that", "ratio"
    );
    let mut last = None;
    for ((measurement, figure), ours) in &this {
        let Some(theirs) = that.get(&(measurement.clone(), figure.clone())) else {
            continue;
        };
        if last != Some(measurement) {
            let _ = writeln!(text, "{measurement}");
            last = Some(measurement);
        }
        let ratio = median(ours) / median(theirs);
        let ratio = if ratio.is_finite() {
            format!("{ratio:.2}")
        } else {
            "-".to_owned()
        };
        let _ = writeln!(
            text,
            "    {figure:58}{:>26}{:>26}{ratio:>9}",
            range(ours),
            range(theirs)
        );
    }
    text
}

fn values(runs: &[&Value]) -> Values {
    let mut values = Values::new();
    for measurement in runs.iter().flat_map(|run| measurements(run)) {
        let name = name(measurement);
        for (figure, value) in figures(measurement) {
            values.entry((name.clone(), figure)).or_default().push(value);
        }
    }
    values
}

fn measurements(run: &Value) -> impl Iterator<Item = &Value> {
    let measurements = run.get("measurements").and_then(Value::as_array);
    measurements.into_iter().flatten()
}

fn name(measurement: &Value) -> String {
    let text = |field: &str| measurement.get(field).and_then(Value::as_str).unwrap_or_default();
    let mut name = format!("({}) {}", text("row"), text("mode"));
    if measurement.get("best_cluster") == Some(&Value::Bool(true)) {
        name.push_str(", best-cluster");
    }
    if !text("case").is_empty() {
        let _ = write!(name, ", {}", text("case"));
    }
    name
}

/// The figures that are compared: times, writes, and what the processes use.
fn figures(measurement: &Value) -> Vec<(String, f64)> {
    let at = |pointer: &str| measurement.pointer(pointer).and_then(Value::as_f64);
    let reported = measurement.get("reported").and_then(Value::as_array);
    let mut found = vec![
        (format!("{DOWN}, p50, ms"), at(&format!("/stages/{DOWN}/p50"))),
        (format!("{DOWN}, p99, ms"), at(&format!("/stages/{DOWN}/p99"))),
        (format!("{UP}, p50, ms"), at(&format!("/stages/{UP}/p50"))),
        (format!("{UP}, p99, ms"), at(&format!("/stages/{UP}/p99"))),
        (
            "all reported, s".to_owned(),
            reported.and_then(|curve| curve.last()?.as_f64()),
        ),
        (
            "writes of each before the end".to_owned(),
            at("/writes_before_end"),
        ),
        ("writes of each".to_owned(), at("/writes_each")),
    ];
    for who in ["API servers", "etcd", "controller", "agents", "benchmark"] {
        found.push((
            format!("processor time, {who}, s"),
            at(&format!("/usage/{who}/cpu_seconds")),
        ));
    }
    for who in ["controller", "agents"] {
        found.push((
            format!("peak of memory, {who}, MiB"),
            at(&format!("/usage/{who}/peak_mib")),
        ));
    }
    let further = measurement.get("figures").and_then(Value::as_object);
    found.extend(
        further
            .into_iter()
            .flatten()
            .map(|(figure, value)| (figure.clone(), value.as_f64())),
    );
    let known = found
        .into_iter()
        .filter_map(|(figure, value)| Some((figure, value?)));
    known.collect()
}

fn range(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.2} ({least:.2} to {most:.2})", median(values))
}

/// The one in the middle, or the larger one of the two in the middle.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(seconds: f64, controller: f64) -> Value {
        let measurement = json!({
            "row": "c", "mode": "pull", "best_cluster": true, "case": "2 clusters",
            "stages": { DOWN: { "p50": 4.0, "p99": 8.0 } }, "reported": [1.0, seconds], "writes_each": 9.0,
            "writes_before_end": null, "usage": { "controller": { "cpu_seconds": controller, "peak_mib": 60.0 } },
            "figures": { "turns": 2.0 },
        });
        json!({ "measurements": [measurement], "failures": [] })
    }

    #[test]
    fn each_figure_has_the_medians_of_both_their_ranges_and_the_ratio() {
        let this = [run(10.0, 3.0), run(30.0, 1.0), run(12.0, 2.0)];
        let that = [run(24.0, 0.0), run(20.0, 0.0), run(26.0, 0.0)];
        let text = table(&this.each_ref(), &that.each_ref());
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        for line in [
            "(c) pull, best-cluster, 2 clusters",
            "all reported, s 12.00 (10.00 to 30.00) 24.00 (20.00 to 26.00) 0.50",
            "control to cluster, p50, ms 4.00 (4.00 to 4.00) 4.00 (4.00 to 4.00) 1.00",
            "processor time, controller, s 2.00 (1.00 to 3.00) 0.00 (0.00 to 0.00) -",
            "turns 2.00 (2.00 to 2.00) 2.00 (2.00 to 2.00) 1.00",
        ] {
            let words: Vec<&str> = line.split_whitespace().collect();
            assert!(lines.contains(&words), "{line}\n{text}");
        }
        assert!(!text.contains("before the end"), "nobody counted those: {text}");
    }

    #[test]
    fn a_measurement_that_only_one_set_has_is_left_out() {
        assert_eq!(table(&[&run(1.0, 1.0)], &[]).lines().count(), 1);
    }

    #[tokio::test]
    async fn agents_of_this_build_are_not_compared_with_another_set() {
        let options = <Options as clap::Parser>::parse_from(["bench", "--rows", "c,l", "--against", "x"]);
        let refused = compare(&options, Path::new("x")).await.unwrap_err().to_string();
        assert!(
            refused.starts_with("rows k and l run agents of this build"),
            "{refused}"
        );
    }
}
