//! The benchmark. It measures the time that Workflows take to reach their clusters and that
//! statuses take to come back, and the cost of both. Every row is compared with the baseline: a
//! program that copies with one request each way.
//!
//! It uses real API servers, an etcd that syncs every write, and the real binaries, without
//! kubelets; Argo is played. All times are taken in this process, from watches of all spaces.
//! `docs/benchmarks/README.md` describes each row.
//!
//! Not here: the cost of the controller's index alone (`cargo bench -p argosy-core`).

mod against;
mod agents;
mod baseline;
mod best_cluster;
mod cost;
mod environment;
mod exposition;
mod fake_argo;
mod fleet;
mod kubelet;
mod load;
mod machine;
mod measurement;
mod options;
mod plots;
mod progress;
mod requests;
mod rows;
mod samples;
mod svg;
mod table;
mod timeline;
mod usage;
mod verdict;
mod watches;
mod workflow_watch;

use std::{fs, path::Path, time::Duration};

use anyhow::{Context, Result};
use serde_json::json;

pub use self::options::Options;
use self::{
    environment::{Environment, Mode, Shape},
    fake_argo::Script,
    machine::Machine,
    rows::{Found, hang, live, live::Live, logs, many, rest, single, single::Plan},
    verdict::Verdict,
};

/// Measures and prints the results. Returns true if every target was met.
pub async fn run(options: &Options) -> Result<bool> {
    if options.fleet {
        return on_fleet(options).await;
    }
    if let Some(theirs) = &options.against {
        if options.verbose {
            progress::be_verbose();
        }
        let compared = against::compare(options, theirs).await?;
        progress::clear();
        say(compared.trim_end());
        return Ok(true);
    }
    let output = options.output()?;
    fs::create_dir_all(&output).with_context(|| format!("cannot create {}", output.display()))?;
    let machine = Machine::look()?;
    if options.verbose {
        progress::be_verbose();
    }
    say(&machine.line());
    if !options.verbose {
        say(&table::head());
    }
    let mut found = Found::default();
    let rows = options.rows()?;
    let modes = options.argosy()?;
    let outcome = on_two(options, &rows, &modes, &mut found).await;
    found.note(outcome, "rows over two clusters");
    write(&output, &machine, &found)?;
    for row in rows.iter().filter(|row| matches!(row, 'f' | 'g' | 'h' | 'l')) {
        for mode in &modes {
            let outcome = on_many(options, *row, *mode, &mut found).await;
            found.note(outcome, &format!("row {row}, {}", mode.name()));
            write(&output, &machine, &found)?;
        }
    }
    // A hosted agent has no tunnel.
    if rows.contains(&'i') && modes.contains(&Mode::Pull) {
        let outcome = logs::measure(options, &mut found).await;
        found.note(outcome, "row i");
    }
    for mode in modes.iter().filter(|_| rows.contains(&'k')) {
        let outcome = rest::measure(options, *mode, &mut found).await;
        found.note(outcome, &format!("row k, {}", mode.name()));
        write(&output, &machine, &found)?;
    }
    let verdicts = write(&output, &machine, &found)?;
    plots::draw(&output, &machine, &found.measurements)?;
    progress::clear();
    for failure in &found.failures {
        say(&format!("FAILED  {failure}"));
    }
    say(table::judged(&verdicts).trim_end());
    say(&format!("results: {}", output.join("results.json").display()));
    Ok(found.failures.is_empty() && verdicts.iter().all(Verdict::is_met))
}

/// The rows over two clusters. They share one environment, because ended Workflows cost later ones
/// nothing.
async fn on_two(options: &Options, rows: &[char], modes: &[Mode], found: &mut Found) -> Result<()> {
    let rows: Vec<char> = rows
        .iter()
        .filter(|row| matches!(row, 'a'..='e' | 'j'))
        .copied()
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    let modes: Vec<_> = [Mode::Baseline]
        .iter()
        .chain(modes)
        .map(|mode| (*mode, 2))
        .collect();
    let chooses = rows.iter().any(|row| environment::has_best_cluster(*row));
    let environment = Environment::build(
        &modes,
        Shape {
            chooses,
            ..Shape::default()
        },
    )
    .await?;
    let outcome = on_ground(options, &environment, &rows, found).await;
    environment.clear().await?;
    outcome
}

