//! Reads the input of an explanation: the object, all policies and clusters, and the objects in the
//! mailboxes.
//!
//! It fails without the object, the policies or the clusters; other failures are listed in the
//! explanation.

use std::{collections::BTreeMap, fmt::Debug};

use anyhow::{anyhow, bail};
use argosy_api::{BindingPolicy, ManagedCluster, ManifestWork, WorkStatus, Workflow, names, workflow};
use argosy_core::{
    Failure,
    explain::{
        self, Explanation, History, ObjectAttributes, QueuePlace, Referred, Unfinished,
        dry_run::{Distribution, distribute},
    },
    model::cron::{fires, is_cron},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client, Resource, ResourceExt,
    api::ListParams,
    core::{DynamicObject, ObjectMeta, PartialObjectMeta},
};

use super::{kind::Kind, templates::referred};
use crate::{
    cli::get::clusters::{each_waiting, unfinished},
    runtime::{
        lenient::{Lenient, Readable},
        requests::{found, list, read},
    },
};

/// The clients of the spaces.
pub(super) struct Reader {
    /// The control cluster.
    pub(super) wds: Client,
    /// The API server of ManagedClusters and mailboxes.
    pub(super) its: Client,
}

/// The input of a dry run.
struct Planned {
    policies: Vec<BindingPolicy>,
    clusters: Vec<ManagedCluster>,
    namespace_labels: Option<BTreeMap<String, String>>,
    unfinished: Option<Unfinished>,
    referred: Referred,
    not_read: Vec<String>,
}

fn planned_subject<'a>(
    run: &'a Workflow,
    namespace_labels: Option<&'a BTreeMap<String, String>>,
) -> ObjectAttributes<'a> {
    ObjectAttributes {
        group: workflow::GROUP,
        resource: workflow::PLURAL,
        namespace: run.metadata.namespace.as_deref().unwrap_or_default(),
        name: run.metadata.name.as_deref().unwrap_or_default(),
        labels: run.labels(),
        namespace_labels,
    }
}

impl Reader {
    /// Explains an object of that kind.
    pub(super) async fn explain(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
    ) -> anyhow::Result<Explanation> {
        let namespace = if kind.is_namespaced { namespace } else { "" };
        let object = self.object(kind, namespace, name).await?;
        let run: Option<Workflow> = if kind.is_workflow() {
            Some(object.clone().try_parse()?)
        } else {
            None
        };
        let (policies, clusters) = self.fleet().await?;
        let mut not_read = Vec::new();
        let namespace_labels = self.namespace_labels(namespace, &policies, &mut not_read).await;
        let mut course = self.course(&object.metadata, run.as_ref(), &mut not_read).await;
        let is_unfinished = run.is_some() && !workflow::is_final(&course.phase);
        let is_choice = is_unfinished && policies.iter().any(chooses_by_load);
        let unfinished = self.unfinished(is_choice, &mut not_read).await;
        let referred = match run.as_ref().filter(|_| is_choice) {
            Some(run) => referred(&self.wds, run, &mut not_read).await,
            None => Referred::default(),
        };
        course.queued_behind = self.queued_behind(namespace, run.as_ref(), &mut not_read).await;
        course.not_read = not_read;
        course.fires_here = is_cron(&kind.resource.group, &kind.resource.plural) && fires(&object.data);
        let subject = ObjectAttributes {
            group: &kind.resource.group,
            resource: &kind.resource.plural,
            namespace,
            name,
            labels: object.labels(),
            namespace_labels: namespace_labels.as_ref(),
        };
        Ok(explain::explain(
            subject,
            run.as_ref(),
            &referred,
            &policies,
            &clusters,
            unfinished.as_ref(),
            course,
        ))
    }

    /// The policies of the control cluster, and the clusters of the ITS.
    async fn fleet(&self) -> anyhow::Result<(Vec<BindingPolicy>, Vec<ManagedCluster>)> {
        let policies =
            list(Api::<Lenient<BindingPolicy>>::all(self.wds.clone()).list(&ListParams::default())).await;
        let policies = policies.map_err(|failure| {
            unreadable(
                "the BindingPolicies of the control cluster",
                "argosy crds",
                &failure,
            )
        })?;
        let clusters =
            list(Api::<Lenient<ManagedCluster>>::all(self.its.clone()).list(&ListParams::default())).await;
        let clusters = clusters.map_err(|failure| {
            let definitions = "argosy crds --ocm; use --its-kubeconfig for a separate ITS";
            unreadable("the ManagedClusters of the ITS", definitions, &failure)
        })?;
        Ok((policies, clusters))
    }

