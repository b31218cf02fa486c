//! The controller over the model's API servers: its watches, and the requests that carry out its
//! actions.
//!
//! Mirrors a guarantee of the shell: if a name is taken by an object of ours, a creation returns
//! that object.

use argosy_api::{Workflow, names};
use argosy_core::{
    Change, ClusterName, Failure, OriginUid, Reconcile, WorkflowKey,
    hub::workflows::{HubAction, HubConfig, HubInput, HubKey, WorkflowIndex, taken},
    model::fan_out::is_run_of,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    actor::Process,
    api_server::{ApiServer, Kind, text},
    script::Space,
    servers::Servers,
    watch::{Watch, any, apply, found, json_of, typed},
};

/// The controller's process number. Agents have the numbers of their clusters.
pub(crate) const HUB: usize = usize::MAX;

/// Budget in bytes for the reports of one cluster. One report fits, so one of two must be read
/// again.
const REPORT_BUDGET: usize = 450;

/// Budget in bytes for all Workflows. Two fit, so one of three must be read again.
const WORKFLOW_BUDGET: usize = 450;

impl Process for WorkflowIndex {
    fn start(_: usize, servers: &Servers) -> Self {
        let mut hub = Self::new(HubConfig {
            wds_name: "wds1".to_owned(),
            is_guarded: servers.is_guarded,
            request_lifetime: argosy_core::index::reconciler::REQUEST_LIFETIME,
            report_budget: REPORT_BUDGET,
            workflow_budget: WORKFLOW_BUDGET,
        });
        if servers.draws_clusters {
            hub.draw_clusters();
        }
        // No policy of the model reads the labels of namespaces.
        hub.apply(HubInput::Namespace(Change::Reset(Vec::new())), servers.now);
        // No Workflow of the model refers to a template.
        hub.apply(HubInput::Template(Change::Reset(Vec::new())), servers.now);
        hub.apply(HubInput::ClusterTemplate(Change::Reset(Vec::new())), servers.now);
        hub
    }

    fn watches(_: usize) -> Vec<Watch<Self>> {
        vec![
            Watch::new(Kind::Workflow, Space::Wds, any, |change| {
                HubInput::workflow(typed(change))
            }),
            Watch::new(Kind::Policy, Space::Wds, any, |change| {
                HubInput::Policy(typed(change))
            }),
            Watch::new(Kind::Cluster, Space::Its, any, |change| {
                HubInput::Cluster(typed(change))
            }),
            Watch::new(Kind::Lease, Space::Its, any, |change| {
                HubInput::Lease(typed(change))
            }),
            Watch::new(Kind::Work, Space::Its, any, |change| {
                HubInput::work(typed(change))
            }),
            Watch::new(Kind::Status, Space::Its, any, |change| {
                HubInput::report(typed(change))
            }),
            Watch::new(Kind::Transform, Space::Wds, any, |change| {
                HubInput::Transform(typed(change))
            }),
        ]
    }

    fn comes_to_rest(key: &HubKey) -> bool {
        matches!(key, HubKey::Workflow(_))
    }

    fn space(action: &HubAction) -> Space {
        match action {
            HubAction::PatchWorkflow { .. }
            | HubAction::TransformStatus { .. }
            | HubAction::CreateRun { .. }
            | HubAction::DeleteRun { .. }
            | HubAction::ReadTemplate { .. } => Space::Wds,
            _ => Space::Its,
        }
    }

    fn execute(
        key: &HubKey,
        action: &HubAction,
        _: usize,
        servers: &mut Servers,
    ) -> Result<HubInput, Failure> {
        let Servers {
            wds,
            its,
            ledger,
            now,
            ..
        } = servers;
        match action {
            HubAction::PatchWorkflow { key, patch, .. } => {
                let object = wds.patch(Kind::Workflow, &key.namespace, &key.name, &patch.to_value())?;
                let object = serde_json::from_value(object).expect("a Workflow decodes");
                Ok(HubInput::wrote(patch, object))
            }
            HubAction::CreateRun { parent, run, .. } => create_run(wds, parent, run),
            HubAction::DeleteRun {
                key,
                uid,
                resource_version,
            } => delete_run(wds, key, uid, resource_version),
            HubAction::ClusterConditions {
                name,
                conditions,
                resource_version,
            } => {
                let cluster = its.get(Kind::Cluster, "", name.as_str())?;
                if text(&cluster, "/metadata/resourceVersion") != resource_version {
                    return Err(Failure::Conflict);
                }
                let conditions = json!(conditions);
                Ok(HubInput::Cluster(apply(its.edit(
                    Kind::Cluster,
                    &cluster,
                    |cluster| cluster["status"]["conditions"] = conditions,
                )?)))
            }
            HubAction::ClusterTaints {
                name,
                taints,
                resource_version,
            } => {
                let cluster = its.get(Kind::Cluster, "", name.as_str())?;
                if text(&cluster, "/metadata/resourceVersion") != resource_version {
                    return Err(Failure::Conflict);
                }
                Ok(HubInput::Cluster(apply(its.edit(
                    Kind::Cluster,
                    &cluster,
                    |cluster| cluster["spec"]["taints"] = json!(taints),
                )?)))
            }
            HubAction::ReadLease { cluster, work } => {
                let HubKey::Workflow(key) = key else {
                    panic!("the Lease of {cluster} is read for {key}")
                };
                let renewed = ledger
                    .renewed
                    .get(cluster.as_str())
                    .copied()
                    .unwrap_or(Timestamp::MIN);
                ledger
                    .read
                    .insert(cluster.to_string(), now.duration_since(renewed));
                let lease = its.get(Kind::Lease, cluster.as_str(), names::CLUSTER_LEASE)?;
                let lease = serde_json::from_value(lease).expect("a Lease decodes");
                Ok(HubInput::LeaseRead {
                    key: key.clone(),
                    work: work.clone(),
                    lease: Box::new(lease),
                })
            }
            HubAction::ReadReport {
                cluster,
                origin,
                version,
                ..
            } => read_report(its, cluster, origin, version),
            HubAction::ReadWorkflow { key, uid } => {
                let there = found(wds.get(Kind::Workflow, &key.namespace, &key.name))?;
                Ok(there.map_or_else(
                    || HubInput::RunGone(key.clone(), uid.clone()),
                    |there| HubInput::workflow(apply(there)),
                ))
            }
            HubAction::ReadTemplate { template, .. } => panic!("no Workflow refers to {template}"),
            HubAction::TransformStatus { name, .. } => panic!("the fleet has no transform {name}"),
            other => on_works(other, its),
        }
    }
}

