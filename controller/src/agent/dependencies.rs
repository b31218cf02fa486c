//! Checks that the objects that a Workflow names exist on its cluster, before it is created there.
//!
//! Templates are always checked. Other objects are checked if a policy sends them
//! ([`Needs`]): they arrive a moment before the Workflow or after it. A Workflow that names nothing
//! costs no request. References are checked even if a status has stored what they refer to, as after
//! `argo submit`, or a retry of a run whose object is gone: a created object has no phase, and Argo
//! then resolves every reference (`workflow/validate`), stored or not. Not here: the search in a
//! specification (`argosy_core::model::dependencies`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    time::Duration,
};

use argosy_api::{Workflow, names};
use argosy_core::{
    Failure,
    agent::manifests::Version,
    model::{
        dependencies::{
            Dependencies, Dependency, DependencyKind, Necessity, Needs, RepositoryRef, executor_binding, used,
        },
        template_refs::{TemplateKey, whole},
    },
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        core::v1::{ConfigMap, PersistentVolumeClaim, Secret, ServiceAccount},
        rbac::v1::RoleBinding,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    core::{DynamicObject, NamespaceResourceScope, PartialObjectMeta},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::sleep;

use super::mailbox::Mailbox;
use crate::runtime::{
    requests::{call, found, read},
    templates::api,
};

/// Maximum number of objects that are checked for one Workflow; Argo and the kubelet miss the others.
const MOST: usize = 200;

/// Number of missing objects after which the others are not looked up.
const ENOUGH: usize = 5;

/// The time for which Argo may not know a new object of a kind that it watches. Longer by a second
/// than it takes Argo, because times of creation are whole seconds.
const NEW: SignedDuration = SignedDuration::from_secs(2);

/// Argo's annotation of a ConfigMap of artifact repositories, with the key of the default one.
const DEFAULT_REPOSITORY: &str = "workflows.argoproj.io/default-artifact-repository";

/// Argo's label of ConfigMaps that it watches.
const WATCHED_LABEL: &str = "workflows.argoproj.io/configmap-type";

/// Fails if an object is missing, or if it is not the version that the mailbox has. An object that may
/// not be read is missing if a policy sends its kind, because the agent cannot apply it either; else it
/// is left to Argo. Returns once no object is so new that Argo, which reads it from a watch, might not
/// find it, or its change, and end the run.
pub(super) async fn check(
    wec: &Client,
    cluster: &str,
    mailbox: &Mailbox,
    object: &Workflow,
    needs: &Needs,
) -> Result<(), Failure> {
    let namespace = object.namespace().unwrap_or_default();
    let mut check = Check {
        wec,
        cluster,
        mailbox,
        namespace: &namespace,
        needs,
        wanted: BTreeSet::new(),
        creates: false,
        has_artifacts: false,
        missing: BTreeSet::new(),
        repository: RepositoryRef::of(&object.spec),
        unsettled: None,
        settles_in: Duration::ZERO,
        unbound: None,
    };
    check.templates(&object.spec).await?;
    check.others().await?;
    let settles_in = check.settles_in;
    check.result()?;
    // Even a timer without any time takes more than a millisecond.
    if !settles_in.is_zero() {
        // Nothing tells what Argo has read, so there is no event to wait for.
        sleep(settles_in).await;
    }
    Ok(())
}

struct Check<'a> {
    wec: &'a Client,
    cluster: &'a str,
    mailbox: &'a Mailbox,
    namespace: &'a str,
    needs: &'a Needs,
    /// The objects other than templates to look up.
    wanted: BTreeSet<Dependency>,
    /// The run itself creates objects, perhaps some of these.
    creates: bool,
    /// The run has artifacts, or archives logs.
    has_artifacts: bool,
    missing: BTreeSet<Dependency>,
    /// The artifact repository of the run, if it is known.
    repository: Option<RepositoryRef<'a>>,
    /// The reason why an object that is there is not what the run should begin with.
    unsettled: Option<String>,
    /// The time after which Argo knows all objects that it watches.
    settles_in: Duration,
    /// A RoleBinding that a policy sends and that is not there.
    unbound: Option<String>,
}

