//! The WorkflowTemplates and ClusterWorkflowTemplates of the control cluster, as far as the demand of
//! Workflows depends on them.
//!
//! Of each template only a short text is kept ([`Reduced`]), and only a limited number, of one
//! namespace and in all: whoever writes templates takes neither memory nor another namespace's place.
//! A template that is not kept counts as missing, so the demand of its Workflows is not known. A copy
//! costs a few references, because the webhook holds one. Not here: the demand (`model::demand`), and
//! the objects that travel with a Workflow.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kube::{ResourceExt, core::DynamicObject};
use serde_json::Value;

use crate::{
    Change, WorkflowKey,
    index::{
        reconciler::is_gone,
        store::{Delta, Incoming, Known, Version, Versioned, versioned},
        tracked::InFlight,
    },
    model::{
        demand::{Demand, Reduced, Referred},
        template_refs::TemplateKey,
    },
};

/// Maximum number of templates of a namespace, and of those of the cluster.
const MOST_IN_NAMESPACE: usize = 1_000;

/// Maximum number of all templates.
const MOST: usize = 10_000;

/// A template as a watch delivers it.
#[derive(Clone, Debug)]
pub struct ObservedTemplate {
    key: WorkflowKey,
    is_gone: bool,
    kept: Kept,
}

/// A template that is kept.
#[derive(Clone, Debug)]
struct Kept {
    uid: String,
    resource_version: String,
    /// `None` if it is too long.
    reduced: Option<Reduced>,
}

versioned!(Kept);

impl From<DynamicObject> for ObservedTemplate {
    fn from(object: DynamicObject) -> Self {
        let namespace = object.namespace().unwrap_or_default();
        Self {
            key: WorkflowKey::new(&namespace, &object.name_any()),
            is_gone: is_gone(&object.metadata),
            kept: Kept {
                uid: object.metadata.uid.unwrap_or_default(),
                resource_version: object.metadata.resource_version.unwrap_or_default(),
                reduced: object.data.get("spec").and_then(Reduced::of),
            },
        }
    }
}

impl Incoming for ObservedTemplate {
    fn version(&self) -> Version<'_> {
        self.kept.version()
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }
}

/// The templates of one namespace, by name.
type OfNamespace = BTreeMap<Arc<str>, Kept>;

/// The templates of the control cluster.
#[derive(Clone, Debug, Default)]
pub(crate) struct TemplateDemands {
    /// By namespace. Those of the cluster have an empty one.
    known: BTreeMap<Arc<str>, Arc<OfNamespace>>,
    /// Number of all templates.
    len: usize,
}

/// The templates of one kind.
struct OfKind<'a> {
    all: &'a TemplateDemands,
    is_cluster_scoped: bool,
}

impl Known<WorkflowKey> for OfKind<'_> {
    fn version_of(&self, key: &WorkflowKey) -> Option<Version<'_>> {
        let kept = self.all.known.get(&key.namespace)?.get(&key.name)?;
        Some(kept.version())
    }

    fn known(&self) -> impl Iterator<Item = WorkflowKey> {
        let known = self.all.known.iter();
        let known = known.filter(|(namespace, _)| namespace.is_empty() == self.is_cluster_scoped);
        known.flat_map(|(namespace, templates)| {
            templates.keys().map(|name| WorkflowKey {
                namespace: Arc::clone(namespace),
                name: Arc::clone(name),
            })
        })
    }
}

impl TemplateDemands {
    /// The demand of a Workflow of this namespace, which may state `requests`.
    pub(crate) fn demand(&self, namespace: &str, spec: &Value, requests: Option<&str>) -> Demand {
        let mut referred = Referred::by(spec);
        while let Some(key) = referred.take_open() {
            let found = self.find(namespace, &key);
            referred.learn(key, found);
        }
        Demand::of(spec, &referred).with(requests)
    }

    fn find(&self, namespace: &str, key: &TemplateKey) -> Option<&Reduced> {
        let namespace = if key.is_cluster_scoped { "" } else { namespace };
        let kept = self.known.get(namespace)?.get(key.name.as_str())?;
        kept.reduced.as_ref()
    }

    /// Stores a change of the templates of one kind. Returns the namespaces in which the demand of
    /// Workflows may have changed; the empty one stands for all.
    pub(crate) fn learn<F: Ord + Clone>(
        &mut self,
        is_cluster_scoped: bool,
        change: Change<ObservedTemplate>,
        in_flight: &mut InFlight<F>,
    ) -> BTreeSet<Arc<str>> {
        let known = OfKind {
            all: self,
            is_cluster_scoped,
        };
        let key = |seen: &ObservedTemplate| {
            let is_of_kind = seen.key.namespace.is_empty() == is_cluster_scoped;
            is_of_kind.then(|| seen.key.clone())
        };
        let delta = Delta::of(change, key, &known, in_flight, |_, _| None);
        let mut touched = BTreeSet::new();
        for key in delta.gone {
            if self.remove(&key) {
                touched.insert(key.namespace);
            }
        }
        for (key, seen) in delta.live {
            if self.insert(&key, seen.kept) {
                touched.insert(key.namespace);
            }
        }
        touched
    }

    fn remove(&mut self, key: &WorkflowKey) -> bool {
        let Some(templates) = self.known.get_mut(&key.namespace) else {
            return false;
        };
        let is_there = Arc::make_mut(templates).remove(&key.name).is_some();
        self.len -= usize::from(is_there);
        if templates.is_empty() {
            self.known.remove(&key.namespace);
        }
        is_there
    }

