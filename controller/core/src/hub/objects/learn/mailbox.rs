//! Inputs about the mailboxes: ManifestWorks and WorkStatuses of objects that are no Workflows, and
//! WorkStatuses of Workflows for StatusCollectors.
//!
//! If the reports of a cluster take too much memory, only their addresses and versions are kept,
//! and the content of the one that came last.

use std::collections::{BTreeMap, HashMap};

use super::Dirty;
use crate::{
    Change, ClusterName, OriginUid,
    hub::objects::{
        Awaited, DownsyncKey, ManifestWorkView, ObjectIndex, ObservedReport, ObservedWork, WorkStatusView,
    },
    index::{
        budget::{BUDGET, STRANGERS},
        fingerprint::Fingerprint,
        store::{Delta, Known, Version, Versioned},
    },
    model::mailbox::Mailboxes,
};

impl ObjectIndex {
    pub(super) fn on_works(&mut self, change: Change<ObservedWork>) -> Dirty {
        let delta = Delta::of(
            change,
            |work: &ObservedWork| work.address.clone(),
            &Mailboxes(&self.works),
            &mut self.in_flight,
            |(origin, cluster), _| Some(DownsyncKey::Copy(origin.clone(), cluster.clone())),
        );
        self.synced.mark(Awaited::Works, delta.is_list);
        let mut dirty = Dirty::new();
        for (origin, cluster) in &delta.gone {
            dirty.extend(self.delete_work(origin, cluster));
        }
        for ((origin, cluster), work) in delta.live {
            dirty.extend(self.apply_work(&origin, cluster, work.view));
        }
        dirty
    }

    fn apply_work(
        &mut self,
        origin: &OriginUid,
        cluster: ClusterName,
        mut work: Box<ManifestWorkView>,
    ) -> Dirty {
        let works = self.works.entry(origin.clone()).or_default();
        let known = works.get(&cluster).filter(|known| known.uid == work.uid);
        work.wrote = known.and_then(|known| known.wrote);
        let is_told = known.is_some_and(|known| known.applied == work.applied);
        if let Some(kind) = &work.kind {
            let of_kind = self.works_by_kind.entry(kind.clone()).or_default();
            of_kind.insert((origin.clone(), cluster.clone()));
        }
        works.insert(cluster.clone(), work);
        let had_failed = self.send_failures.remove(&(origin.clone(), cluster.clone()));
        let mut dirty = Dirty::from([DownsyncKey::Copy(origin.clone(), cluster)]);
        if !is_told || had_failed.is_some() {
            dirty.extend(self.policies_of(origin));
        }
        dirty
    }