    /// Explains where a Workflow that does not exist would be sent.
    pub(super) async fn explain_planned(&self, run: Workflow) -> anyhow::Result<Explanation> {
        let planned = self.planned(&run).await?;
        let course = History {
            not_read: planned.not_read,
            ..History::default()
        };
        Ok(explain::explain(
            planned_subject(&run, planned.namespace_labels.as_ref()),
            Some(&run),
            &planned.referred,
            &planned.policies,
            &planned.clusters,
            planned.unfinished.as_ref(),
            course,
        ))
    }

    /// The clusters of `count` Workflows that do not exist.
    pub(super) async fn distribute(&self, run: Workflow, count: u64) -> anyhow::Result<Distribution> {
        let planned = self.planned(&run).await?;
        if let Some(failure) = planned.not_read.first() {
            bail!("cannot read {failure}");
        }
        Ok(distribute(
            planned_subject(&run, planned.namespace_labels.as_ref()),
            &run,
            &planned.referred,
            &planned.policies,
            &planned.clusters,
            planned.unfinished.as_ref(),
            count,
        ))
    }

    async fn planned(&self, run: &Workflow) -> anyhow::Result<Planned> {
        let (policies, clusters) = self.fleet().await?;
        let mut not_read = Vec::new();
        let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
        Ok(Planned {
            namespace_labels: self.namespace_labels(namespace, &policies, &mut not_read).await,
            unfinished: self
                .unfinished(policies.iter().any(chooses_by_load), &mut not_read)
                .await,
            referred: referred(&self.wds, run, &mut not_read).await,
            policies,
            clusters,
            not_read,
        })
    }

    /// The unfinished runs of the fleet; `None` if they cannot be listed.
    async fn unfinished(&self, is_choice: bool, not_read: &mut Vec<String>) -> Option<Unfinished> {
        if !is_choice {
            return None;
        }
        let read = unfinished(&self.wds).await;
        read.map_err(|failure| {
            not_read.push(format!(
                "the runs of all namespaces, for the loads of the clusters: {failure}"
            ));
        })
        .ok()
    }

    /// The number of Workflows that come before this one in the queue of its namespace, if it is there.
    async fn queued_behind(
        &self,
        namespace: &str,
        run: Option<&Workflow>,
        not_read: &mut Vec<String>,
    ) -> Option<u64> {
        let own = QueuePlace::of(run?)?;
        let mut before = 0;
        let api = Api::namespaced(self.wds.clone(), namespace);
        let read = each_waiting(api, "", |place| before += u64::from(place < own)).await;
        read.map_err(|failure| not_read.push(format!("the Workflows of namespace {namespace}: {failure}")))
            .ok()?;
        Some(before)
    }

    async fn object(&self, kind: &Kind, namespace: &str, name: &str) -> anyhow::Result<DynamicObject> {
        let api: Api<Lenient<DynamicObject>> = if kind.is_namespaced {
            Api::namespaced_with(self.wds.clone(), namespace, &kind.resource)
        } else {
            Api::all_with(self.wds.clone(), &kind.resource)
        };
        let kind_name = kind.name();
        let slash = if namespace.is_empty() { "" } else { "/" };
        let which = format!("{kind_name} {namespace}{slash}{name}");
        match read(api.get(name)).await {
            Ok(object) => Ok(object),
            Err(Failure::NotFound { .. }) => {
                bail!("{which} does not exist{}", self.elsewhere(kind, name).await)
            }
            Err(Failure::Unserved(_)) => bail!("the control cluster does not serve {kind_name}"),
            Err(failure) => bail!("cannot read {which}: {failure}"),
        }
    }

