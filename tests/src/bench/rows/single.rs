//! One Workflow at a time: (a), and (e) with statuses of many nodes. The modes take turns, so that
//! disturbances of the machine affect all of them.

use anyhow::Result;
use tokio::time::Duration;

use super::Found;
use crate::bench::{
    cost::Reading,
    environment::{Environment, Line},
    fake_argo::Script,
    load::{names, one, until_let_go},
    measurement::Measurement,
};

/// The size of a row.
#[derive(Clone, Copy, Debug)]
pub(in crate::bench) struct Plan {
    /// Letter of the row.
    pub(in crate::bench) row: char,
    /// Workflows per mode.
    pub(in crate::bench) count: usize,
    /// The reports of each Workflow.
    pub(in crate::bench) script: Script,
}

/// Workflows of one mode before the turn of the next mode.
const TURN: usize = 25;

/// Opens connections and warms caches. This is not counted.
pub(in crate::bench) async fn warm_up(environment: &Environment) -> Result<()> {
    let script = Script::ONE;
    for line in &environment.lines {
        let names = names(&format!("warm-{}", line.name()), line.stations.len().max(3));
        for (number, name) in names.iter().enumerate() {
            one(environment, line, number, name, script).await?;
        }
        until_let_go(environment, line, &names, script).await?;
    }
    environment.asked().until_quiet(Duration::from_secs(20)).await
}

/// Sends `plan` in each mode.
pub(in crate::bench) async fn measure(
    environment: &Environment,
    plan: Plan,
    case: &str,
    found: &mut Found,
) -> Result<()> {
    let lines: Vec<&Line> = environment.lines_of(plan.row).collect();
    let mut readings = vec![Reading::default(); lines.len()];
    let prefix = |line: &Line| format!("{}{}-{}", plan.row, plan.script.nodes, line.name());
    for begin in (0..plan.count).step_by(TURN) {
        for (line, reading) in lines.iter().zip(&mut readings) {
            let asked = environment.asked();
            let begun = asked.begin().await?;
            let mut sent = Vec::new();
            for number in begin..plan.count.min(begin + TURN) {
                let name = format!("{}-{number}", prefix(line));
                one(environment, line, number, &name, plan.script).await?;
                sent.push(name);
            }
            // The work after the last status must not fall into the turn of another mode.
            until_let_go(environment, line, &sent, plan.script).await?;
            asked.until_quiet(Duration::from_secs(20)).await?;
            reading.add(&asked.end(&begun).await?);
        }
    }
    for (line, reading) in lines.iter().zip(&readings) {
        let trips = environment.timeline.trips_of(&names(&prefix(line), plan.count));
        let measured = Measurement::new(plan.row, line.mode, plan.script, &trips, reading);
        let measured = measured.by_best_cluster(line.is_best_cluster);
        found.add(measured.without_throughput().called(case));
    }
    Ok(())
}