    /// Learns a ManifestWork after the controller's own write.
    pub(super) fn on_written_work(&mut self, wanted: Fingerprint, object: ObservedWork) -> Dirty {
        let place = object.address.clone();
        let version = object.view.resource_version.clone();
        let dirty = self.on_works(Change::Apply(Box::new(object)));
        if let Some((origin, cluster)) = place
            && let Some(work) = self
                .works
                .get_mut(&origin)
                .and_then(|works| works.get_mut(&cluster))
            && version == work.resource_version
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

    fn policies_of(&self, origin: &OriginUid) -> Dirty {
        let mut concerned = self.concerned_policies(origin);
        // A Binding does not depend on ManifestWorks.
        concerned.retain(|key| matches!(key, DownsyncKey::Policy(_)));
        concerned
    }

    pub(super) fn on_reports(&mut self, change: Change<ObservedReport>) -> Dirty {
        self.synced.mark(Awaited::Reports, change.is_list());
        self.on_reports_at(change, false)
    }

    /// Reports of Workflows arrive here only while some policy collects from them.
    pub(super) fn on_run_reports(&mut self, change: Change<ObservedReport>) -> Dirty {
        self.on_reports_at(change, true)
    }

    /// Forgets the reports of Workflows. If they are wanted again meanwhile, the next watch lists
    /// them.
    pub(super) fn forget_run_reports(&mut self) -> Dirty {
        self.on_reports_at(Change::Reset(Vec::new()), true)
    }

    fn on_reports_at(&mut self, change: Change<ObservedReport>, is_of_run: bool) -> Dirty {
        let known = Reports {
            by_origin: &self.reports,
            is_of_run,
        };
        let delta = Delta::of(
            change,
            |report: &ObservedReport| report.address(is_of_run).cloned(),
            &known,
            &mut self.in_flight,
            |_, _| None,
        );
        let mut dirty = Dirty::new();
        for (origin, cluster) in &delta.gone {
            dirty.extend(self.delete_report(origin, cluster));
        }
        for ((origin, cluster), report) in delta.live {
            dirty.extend(self.apply_report(origin, cluster, report.view, is_of_run));
        }
        dirty
    }

    fn apply_report(
        &mut self,
        origin: OriginUid,
        cluster: ClusterName,
        mut report: Box<WorkStatusView>,
        is_of_run: bool,
    ) -> Dirty {
        let known = self
            .reports
            .get(&origin)
            .and_then(|reports| reports.get(&cluster));
        // A report that lost its content on the way contains nothing new.
        let is_less = |known: &WorkStatusView| {
            known.resource_version == report.resource_version && !known.is_shed && report.is_shed
        };
        if known.is_some_and(|known| is_less(known)) {
            return Dirty::new();
        }
        report.is_of_run = is_of_run;
        self.keep_report(&origin, cluster, report);
        self.after_report(origin)
    }

    /// Stores a report in the index, in place of an older one.
    fn keep_report(&mut self, origin: &OriginUid, cluster: ClusterName, report: Box<WorkStatusView>) {
        self.drop_report(origin, &cluster);
        let is_strange = !self.objects.contains_key(origin);
        let kept = self.kept.entry(cluster.clone()).or_default();
        if is_strange && kept.strangers >= STRANGERS {
            return;
        }
        // Objects are listed after their reports, so all reports are counted.
        kept.strangers = kept.strangers.saturating_add(1);
        kept.add(report.bytes);
        if kept.bytes() > BUDGET {
            kept.only(report.bytes);
            for report in self
                .reports
                .values_mut()
                .filter_map(|reports| reports.get_mut(&cluster))
            {
                report.shed();
            }
        }
        self.reports
            .entry(origin.clone())
            .or_default()
            .insert(cluster, report);
    }

    fn drop_report(&mut self, origin: &OriginUid, cluster: &ClusterName) {
        let Some(reports) = self.reports.get_mut(origin) else {
            return;
        };
        let report = reports.remove(cluster);
        if reports.is_empty() {
            self.reports.remove(origin);
        }
        if let (Some(report), Some(kept)) = (report, self.kept.get_mut(cluster)) {
            kept.free(report.bytes);
            kept.strangers = kept.strangers.saturating_sub(1);
            if kept.strangers == 0 {
                self.kept.remove(cluster);
            }
        }
    }

    /// Handles the answer that a WorkStatus to be read does not exist. A newer one may have been
    /// created meanwhile.
    pub(super) fn miss_report(&mut self, origin: &OriginUid, cluster: &ClusterName, version: &str) -> Dirty {
        let known = self.reports.get(origin).and_then(|reports| reports.get(cluster));
        if known.is_some_and(|known| known.is_shed && known.resource_version == version) {
            self.delete_report(origin, cluster)
        } else {
            Dirty::new()
        }
    }

    fn delete_report(&mut self, origin: &OriginUid, cluster: &ClusterName) -> Dirty {
        self.drop_report(origin, cluster);
        self.after_report(origin.clone())
    }

    fn after_report(&self, origin: OriginUid) -> Dirty {
        let mut dirty = self.combined_of(&origin);
        dirty.insert(DownsyncKey::Object(origin));
        dirty
    }
}

/// The known reports of Workflows, or those of other objects.
struct Reports<'a> {
    by_origin: &'a HashMap<OriginUid, BTreeMap<ClusterName, Box<WorkStatusView>>>,
    is_of_run: bool,
}

impl Known<(OriginUid, ClusterName)> for Reports<'_> {
    fn version_of(&self, address: &(OriginUid, ClusterName)) -> Option<Version<'_>> {
        let (origin, cluster) = address;
        let report = self.by_origin.get(origin)?.get(cluster)?;
        Some(report.version())
    }

    fn known(&self) -> impl Iterator<Item = (OriginUid, ClusterName)> {
        let is_meant = |report: &WorkStatusView| report.is_of_run == self.is_of_run;
        self.by_origin.iter().flat_map(move |(origin, reports)| {
            let reports = reports.iter().filter(move |(_, report)| is_meant(report));
            reports.map(move |(cluster, _)| (origin.clone(), cluster.clone()))
        })
    }
}
