//! The command line of the benchmark: the rows to measure, and their size.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Parser;

use super::environment::Mode;

/// Measure Workflows from the control cluster to their clusters, and their statuses back, beside
/// the cost of copying on the same API servers.
#[derive(Debug, Parser)]
#[command(name = "bench")]
pub struct Options {
    /// Measure at most three minutes: rows a, b, c and e with fewer Workflows
    #[arg(long)]
    pub quick: bool,
    /// Letters of the rows, by default a to j: a one at a time, b 200 at once, c 1,000 at once, d with
    /// 10 statuses each, e with large statuses, f 10,000 live, g over 50 clusters, h one cluster
    /// hangs, i live logs, j a status each second that grows, k 1,000 clusters at rest, l
    /// 100,000 live over 1,000 clusters
    #[arg(long, value_delimiter = ',')]
    pub rows: Vec<char>,
    /// Ways of copying to measure beside the baseline: pull, push
    #[arg(long, value_delimiter = ',', default_values_t = ["pull".to_owned(), "push".to_owned()])]
    pub modes: Vec<String>,
    /// Print all measurements stage by stage, and the progress; otherwise they are in results.json
    /// only
    #[arg(long)]
    pub verbose: bool,
    /// Percentage of each row's Workflows to send
    #[arg(long, default_value_t = 100)]
    pub share: usize,
    /// Folder of results.json and the plots; by default docs/benchmarks, or target/bench for a part
    /// of the rows or Workflows
    #[arg(long)]
    pub output: Option<PathBuf>,
    /// Measure three times with the programs of this build and three times with those in this folder,
    /// in turns, and compare them; results go to target/bench/against
    #[arg(long, value_name = "DIR", conflicts_with = "fleet")]
    pub against: Option<PathBuf>,
    /// Measure on the fleet that KUBECONFIG_CONTROL and KUBECONFIG_CLUSTER1 name (source
    /// .fleet/env)
    #[arg(long)]
    pub fleet: bool,
    /// Number of Workflows to send on a fleet, one after the other
    #[arg(long, default_value_t = 100, requires = "fleet")]
    pub count: usize,
    /// Highest median on a fleet in milliseconds; a higher one exits with 1
    #[arg(long, default_value_t = 30.0, requires = "fleet")]
    pub target: f64,
}

/// The rows that are measured if none is named.
pub(super) const ROWS: [char; 10] = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'];
/// Rows of a large fleet, which take a quarter of an hour and more than an hour.
const LARGE: [char; 2] = ['k', 'l'];
/// Rows of the quick form.
const QUICK: [char; 4] = ['a', 'b', 'c', 'e'];

impl Options {
    /// The rows, in their order.
    pub(super) fn rows(&self) -> Result<Vec<char>> {
        let wanted: &[char] = match (self.rows.as_slice(), self.quick) {
            ([], true) => &QUICK,
            ([], false) => &ROWS,
            (named, _) => named,
        };
        for row in wanted {
            let is_known = ROWS.contains(row) || LARGE.contains(row);
            ensure!(is_known, "there is no row {row}; there are a to l");
        }
        let all = ROWS.iter().chain(&LARGE);
        Ok(all.filter(|row| wanted.contains(row)).copied().collect())
    }

    /// The modes beside the baseline.
    pub(super) fn argosy(&self) -> Result<Vec<Mode>> {
        for mode in &self.modes {
            ensure!(
                matches!(mode.as_str(), "pull" | "push"),
                "there is no mode {mode}; there are pull and push"
            );
        }
        let modes = [Mode::Pull, Mode::Push];
        Ok(modes
            .into_iter()
            .filter(|mode| self.modes.iter().any(|wanted| wanted == mode.name()))
            .collect())
    }

    /// The number of Workflows to send in a row with `full` Workflows, or `quick` in the quick
    /// form.
    pub(super) fn count(&self, full: usize, quick: usize) -> usize {
        let count = if self.quick { quick } else { full };
        (count * self.share / 100).max(1)
    }

    /// The folder of the results. Only a complete run may replace the published results.
    pub(super) fn output(&self) -> Result<PathBuf> {
        let is_whole = !self.quick && self.share == 100 && self.rows()? == ROWS && self.argosy()?.len() == 2;
        let default = if is_whole {
            "docs/benchmarks"
        } else {
            "target/bench"
        };
        Ok(self.output.clone().unwrap_or_else(|| default.into()))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn options(line: &str) -> Options {
        Options::try_parse_from(line.split(' ')).unwrap()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn rows_come_in_their_order_and_must_exist() {
        assert_eq!(options("bench --rows c,a").rows().unwrap(), ['a', 'c']);
        assert_eq!(options("bench --quick").rows().unwrap(), QUICK);
        assert_eq!(options("bench").rows().unwrap(), ROWS);
        assert_eq!(options("bench --rows l,a,k").rows().unwrap(), ['a', 'k', 'l']);
        assert!(options("bench --rows z").rows().is_err());
        assert!(options("bench --modes baseline").argosy().is_err());
    }

    #[test]
    fn only_a_whole_run_replaces_what_is_published() {
        let output = |line| options(line).output().unwrap();
        assert_eq!(output("bench"), PathBuf::from("docs/benchmarks"));
        for part in [
            "bench --quick",
            "bench --rows a",
            "bench --share 10",
            "bench --modes pull",
        ] {
            assert_eq!(output(part), PathBuf::from("target/bench"), "{part}");
        }
        assert_eq!(output("bench --quick --output x"), PathBuf::from("x"));
    }
}
