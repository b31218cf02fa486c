//! How the index learns the mailboxes: ManifestWorks and WorkStatuses of objects that are no Workflows.

use std::collections::BTreeSet;

use argosy_api::{ManifestWork, WorkStatus, names};

use super::{Dirty, is_old};
use crate::{
    Change, ClusterName, OriginUid,
    digest::Digest,
    downsync::{
        Downsync, DownsyncKey,
        work::{Report, Work, address},
    },
    mailbox::{self, missing},
    reconcile::is_gone,
};

impl Downsync {
    pub(super) fn learn_works(&mut self, change: Change<ManifestWork>) -> Dirty {
        match change {
            Change::Apply(work) => self.apply_work(*work),
            Change::Delete(work) => {
                let Some((origin, cluster)) = address(&work.metadata) else {
                    return Dirty::new();
                };
                if is_old(
                    work.metadata.resource_version.as_deref(),
                    self.version_of_work(&origin, &cluster),
                ) {
                    return Dirty::new();
                }
                let key = DownsyncKey::Copy(origin.clone(), cluster.clone());
                self.under_way.bury(&key, work.metadata.uid.as_deref());
                self.delete_work(&origin, &cluster)
            }
            Change::Reset(live) => {
                self.synced.works = true;
                let addresses: BTreeSet<_> = live.iter().filter_map(|work| address(&work.metadata)).collect();
                let gone = missing(self.works.iter(), &addresses);
                let mut dirty: Dirty = gone
                    .iter()
                    .flat_map(|(origin, cluster)| self.delete_work(origin, cluster))
                    .collect();
                dirty.extend(live.into_iter().flat_map(|work| self.apply_work(work)));
                dirty
            }
        }
    }

    fn apply_work(&mut self, object: ManifestWork) -> Dirty {
        let Some((origin, cluster)) = address(&object.metadata) else {
            return Dirty::new();
        };
        let key = DownsyncKey::Copy(origin.clone(), cluster.clone());
        let version = object.metadata.resource_version.clone();
        if self.under_way.has_buried(&key, object.metadata.uid.as_deref())
            || is_old(version.as_deref(), self.version_of_work(&origin, &cluster))
        {
            return Dirty::new();
        }
        if is_gone(&object.metadata) {
            self.under_way.bury(&key, object.metadata.uid.as_deref());
            return self.delete_work(&origin, &cluster);
        }
        let mut work = Work::new(object);
        let works = self.works.entry(origin.clone()).or_default();
        let known = works.get(&cluster).filter(|known| known.uid == work.uid);
        work.wrote = known.and_then(|known| known.wrote);
        let is_told = known.is_some_and(|known| known.applied == work.applied);
        if let Some(kind) = &work.kind {
            let of_kind = self.works_by_kind.entry(kind.clone()).or_default();
            of_kind.insert((origin.clone(), cluster.clone()));
        }
        works.insert(cluster.clone(), Box::new(work));
        self.send_failures.remove(&(origin.clone(), cluster.clone()));
        let mut dirty = Dirty::from([key]);
        if !is_told {
            dirty.extend(self.policies_of(&origin));
        }
        dirty
    }

    /// Learns a ManifestWork as it is after our write.
    pub(super) fn learn_written_work(&mut self, wanted: Digest, object: ManifestWork) -> Dirty {
        let place = address(&object.metadata);
        let version = object.metadata.resource_version.clone();
        let dirty = self.apply_work(object);
        if let Some((origin, cluster)) = place
            && let Some(work) = self
                .works
                .get_mut(&origin)
                .and_then(|works| works.get_mut(&cluster))
            && version.as_ref() == Some(&work.resource_version)
        {
            work.wrote = Some((wanted, work.digest));
        }
        dirty
    }

    pub(super) fn delete_work(&mut self, origin: &OriginUid, cluster: &ClusterName) -> Dirty {
        if let Some(works) = self.works.get_mut(origin) {
            let kind = works.remove(cluster).and_then(|work| work.kind);
            if let Some(of_kind) = kind.and_then(|kind| self.works_by_kind.get_mut(&kind)) {
                of_kind.remove(&(origin.clone(), cluster.clone()));
            }
            if works.is_empty() {
                self.works.remove(origin);
            }
        }
        let mut dirty = self.policies_of(origin);
        dirty.insert(DownsyncKey::Copy(origin.clone(), cluster.clone()));
        dirty
    }