fn read_report(
    its: &ApiServer,
    cluster: &ClusterName,
    origin: &OriginUid,
    version: &str,
) -> Result<HubInput, Failure> {
    let name = names::work_name(origin.as_str());
    let report = found(its.get(Kind::Status, cluster.as_str(), &name))?;
    Ok(report.map_or_else(
        || HubInput::ReportGone {
            cluster: cluster.clone(),
            origin: origin.clone(),
            version: version.to_owned(),
        },
        |report| HubInput::report(apply(report)),
    ))
}

fn create_run(wds: &mut ApiServer, parent: &OriginUid, run: &Workflow) -> Result<HubInput, Failure> {
    let created = match wds.create(Kind::Workflow, json_of(run)) {
        Err(Failure::Foreign(message)) => {
            let name = run.metadata.name.as_deref().unwrap_or_default();
            let there = wds.get(Kind::Workflow, "argo", name)?;
            let is_ours = serde_json::from_value(there.clone()).is_ok_and(|there| is_run_of(&there, parent));
            is_ours.then_some(there).ok_or(Failure::Foreign(message))
        }
        created => created,
    };
    Ok(HubInput::workflow(apply(created?)))
}

fn delete_run(
    wds: &mut ApiServer,
    key: &WorkflowKey,
    uid: &OriginUid,
    version: &str,
) -> Result<HubInput, Failure> {
    let there = found(wds.get(Kind::Workflow, &key.namespace, &key.name))?;
    if there.is_some_and(|there| text(&there, "/metadata/resourceVersion") != version) {
        return Err(Failure::Conflict);
    }
    let deleted = wds.delete(Kind::Workflow, &key.namespace, &key.name, Some(uid.as_str()));
    Ok(found(deleted)?.flatten().map_or_else(
        || HubInput::RunGone(key.clone(), uid.clone()),
        |run| HubInput::workflow(apply(run)),
    ))
}

fn on_works(action: &HubAction, its: &mut ApiServer) -> Result<HubInput, Failure> {
    let gone =
        |cluster: &ClusterName, origin: &OriginUid| HubInput::WorkGone(cluster.clone(), origin.clone());
    match action {
        HubAction::CreateWork { cluster, work } => {
            let created = match its.create(Kind::Work, json_of(work)) {
                Err(Failure::Foreign(_)) => {
                    let name = work.metadata.name.as_deref().unwrap_or_default();
                    let there = its.get(Kind::Work, cluster.as_str(), name)?;
                    let read = serde_json::from_value(there.clone()).expect("a ManifestWork decodes");
                    taken(work, &read)?;
                    there
                }
                created => created?,
            };
            Ok(HubInput::work(apply(created)))
        }
        HubAction::WithdrawWork {
            cluster,
            origin,
            patch,
        }
        | HubAction::ControlWork {
            cluster,
            origin,
            patch,
        }
        | HubAction::ReleaseWork {
            cluster,
            origin,
            patch,
        } => {
            let name = names::work_name(origin.as_str());
            let patched = found(its.patch(Kind::Work, cluster.as_str(), &name, &patch.to_value()))?;
            Ok(patched.map_or_else(|| gone(cluster, origin), |work| HubInput::work(apply(work))))
        }
        HubAction::DeleteWork { cluster, origin, uid } => {
            let name = names::work_name(origin.as_str());
            let deleted = found(its.delete(Kind::Work, cluster.as_str(), &name, Some(uid)))?.flatten();
            Ok(deleted.map_or_else(|| gone(cluster, origin), |work| HubInput::work(apply(work))))
        }
        HubAction::DropWork {
            cluster,
            origin,
            uid,
            resource_version,
        } => {
            let name = names::work_name(origin.as_str());
            let there = found(its.get(Kind::Work, cluster.as_str(), &name))?;
            let is_another = |work: &Value| text(work, "/metadata/resourceVersion") != resource_version;
            if there.as_ref().is_some_and(is_another) {
                return Err(Failure::Conflict);
            }
            let deleted = found(its.delete(Kind::Work, cluster.as_str(), &name, Some(uid)))?.flatten();
            Ok(deleted.map_or_else(|| gone(cluster, origin), |work| HubInput::work(apply(work))))
        }
        other => panic!("{other:?} is not about ManifestWorks"),
    }
}
