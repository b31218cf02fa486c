//! The controller and the agents over the model's API servers: what they watch, and how their actions become requests.
//!
//! Mirrors what the shell promises: a taken name is answered with the object that has it, if that is ours.

use argosy_api::names;
use argosy_core::{
    Change, Failure, OriginUid,
    agent::{Agent, AgentAction, AgentConfig, AgentInput},
    hub::{Hub, HubAction, HubConfig, HubInput, HubKey},
};
use serde_json::{Value, json};

use crate::{
    actor::{Process, Watch, typed},
    api_server::{ApiServer, Kind, text},
    servers::{CLUSTERS, Servers, label},
};

/// The controller's number; agents are numbered as their clusters.
pub(crate) const HUB: usize = usize::MAX;

fn control(servers: &Servers, _: usize) -> &ApiServer {
    &servers.control
}

fn wec(servers: &Servers, number: usize) -> &ApiServer {
    &servers.wecs[number]
}

fn any(_: &Value, _: usize) -> bool {
    true
}

fn in_mailbox(object: &Value, number: usize) -> bool {
    text(object, "/metadata/namespace") == CLUSTERS[number]
}

fn found<T>(result: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match result {
        Ok(answer) => Ok(Some(answer)),
        Err(Failure::NotFound { .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn json_of(object: &impl serde::Serialize) -> Value {
    serde_json::to_value(object).expect("an object encodes")
}

fn apply<K: serde::de::DeserializeOwned>(object: Value) -> Change<K> {
    typed(Change::Apply(Box::new(object)))
}

impl Process for Hub {
    fn start(_: usize) -> Self {
        Self::new(HubConfig {
            wds_name: "wds1".to_owned(),
        })
    }

    fn watches(_: usize) -> Vec<Watch<Self>> {
        vec![
            Watch::new(Kind::Workflow, control, any, |change| {
                HubInput::Workflow(typed(change))
            }),
            Watch::new(Kind::Policy, control, any, |change| {
                HubInput::Policy(typed(change))
            }),
            Watch::new(Kind::Cluster, control, any, |change| {
                HubInput::Cluster(typed(change))
            }),
            Watch::new(Kind::Lease, control, any, |change| HubInput::Lease(typed(change))),
            Watch::new(Kind::Work, control, any, |change| HubInput::Work(typed(change))),
            Watch::new(Kind::Status, control, any, |change| {
                HubInput::Report(typed(change))
            }),
            Watch::new(Kind::Transform, control, any, |change| {
                HubInput::Transform(typed(change))
            }),
        ]
    }

    fn execute(_: &HubKey, action: &HubAction, _: usize, servers: &mut Servers) -> Result<HubInput, Failure> {
        let control = &mut servers.control;
        let gone = |cluster: &argosy_core::ClusterName, origin: &OriginUid| {
            HubInput::WorkGone(cluster.clone(), origin.clone())
        };
        match action {
            HubAction::PatchWorkflow { key, patch, .. } => {
                let object = control.patch(Kind::Workflow, &key.namespace, &key.name, &patch.to_value())?;
                let object = serde_json::from_value(object).expect("a Workflow decodes");
                Ok(HubInput::Wrote {
                    patch: patch.clone(),
                    object: Box::new(object),
                })
            }
            HubAction::CreateWork { cluster, work } => {
                let created = match control.create(Kind::Work, json_of(work)) {
                    Err(Failure::Foreign(_)) => control.get(
                        Kind::Work,
                        cluster.as_str(),
                        work.metadata.name.as_deref().unwrap_or_default(),
                    ),
                    created => created,
                };
                Ok(HubInput::Work(apply(created?)))
            }
            HubAction::WithdrawWork {
                cluster,
                origin,
                patch,
            } => {
                let name = names::work_name(origin.as_str());
                let patched = found(control.patch(Kind::Work, cluster.as_str(), &name, &patch.to_value()))?;
                Ok(patched.map_or_else(|| gone(cluster, origin), |work| HubInput::Work(apply(work))))
            }
            HubAction::DeleteWork { cluster, origin, uid } => {
                let name = names::work_name(origin.as_str());
                let deleted =
                    found(control.delete(Kind::Work, cluster.as_str(), &name, Some(uid)))?.flatten();
                Ok(deleted.map_or_else(|| gone(cluster, origin), |work| HubInput::Work(apply(work))))
            }
            HubAction::PolicyStatus { name, status } => {
                let policy = control.get(Kind::Policy, "", name)?;
                let written =
                    control.edit(Kind::Policy, &policy, |policy| policy["status"] = json_of(status))?;
                Ok(HubInput::Policy(apply(written)))
            }
            HubAction::ClusterConditions {
                name,
                conditions,
                resource_version,
            } => {
                let cluster = control.get(Kind::Cluster, "", name.as_str())?;
                if text(&cluster, "/metadata/resourceVersion") != resource_version {
                    return Err(Failure::Conflict);
                }
                let status = json!({ "conditions": conditions });
                Ok(HubInput::Cluster(apply(control.edit(
                    Kind::Cluster,
                    &cluster,
                    |cluster| cluster["status"] = status,
                )?)))
            }
            HubAction::TransformStatus { name, .. } => panic!("the fleet has no transform {name}"),
        }
    }
}

impl Process for Agent {
    fn start(number: usize) -> Self {
        Self::new(AgentConfig {
            cluster: CLUSTERS[number].into(),
        })
    }

    fn watches(_: usize) -> Vec<Watch<Self>> {
        let is_ours = |object: &Value, number: usize| label(object, names::CLUSTER_LABEL) == CLUSTERS[number];
        vec![
            Watch::new(Kind::Work, control, in_mailbox, |change| {
                AgentInput::Work(typed(change))
            }),
            Watch::new(Kind::Status, control, in_mailbox, |change| {
                AgentInput::Told(typed(change))
            }),
            Watch::new(Kind::Workflow, wec, is_ours, |change| {
                AgentInput::Object(typed(change))
            }),
            Watch::new(Kind::Record, wec, any, |change| AgentInput::Record(typed(change))),
        ]
    }

    fn execute(
        origin: &OriginUid,
        action: &AgentAction,
        number: usize,
        servers: &mut Servers,
    ) -> Result<AgentInput, Failure> {
        match action {
            AgentAction::Create(_)
            | AgentAction::Look(_)
            | AgentAction::Delete { .. }
            | AgentAction::LetGo { .. } => on_objects(origin, action, number, servers),
            AgentAction::Record(_) | AgentAction::AmendRecord { .. } | AgentAction::DropRecord(_) => {
                on_records(action, &mut servers.wecs[number])
            }
            _ => in_the_mailbox(action, CLUSTERS[number], &mut servers.control),
        }
    }
}

fn on_objects(
    origin: &OriginUid,
    action: &AgentAction,
    number: usize,
    servers: &mut Servers,
) -> Result<AgentInput, Failure> {
    let wec = &mut servers.wecs[number];
    let answer = |object: Option<Value>, origin: &str| {
        object.map_or_else(
            || AgentInput::ObjectGone(origin.into()),
            |object| AgentInput::Object(apply(object)),
        )
    };
    match action {
        AgentAction::Create(object) => {
            let object = json_of(object);
            match wec.create(Kind::Workflow, object.clone()) {
                Ok(created) => {
                    servers.note_start(&created, number);
                    Ok(AgentInput::Object(apply(created)))
                }
                Err(Failure::Foreign(message)) => {
                    let there = wec.get(
                        Kind::Workflow,
                        text(&object, "/metadata/namespace"),
                        text(&object, "/metadata/name"),
                    )?;
                    let same =
                        label(&there, names::ORIGIN_UID_LABEL) == label(&object, names::ORIGIN_UID_LABEL);
                    if same {
                        Ok(AgentInput::Object(apply(there)))
                    } else {
                        Err(Failure::Foreign(message))
                    }
                }
                Err(failure) => Err(failure),
            }
        }
        AgentAction::Look(key) => {
            let there = found(wec.get(Kind::Workflow, &key.namespace, &key.name))?;
            Ok(answer(
                there.filter(|there| label(there, names::ORIGIN_UID_LABEL) == origin.as_str()),
                origin.as_str(),
            ))
        }
        AgentAction::Delete { key, uid } => {
            let deleted = found(wec.delete(Kind::Workflow, &key.namespace, &key.name, Some(uid)))?.flatten();
            Ok(answer(deleted, origin.as_str()))
        }
        AgentAction::LetGo { key, patch } => Ok(answer(
            found(wec.patch(Kind::Workflow, &key.namespace, &key.name, &patch.to_value()))?,
            origin.as_str(),
        )),
        other => panic!("{other:?} is not about objects"),
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
            Ok(AgentInput::Record(apply(written?)))
        }
        AgentAction::AmendRecord { origin, patch } => {
            let name = names::work_name(origin.as_str());
            let written = found(wec.patch(Kind::Record, "", &name, &patch.to_value()))?;
            Ok(written.map_or_else(
                || AgentInput::RecordGone(origin.clone()),
                |record| AgentInput::Record(apply(record)),
            ))
        }
        AgentAction::DropRecord(origin) => {
            found(wec.delete(Kind::Record, "", &names::work_name(origin.as_str()), None))?;
            Ok(AgentInput::RecordGone(origin.clone()))
        }
        other => panic!("{other:?} is not about records"),
    }
}

fn in_the_mailbox(
    action: &AgentAction,
    mailbox: &str,
    control: &mut ApiServer,
) -> Result<AgentInput, Failure> {
    match action {
        AgentAction::Tell { status, .. } => {
            let status = json_of(status);
            let told = match control.create(Kind::Status, status.clone()) {
                Err(Failure::Foreign(_)) => control.edit(Kind::Status, &status, |there| {
                    for field in ["status", "reported"] {
                        there[field] = status[field].clone();
                    }
                    there["metadata"]["annotations"] = status["metadata"]["annotations"].clone();
                }),
                told => told,
            };
            Ok(AgentInput::Told(apply(told?)))
        }
        AgentAction::Untell(origin) => {
            found(control.delete(Kind::Status, mailbox, &names::work_name(origin.as_str()), None))?;
            Ok(AgentInput::ToldGone(origin.clone()))
        }
        AgentAction::Conditions { origin, conditions } => {
            let work = control.get(Kind::Work, mailbox, &names::work_name(origin.as_str()));
            let Some(work) = found(work)? else {
                return Ok(AgentInput::WorkGone(origin.clone()));
            };
            let status = json!({ "conditions": conditions });
            Ok(AgentInput::Work(apply(control.edit(
                Kind::Work,
                &work,
                |work| work["status"] = status,
            )?)))
        }
        AgentAction::Release { origin, patch } => {
            let name = names::work_name(origin.as_str());
            let work = found(control.patch(Kind::Work, mailbox, &name, &patch.to_value()))?;
            Ok(work.map_or_else(
                || AgentInput::WorkGone(origin.clone()),
                |work| AgentInput::Work(apply(work)),
            ))
        }
        other => panic!("{other:?} is not about the mailbox"),
    }
}
