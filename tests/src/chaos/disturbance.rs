//! The disturbances: processes are killed as in a crash, and links are cut for a while.

use std::{fmt, time::Duration};

use anyhow::Result;

use crate::fleet::{CONTROL, Fleet, PULL, PUSH};

/// A disturbance including its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disturbance {
    /// A process is killed; its supervisor starts it again.
    Kill(&'static str, &'static str),
    /// A process is killed and started again at once.
    Restart(&'static str, &'static str),
    /// The cluster's link is cut for this number of milliseconds.
    Cut(&'static str, u64),
}

const AGENT: Disturbance = Disturbance::Kill(PULL, "argosy-agent");
const CONTROLLER: Disturbance = Disturbance::Kill(CONTROL, "argosy-controller");

/// The processes of the fleet that can be killed or restarted. The controller hosts the agent of
/// the other cluster.
const ALL: [Disturbance; 11] = [
    AGENT,
    AGENT,
    CONTROLLER,
    CONTROLLER,
    Disturbance::Kill(CONTROL, "workflow-controller"),
    Disturbance::Kill(PULL, "workflow-controller"),
    Disturbance::Kill(PUSH, "workflow-controller"),
    Disturbance::Restart(CONTROL, "kube-apiserver"),
    Disturbance::Restart(PULL, "kube-apiserver"),
    Disturbance::Restart(PUSH, "kube-apiserver"),
    Disturbance::Restart(CONTROL, "etcd"),
];

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill(cluster, what) => write!(f, "kill {what} of {cluster}"),
            Self::Restart(_, "etcd") => f.write_str("kill etcd and start it again"),
            Self::Restart(cluster, what) => write!(f, "kill {what} of {cluster} and start it again"),
            Self::Cut(cluster, time) => write!(f, "cut {cluster} off for {time} ms"),
        }
    }
}

impl Disturbance {
    /// Draws a disturbance. With Argo alone, draws one that concerns its cluster.
    pub fn draw(dice: &mut fastrand::Rng, is_alone: bool) -> Self {
        loop {
            let drawn = if dice.u8(0..3) == 0 {
                let cluster = dice.choice([CONTROL, PULL, PUSH]).unwrap_or(PULL);
                Self::Cut(cluster, dice.u64(1_000..15_000))
            } else {
                dice.choice(ALL).unwrap_or(AGENT)
            };
            if !is_alone || drawn.concerns(PULL) {
                return drawn;
            }
        }
    }

    fn concerns(self, name: &str) -> bool {
        let (Self::Kill(cluster, what) | Self::Restart(cluster, what)) = self else {
            return matches!(self, Self::Cut(cluster, _) if cluster == name);
        };
        (cluster == name && what != "argosy-agent") || what == "etcd"
    }

    /// Carries out the disturbance, including its end.
    pub async fn happen(self, fleet: &Fleet) -> Result<()> {
        match self {
            // The process may still be down from the last time.
            Self::Kill(cluster, what) => drop(fleet.script(&["kill", cluster, what]).await),
            Self::Restart(cluster, what) => {
                fleet.script(&["kill", cluster, what]).await?;
                fleet.script(&["start", cluster, what]).await?;
            }
            Self::Cut(cluster, time) => {
                fleet.script(&["cut", cluster]).await?;
                tokio::time::sleep(Duration::from_millis(time)).await;
                fleet.script(&["heal", cluster]).await?;
            }
        }
        Ok(())
    }

    /// Ends all disturbances, and recreates pods whose next start is delayed by back-off.
    pub async fn mend(fleet: &Fleet) -> Result<()> {
        for cluster in fleet.clusters() {
            fleet.script(&["heal", &cluster.name]).await?;
        }
        // Those that run go on; etcd, the last one, comes first.
        for disturbance in ALL.into_iter().rev() {
            if let Self::Restart(cluster, what) = disturbance {
                fleet.script(&["start", cluster, what]).await?;
            }
        }
        for cluster in fleet.clusters() {
            cluster.forget_crashes().await?;
        }
        Ok(())
    }
}
