//! Many Workflows at once: (b), (c), (d) and (g). The lanes run one after the other, each with the
//! machine for itself.

use anyhow::Result;
use tokio::time::Duration;

use super::{Found, single::Plan};
use crate::bench::{
    ground::{Ground, Line},
    load::{many, names},
    measurement::Measurement,
};

/// Sends `plan` in each lane.
pub(in crate::bench) async fn measure(ground: &Ground, plan: Plan, found: &mut Found) -> Result<()> {
    for line in &ground.lines {
        let case = match line.stations.len() {
            2 => String::new(),
            places => format!("{places} clusters"),
        };
        found.add(send(ground, line, plan, "all").await?.called(case));
    }
    Ok(())
}

/// Sends `plan` in one lane. `part` distinguishes the Workflows from others of the row.
pub(in crate::bench) async fn send(
    ground: &Ground,
    line: &Line,
    plan: Plan,
    part: &str,
) -> Result<Measurement> {
    let prefix = format!("{}-{}-{part}", plan.row, line.lane.name());
    let names = names(&prefix, plan.count);
    let asked = ground.asked();
    let begun = asked.begin().await?;
    many(ground, line, &prefix, &names, plan.script).await?;
    asked.until_quiet(Duration::from_mins(2)).await?;
    // Reads the running processes again: one may have been restarted.
    let reading = ground.asked().end(&begun).await?;
    let trips = ground.journal.trips_of(&names);
    Ok(Measurement::new(
        plan.row,
        line.lane,
        plan.script,
        &trips,
        &reading,
    ))
}