/// The use of a template: as a whole, or of some of its templates.
#[derive(Default)]
struct Use {
    is_whole: bool,
    parts: BTreeSet<Box<str>>,
}

type Uses = BTreeMap<TemplateKey, Use>;

impl Check<'_> {
    /// Looks up the templates that are used, one at a time, because each may be large. Collects all
    /// other objects that they name.
    async fn templates(&mut self, spec: &Value) -> Result<(), Failure> {
        let mut open = Uses::new();
        self.search(spec, &mut open);
        // Argo resolves only the used part of a template that is used in part.
        if let Some(key) = whole(spec) {
            open.entry(key).or_default().is_whole = true;
        }
        let mut known = Uses::new();
        let mut requests = 0;
        while let Some((key, mut new)) = open.pop_first() {
            if let Some(known) = known.get(&key) {
                new.parts.retain(|part| !known.parts.contains(part));
                if new.parts.is_empty() || known.is_whole {
                    continue;
                }
            }
            if requests == MOST || self.missing.len() == ENOUGH {
                break;
            }
            requests += 1;
            let template = self.template(&key).await?;
            let spec = template.as_ref().and_then(|template| template.data.get("spec"));
            match spec {
                Some(spec) if new.is_whole => self.search(spec, &mut open),
                Some(spec) if !self.needs.is_empty() => self.search(&used(spec, &new.parts), &mut open),
                _ => {}
            }
            let known = known.entry(key).or_default();
            known.is_whole |= new.is_whole;
            known.parts.append(&mut new.parts);
        }
        Ok(())
    }

    /// Notes all that a specification names.
    fn search(&mut self, spec: &Value, open: &mut Uses) {
        let found = Dependencies::of_template(spec, self.namespace);
        self.creates |= found.creates;
        self.has_artifacts |= found.has_artifacts;
        for (dependency, necessity) in found.named {
            let is_checked = match dependency.kind {
                DependencyKind::PersistentVolumeClaim => !self.needs.is_empty(),
                kind => self.needs.asked.has(kind),
            };
            if is_checked && necessity == Necessity::Required && self.wanted.len() < MOST {
                self.wanted.insert(dependency);
            }
        }
        for (template, part) in found.used {
            if let Some(key) = TemplateKey::of(&template) {
                open.entry(key).or_default().parts.insert(part);
            }
        }
    }

    /// A template; `None` if it is missing or may not be read.
    async fn template(&mut self, key: &TemplateKey) -> Result<Option<DynamicObject>, Failure> {
        let answer = read(api(self.wec, self.namespace, key).get(&key.name)).await;
        let dependency = key.dependency();
        let template = self.answered(&dependency, answer)?;
        if let Some(template) = &template {
            self.note(&dependency, &template.metadata, true);
        }
        Ok(template)
    }

    async fn others(&mut self) -> Result<(), Failure> {
        if self.creates {
            // The objects that the run names may be those that it creates, so nobody sends them.
            let is_sent = |wanted: &Dependency| wanted.kind == DependencyKind::ServiceAccount;
            self.wanted.retain(is_sent);
        }
        self.wanted.extend(self.needs.listed.iter().cloned());
        let mut known = BTreeSet::new();
        while let Some(dependency) = self.wanted.pop_first() {
            if self.missing.len() == ENOUGH {
                break;
            }
            if !known.insert(dependency.clone()) {
                continue;
            }
            let is_listed = self.needs.listed.contains(&dependency);
            match dependency.kind {
                DependencyKind::ConfigMap if self.is_repository(&dependency) => {
                    self.repository(&dependency).await?;
                }
                DependencyKind::ConfigMap => drop(self.other::<ConfigMap>(&dependency).await?),
                DependencyKind::Secret => drop(self.other::<Secret>(&dependency).await?),
                DependencyKind::ServiceAccount => {
                    let account = self.other::<ServiceAccount>(&dependency).await?;
                    // One that only a template names is not listed.
                    let was_sent =
                        account.is_some_and(|account| account.labels().contains_key(names::OBJECT_UID_LABEL));
                    if was_sent || is_listed {
                        self.executor_binding(&dependency).await?;
                    }
                }
                DependencyKind::PersistentVolumeClaim => {
                    drop(self.other::<PersistentVolumeClaim>(&dependency).await?);
                }
                DependencyKind::WorkflowTemplate | DependencyKind::ClusterWorkflowTemplate => {}
            }
        }
        Ok(())
    }

    /// Looks up an object, without its content. One that is being deleted is as good as gone.
    async fn other<K>(&mut self, dependency: &Dependency) -> Result<Option<PartialObjectMeta<K>>, Failure>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + DeserializeOwned + Debug,
    {
        let api: Api<K> = Api::namespaced(self.wec.clone(), self.namespace);
        let answer = call(api.get_metadata(&dependency.name)).await;
        let object = self.answered(dependency, answer)?;
        if let Some(object) = &object {
            let is_watched = object.labels().contains_key(WATCHED_LABEL);
            self.note(dependency, &object.metadata, is_watched);
        }
        Ok(object)
    }

    /// Notes an object that is being deleted, which is as good as gone, one that a policy sends if it is
    /// not what the run should begin with, and one that Argo watches and may not know yet.
    fn note(&mut self, dependency: &Dependency, metadata: &ObjectMeta, is_watched: bool) {
        if metadata.deletion_timestamp.is_some() {
            self.missing.insert(dependency.clone());
        }
        let cluster = self.cluster;
        let is_sent = self.needs.asked.has(dependency.kind);
        let version = if is_sent {
            self.mailbox.version_of(&dependency.kind.to_string(), metadata)
        } else {
            Some(Version::Present)
        };
        let unsettled = match version {
            None => format!("the agent of {cluster} has not read its mailbox yet"),
            Some(Version::Earlier) => format!(
                "the agent of {cluster} has not applied the present version of {dependency} yet; if that lasts, the \
                status of its policy says why"
            ),
            Some(Version::Ending) => format!("{dependency} is being deleted on {cluster}, or replaced"),
            Some(Version::Present) => {
                if is_watched {
                    self.settles_in = self.settles_in.max(settles_in(metadata, Timestamp::now()));
                }
                return;
            }
        };
        self.unsettled = Some(unsettled);
    }

    /// True if the ConfigMap has the artifact repository of the run, and the Secrets that it names are
    /// sent.
    fn is_repository(&self, dependency: &Dependency) -> bool {
        let asked = self.needs.asked;
        let repository = self.repository.as_ref();
        let is_used = repository.is_some_and(|repository| *repository.config_map == *dependency.name);
        is_used && !self.creates && asked.has(DependencyKind::ConfigMap) && asked.has(DependencyKind::Secret)
    }

    /// Looks up the ConfigMap with the artifact repository of the run, and adds the Secrets that this
    /// repository names.
    async fn repository(&mut self, dependency: &Dependency) -> Result<(), Failure> {
        let api: Api<ConfigMap> = Api::namespaced(self.wec.clone(), self.namespace);
        let answer = call(api.get(&dependency.name)).await;
        if let Some(map) = self.answered(dependency, answer)? {
            let is_watched = map.labels().contains_key(WATCHED_LABEL);
            self.note(dependency, &map.metadata, is_watched);
            let key = self.repository.as_ref().and_then(|repository| repository.key);
            let key = key.or_else(|| map.annotations().get(DEFAULT_REPOSITORY).map(String::as_str));
            let text = key.and_then(|key| map.data.as_ref()?.get(key));
            let found = Dependencies::of_repository(text.map_or("", String::as_str), self.namespace);
            let room = MOST.saturating_sub(self.wanted.len());
            // A repository may say that logs are archived.
            let is_used = self.has_artifacts || found.has_artifacts;
            let required = found.named.into_iter().filter(|_| is_used);
            let required = required.filter(|(_, necessity)| *necessity == Necessity::Required);
            self.wanted.extend(required.map(|(secret, _)| secret).take(room));
        }
        Ok(())
    }

    /// Notes that the rights of Argo's executor, which come with a ServiceAccount, have not arrived:
    /// a pod without them cannot report its results.
    async fn executor_binding(&mut self, account: &Dependency) -> Result<(), Failure> {
        let Some(name) = executor_binding(&account.name) else {
            return Ok(());
        };
        let api: Api<RoleBinding> = Api::namespaced(self.wec.clone(), self.namespace);
        match found(call(api.get_metadata(&name)).await) {
            Ok(None) => self.unbound = Some(format!("RoleBinding {name} of {account}")),
            Ok(Some(_)) => {}
            Err(failure @ Failure::Refused(_)) => {
                tracing::debug!(action = name, error = %failure, "cannot check if a RoleBinding exists");
            }
            Err(failure) => {
                return Err(Failure::Missing(format!(
                    "cannot check if RoleBinding {name} exists on {}: {failure}",
                    self.cluster
                )));
            }
        }
        Ok(())
    }

    /// The object of an answer. Notes it if it is missing.
    fn answered<T>(&mut self, named: &Dependency, answer: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match found(answer) {
            Ok(Some(object)) => Ok(Some(object)),
            Ok(None) => {
                self.missing.insert(named.clone());
                Ok(None)
            }
            Err(Failure::Refused(message)) if self.needs.asked.has(named.kind) => {
                Err(Failure::Missing(format!(
                    "a policy sends {named}, which the agent of {} is not allowed to read ({message}); allow it with \
                objects.configuration=true of chart argosy-agent, or remove the kind from the policy's annotation {}",
                    self.cluster,
                    names::DEPENDENCIES_ANNOTATION
                )))
            }
            Err(Failure::Refused(message)) => {
                tracing::debug!(action = %named, error = message, "cannot check if an object exists");
                Ok(None)
            }
            // The failure is converted: nothing has been created that could arrive late.
            Err(failure) => Err(Failure::Missing(format!(
                "cannot check if {named} exists on {}: {failure}",
                self.cluster
            ))),
        }
    }

    fn result(self) -> Result<(), Failure> {
        let Self {
            cluster,
            namespace,
            missing,
            unsettled,
            unbound,
            needs,
            ..
        } = self;
        if let Some(unbound) = unbound.filter(|_| missing.is_empty()) {
            return Err(Failure::Missing(format!(
                "{unbound} has not arrived on {cluster}, and pods cannot report their results without it; if it does \
                not come, the agent there is not allowed to create it (objects.configuration=true of chart argosy-agent), \
                or a CustomTransform or template fails for the ServiceAccount"
            )));
        }
        if missing.is_empty() {
            return unsettled.map_or(Ok(()), |unsettled| Err(Failure::Missing(unsettled)));
        }
        let are_sent = missing.iter().all(|missing| needs.asked.has(missing.kind));
        let (or_here, why) = if are_sent {
            (
                " or on the control cluster",
                "; if the control cluster has it, the status of its policy says why it was not sent",
            )
        } else {
            ("", "")
        };
        let label = if missing
            .iter()
            .any(|missing| missing.kind == DependencyKind::Secret)
        {
            "; a Secret is sent if it has the label argosy.dev/travels=true"
        } else {
            ""
        };
        let others = if missing.len() == ENOUGH {
            ", and perhaps others,"
        } else {
            ""
        };
        let missing: Vec<String> = missing.iter().map(ToString::to_string).collect();
        Err(Failure::Missing(format!(
            "{}{others} does not exist on {cluster}, where the run needs it in namespace {namespace} or cluster-wide; \
            create it there{or_here} to start the run{label}{why}",
            missing.join(", ")
        )))
    }
}

