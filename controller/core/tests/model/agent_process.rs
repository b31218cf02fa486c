//! The agents over the model's API servers: their watches, and the requests that carry out their
//! actions.
//!
//! Mirrors a guarantee of the shell: if a name is taken by an object of ours, a creation returns
//! that object.

use argosy_api::{Workflow, names};
use argosy_core::{
    Failure, OriginUid,
    agent::workflows::{AgentAction, AgentConfig, AgentInput, RunIndex, Sought},
    model::{json_patch::JsonPatch, rerun::Fence},
};
use serde_json::{Value, json};

use crate::{
    actor::{Process, ailment},
    api_server::{ApiServer, Event, Kind, is_deleting, text},
    script::Space,
    servers::{CLUSTERS, Servers, label},
    watch::{Watch, any, apply, found, json_of, typed},
};

fn in_mailbox(object: &Value, number: usize) -> bool {
    text(object, "/metadata/namespace") == CLUSTERS[number]
}

impl Process for RunIndex {
    fn start(number: usize, servers: &Servers) -> Self {
        Self::new(AgentConfig {
            cluster: CLUSTERS[number].into(),
            cluster_id: Some(servers.cluster_ids[number].clone()),
            request_lifetime: argosy_core::index::reconciler::REQUEST_LIFETIME,
            argo_instance: None,
            // Both kinds of agents are in each script.
            conditions_on_demand: number == 1,
        })
    }

    fn watches(_: usize) -> Vec<Watch<Self>> {
        let is_ours = |object: &Value, number: usize| label(object, names::CLUSTER_LABEL) == CLUSTERS[number];
        vec![
            Watch::new(Kind::Work, Space::Its, in_mailbox, |change| {
                AgentInput::work(typed(change))
            }),
            Watch::new(Kind::Status, Space::Its, in_mailbox, |change| {
                AgentInput::work_status(typed(change))
            }),
            Watch::new(Kind::Workflow, Space::Wec, is_ours, |change| {
                AgentInput::object(typed(change))
            }),
            Watch::new(Kind::Record, Space::Wec, any, |change| {
                AgentInput::record(typed(change))
            }),
        ]
    }

    fn space(action: &AgentAction) -> Space {
        match action {
            AgentAction::WriteStatus { .. }
            | AgentAction::DeleteStatus(_)
            | AgentAction::Conditions { .. }
            | AgentAction::Release { .. } => Space::Its,
            _ => Space::Wec,
        }
    }

    fn fence(action: &AgentAction) -> Option<&Fence> {
        match action {
            AgentAction::Create { fence, .. } => fence.as_ref(),
            _ => None,
        }
    }

    fn work_version(origin: &OriginUid, number: usize, servers: &Servers) -> Option<String> {
        let name = names::work_name(origin.as_str());
        let work = servers.its.get(Kind::Work, CLUSTERS[number], &name).ok()?;
        Some(text(&work, "/metadata/resourceVersion").to_owned())
    }

    fn land(origin: &OriginUid, action: &AgentAction, number: usize, servers: &mut Servers) {
        // A report is created, or replaces the version that it names.
        if let AgentAction::WriteStatus { status } = action {
            let name = status.metadata.name.as_deref().unwrap_or_default();
            let there = servers.its.get(Kind::Status, CLUSTERS[number], name).ok();
            let version = there
                .as_ref()
                .map(|there| text(there, "/metadata/resourceVersion"));
            if version != status.metadata.resource_version.as_deref() {
                return;
            }
        }
        drop(Self::execute(origin, action, number, servers));
    }