    /// Lists other namespaces with an object of that name, as the end of an error message; empty if
    /// there are none or the list fails.
    async fn elsewhere(&self, kind: &Kind, name: &str) -> String {
        if !kind.is_namespaced {
            return String::new();
        }
        let api: Api<Lenient<PartialObjectMeta<DynamicObject>>> =
            Api::all_with(self.wds.clone(), &kind.resource);
        let Ok(found) = list(api.list(&by_name(name))).await else {
            return String::new();
        };
        let mut namespaces: Vec<String> = found.iter().filter_map(ResourceExt::namespace).collect();
        namespaces.sort();
        if namespaces.is_empty() {
            return String::new();
        }
        format!("; there is one in {} (use --namespace)", namespaces.join(", "))
    }

    /// Returns the labels of the namespace, if any policy needs them.
    async fn namespace_labels(
        &self,
        namespace: &str,
        policies: &[BindingPolicy],
        not_read: &mut Vec<String>,
    ) -> Option<BTreeMap<String, String>> {
        let mut clauses = policies.iter().flat_map(|policy| &policy.spec.downsync);
        let are_read = clauses.any(|clause| !clause.namespace_selectors.is_empty());
        if namespace.is_empty() || !are_read {
            return None;
        }
        let api: Api<Lenient<PartialObjectMeta<Namespace>>> = Api::all(self.wds.clone());
        match read(api.get(namespace)).await {
            Ok(found) => Some(found.metadata.labels.unwrap_or_default()),
            Err(failure) => {
                not_read.push(format!("the labels of the namespace {namespace}: {failure}"));
                None
            }
        }
    }

    /// Reads the state of the object in the mailboxes.
    async fn course(
        &self,
        object: &ObjectMeta,
        run: Option<&Workflow>,
        not_read: &mut Vec<String>,
    ) -> History {
        let name = names::work_name(object.uid.as_deref().unwrap_or_default());
        let works: Vec<ManifestWork> = self.in_mailboxes("ManifestWorks", &name, not_read).await;
        let reports: Vec<WorkStatus> = self.in_mailboxes("WorkStatuses", &name, not_read).await;
        match run {
            Some(run) => History::of_workflow(run, &works, &reports),
            None => History::of_object(object, &works, &reports),
        }
    }

    /// Lists the objects of that name in all mailboxes. They are named after the object's UID, so
    /// their labels do not matter.
    async fn in_mailboxes<K>(&self, what: &str, name: &str, not_read: &mut Vec<String>) -> Vec<K>
    where
        K: Readable + Resource<DynamicType = ()> + Clone + Debug,
    {
        let api: Api<Lenient<K>> = Api::all(self.its.clone());
        match found(list(api.list(&by_name(name))).await) {
            Ok(Some(all)) => all,
            Ok(None) => {
                not_read.push(format!("the {what} of the ITS, which does not serve them"));
                Vec::new()
            }
            Err(failure) => {
                not_read.push(format!("the {what} of the ITS: {failure}"));
                Vec::new()
            }
        }
    }
}

fn by_name(name: &str) -> ListParams {
    ListParams::default().fields(&format!("metadata.name={name}"))
}

/// Builds the error for unreadable objects; `definitions` is the command that prints their
/// definitions.
fn unreadable(what: &str, definitions: &str, failure: &Failure) -> anyhow::Error {
    match failure {
        Failure::Unserved(_) => {
            anyhow!("{what} cannot be read: their definition is not installed (see {definitions})")
        }
        failure => anyhow!("{what} cannot be read: {failure}"),
    }
}

/// True if a policy has one of several clusters chosen by its load.
fn chooses_by_load(policy: &BindingPolicy) -> bool {
    let annotations = policy.annotations();
    let asks = annotations
        .get(names::RUNS_ANNOTATION)
        .is_some_and(|runs| runs == names::BEST_CLUSTER);
    asks || annotations.contains_key(names::ON_LOST_ANNOTATION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_definition_is_told_from_missing_rights() {
        let text = |failure: &Failure| unreadable("the BindingPolicies", "argosy crds", failure).to_string();
        let missing = Failure::Unserved("404 page not found".to_owned());
        assert_eq!(
            text(&missing),
            "the BindingPolicies cannot be read: their definition is not installed (see argosy crds)"
        );
        let forbidden = "bindingpolicies.control.kubestellar.io is forbidden: User \"ann\" cannot list";
        assert_eq!(
            text(&Failure::Refused(forbidden.to_owned())),
            format!("the BindingPolicies cannot be read: {forbidden}")
        );
    }
}
