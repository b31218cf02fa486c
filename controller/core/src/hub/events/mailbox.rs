//! How the index learns the mailboxes: ManifestWorks and WorkStatuses.

use std::collections::BTreeSet;

use argosy_api::{ManifestWork, WorkStatus};

use super::Dirty;
use crate::{
    Change, ClusterName, OriginUid,
    hub::{Hub, HubKey, Report, Work, WorkflowView, work::address},
    mailbox::missing,
    reconcile::{is_gone, is_newer},
};

impl Hub {
    pub(super) fn learn_works(&mut self, change: Change<ManifestWork>) -> Dirty {
        match change {
            Change::Apply(work) => self.apply_work(*work),
            Change::Delete(work) => {
                let Some((origin, cluster)) = address(&work.metadata) else {
                    return Dirty::new();
                };
                let known = self.works.get(&origin).and_then(|works| works.get(&cluster));
                let version = work.metadata.resource_version.as_deref();
                if known.is_some_and(|known| !is_newer(version, &known.resource_version)) {
                    return Dirty::new();
                }
                self.bury(&origin, work.metadata.uid.as_deref());
                self.delete_work(&origin, &cluster)
            }
            Change::Reset(live) => {
                self.synced.works = true;
                let addresses: BTreeSet<_> = live.iter().filter_map(|work| address(&work.metadata)).collect();
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

    fn apply_work(&mut self, object: ManifestWork) -> Dirty {
        let Some((origin, cluster)) = address(&object.metadata) else {
            return Dirty::new();
        };
        let is_gone = is_gone(&object.metadata);
        let work = Work::new(object);
        let keys = self.workflow_of(&origin);
        if keys
            .iter()
            .any(|key| self.under_way.has_buried(key, Some(&work.uid)))
        {
            return Dirty::new();
        }
        let works = self.works.entry(origin.clone()).or_default();
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

    pub(super) fn learn_reports(&mut self, change: Change<WorkStatus>) -> Dirty {
        match change {
            Change::Apply(report) => self.apply_report(*report),
            Change::Delete(report) => {
                let Some((origin, cluster)) = address(&report.metadata) else {
                    return Dirty::new();
                };
                let known = self
                    .reports
                    .get(&origin)
                    .and_then(|reports| reports.get(&cluster));
                let version = report.metadata.resource_version.as_deref();
                if known.is_some_and(|known| !is_newer(version, &known.resource_version)) {
                    return Dirty::new();
                }
                self.delete_report(&origin, &cluster)
            }
            Change::Reset(live) => {
                self.synced.reports = true;
                let addresses: BTreeSet<_> = live
                    .iter()
                    .filter_map(|report| address(&report.metadata))
                    .collect();
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

    fn apply_report(&mut self, object: WorkStatus) -> Dirty {
        let Some((origin, cluster)) = address(&object.metadata) else {
            return Dirty::new();
        };
        let report = Report::new(object);
        let reports = self.reports.entry(origin.clone()).or_default();
        let known = reports.get(&cluster);
        if known.is_some_and(|known| !is_newer(Some(&report.resource_version), &known.resource_version)) {
            return Dirty::new();
        }
        reports.insert(cluster, report);
        self.workflow_of(&origin)
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
        self.workflows.get_mut(self.by_uid.get(origin)?)
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
