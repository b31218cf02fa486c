//! A group of runs that name the same objects on the same cluster.

use std::{
    collections::{BTreeSet, btree_map::Entry},
    sync::Arc,
};

use jiff::Timestamp;

use super::{
    ObjectIndex,
    closure::{MOST_TARGETS, Named, Need},
    sends,
};
use crate::hub::objects::{Dirty, DownsyncKey, object_ref::ObjectRef};

/// The runs with these needs.
#[derive(Debug, Default)]
pub(super) struct Group {
    /// Number of unfinished runs.
    runs: usize,
    /// All objects that they need, also because other objects name them. The groups share their
    /// names, because many small Workflows can name one large template.
    pub(super) targets: BTreeSet<Arc<ObjectRef>>,
    /// The time at which the objects are no longer needed, if it has no runs.
    pub(super) ends_at: Option<Timestamp>,
    /// A template has not been read yet, so objects may be missing among the targets.
    pub(super) is_incomplete: bool,
    /// There are more objects than a group may need.
    pub(super) is_cut: bool,
}

impl ObjectIndex {
    /// Adds a run to its group.
    pub(super) fn join_group(&mut self, need: &Arc<Need>) -> Dirty {
        match self.needs.groups.entry(Arc::clone(need)) {
            Entry::Vacant(place) => {
                place.insert(Group {
                    runs: 1,
                    ..Group::default()
                });
                self.extend_group(need, &mut Named::new())
            }
            Entry::Occupied(mut group) => {
                let group = group.get_mut();
                group.runs += 1;
                let Some(at) = group.ends_at.take() else {
                    return Dirty::new();
                };
                self.needs.ending.remove(&(at, Arc::clone(need)));
                // Objects that came while it had no runs were not sent.
                self.copies_of_group(need)
            }
        }
    }

    /// Removes a run from its group. Returns the copies that are to be decided again when the time
    /// of the group is over.
    pub(super) fn leave_group(&mut self, need: &Arc<Need>) -> Dirty {
        let ends_at = self.now.saturating_add(self.config.linger);
        let ends_at = ends_at.unwrap_or(Timestamp::MAX);
        let Some(group) = self.needs.groups.get_mut(need) else {
            return Dirty::new();
        };
        group.runs = group.runs.saturating_sub(1);
        if group.runs > 0 {
            return Dirty::new();
        }
        group.ends_at = Some(ends_at);
        self.needs.ending.insert((ends_at, Arc::clone(need)));
        self.copies_of_group(need)
    }

    /// Adds the objects that are found now to those that a group needs.
    pub(super) fn extend_group(&mut self, need: &Arc<Need>, named: &mut Named) -> Dirty {
        let closure = self.closure(need, named);
        let Some(group) = self.needs.groups.get_mut(need) else {
            return Dirty::new();
        };
        group.is_incomplete = closure.is_incomplete;
        group.is_cut = closure.is_cut;
        self.add_targets(need, closure.targets)
    }

    /// Adds the objects that runs of another group have begun with, as far as their policies still ask
    /// for them.
    pub(super) fn keep_targets(&mut self, need: &Arc<Need>, former: &BTreeSet<Arc<ObjectRef>>) -> Dirty {
        let known = self.needs.groups.get(need).map_or(0, |group| group.targets.len());
        let kept = former.iter().filter(|target| sends(need.asked, &target.kind));
        let kept = kept.take(MOST_TARGETS.saturating_sub(known));
        self.add_targets(need, kept.map(|target| ObjectRef::clone(target)).collect())
    }

    fn add_targets(&mut self, need: &Arc<Need>, mut new: BTreeSet<ObjectRef>) -> Dirty {
        let Some(group) = self.needs.groups.get_mut(need) else {
            return Dirty::new();
        };
        new.retain(|target| !group.targets.contains(target));
        for target in &new {
            let known = self.needs.uses.get_key_value(target);
            let target = known.map_or_else(|| Arc::new(target.clone()), |(known, _)| Arc::clone(known));
            group.targets.insert(Arc::clone(&target));
            let uses = self.needs.uses.entry(target).or_default();
            let on_cluster = uses.entry(need.cluster.clone()).or_default();
            on_cluster.insert(Arc::clone(need));
        }
        let mut dirty: Dirty = new
            .iter()
            .flat_map(|target| self.copies_for(target, need))
            .collect();
        // They may have failed for others before, and then no further event would tell.
        let there = new.iter().filter_map(|target| self.needs.there.get(target));
        dirty.extend(there.flat_map(|origin| self.concerned_policies(origin)));
        dirty
    }

    pub(super) fn forget_group(&mut self, need: &Arc<Need>) -> Dirty {
        let Some(group) = self.needs.groups.remove(need) else {
            return Dirty::new();
        };
        let mut dirty = Dirty::new();
        for target in &group.targets {
            dirty.extend(self.copies_for(target, need));
            let Some(uses) = self.needs.uses.get_mut(target) else {
                continue;
            };
            if let Some(on_cluster) = uses.get_mut(&need.cluster) {
                on_cluster.remove(need);
                if on_cluster.is_empty() {
                    uses.remove(&need.cluster);
                }
            }
            if uses.is_empty() {
                self.needs.uses.remove(target);
                self.drop_content(target);
            }
        }
        dirty
    }

    /// The keys of all objects that a group needs and that are there.
    fn copies_of_group(&self, need: &Arc<Need>) -> Dirty {
        let targets = self.needs.groups.get(need).map(|group| &group.targets);
        let targets = targets.into_iter().flatten();
        targets.flat_map(|target| self.copies_for(target, need)).collect()
    }

    /// The keys of an object that a group needs, if the object is there.
    fn copies_for(&self, target: &ObjectRef, need: &Need) -> Vec<DownsyncKey> {
        let Some(origin) = self.needs.there.get(target) else {
            return Vec::new();
        };
        vec![
            DownsyncKey::Object(origin.clone()),
            DownsyncKey::Copy(origin.clone(), need.cluster.clone()),
        ]
    }

    /// Drops the content of an object that is not needed any more, unless a policy selects it.
    fn drop_content(&mut self, target: &ObjectRef) {
        let origin = self.needs.there.get(target);
        if let Some(object) = origin.and_then(|origin| self.objects.get_mut(origin))
            && object.selection.is_empty()
        {
            object.content = None;
            object.digest = None;
        }
    }
}
