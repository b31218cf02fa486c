//! The templates that a Workflow refers to, as far as they were read.

use std::collections::{BTreeMap, BTreeSet};

use super::locations::Named;
use crate::model::template_refs::TemplateKey;

/// The templates of a Workflow that were read.
pub(super) type Templates = BTreeMap<TemplateKey, Template>;

/// The places that a template names, and the templates that it refers to.
#[derive(Clone, Debug, Default)]
pub(super) struct Template {
    pub(super) named: Named,
    pub(super) referred: BTreeSet<TemplateKey>,
}