/// The time until the object was created, or changed by the agent, [`NEW`] ago. A time far in the future
/// is that of another clock, and tells nothing.
fn settles_in(metadata: &ObjectMeta, now: Timestamp) -> Duration {
    let managed = metadata.managed_fields.iter().flatten();
    let changes = managed.filter(|entry| entry.manager.as_deref() == Some(names::APPLIER));
    let changes = changes.filter_map(|entry| entry.time.as_ref());
    let times = metadata.creation_timestamp.iter().chain(changes);
    let ages = times.map(|time| now.duration_since(time.0));
    let new = ages.filter(|age| -NEW < *age && *age < NEW);
    let youngest = new.map(|age| age.max(SignedDuration::ZERO)).min();
    youngest.map_or(Duration::ZERO, |age| (NEW - age).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time};
    use kube::Config;
    use serde_json::json;

    use super::*;
    use crate::runtime::telemetry;

    #[tokio::test]
    async fn a_workflow_that_names_nothing_waits_for_nothing() {
        telemetry::install_crypto();
        let nowhere = Config::new("http://127.0.0.1:1".parse().unwrap());
        let wec = Client::try_from(nowhere).unwrap();
        let workflow: Workflow = serde_json::from_value(json!({
            "metadata": { "name": "hello", "namespace": "argo" },
            "spec": { "entrypoint": "main", "templates": [{ "name": "main", "suspend": {} }] },
        }))
        .unwrap();
        let (mailbox, needs) = (Mailbox::default(), Needs::default());
        let checked = check(&wec, "c1", &mailbox, &workflow, &needs).now_or_never();
        assert_eq!(checked, Some(Ok(())));
    }

    #[test]
    fn an_object_is_new_for_two_seconds_and_never_by_the_time_of_another_clock() {
        let now: Timestamp = "2026-11-21T10:00:00.5Z".parse().unwrap();
        let created = |time: &str| {
            let metadata = ObjectMeta {
                creation_timestamp: Some(Time(time.parse().unwrap())),
                ..ObjectMeta::default()
            };
            settles_in(&metadata, now).as_millis()
        };
        assert_eq!(created("2026-11-21T10:00:00Z"), 1_500);
        assert_eq!(created("2026-11-21T09:59:59Z"), 500);
        assert_eq!(created("2026-11-21T09:59:58Z"), 0);
        assert_eq!(created("2026-11-21T10:00:01Z"), 2_000);
        assert_eq!(created("2026-11-21T10:00:03Z"), 0);
        assert_eq!(settles_in(&ObjectMeta::default(), now), Duration::ZERO);
    }

    #[test]
    fn an_object_is_as_good_as_new_after_a_change_by_the_agent_and_by_nobody_else() {
        let now: Timestamp = "2026-11-21T10:00:00.5Z".parse().unwrap();
        let changed = |manager: &str, time: &str| {
            let metadata = ObjectMeta {
                creation_timestamp: Some(Time("2026-11-20T10:00:00Z".parse().unwrap())),
                managed_fields: Some(vec![ManagedFieldsEntry {
                    manager: Some(manager.to_owned()),
                    time: Some(Time(time.parse().unwrap())),
                    ..ManagedFieldsEntry::default()
                }]),
                ..ObjectMeta::default()
            };
            settles_in(&metadata, now).as_millis()
        };
        assert_eq!(changed(names::APPLIER, "2026-11-21T10:00:00Z"), 1_500);
        assert_eq!(changed(names::APPLIER, "2026-11-21T09:59:58Z"), 0);
        assert_eq!(changed("kubectl", "2026-11-21T10:00:00Z"), 0);
    }
}
