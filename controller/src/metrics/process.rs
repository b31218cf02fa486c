//! What the kernel says about this process, under the names that every Prometheus client uses.

use std::{fmt, fs};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

/// Reads `/proc/self` whenever it is asked.
#[derive(Debug)]
pub(super) struct Process;

/// `USER_HZ`: the unit of times in `/proc`, the same on every architecture of Linux that Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if let Some(seconds) = cpu_seconds(&read("stat")) {
            let counter = ConstCounter::new(seconds);
            let family = encoder.encode_descriptor(
                "process_cpu_seconds",
                "Processor time in user and system mode",
                None,
                counter.metric_type(),
            )?;
            counter.encode(family)?;
        }
        let status = read("status");
        let gauges = [
            (
                "process_resident_memory_bytes",
                "Resident memory",
                kibibytes(&status, "VmRSS:"),
            ),
            (
                "process_resident_memory_max_bytes",
                "The most resident memory since the start",
                kibibytes(&status, "VmHWM:"),
            ),
            ("process_open_fds", "Open file descriptors", open_files()),
        ];
        for (name, help, value) in gauges {
            let Some(value) = value else { continue };
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

fn read(name: &str) -> String {
    fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default()
}

/// Of `/proc/PID/stat`, fields 14 and 15. The second field, the name, may hold spaces and parentheses.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok().map(f64::from);
    Some((ticks()? + ticks()?) / TICKS_PER_SECOND)
}

/// Of `/proc/PID/status`, a line such as `VmRSS:  1234 kB`, in bytes.
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
    fn memory_is_told_in_bytes() {
        let status = "Name:\tx\nVmHWM:\t    20 kB\nVmRSS:\t    12 kB\n";
        assert_eq!(kibibytes(status, "VmRSS:"), Some(12 * 1024));
        assert_eq!(kibibytes(status, "VmSwap:"), None);
    }
}
