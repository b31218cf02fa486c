//! The warning about a CronWorkflow that a policy selects, but whose Workflows no policy selects.
//!
//! The Argo of the control cluster gives the Workflows that it creates the labels in
//! `spec.workflowMetadata`, not those of the CronWorkflow. Without the label that a policy selects
//! by, they run on the control cluster. Nothing is changed, because whoever keeps the object
//! declaratively would fight it. Not here: the sending of CronWorkflows (`hub/objects`).

use argosy_api::{names, workflow};

use super::{Admission, Answer};
use crate::{
    WorkflowKey,
    index::text::{printable, shortened},
    policy::{Labels, Rules, Table},
};

/// Maximum length of a name or label in the warning, in characters.
const LONGEST: usize = 100;

/// Maximum number of labels in the warning.
const MOST: usize = 4;

/// A CronWorkflow, as far as the warning depends on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Its namespace.
    pub namespace: String,
    /// Its name; empty if the API server has yet to generate it.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// The labels of the Workflows that it creates: `spec.workflowMetadata.labels`.
    pub of_workflows: Labels,
}

impl Schedule {
    /// A Workflow that it creates, with these labels besides its own.
    fn labels_with(&self, more: Labels) -> Labels {
        let of_argo = (names::ARGO_CRON_LABEL.to_owned(), self.name.clone());
        let own = self.of_workflows.clone().into_iter();
        own.chain([of_argo]).chain(more).collect()
    }
}

impl Admission {
    /// Answers the creation or change of a CronWorkflow: with a warning, or with nothing.
    pub fn review_schedule(&self, schedule: &Schedule) -> Answer {
        let warning = warning(&self.table, schedule);
        Answer {
            warnings: warning.into_iter().collect(),
            ..Answer::default()
        }
    }
}

fn warning(table: &Table, schedule: &Schedule) -> Option<String> {
    let of = |name: &str| WorkflowKey::new(&schedule.namespace, name);
    let own = of(&schedule.name);
    let subject = table.subject(workflow::CRON_PLURAL, &own, &schedule.labels);
    let selects = |rules: &Rules| !rules.sends_crons && rules.select(&subject).is_some();
    let (name, rules) = table.rules().find(|(_, rules)| selects(rules))?;
    // The end of the name of a Workflow is the time of its creation.
    let created = of(&format!("{}-0", schedule.name));
    let is_selected = |labels: &Labels| table.place(&created, labels).is_selected();
    if is_selected(&schedule.labels_with(Labels::new())) {
        return None;
    }
    let keys = rules.named_keys();
    let missing: Labels = keys
        .filter_map(|key| schedule.labels.get_key_value(key))
        .filter(|(key, value)| schedule.of_workflows.get(*key) != Some(*value))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let fix = if is_selected(&schedule.labels_with(missing.clone())) {
        let labels = missing.iter().take(MOST);
        let labels: Vec<String> = labels
            .map(|(key, value)| format!("{}: {:?}", shown(key), shown(value)))
            .collect();
        format!("add {} to spec.workflowMetadata.labels", labels.join(", "))
    } else {
        "add a label by which a policy selects Workflows to spec.workflowMetadata.labels".to_owned()
    };
    Some(format!(
        "argosy: BindingPolicy {} selects this CronWorkflow, but no policy selects the Workflows that it creates, so they run on the control cluster; {fix}",
        shown(name)
    ))
}

fn shown(text: &str) -> String {
    shortened(&printable(text), LONGEST)
}