    /// Keeps a template, if there is a place for it. Returns true if its effect has changed.
    fn insert(&mut self, key: &WorkflowKey, kept: Kept) -> bool {
        let known = self.known.get(&key.namespace);
        let before = known.and_then(|templates| templates.get(&key.name));
        let has_changed = before.map(|before| &before.reduced) != Some(&kept.reduced);
        let is_full = known.is_some_and(|templates| templates.len() >= MOST_IN_NAMESPACE);
        if before.is_none() {
            if is_full || self.len >= MOST {
                return false;
            }
            self.len += 1;
        }
        let templates = self.known.entry(Arc::clone(&key.namespace)).or_default();
        Arc::make_mut(templates).insert(Arc::clone(&key.name), kept);
        has_changed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::amounts::CPU;

    fn template(namespace: &str, name: &str, version: usize, cpu: &str) -> ObservedTemplate {
        let pod = json!({ "name": "main", "container": { "resources": { "requests": { "cpu": cpu } } } });
        let object: DynamicObject = serde_json::from_value(json!({
            "metadata": { "namespace": namespace, "name": name, "uid": name, "resourceVersion": version.to_string() },
            "spec": { "entrypoint": "main", "templates": [pod] },
        }))
        .unwrap();
        object.into()
    }

    fn learn(
        known: &mut TemplateDemands,
        is_cluster_scoped: bool,
        change: Change<ObservedTemplate>,
    ) -> Vec<String> {
        let touched = known.learn(is_cluster_scoped, change, &mut InFlight::<()>::default());
        touched.iter().map(ToString::to_string).collect()
    }

    fn apply(seen: ObservedTemplate) -> Change<ObservedTemplate> {
        Change::Apply(Box::new(seen))
    }

    /// The CPUs that a Workflow of a namespace asks for that is this template.
    fn cpu(known: &TemplateDemands, namespace: &str, name: &str, is_cluster_scoped: bool) -> u64 {
        let reference = json!({ "name": name, "clusterScope": is_cluster_scoped });
        let demand = known.demand(namespace, &json!({ "workflowTemplateRef": reference }), None);
        demand.typical.get(CPU).unwrap()
    }

    #[test]
    fn a_workflow_finds_the_templates_of_its_namespace_and_of_the_cluster() {
        let mut known = TemplateDemands::default();
        let list = vec![template("a", "t", 1, "1"), template("b", "t", 2, "2")];
        assert_eq!(learn(&mut known, false, Change::Reset(list)), ["a", "b"]);
        let list = vec![template("", "t", 3, "3"), template("", "u", 4, "4")];
        assert_eq!(learn(&mut known, true, Change::Reset(list)), [""]);
        let found = |known: &TemplateDemands| {
            [
                ("a", "t", false),
                ("b", "t", false),
                ("c", "t", false),
                ("a", "t", true),
                ("a", "u", false),
                ("c", "u", true),
            ]
            .map(|(namespace, name, is_cluster_scoped)| cpu(known, namespace, name, is_cluster_scoped))
        };
        assert_eq!(found(&known), [1000, 2000, 100, 3000, 100, 4000]);
        // A list of one kind says nothing about the other one, and an older version nothing at all.
        let list = vec![template("a", "t", 5, "5")];
        assert_eq!(learn(&mut known, false, Change::Reset(list)), ["a", "b"]);
        assert_eq!(
            learn(&mut known, false, apply(template("a", "t", 4, "9"))),
            [] as [&str; 0]
        );
        assert_eq!(
            learn(
                &mut known,
                true,
                Change::Delete(Box::new(template("", "u", 4, "4")))
            ),
            [""]
        );
        assert_eq!(found(&known), [5000, 100, 100, 3000, 100, 100]);
        // Nothing changes for anybody if only another field does.
        assert_eq!(
            learn(&mut known, false, apply(template("a", "t", 6, "5"))),
            [] as [&str; 0]
        );
    }

    #[test]
    fn so_many_templates_are_kept_and_no_namespace_takes_the_place_of_another() {
        let mut known = TemplateDemands::default();
        for namespace in ["greedy", "other"] {
            for number in 0..MOST_IN_NAMESPACE + 10 {
                learn(
                    &mut known,
                    false,
                    apply(template(namespace, &format!("t{number}"), number + 1, "1")),
                );
            }
        }
        assert!(
            known
                .known
                .values()
                .all(|templates| templates.len() == MOST_IN_NAMESPACE)
        );
        assert_eq!(cpu(&known, "other", "t0", false), 1000);
        assert_eq!(
            cpu(&known, "greedy", &format!("t{MOST_IN_NAMESPACE}"), false),
            100
        );
        // One that is kept can still change, and its place is free when it is gone.
        learn(&mut known, false, apply(template("greedy", "t0", 9999, "2")));
        assert_eq!(cpu(&known, "greedy", "t0", false), 2000);
        learn(
            &mut known,
            false,
            Change::Delete(Box::new(template("greedy", "t0", 9999, "2"))),
        );
        learn(&mut known, false, apply(template("greedy", "new", 10_000, "3")));
        assert_eq!(cpu(&known, "greedy", "new", false), 3000);
        let many: Vec<ObservedTemplate> = (0..MOST + 1000)
            .map(|number| {
                template(
                    &format!("n{}", number / 100),
                    &format!("t{number}"),
                    number + 1,
                    "1",
                )
            })
            .collect();
        learn(&mut known, false, Change::Reset(many));
        let all = known.known.values().map(|templates| templates.len());
        assert_eq!((all.sum::<usize>(), known.len), (MOST, MOST));
        learn(&mut known, false, Change::Reset(Vec::new()));
        assert_eq!((known.known.len(), known.len), (0, 0));
    }
}