async fn on_ground(
    options: &Options,
    environment: &Environment,
    rows: &[char],
    found: &mut Found,
) -> Result<()> {
    single::warm_up(environment).await?;
    for row in rows.iter().copied() {
        let plan = |count, statuses, nodes| Plan {
            row,
            count,
            script: Script {
                statuses,
                nodes,
                ..Script::ONE
            },
        };
        match row {
            'a' => single::measure(environment, plan(options.count(100, 25), 2, 10), "", found).await?,
            'b' => many::measure(environment, plan(options.count(200, 100), 1, 10), found).await?,
            'c' => many::measure(environment, plan(options.count(1000, 250), 1, 10), found).await?,
            'd' => many::measure(environment, plan(options.count(1000, 250), 10, 10), found).await?,
            'j' => {
                for plan in steady(options) {
                    many::measure(environment, plan, found).await?;
                }
            }
            _ => {
                for nodes in [10, 100, 1000] {
                    let plan = plan(options.count(25, 5), 1, nodes);
                    single::measure(environment, plan, &format!("{nodes} nodes"), found).await?;
                }
            }
        }
    }
    Ok(())
}

/// Statuses as Argo writes them: one each second, with more and more nodes; of many Workflows for a minute,
/// and of some for minutes.
fn steady(options: &Options) -> [Plan; 2] {
    let plan = |count, statuses, nodes| Plan {
        row: 'j',
        count,
        script: Script {
            statuses,
            nodes,
            ends: true,
            every: Duration::from_secs(1),
        },
    };
    [
        plan(options.count(50, 10), 60, 100),
        plan(options.count(10, 2), 200, 200),
    ]
}

/// The rows over many clusters, each with an environment of its own per mode.
async fn on_many(options: &Options, row: char, mode: Mode, found: &mut Found) -> Result<()> {
    let places = match row {
        'g' => 50,
        'l' => options.count(1000, 1000),
        _ => 10,
    };
    let modes = [(Mode::Baseline, places), (mode, places)];
    let modes = if row == 'g' { &modes[..] } else { &modes[1..] };
    let shape = Shape {
        hangs: row == 'h',
        chooses: row == 'g',
        has_agents_here: row == 'l',
    };
    let environment = Environment::build(modes, shape).await?;
    let outcome = over_many(options, row, &environment, mode, found).await;
    environment.clear().await?;
    outcome
}

async fn over_many(
    options: &Options,
    row: char,
    environment: &Environment,
    mode: Mode,
    found: &mut Found,
) -> Result<()> {
    single::warm_up(environment).await?;
    let there = environment.line(mode)?;
    match row {
        'f' => {
            let count = options.count(10_000, 500);
            let live = Live::many(count);
            live::measure(environment, there, live, options.count(50, 20), found).await?;
        }
        'l' => {
            let live = Live::very_many(options.count(100_000, 100_000));
            live::measure(environment, there, live, 50, found).await?;
        }
        'g' => {
            let count = options.count(1000, 250);
            let plan = Plan {
                row,
                count,
                script: Script::ONE,
            };
            many::measure(environment, plan, found).await?;
        }
        _ => hang::measure(environment, there, options.count(300, 75), found).await?,
    }
    Ok(())
}

async fn on_fleet(options: &Options) -> Result<bool> {
    let rows = fleet::measure(options.count).await?;
    say(samples::table(&rows).trim_end());
    let slow = rows
        .iter()
        .filter(|row| row.samples.percentile(50) > options.target);
    let slow: Vec<&str> = slow.map(|row| row.name).collect();
    if slow.is_empty() {
        say(&format!("medians of Argosy are within {} ms", options.target));
        return Ok(true);
    }
    say(&format!(
        "above {} ms at the median: {}",
        options.target,
        slow.join(", ")
    ));
    Ok(false)
}

/// Writes the results so far, so that a run that breaks off is not lost.
fn write(output: &Path, machine: &Machine, found: &Found) -> Result<Vec<Verdict>> {
    let verdicts = verdict::verdicts(&found.measurements);
    let all = json!({ "machine": machine, "measurements": found.measurements, "verdicts": verdicts, "failures": found.failures, "told": progress::told() });
    let path = output.join("results.json");
    fs::write(&path, serde_json::to_string_pretty(&all)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(verdicts)
}

#[expect(clippy::print_stdout, reason = "the table is what this program is for")]
fn say(text: &str) {
    println!("{text}");
}
