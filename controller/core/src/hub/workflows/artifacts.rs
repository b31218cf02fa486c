//! The artifact places that the control cluster has named for a run: in its Workflow, as written
//! and as sent, in templates of the control cluster, and in the configuration of the WDS's own
//! Argo.
//!
//! They are computed only if a cluster reports more than keys, which most clusters never do. A
//! template is then read once for each Workflow, so a later change of the template affects only
//! other Workflows.
//!
//! Not here: the definition of a place, and its removal from a status (`hub/workflows/locations`).

use std::{collections::BTreeSet, sync::Arc};

use argosy_api::conditions::{WorkflowCondition, reason, workflow as types};
use serde_json::Value;

use super::{HubAction, HubKey, WorkStatusView, WorkflowIndex, templates::Template, view::WorkflowView};
use crate::{
    WorkflowKey,
    hub::workflows::locations::Named,
    model::{
        claim::Claim,
        template_refs::{TemplateKey, referred},
    },
};

/// Limit on the templates that are read for one Workflow.
const MOST: usize = 32;

/// Limit on the places from all templates of one Workflow.
const MOST_PLACES: usize = 256;

/// Limit on the name of an object, in bytes.
const LONGEST_NAME: usize = 253;

/// The part of a report's artifact locations that is shown.
#[derive(Debug, Default)]
pub(super) struct Artifacts {
    pub(super) named: Named,
    /// Number of artifacts that are shown without a location.
    pub(super) withheld: u32,
}

impl WorkflowIndex {
    /// The part of a report's artifact locations that is shown.
    pub(super) fn artifacts(&self, view: &WorkflowView, claim: &Claim, report: &WorkStatusView) -> Artifacts {
        let Some(elsewhere) = &report.elsewhere else {
            return Artifacts::default();
        };
        let named = self.named(view, claim);
        Artifacts {
            withheld: elsewhere.withheld(&named),
            named,
        }
    }

    fn named(&self, view: &WorkflowView, claim: &Claim) -> Named {
        let mut named = self.own_repository();
        named.learn(&view.spec());
        if let Some(key) = self.by_uid.get(&view.uid) {
            named.learn(&self.manifest(key, view, claim).object);
        }
        for template in view.templates.values() {
            named.extend(&template.named);
        }
        named
    }

    /// The artifact repository of the control cluster itself.
    pub(super) fn own_repository(&self) -> Named {
        let mut named = Named::default();
        if let Some(repository) = &self.local_argo.repository {
            named.on_location(repository);
        }
        named
    }

    /// Reads the next template that may name a reported place that nothing else has named.
    pub(super) fn read_template(
        &self,
        view: &WorkflowView,
        claim: &Claim,
        report: &WorkStatusView,
    ) -> Option<HubAction> {
        let elsewhere = report.elsewhere.as_ref()?;
        let named = self.named(view, claim);
        if elsewhere.places().all(|place| named.has(place)) || view.templates.len() >= MOST {
            return None;
        }
        let read = view
            .templates
            .values()
            .flat_map(|template| template.referred.iter().cloned());
        let mut open: BTreeSet<TemplateKey> = referred(&view.spec());
        open.extend(read);
        let template = open
            .into_iter()
            .find(|template| !view.templates.contains_key(template))?;
        let key = self.by_uid.get(&view.uid)?;
        Some(HubAction::ReadTemplate {
            namespace: key.namespace.to_string(),
            template,
        })
    }

    /// Stores a template that was read for a Workflow.
    pub(super) fn on_template(
        &mut self,
        key: &WorkflowKey,
        template: TemplateKey,
        spec: Option<&Value>,
    ) -> BTreeSet<HubKey> {
        let Some(view) = self.workflows.get_mut(key) else {
            return BTreeSet::new();
        };
        let mut read = Template::default();
        if let Some(spec) = spec {
            let known: usize = view.templates.values().map(|template| template.named.len()).sum();
            read.named.learn(spec);
            read.named.keep(MOST_PLACES.saturating_sub(known));
            let names = referred(spec)
                .into_iter()
                .filter(|referred| referred.name.len() <= LONGEST_NAME);
            read.referred = names.take(MOST).collect();
        }
        Arc::make_mut(&mut view.templates).insert(template, read);
        [HubKey::Workflow(key.clone())].into()
    }
}

/// The condition for artifacts that are shown without a location.
pub(super) fn withheld(artifacts: &Artifacts) -> Option<WorkflowCondition> {
    let count = match artifacts.withheld {
        0 => return None,
        1 => "1 artifact is".to_owned(),
        count => format!("{count} artifacts are"),
    };
    let message = format!(
        "{count} shown without a location, because only the cluster reports it; name the location in the Workflow or in a \
         template of the control cluster, with {{{{…}}}} in its key only, or use the repository that all clusters share"
    );
    Some(WorkflowCondition::new(
        types::STATUS_COMPLETE,
        false,
        reason::LOCATIONS_WITHHELD,
        &message,
    ))
}