    fn execute(
        origin: &OriginUid,
        action: &AgentAction,
        number: usize,
        servers: &mut Servers,
    ) -> Result<AgentInput, Failure> {
        match action {
            AgentAction::Create { .. }
            | AgentAction::Look(_)
            | AgentAction::Delete { .. }
            | AgentAction::Control { .. }
            | AgentAction::RemoveFinalizer { .. }
            | AgentAction::Disown { .. } => on_objects(origin, action, number, servers),
            AgentAction::Record(_) | AgentAction::AmendRecord { .. } | AgentAction::DropRecord(_) => {
                on_records(action, &mut servers.wecs[number])
            }
            AgentAction::Conditions { denied: Some(_), .. } if servers.ails(Space::Wec, number) => {
                Err(ailment())
            }
            AgentAction::Conditions {
                denied: Some(sought), ..
            } if let Some(there) = look(origin, sought, number, &servers.wecs[number])? => {
                Ok(AgentInput::object(apply(there)))
            }
            _ => {
                servers.ledger.check_report(action);
                in_the_mailbox(action, CLUSTERS[number], &mut servers.its)
            }
        }
    }
}

fn on_objects(
    origin: &OriginUid,
    action: &AgentAction,
    number: usize,
    servers: &mut Servers,
) -> Result<AgentInput, Failure> {
    let Servers {
        wecs, its, ledger, ..
    } = servers;
    let wec = &mut wecs[number];
    let answer = |object: Option<Value>, origin: &str| {
        object.map_or_else(
            || AgentInput::ObjectGone(origin.into()),
            |object| AgentInput::object(apply(object)),
        )
    };
    match action {
        AgentAction::Create { object, .. } => {
            let (object, is_new) = create(origin, wec, object, number)?;
            if is_new {
                ledger.note_start(&object, number);
            }
            Ok(AgentInput::object(apply(object)))
        }
        AgentAction::Look(sought) => Ok(answer(look(origin, sought, number, wec)?, origin.as_str())),
        AgentAction::Delete { key, uid } => {
            let name = names::work_name(origin.as_str());
            let is_it = |event: &Event| {
                event.kind == Kind::Work
                    && text(&event.object, "/metadata/name") == name
                    && is_deleting(&event.object)
            };
            assert!(
                its.log.iter().any(is_it),
                "{key} is deleted, and its ManifestWork was not"
            );
            ledger.check_target(uid, true);
            let deleted = found(wec.delete(Kind::Workflow, &key.namespace, &key.name, Some(uid)))?.flatten();
            Ok(answer(deleted, origin.as_str()))
        }
        AgentAction::RemoveFinalizer { key, patch } | AgentAction::Control { key, patch, .. } => {
            ledger.check_target(target(patch), true);
            let patched = wec.patch(Kind::Workflow, &key.namespace, &key.name, &patch.to_value());
            Ok(answer(found(patched)?, origin.as_str()))
        }
        AgentAction::Disown { key, patch } => {
            ledger.check_target(target(patch), false);
            let patched = wec.patch(Kind::Workflow, &key.namespace, &key.name, &patch.to_value());
            let copy = found(patched)?.ok_or(Failure::Conflict)?;
            Ok(AgentInput::object(apply(copy)))
        }
        other => panic!("{other:?} is not about objects"),
    }
}

/// UID of the object that a patch is for.
fn target(patch: &JsonPatch) -> &str {
    let uid = patch.value_at("/metadata/uid").and_then(Value::as_str);
    uid.expect("a patch is guarded")
}

/// The object with this name, if it is the one that is looked for.
fn look(
    origin: &OriginUid,
    sought: &Sought,
    number: usize,
    wec: &ApiServer,
) -> Result<Option<Value>, Failure> {
    let there = found(wec.get(Kind::Workflow, &sought.key.namespace, &sought.key.name))?;
    Ok(there.filter(|there| is_it(origin, sought, number, there)))
}

fn is_it(origin: &OriginUid, sought: &Sought, number: usize, there: &Value) -> bool {
    let there: Workflow = serde_json::from_value(there.clone()).expect("a Workflow decodes");
    sought.is(&there.metadata, origin, CLUSTERS[number])
}

