//! How the index learns the mailboxes: ManifestWorks and WorkStatuses.

use std::collections::BTreeSet;

use super::Dirty;
use crate::{
    Change, ClusterName, OriginUid,
    hub::{ByCluster, Hub, HubKey, Ignored, Report, SeenReport, SeenWork, WorkflowView},
    mailbox::missing,
    reconcile::is_newer,
};

impl Hub {
    pub(super) fn learn_works(&mut self, change: Change<SeenWork>) -> Dirty {
        match change {
            Change::Apply(work) => self.apply_work(*work),
            Change::Delete(work) => {
                let Some((origin, cluster)) = work.address else {
                    return Dirty::new();
                };
                let known = self.works.get(&origin).and_then(|works| works.get(&cluster));
                let version = Some(work.view.resource_version.as_str());
                if known.is_some_and(|known| !is_newer(version, &known.resource_version)) {
                    return Dirty::new();
                }
                self.bury(&origin, Some(&work.view.uid));
                self.delete_work(&origin, &cluster)
            }
            Change::Reset(live) => {
                self.synced.works = true;
                let addresses: BTreeSet<_> = live.iter().filter_map(|work| work.address.clone()).collect();
                let gone = missing(self.works.iter(), &addresses);
                let mut dirty = Dirty::new();
                for (origin, cluster) in &gone {
                    let known = self.works.get(origin).and_then(|works| works.get(cluster));
                    let uid = known.map(|known| known.uid.clone());
                    self.bury(origin, uid.as_deref());
                    dirty.extend(self.delete_work(origin, cluster));
                }
                for (origin, cluster) in gone {
                    if let Some(view) = self.view_of(&origin) {
                        view.unsure_of = Some(cluster);
                    }
                }
                dirty.extend(live.into_iter().flat_map(|work| self.apply_work(work)));
                dirty
            }
        }
    }

    fn apply_work(&mut self, object: SeenWork) -> Dirty {
        let Some((origin, cluster)) = object.address else {
            return Dirty::new();
        };
        let (is_gone, work) = (object.is_gone, object.view);
        let keys = self.workflow_of(&origin);
        if keys
            .iter()
            .any(|key| self.under_way.has_buried(key, Some(&work.uid)))
        {
            return Dirty::new();
        }
        let works = self
            .works
            .entry(origin.clone())
            .or_insert_with(|| ByCluster::with_capacity(1));
        let known = works.get(&cluster);
        if known.is_some_and(|known| !is_newer(Some(&work.resource_version), &known.resource_version)) {
            return Dirty::new();
        }
        if is_gone {
            self.bury(&origin, Some(&work.uid));
            return self.delete_work(&origin, &cluster);
        }
        works.insert(cluster.clone(), work);
        if let Some(view) = self.view_of(&origin) {
            view.send_failure = None;
            view.unsure_of.take_if(|unsure| *unsure == cluster);
        }
        self.workflow_of(&origin)
    }

    pub(super) fn delete_work(&mut self, origin: &OriginUid, cluster: &ClusterName) -> Dirty {
        if let Some(works) = self.works.get_mut(origin) {
            works.remove(cluster);
            if works.is_empty() {
                self.works.remove(origin);
            }
        }
        if let Some(view) = self.view_of(origin) {
            view.unsure_of.take_if(|unsure| unsure == cluster);
        }
        self.workflow_of(origin)
    }

    pub(super) fn learn_reports(&mut self, change: Change<SeenReport>) -> Dirty {
        match change {
            Change::Apply(report) => self.apply_report(*report),
            Change::Delete(report) => {
                let Some((origin, cluster)) = report.address else {
                    return Dirty::new();
                };
                let known = self
                    .reports
                    .get(&origin)
                    .and_then(|reports| reports.get(&cluster));
                let version = Some(report.view.resource_version.as_str());
                if known.is_some_and(|known| !is_newer(version, &known.resource_version)) {
                    return Dirty::new();
                }
                self.delete_report(&origin, &cluster)
            }
            Change::Reset(live) => {
                self.synced.reports = true;
                let addresses: BTreeSet<_> =
                    live.iter().filter_map(|report| report.address.clone()).collect();
                let gone = missing(self.reports.iter(), &addresses);
                let mut dirty: Dirty = gone
                    .iter()
                    .flat_map(|(origin, cluster)| self.delete_report(origin, cluster))
                    .collect();
                dirty.extend(live.into_iter().flat_map(|report| self.apply_report(report)));
                dirty
            }
        }
    }

    fn apply_report(&mut self, object: SeenReport) -> Dirty {
        let Some((origin, cluster)) = object.address else {
            return Dirty::new();
        };
        let report = object.view;
        let known = self
            .reports
            .get(&origin)
            .and_then(|reports| reports.get(&cluster));
        if known.is_some_and(|known| !is_newer(Some(&report.resource_version), &known.resource_version)) {
            return Dirty::new();
        }
        let is_new = known.is_none_or(|known| known.resource_version != report.resource_version);
        if is_new {
            self.count_ignored(&origin, &cluster, &report);
        }
        let reports = self
            .reports
            .entry(origin.clone())
            .or_insert_with(|| ByCluster::with_capacity(1));
        reports.insert(cluster, report);
        self.workflow_of(&origin)
    }

    /// Counts a report that does not count.
    fn count_ignored(&mut self, origin: &OriginUid, cluster: &ClusterName, report: &Report) {
        let key = self.by_uid.get(origin);
        let claim = key.and_then(|key| self.workflows.get(key)?.claim.as_ref());
        let ignored = match claim {
            _ if report.flaw.is_some() => Ignored::Invalid,
            Some(claim) if claim.cluster != *cluster => Ignored::Foreign,
            Some(claim) if claim.attempt != report.attempt => Ignored::OtherAttempt,
            // That of an object without a claim may be one of another control cluster.
            _ => return,
        };
        *self.ignored.entry((cluster.clone(), ignored)).or_default() += 1;
    }

    fn delete_report(&mut self, origin: &OriginUid, cluster: &ClusterName) -> Dirty {
        if let Some(reports) = self.reports.get_mut(origin) {
            reports.remove(cluster);
            if reports.is_empty() {
                self.reports.remove(origin);
            }
        }
        self.workflow_of(origin)
    }

    fn bury(&mut self, origin: &OriginUid, uid: Option<&str>) {
        for key in self.workflow_of(origin) {
            self.under_way.bury(&key, uid);
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
