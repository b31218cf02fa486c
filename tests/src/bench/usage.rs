//! Usage of processes as the kernel reports it (proc(5)): processor time and resident memory.

use std::fs;

use serde::Serialize;

/// The unit of times in `/proc`, equal on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Usage of some processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Usage {
    /// Seconds of processor time of all processes together.
    pub(super) cpu_seconds: f64,
    /// Resident MiB of the largest process.
    pub(super) resident_mib: f64,
    /// Highest resident MiB that the largest process has ever had.
    pub(super) peak_mib: f64,
}

impl Usage {
    /// The usage of the processes so far. A process that is gone counts as zero.
    pub(super) fn of(pids: &[u32]) -> Self {
        let each = pids.iter().map(|pid| {
            let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
            Self::parse(&read("stat"), &read("status"))
        });
        each.fold(Self::default(), |sum, one| Self {
            cpu_seconds: sum.cpu_seconds + one.cpu_seconds,
            resident_mib: sum.resident_mib.max(one.resident_mib),
            peak_mib: sum.peak_mib.max(one.peak_mib),
        })
    }

    /// The usage since `earlier`. Time counts from there, memory is the current value.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu_seconds: (self.cpu_seconds - earlier.cpu_seconds).max(0.0),
            ..*self
        }
    }

    /// Adds another period of the same processes.
    pub(super) fn add(&mut self, other: &Self) {
        self.cpu_seconds += other.cpu_seconds;
        self.resident_mib = self.resident_mib.max(other.resident_mib);
        self.peak_mib = self.peak_mib.max(other.peak_mib);
    }

    fn parse(stat: &str, status: &str) -> Self {
        // The name of a program may contain anything, but ends with the last parenthesis. The times
        // are fields 14 and 15.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks: f64 = fields
            .split_ascii_whitespace()
            .skip(11)
            .take(2)
            .filter_map(|field| field.parse::<f64>().ok())
            .sum();
        let kibibytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let amount = line.and_then(|line| line.split_ascii_whitespace().nth(1)?.parse::<f64>().ok());
            amount.unwrap_or_default()
        };
        Self {
            cpu_seconds: ticks / TICKS_PER_SECOND,
            resident_mib: kibibytes("VmRSS") / 1024.0,
            peak_mib: kibibytes("VmHWM") / 1024.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_memory_are_read_whatever_the_program_is_called() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 9 0 1 2 3";
        let status = "Name:\ta\nVmHWM:\t 204800 kB\nVmRSS:\t 102400 kB\n";
        let usage = Usage::parse(stat, status);
        let wanted = Usage {
            cpu_seconds: 2.0,
            resident_mib: 100.0,
            peak_mib: 200.0,
        };
        assert_eq!(usage, wanted);
        assert_eq!(usage.since(&wanted).cpu_seconds.to_string(), "0");
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(Usage::of(&[std::process::id()]).resident_mib > 0.0);
    }
}