/// The object, and true if it did not exist before.
fn create(
    origin: &OriginUid,
    wec: &mut ApiServer,
    object: &Workflow,
    number: usize,
) -> Result<(Value, bool), Failure> {
    let sought = Sought::of(object);
    match wec.create(Kind::Workflow, json_of(object)) {
        Err(Failure::Foreign(message)) => {
            let there = wec.get(Kind::Workflow, &sought.key.namespace, &sought.key.name)?;
            if is_it(origin, &sought, number, &there) {
                Ok((there, false))
            } else {
                Err(Failure::Foreign(message))
            }
        }
        created => Ok((created?, true)),
    }
}

fn on_records(action: &AgentAction, wec: &mut ApiServer) -> Result<AgentInput, Failure> {
    match action {
        AgentAction::Record(record) => {
            let name = record.metadata.name.clone().unwrap_or_default();
            let written = match wec.create(Kind::Record, json_of(record)) {
                Err(Failure::Foreign(_)) => wec.get(Kind::Record, "", &name),
                written => written,
            };
            Ok(AgentInput::record(apply(written?)))
        }
        AgentAction::AmendRecord { origin, patch } => {
            let name = names::work_name(origin.as_str());
            let written = found(wec.patch(Kind::Record, "", &name, &patch.to_value()))?;
            Ok(written.map_or_else(
                || AgentInput::RecordGone(origin.clone()),
                |record| AgentInput::record(apply(record)),
            ))
        }
        AgentAction::DropRecord(origin) => {
            found(wec.delete(Kind::Record, "", &names::work_name(origin.as_str()), None))?;
            Ok(AgentInput::RecordGone(origin.clone()))
        }
        other => panic!("{other:?} is not about records"),
    }
}

fn in_the_mailbox(action: &AgentAction, mailbox: &str, its: &mut ApiServer) -> Result<AgentInput, Failure> {
    match action {
        AgentAction::WriteStatus { status } => {
            let mut status = json_of(status);
            let replaced = status["metadata"]
                .as_object_mut()
                .and_then(|metadata| metadata.remove("resourceVersion"));
            let there = found(its.get(Kind::Status, mailbox, text(&status, "/metadata/name")))?;
            let version = |there: &Value| there["metadata"]["resourceVersion"].clone();
            if let (Some(replaced), Some(there)) = (replaced, &there)
                && replaced != version(there)
            {
                return Err(Failure::Conflict);
            }
            let told = match its.create(Kind::Status, status.clone()) {
                Err(Failure::Foreign(_)) => its.edit(Kind::Status, &status, |there| {
                    for field in ["status", "reported"] {
                        there[field] = status[field].clone();
                    }
                    there["metadata"]["annotations"] = status["metadata"]["annotations"].clone();
                }),
                told => told,
            };
            Ok(AgentInput::work_status(apply(told?)))
        }
        AgentAction::DeleteStatus(origin) => {
            found(its.delete(Kind::Status, mailbox, &names::work_name(origin.as_str()), None))?;
            Ok(AgentInput::ReportedGone(origin.clone()))
        }
        AgentAction::Conditions {
            origin,
            conditions,
            resource_version,
            ..
        } => {
            let work = its.get(Kind::Work, mailbox, &names::work_name(origin.as_str()));
            let Some(work) = found(work)? else {
                return Ok(AgentInput::WorkGone(origin.clone()));
            };
            if text(&work, "/metadata/resourceVersion") != resource_version {
                return Err(Failure::Conflict);
            }
            let status = json!({ "conditions": conditions });
            Ok(AgentInput::work(apply(
                its.edit(Kind::Work, &work, |work| work["status"] = status)?,
            )))
        }
        AgentAction::Release { origin, patch } => {
            let name = names::work_name(origin.as_str());
            let work = found(its.patch(Kind::Work, mailbox, &name, &patch.to_value()))?;
            Ok(work.map_or_else(
                || AgentInput::WorkGone(origin.clone()),
                |work| AgentInput::work(apply(work)),
            ))
        }
        other => panic!("{other:?} is not about the mailbox"),
    }
}