    fn version_of_work(&self, origin: &OriginUid, cluster: &ClusterName) -> Option<&str> {
        let work = self.works.get(origin)?.get(cluster)?;
        Some(&work.resource_version)
    }

    fn policies_of(&self, origin: &OriginUid) -> Dirty {
        let object = self.objects.get(origin);
        let names = object.into_iter().flat_map(|object| object.selection.keys());
        names.cloned().map(DownsyncKey::Policy).collect()
    }

    pub(super) fn learn_reports(&mut self, change: Change<WorkStatus>) -> Dirty {
        if matches!(change, Change::Reset(_)) {
            self.synced.reports = true;
        }
        self.learn_reports_at(change, false)
    }

    /// Of Workflows there are reports here only while some policy collects from them.
    pub(super) fn learn_run_reports(&mut self, change: Change<WorkStatus>) -> Dirty {
        self.learn_reports_at(change, true)
    }

    /// If they are wanted again meanwhile, the next watch lists them.
    pub(super) fn forget_run_reports(&mut self) -> Dirty {
        self.learn_reports_at(Change::Reset(Vec::new()), true)
    }

    fn learn_reports_at(&mut self, change: Change<WorkStatus>, is_of_run: bool) -> Dirty {
        match change {
            Change::Apply(report) => self.apply_report(*report, is_of_run),
            Change::Delete(report) => address_of(&report, is_of_run)
                .filter(|(origin, cluster)| {
                    let known = self.version_of_report(origin, cluster);
                    !is_old(report.metadata.resource_version.as_deref(), known)
                })
                .map(|(origin, cluster)| self.delete_report(&origin, &cluster))
                .unwrap_or_default(),
            Change::Reset(live) => {
                let addresses: BTreeSet<_> = live
                    .iter()
                    .filter_map(|report| address_of(report, is_of_run))
                    .collect();
                let known = self
                    .reports
                    .iter()
                    .filter(|(_, reports)| reports.values().any(|report| report.is_of_run == is_of_run));
                let gone = missing(known, &addresses);
                let mut dirty: Dirty = gone
                    .iter()
                    .flat_map(|(origin, cluster)| self.delete_report(origin, cluster))
                    .collect();
                dirty.extend(
                    live.into_iter()
                        .flat_map(|report| self.apply_report(report, is_of_run)),
                );
                dirty
            }
        }
    }

    fn apply_report(&mut self, object: WorkStatus, is_of_run: bool) -> Dirty {
        let Some((origin, cluster)) = address_of(&object, is_of_run) else {
            return Dirty::new();
        };
        let report = Report::new(object, is_of_run);
        if is_old(
            Some(&report.resource_version),
            self.version_of_report(&origin, &cluster),
        ) {
            return Dirty::new();
        }
        let reports = self.reports.entry(origin.clone()).or_default();
        reports.insert(cluster, Box::new(report));
        self.after_report(origin)
    }

    fn delete_report(&mut self, origin: &OriginUid, cluster: &ClusterName) -> Dirty {
        if let Some(reports) = self.reports.get_mut(origin) {
            reports.remove(cluster);
            if reports.is_empty() {
                self.reports.remove(origin);
            }
        }
        self.after_report(origin.clone())
    }

    fn after_report(&self, origin: OriginUid) -> Dirty {
        let mut dirty = self.combined_of(&origin);
        dirty.insert(DownsyncKey::Object(origin));
        dirty
    }

    fn version_of_report(&self, origin: &OriginUid, cluster: &ClusterName) -> Option<&str> {
        let report = self.reports.get(origin)?.get(cluster)?;
        Some(&report.resource_version)
    }
}

/// Whose a WorkStatus is, of a Workflow or of another object.
fn address_of(report: &WorkStatus, is_of_run: bool) -> Option<(OriginUid, ClusterName)> {
    let label = if is_of_run {
        names::ORIGIN_UID_LABEL
    } else {
        names::OBJECT_UID_LABEL
    };
    mailbox::address(&report.metadata, label)
}
