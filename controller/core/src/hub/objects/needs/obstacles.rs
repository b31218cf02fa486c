//! The reasons why objects that runs need are not on their clusters, in the status of the policies
//! that ask for them.
//!
//! No policy need select such an object, so nobody else would say it: its runs only wait. Not here:
//! the copies of objects that a policy selects (`sync_summary`).

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use super::{
    Need, ObjectIndex, ObjectRef, ObjectView, Run,
    closure::{MOST_NAMED, MOST_TARGETS},
    is_namespaces, may_travel,
};
use crate::{
    ClusterName, OriginUid,
    hub::objects::{
        PolicyView,
        arrival::{MOST, Obstacle},
    },
};

/// Maximum number of groups of a policy's runs that are looked at.
const MOST_GROUPS: usize = 1000;

/// Sentences of one kind, of which at most [`MOST`] are said.
#[derive(Default)]
struct Sentences {
    said: Vec<String>,
    count: usize,
}

impl Sentences {
    fn add(&mut self, sentence: impl FnOnce() -> String) {
        self.count += 1;
        if self.said.len() < MOST {
            self.said.push(sentence());
        }
    }

    fn into_list(self, what: &str) -> Vec<String> {
        let unsaid = self.count.saturating_sub(self.said.len());
        let mut list = self.said;
        if unsaid > 0 {
            list.push(format!("and {unsaid} more objects that Workflows need {what}"));
        }
        list
    }
}

impl ObjectIndex {
    /// The obstacles of the objects that the policy's runs need, as errors and warnings. An object of
    /// another owner that is there before is only worth a warning. They do not count as copies of the
    /// policy.
    pub(in crate::hub::objects) fn needed_obstacles(
        &self,
        name: &str,
        policy: &PolicyView,
    ) -> (Vec<String>, Vec<String>) {
        if policy.rules().asked.is_empty() {
            return Default::default();
        }
        // The runs of a group share its needs, so their address tells them apart, without a comparison
        // of all names for each of many runs.
        let runs = policy
            .selected
            .iter()
            .filter_map(|origin| self.needs.runs.get(origin));
        let own: HashMap<*const Need, &Arc<Need>> = runs
            .filter_map(|run| match run {
                Run::Known(known) => Some((Arc::as_ptr(&known.need), &known.need)),
                Run::Idle | Run::Done | Run::Unread => None,
            })
            .collect();
        let own: BTreeSet<&Arc<Need>> = own.into_values().take(MOST_GROUPS).collect();
        let (mut errors, mut warnings) = (Sentences::default(), Sentences::default());
        // The groups share the names of their objects, too.
        let mut seen = HashSet::new();
        let mut targets: BTreeSet<(&ObjectRef, &ClusterName)> = BTreeSet::new();
        for need in own {
            let Some(group) = self.needs.groups.get(need) else {
                continue;
            };
            if group.is_cut {
                errors.add(|| {
                    format!(
                        "{}: a Workflow in {} names more than {MOST_NAMED} objects, or needs {MOST_TARGETS} or more, and the others \
                        are not sent",
                        need.cluster, need.namespace
                    )
                });
            }
            let new = group
                .targets
                .iter()
                .filter(|target| seen.insert((Arc::as_ptr(target), &need.cluster)));
            targets.extend(new.map(|target| (&**target, &need.cluster)));
        }
        for (target, cluster) in targets {
            let origin = self.needs.there.get(target);
            let object = origin.and_then(|origin| Some((origin, self.objects.get(origin)?)));
            let Some((origin, object)) = object.filter(|(_, object)| may_travel(object)) else {
                continue;
            };
            let is_counted = object.selection.contains_key(name) && policy.clusters.contains(cluster);
            let Some(obstacle) = self.obstacle(origin, object, cluster).filter(|_| !is_counted) else {
                continue;
            };
            let subject = || format!("{cluster}: {}, which Workflows need", object.title());
            if !self.is_used_as_it_is(origin, cluster, &obstacle) {
                errors.add(|| format!("{}: {obstacle}", subject()));
            } else if !is_namespaces(&target.kind) {
                // Most namespaces are there before, and runs find nothing in them that differs.
                warnings.add(|| format!("{}, is there already and is used as it is", subject()));
            }
        }
        (
            errors.into_list("are not on their clusters"),
            warnings.into_list("are there already"),
        )
    }

    fn obstacle<'a>(
        &'a self,
        origin: &OriginUid,
        object: &'a ObjectView,
        cluster: &ClusterName,
    ) -> Option<Obstacle<'a>> {
        let failure = self.object_failures.get(origin);
        let unread = failure.map(|failure| Obstacle::Unread(failure));
        unread.or_else(|| self.arrival(origin, object, cluster).err())
    }

    /// True if the agent has found an object of another owner and leaves it to the runs.
    fn is_used_as_it_is(&self, origin: &OriginUid, cluster: &ClusterName, obstacle: &Obstacle<'_>) -> bool {
        let work = self.works.get(origin).and_then(|works| works.get(cluster));
        let is_dependency = work.is_some_and(|work| work.is_dependency);
        is_dependency && matches!(obstacle, Obstacle::Unapplied(failure) if failure.is_foreign)
    }
}
