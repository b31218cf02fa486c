//! Argosy's conditions of a Workflow.

use anyhow::{Context as _, Result};
use argosy_api::{Workflow, conditions::workflow as types};
use serde_json::Value;

use super::{Cluster, LIMIT, until};

/// Status and message of a condition of a Workflow.
pub fn condition(workflow: &Workflow, type_: &str) -> Option<(String, String)> {
    let is_it = |condition: &&Value| condition.get("type").is_some_and(|there| there == type_);
    let found = workflow
        .status
        .as_ref()?
        .get("conditions")?
        .as_array()?
        .iter()
        .find(is_it)?;
    let text = |field: &str| {
        found
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    Some((text("status"), text("message")))
}

/// Waits until the Workflow has the condition `Dispatched` with this status and reason. Returns its
/// message.
pub async fn says(control: &Cluster, name: &str, status: &str, why: &str) -> Result<String> {
    let what = format!("condition {} {status} {why} of {name}", types::DISPATCHED);
    let mut seen = None;
    let found = until(LIMIT, &what, async || {
        let workflow = control.workflow(name).await?.context("gone")?;
        seen = condition(&workflow, types::DISPATCHED);
        let message = seen
            .clone()
            .filter(|(now, message)| now == status && message.starts_with(why));
        Ok(message.map(|(_, message)| message))
    });
    found.await.with_context(|| format!("it says {seen:?}"))
}
