//! Many Workflows at once: (b), (c), (d), (g) and (j). The modes run one after the other, each with the
//! machine for itself.

use anyhow::Result;
use tokio::time::Duration;

use super::{Found, single::Plan};
use crate::bench::{
    environment::{Environment, Line},
    load::{many, names, until_let_go},
    measurement::{AGE, Measurement},
    samples::Samples,
    timeline::Trip,
};

/// Sends `plan` in each mode.
pub(in crate::bench) async fn measure(
    environment: &Environment,
    plan: Plan,
    found: &mut Found,
) -> Result<()> {
    for line in environment.lines_of(plan.row) {
        let case = match (plan.row, line.clusters) {
            ('j', _) => format!("{} statuses", plan.script.statuses),
            (_, 2) => String::new(),
            (_, places) => format!("{places} clusters"),
        };
        // Row j has two plans, whose Workflows must not have the same names.
        let part = plan.script.statuses.to_string();
        found.add(send(environment, line, plan, &part).await?.called(case));
    }
    Ok(())
}

/// Sends `plan` in one mode. `part` distinguishes the Workflows from others of the row.
pub(in crate::bench) async fn send(
    environment: &Environment,
    line: &Line,
    plan: Plan,
    part: &str,
) -> Result<Measurement> {
    let prefix = format!("{}-{}-{part}", plan.row, line.name());
    let names = names(&prefix, plan.count);
    let asked = environment.asked();
    let begun = asked.begin().await?;
    many(environment, line, &prefix, &names, plan.script).await?;
    let shown = environment.asked().end(&begun).await?;
    until_let_go(environment, line, &names, plan.script).await?;
    asked.until_quiet(Duration::from_mins(2)).await?;
    // Reads the running processes again: one may have been restarted.
    let reading = environment.asked().end(&begun).await?;
    let trips = environment.timeline.trips_of(&names);
    let mut measured = Measurement::new(plan.row, line.mode, plan.script, &trips, &reading);
    if !plan.script.every.is_zero() {
        let ages: Samples = trips.iter().flat_map(Trip::ages).collect();
        measured
            .figures
            .extend(ages.summary().map(|ages| (AGE, ages.p99 / 1000.0)));
    }
    Ok(measured.with_end(&shown).by_best_cluster(line.is_best_cluster))
}
