//! The agents over the model's API servers: what they watch, and how their actions become requests.
//!
//! Mirrors what the shell promises: a taken name is answered with the object that has it, if that is ours.

use argosy_api::names;
use argosy_core::{
    Failure, OriginUid, WorkflowKey,
    agent::{Agent, AgentAction, AgentConfig, AgentInput},
    lost::Fence,
};
use serde_json::{Value, json};

use crate::{
    actor::Process,
    api_server::{ApiServer, Event, Kind, is_deleting, text},
    script::Space,
    servers::{CLUSTERS, Servers, label},
    watch::{Watch, apply, found, json_of, typed},
};

fn any(_: &Value, _: usize) -> bool {
    true
}

fn in_mailbox(object: &Value, number: usize) -> bool {
    text(object, "/metadata/namespace") == CLUSTERS[number]
}

impl Process for Agent {
    fn start(number: usize, _: &Servers) -> Self {
        Self::new(AgentConfig {
            cluster: CLUSTERS[number].into(),
        })
    }

    fn watches(_: usize) -> Vec<Watch<Self>> {
        let is_ours = |object: &Value, number: usize| label(object, names::CLUSTER_LABEL) == CLUSTERS[number];
        vec![
            Watch::new(Kind::Work, Space::Its, in_mailbox, |change| {
                AgentInput::work(typed(change))
            }),
            Watch::new(Kind::Status, Space::Its, in_mailbox, |change| {
                AgentInput::told(typed(change))
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
            AgentAction::Tell { .. }
            | AgentAction::Untell(_)
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
            | AgentAction::LetGo { .. } => on_objects(origin, action, number, servers),
            AgentAction::Record(_) | AgentAction::AmendRecord { .. } | AgentAction::DropRecord(_) => {
                on_records(action, &mut servers.wecs[number])
            }
            AgentAction::Conditions {
                denied: Some(key), ..
            } if let Some(there) = look(origin, key, &servers.wecs[number])? => {
                Ok(AgentInput::object(apply(there)))
            }
            _ => in_the_mailbox(action, CLUSTERS[number], &mut servers.its),
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
            let (object, is_new) = create(wec, json_of(object))?;
            if is_new {
                ledger.note_start(&object, number);
            }
            Ok(AgentInput::object(apply(object)))
        }
        AgentAction::Look(key) => Ok(answer(look(origin, key, wec)?, origin.as_str())),
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
            let deleted = found(wec.delete(Kind::Workflow, &key.namespace, &key.name, Some(uid)))?.flatten();
            Ok(answer(deleted, origin.as_str()))
        }
        AgentAction::LetGo { key, patch } | AgentAction::Control { key, patch, .. } => Ok(answer(
            found(wec.patch(Kind::Workflow, &key.namespace, &key.name, &patch.to_value()))?,
            origin.as_str(),
        )),
        other => panic!("{other:?} is not about objects"),
    }
}

/// What is there under the name, if it is ours.
fn look(origin: &OriginUid, key: &WorkflowKey, wec: &ApiServer) -> Result<Option<Value>, Failure> {
    let there = found(wec.get(Kind::Workflow, &key.namespace, &key.name))?;
    Ok(there.filter(|there| label(there, names::ORIGIN_UID_LABEL) == origin.as_str()))
}

/// The object, and whether it was not there before.
fn create(wec: &mut ApiServer, object: Value) -> Result<(Value, bool), Failure> {
    let (namespace, name) = (
        text(&object, "/metadata/namespace").to_owned(),
        text(&object, "/metadata/name").to_owned(),
    );
    let origin = label(&object, names::ORIGIN_UID_LABEL).to_owned();
    match wec.create(Kind::Workflow, object) {
        Err(Failure::Foreign(message)) => {
            let there = wec.get(Kind::Workflow, &namespace, &name)?;
            let same = label(&there, names::ORIGIN_UID_LABEL) == origin;
            if same {
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
        AgentAction::Tell { status } => {
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
            Ok(AgentInput::told(apply(told?)))
        }
        AgentAction::Untell(origin) => {
            found(its.delete(Kind::Status, mailbox, &names::work_name(origin.as_str()), None))?;
            Ok(AgentInput::ToldGone(origin.clone()))
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
