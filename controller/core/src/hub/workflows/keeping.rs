//! Memory limits of the index. For each cluster, the reports of Workflows that are claimed for it
//! are kept within a budget, their statuses until the WDS shows them. Of all other reports only
//! address and version are kept. The rest is read when it is needed, for example after a later claim.
//!
//! The specifications of all Workflows share another budget. Those beyond it are read again before
//! an action that needs them.
//!
//! Not here: the content of a report (`mirror_patch`), and the reports that are queued between watch and
//! index (`index/budget`).

use super::{
    Awaited, ByCluster, HubAction, ObservedReport, ObservedWorkflow, WorkStatusView, WorkflowIndex,
    view::WorkflowView,
};
use crate::{ClusterName, Intake, OriginUid, WorkflowKey, index::budget::STRANGERS, model::claim::Claim};

impl ObservedReport {
    /// Admits the report to the queue. It is shed if the content of its cluster's queued reports
    /// uses up the budget. It is dropped if the queue holds the maximum number of its cluster's
    /// reports, or if it has no address.
    #[must_use]
    pub fn by(mut self, intake: &Intake) -> Option<Self> {
        let (_, cluster) = self.address.as_ref()?;
        let ticket = intake.admit(cluster, self.view.size())?;
        if !ticket.has_room {
            self.view.shed();
        }
        self.ticket = Some(ticket);
        Some(self)
    }
}

impl ObservedWorkflow {
    /// Admits the Workflow to the queue. It is shed if the queue's budget is used up.
    #[must_use]
    pub fn by(mut self, intake: &Intake) -> Self {
        self.ticket = intake
            .admit(&ClusterName::from(""), self.view.size())
            .filter(|ticket| ticket.has_room);
        if self.ticket.is_none() {
            self.view.shed();
        }
        self
    }
}

impl WorkflowIndex {
    /// Enforces the budget for Workflows after `newest` has added `bytes`.
    pub(super) fn keep_workflows(&mut self, newest: &WorkflowKey, bytes: usize) {
        self.workflow_bytes = self.workflow_bytes.saturating_add(bytes);
        if self.workflow_bytes > self.config.workflow_budget {
            let others = self.workflows.iter_mut().filter(|(key, _)| *key != newest);
            others.for_each(|(_, view)| view.shed());
            self.workflow_bytes = bytes;
        }
    }

    /// Reads a Workflow whose specification was shed before an action that needs it.
    pub(super) fn read_first(&self, key: &WorkflowKey, action: HubAction) -> HubAction {
        let about = match &action {
            HubAction::PatchWorkflow { key, .. } => key,
            HubAction::CreateWork { .. } | HubAction::CreateRun { .. } | HubAction::ReadTemplate { .. } => {
                key
            }
            _ => return action,
        };
        match self.workflows.get(about) {
            Some(view) if view.spec.is_none() => HubAction::ReadWorkflow {
                key: about.clone(),
                uid: view.uid.clone(),
            },
            _ => action,
        }
    }

    /// Stores a report, in place of an older one.
    pub(super) fn keep_report(
        &mut self,
        origin: &OriginUid,
        cluster: &ClusterName,
        mut report: Box<WorkStatusView>,
    ) {
        self.drop_report(origin, cluster);
        // Before the Workflows are listed, the Workflow of every report is unknown.
        if self.synced.has(Awaited::Workflows) && !self.is_awaited(origin, cluster, &report) {
            report.shed();
        }
        report.is_strange = !self.by_uid.contains_key(origin);
        let bytes = report.size();
        let kept = self.kept.entry(cluster.clone()).or_default();
        if report.is_strange {
            if kept.strangers >= STRANGERS {
                return;
            }
            kept.strangers += 1;
        }
        kept.add(bytes);
        let is_too_much = kept.bytes() > self.config.report_budget;
        let reports = self
            .reports
            .entry(origin.clone())
            .or_insert_with(|| ByCluster::with_capacity(1));
        reports.insert(cluster.clone(), report);
        if is_too_much {
            self.shed_others(origin, cluster, bytes);
        }
    }

    /// Removes a report from the index.
    pub(super) fn drop_report(&mut self, origin: &OriginUid, cluster: &ClusterName) {
        let Some(reports) = self.reports.get_mut(origin) else {
            return;
        };
        let report = reports.remove(cluster);
        if reports.is_empty() {
            self.reports.remove(origin);
        }
        if let (Some(report), Some(kept)) = (report, self.kept.get_mut(cluster)) {
            kept.free(report.size());
            kept.strangers = kept.strangers.saturating_sub(usize::from(report.is_strange));
            if kept.bytes() == 0 && kept.strangers == 0 {
                self.kept.remove(cluster);
            }
        }
    }

    /// Sheds all reports that no Workflow waits for, once all Workflows are listed.
    pub(super) fn shed_strange_reports(&mut self) {
        let mut reports = std::mem::take(&mut self.reports);
        self.kept.clear();
        for (origin, reports) in &mut reports {
            let is_strange = !self.by_uid.contains_key(origin);
            for (cluster, report) in reports.iter_mut() {
                if !self.is_awaited(origin, cluster, report) {
                    report.shed();
                }
                report.is_strange = is_strange;
                let kept = self.kept.entry(cluster.clone()).or_default();
                kept.add(report.size());
                kept.strangers += usize::from(is_strange);
            }
        }
        self.reports = reports;
    }

    /// Sheds all reports of a cluster except this one.
    fn shed_others(&mut self, origin: &OriginUid, cluster: &ClusterName, bytes: usize) {
        let others = self.reports.iter_mut().filter(|(other, _)| *other != origin);
        for report in others.filter_map(|(_, reports)| reports.get_mut(cluster)) {
            report.shed();
        }
        if let Some(kept) = self.kept.get_mut(cluster) {
            kept.only(bytes);
        }
    }

    /// True if a report is for the attempt that is claimed for its cluster.
    fn is_awaited(&self, origin: &OriginUid, cluster: &ClusterName, report: &WorkStatusView) -> bool {
        let key = self.by_uid.get(origin);
        let claim = key.and_then(|key| self.workflows.get(key)?.claim.as_ref());
        claim.is_some_and(|claim| claim.cluster == *cluster && claim.attempt == report.attempt)
    }

    /// Releases the status of a report that the WDS shows.
    pub(super) fn release_report(&self, cluster: &ClusterName, report: &WorkStatusView) {
        let freed = report.release();
        if let Some(kept) = self.kept.get(cluster) {
            kept.free(freed);
        }
    }
}

/// Reads a report that is to be shown and is not in memory.
pub(super) fn read_report(view: &WorkflowView, claim: &Claim, report: &WorkStatusView) -> HubAction {
    HubAction::ReadReport {
        cluster: claim.cluster.clone(),
        origin: view.uid.clone(),
        version: report.resource_version.clone(),
        is_packed_by_argo: report.is_packed_by_argo,
    }
}
