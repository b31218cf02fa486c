//! All objects that a group needs: those that its runs name, and those that templates,
//! ServiceAccounts and artifact repositories among them name in turn.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use super::{KINDS, ObjectIndex};
use crate::{
    ClusterName,
    hub::objects::{kind::KindName, object_ref::ObjectRef},
    model::dependencies::{Asked, Dependencies, Dependency, DependencyKind},
};

/// Maximum number of objects that a group needs: more than an agent waits for.
pub(super) const MOST_TARGETS: usize = 256;

/// Maximum number of objects that a run names itself: as many as an agent waits for.
pub(super) const MOST_NAMED: usize = 200;

/// The needs of a run, as its specification names them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Need {
    pub(super) cluster: ClusterName,
    pub(super) namespace: Arc<str>,
    /// The kinds that its policies ask for.
    pub(super) asked: Asked,
    pub(super) named: Arc<[Dependency]>,
}

/// The objects that a group needs.
#[derive(Debug, Default)]
pub(super) struct Closure {
    pub(super) targets: BTreeSet<ObjectRef>,
    /// An object that may name others has not been read yet.
    pub(super) is_incomplete: bool,
    /// There are more than [`MOST_TARGETS`], or the run names more objects than it may.
    pub(super) is_cut: bool,
}

/// The objects that other objects name, by the namespace of the runs, and by the cluster if it may
/// change the names: each is read once, however many groups need it.
pub(super) type Named = BTreeMap<(Option<ClusterName>, Arc<str>, ObjectRef), Vec<Dependency>>;

impl ObjectIndex {
    pub(super) fn closure(&self, need: &Need, named: &mut Named) -> Closure {
        let mut closure = Closure::default();
        closure.targets.insert(ObjectRef {
            kind: KindName::new("", "namespaces"),
            namespace: String::new(),
            name: need.namespace.to_string(),
        });
        // Those that the run itself names come first.
        closure.is_cut = need.named.len() > MOST_NAMED;
        let mut open: VecDeque<Dependency> = need.named.iter().take(MOST_NAMED).cloned().collect();
        while let Some(dependency) = open.pop_front() {
            let Some(target) = target(&dependency, need) else {
                continue;
            };
            if closure.targets.contains(&target) {
                continue;
            }
            if closure.targets.len() == MOST_TARGETS {
                closure.is_cut = true;
                return closure;
            }
            closure.targets.insert(target.clone());
            let origin = self.needs.there.get(&target);
            let Some(object) = origin.and_then(|origin| self.objects.get(origin)) else {
                continue;
            };
            let Some(content) = &object.content else {
                closure.is_incomplete |= object.decode_error.is_none() && names_others(dependency.kind);
                continue;
            };
            if !names_others(dependency.kind) {
                continue;
            }
            let on = self.is_transformed(object).then(|| need.cluster.clone());
            let key = (on.clone(), Arc::clone(&need.namespace), target);
            let found = named.entry(key).or_insert_with(|| {
                let content = content.value();
                // If it cannot be sent to the cluster, it is searched as it is.
                let sent = on.and_then(|cluster| self.transformed(object, content.clone(), &cluster).ok());
                let found =
                    Dependencies::of_object(dependency.kind, &sent.unwrap_or(content), &need.namespace);
                found.named.into_keys().collect()
            });
            open.extend(found.iter().cloned());
        }
        closure
    }
}

/// True if objects of the kind can name others.
pub(super) fn names_others(kind: DependencyKind) -> bool {
    kind != DependencyKind::Secret
}

/// The address of an object that a policy asks for.
fn target(dependency: &Dependency, need: &Need) -> Option<ObjectRef> {
    let (kind, group, resource) = KINDS.iter().find(|(kind, ..)| *kind == dependency.kind)?;
    let is_namespaced = *kind != DependencyKind::ClusterWorkflowTemplate;
    need.asked.has(*kind).then(|| ObjectRef {
        kind: KindName::new(group, resource),
        namespace: if is_namespaced {
            need.namespace.to_string()
        } else {
            String::new()
        },
        name: dependency.name.to_string(),
    })
}
