//! Metrics of this process from the kernel, under the names that every Prometheus client uses.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

use super::catalog::{CPU, MOST_FILES, OPEN_FILES, RESIDENT, RESIDENT_MAX, STARTED, VIRTUAL};

/// Collector that reads `/proc/self` on each scrape.
#[derive(Debug)]
pub(super) struct Process;

/// `USER_HZ`: the unit of times in `/proc`, the same on every Linux architecture that Rust
/// supports.
const TICKS_PER_SECOND: f64 = 100.0;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let stat = read("stat");
        if let Some(seconds) = cpu_seconds(&stat) {
            let counter = ConstCounter::new(seconds);
            let family = encoder.encode_descriptor(CPU.stem(), CPU.help, None, counter.metric_type())?;
            counter.encode(family)?;
        }
        let status = read("status");
        let gauges = [
            (RESIDENT, kibibytes(&status, "VmRSS:")),
            (RESIDENT_MAX, kibibytes(&status, "VmHWM:")),
            (VIRTUAL, kibibytes(&status, "VmSize:")),
            (OPEN_FILES, open_files()),
            (MOST_FILES, most_files(&read("limits"))),
            (
                STARTED,
                started(&stat, &fs::read_to_string("/proc/stat").unwrap_or_default()),
            ),
        ];
        for (metric, value) in gauges {
            let Some(value) = value else { continue };
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(
                metric.stem(),
                metric.help,
                None,
                gauge.metric_type(),
            )?)?;
        }
        Ok(())
    }
}

fn read(name: &str) -> String {
    fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default()
}

/// Sums fields 14 and 15 of `/proc/PID/stat`. The second field, the name, may contain spaces and
/// parentheses.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok().map(f64::from);
    Some((ticks()? + ticks()?) / TICKS_PER_SECOND)
}

/// Start of the process in whole seconds of Unix time. Field 22 of `/proc/PID/stat` has the ticks
/// since the boot, and `/proc/stat` the boot time.
fn started(stat: &str, machine: &str) -> Option<i64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks: i64 = fields.split_ascii_whitespace().nth(19)?.parse().ok()?;
    let boot = machine.lines().find_map(|line| line.strip_prefix("btime "))?;
    // `TICKS_PER_SECOND` as an integer.
    Some(boot.trim().parse::<i64>().ok()? + ticks / 100)
}

/// The soft limit from `/proc/PID/limits`; `None` if it is unlimited.
fn most_files(limits: &str) -> Option<i64> {
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Converts a line of `/proc/PID/status`, such as `VmRSS: 1234 kB`, to bytes.
fn kibibytes(status: &str, field: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kibibytes: i64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

fn open_files() -> Option<i64> {
    i64::try_from(fs::read_dir("/proc/self/fd").ok()?.count()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_time_is_found_behind_any_name() {
        let stat = "7 (a) b (c) R 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 5 6 7";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds(""), None);
    }

    #[test]
    fn the_start_is_counted_from_that_of_the_machine() {
        let stat = "7 (a) R 1 7 7 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 1234 6 7";
        assert_eq!(started(stat, "cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_012));
        assert_eq!(started(stat, ""), None);
    }

    #[test]
    fn the_soft_limit_of_files_counts() {
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024   4096  files\n";
        assert_eq!(most_files(limits), Some(1024));
        assert_eq!(most_files("Max open files   unlimited unlimited files"), None);
    }

    #[test]
    fn memory_is_told_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t    20 kB\nVmRSS:\t    12 kB\n";
        assert_eq!(kibibytes(status, "VmRSS:"), Some(12 * 1024));
        assert_eq!(kibibytes(status, "VmSwap:"), None);
    }
}
