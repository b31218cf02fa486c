//! Updates of the index from the mailboxes: ManifestWorks and WorkStatuses.

use super::Dirty;
use crate::{
    Change, ClusterName, OriginUid,
    hub::workflows::{
        Awaited, ByCluster, HubKey, Ignored, ManifestWorkView, ObservedReport, ObservedWork, WorkStatusView,
        WorkflowIndex, WorkflowView,
    },
    index::store::Delta,
    model::mailbox::Mailboxes,
};

impl WorkflowIndex {
    pub(super) fn on_works(&mut self, change: Change<ObservedWork>) -> Dirty {
        let by_uid = &self.by_uid;
        let delta = Delta::of(
            change,
            |work: &ObservedWork| work.address.clone(),
            &Mailboxes(&self.works),
            &mut self.in_flight,
            |(origin, _), _| by_uid.get(origin).cloned().map(HubKey::Workflow),
        );
        self.synced.mark(Awaited::Works, delta.is_list);
        let mut dirty = Dirty::new();
        for (origin, cluster) in &delta.gone {
            dirty.extend(self.delete_work(origin, cluster));
        }
        if delta.is_list {
            for (origin, cluster) in delta.gone {
                if let Some(view) = self.view_of(&origin) {
                    view.unconfirmed_on = Some(cluster);
                }
            }
        }
        for ((origin, cluster), work) in delta.live {
            dirty.extend(self.apply_work(&origin, cluster, work.view));
        }
        dirty
    }

    fn apply_work(&mut self, origin: &OriginUid, cluster: ClusterName, work: Box<ManifestWorkView>) -> Dirty {
        if let Some(view) = self.view_of(origin) {
            view.send_failure = None;
            view.unconfirmed_on.take_if(|unsure| *unsure == cluster);
        }
        let works = self
            .works
            .entry(origin.clone())
            .or_insert_with(|| ByCluster::with_capacity(1));
        works.insert(cluster, work);
        self.workflow_of(origin)
    }

    pub(super) fn delete_work(&mut self, origin: &OriginUid, cluster: &ClusterName) -> Dirty {
        if let Some(works) = self.works.get_mut(origin) {
            works.remove(cluster);
            if works.is_empty() {
                self.works.remove(origin);
            }
        }
        if let Some(view) = self.view_of(origin) {
            view.unconfirmed_on.take_if(|unsure| unsure == cluster);
        }
        self.workflow_of(origin)
    }

    pub(super) fn on_reports(&mut self, change: Change<ObservedReport>) -> Dirty {
        let delta = Delta::of(
            change,
            |report: &ObservedReport| report.address.clone(),
            &Mailboxes(&self.reports),
            &mut self.in_flight,
            // A read report that was deleted meanwhile is ignored by its version.
            |_, _| None,
        );
        self.synced.mark(Awaited::Reports, delta.is_list);
        let mut dirty = Dirty::new();
        for (origin, cluster) in &delta.gone {
            dirty.extend(self.delete_report(origin, cluster));
        }
        for ((origin, cluster), report) in delta.live {
            dirty.extend(self.apply_report(&origin, &cluster, report.view));
        }
        dirty
    }

    fn apply_report(
        &mut self,
        origin: &OriginUid,
        cluster: &ClusterName,
        report: Box<WorkStatusView>,
    ) -> Dirty {
        let known = self.reports.get(origin).and_then(|reports| reports.get(cluster));
        let is_new = known.is_none_or(|known| known.resource_version != report.resource_version);
        // The same version, shed by a list for lack of room, adds nothing.
        let is_less = known.is_some_and(|known| !known.is_shed) && report.is_shed;
        // The nodes of a report that was shed are validated when it is read by itself.
        let is_found_invalid =
            report.decode_error.is_some() && known.is_some_and(|known| known.decode_error.is_none());
        if is_new || is_found_invalid {
            self.count_ignored(origin, cluster, &report);
        } else if is_less {
            return Dirty::new();
        }
        self.keep_report(origin, cluster, report);
        self.reserve_for(origin);
        self.workflow_of(origin)
    }

    /// Handles the answer that a WorkStatus to be read does not exist. A newer one may have been
    /// created meanwhile.
    pub(super) fn miss_report(&mut self, origin: &OriginUid, cluster: &ClusterName, version: &str) -> Dirty {
        let known = self.reports.get(origin).and_then(|reports| reports.get(cluster));
        let is_sought = known
            .is_some_and(|known| known.resource_version == version && (known.is_shed || known.is_released()));
        if is_sought {
            self.delete_report(origin, cluster)
        } else {
            self.workflow_of(origin)
        }
    }

    /// Counts a report if it is ignored.
    fn count_ignored(&mut self, origin: &OriginUid, cluster: &ClusterName, report: &WorkStatusView) {
        let key = self.by_uid.get(origin);
        let claim = key.and_then(|key| self.workflows.get(key)?.claim.as_ref());
        let ignored = match claim {
            _ if report.decode_error.is_some() => Ignored::Invalid,
            Some(claim) if claim.cluster != *cluster => Ignored::Foreign,
            Some(claim) if claim.attempt != report.attempt => Ignored::OtherAttempt,
            // The report of an object without a claim may belong to another control cluster.
            _ => return,
        };
        *self.ignored.entry((cluster.clone(), ignored)).or_default() += 1;
    }

    fn delete_report(&mut self, origin: &OriginUid, cluster: &ClusterName) -> Dirty {
        self.drop_report(origin, cluster);
        self.reserve_for(origin);
        self.workflow_of(origin)
    }

    /// A report may tell that the run has ended.
    fn reserve_for(&mut self, origin: &OriginUid) {
        if let Some(key) = self.by_uid.get(origin).cloned() {
            self.reserve(&key);
        }
    }

    fn view_of(&mut self, origin: &OriginUid) -> Option<&mut WorkflowView> {
        self.workflows.get_mut(self.by_uid.get(origin)?).map(Box::as_mut)
    }

    fn workflow_of(&self, origin: &OriginUid) -> Dirty {
        self.by_uid
            .get(origin)
            .cloned()
            .map(HubKey::Workflow)
            .into_iter()
            .collect()
    }
}
