//! Flags that both programs share. Every flag is an environment variable, too.
//!
//! Not here: flags of one program (`hub::args`, `agent::args`).

use std::{net::SocketAddr, time::Duration};

use clap::{ArgAction, Args, ValueEnum};

use super::telemetry::LogFormat;

/// Flags of leader election, named as in Kubernetes' own components.
#[derive(Debug, Args)]
pub struct LeaderElectArgs {
    /// Elect one working replica with a Lease; without it, run only one replica
    #[arg(long, env = "ARGOSY_LEADER_ELECT", default_value_t = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub leader_elect: bool,
    /// Time that the standbys wait after the leader's last renewal, in seconds or with a unit
    #[arg(long, env = "ARGOSY_LEADER_ELECT_LEASE_DURATION", default_value = "15s", value_parser = duration)]
    pub leader_elect_lease_duration: Duration,
    /// Time that a leader keeps leading without a successful renewal; shorter than the lease
    #[arg(long, env = "ARGOSY_LEADER_ELECT_RENEW_DEADLINE", default_value = "10s", value_parser = duration)]
    pub leader_elect_renew_deadline: Duration,
    /// Interval between the leader's renewals; shorter than the deadline
    #[arg(long, env = "ARGOSY_LEADER_ELECT_RETRY_PERIOD", default_value = "2s", value_parser = duration)]
    pub leader_elect_retry_period: Duration,
    /// Name of this replica, unique among running processes; by default the host name and a random
    /// number
    ///
    /// A process that restarts under the name of the lease holder leads at once. In a container,
    /// use the pod's name.
    #[arg(long, env = "ARGOSY_LEADER_ELECT_IDENTITY")]
    pub leader_elect_identity: Option<String>,
}

/// Flags of the controller and of the agent.
#[derive(Debug, Args)]
pub struct CommonArgs {
    /// Address of /livez, /readyz and /metrics
    #[arg(long, env = "ARGOSY_ADMIN_ADDR", default_value = "0.0.0.0:8080")]
    pub admin_addr: SocketAddr,
    /// Namespace of Argo, where its artifact repository is configured
    #[arg(long, env = "ARGOSY_ARTIFACT_NAMESPACE", default_value = "argo")]
    pub artifact_namespace: String,
    /// Time after its last renewal at which a cluster's lease ends, in seconds or with a unit (30s,
    /// 2m)
    #[arg(long, env = "ARGOSY_LEASE_DURATION", default_value = "30s", value_parser = duration)]
    pub lease_duration: Duration,
    /// Time that an API server may still carry out an abandoned request: longer than its
    /// --request-timeout
    ///
    /// For this time after an unanswered creation, or after a start, nothing is withdrawn or
    /// released that such a request could still create.
    #[arg(long, env = "ARGOSY_REQUEST_LIFETIME", default_value = "70s", value_parser = duration)]
    pub request_lifetime: Duration,
    /// The conditions of the ManifestWork of a run that is reported: eventually, after four seconds
    /// without other work or after half a minute; on-demand, only if somebody waits for them, which
    /// saves one write for each run
    #[arg(
        long,
        env = "ARGOSY_MANIFEST_WORK_CONDITIONS",
        value_enum,
        default_value = "eventually"
    )]
    pub manifest_work_conditions: ManifestWorkConditions,
    /// Format of log lines
    #[arg(long, env = "ARGOSY_LOG_FORMAT", default_value = "text")]
    pub log_format: LogFormat,
}

/// The time at which an agent writes the conditions of a ManifestWork whose run is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ManifestWorkConditions {
    /// After four seconds without other work, or after half a minute.
    Eventually,
    /// Only if somebody waits for them: an attempt is withdrawn, or could not be created before.
    OnDemand,
}

/// Parses a duration, in seconds or with a unit.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is not a duration; use 30s, 2m, 12h, 30d or a number of seconds");
    let units = [('s', 1), ('m', 60), ('h', 60 * 60), ('d', 24 * 60 * 60)];
    let (number, unit) = units
        .iter()
        .find_map(|(name, seconds)| Some((text.strip_suffix(*name)?, *seconds)))
        .unwrap_or((text, 1));
    let number: u64 = number.parse().map_err(|_| bad())?;
    if number == 0 {
        return Err("a duration must be at least one second".to_owned());
    }
    number.checked_mul(unit).map(Duration::from_secs).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_seconds_or_carry_a_unit() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("2m"), Ok(Duration::from_mins(2)));
        assert_eq!(duration("12h"), Ok(Duration::from_hours(12)));
        assert_eq!(duration("30d"), Ok(Duration::from_hours(720)));
        assert_eq!(duration("7"), Ok(Duration::from_secs(7)));
        for bad in ["", "0s", "1w", "-1s"] {
            assert!(duration(bad).is_err(), "{bad} was taken");
        }
    }
}
