//! Reads the templates that a Workflow refers to, for what it asks for.
//!
//! Not here: the limits on them, and what of them matters (`argosy_core::explain::Referred`).

use argosy_api::Workflow;
use argosy_core::explain::{Reduced, Referred};
use kube::Client;

use crate::runtime::{
    requests::{found, read},
    templates::api,
};

/// Reads the templates of a Workflow. A template that does not exist, or cannot be read, is missing;
/// the second is added to `not_read`.
pub(super) async fn referred(wds: &Client, run: &Workflow, not_read: &mut Vec<String>) -> Referred {
    let namespace = run.metadata.namespace.as_deref().unwrap_or_default();
    let mut referred = Referred::by(&run.spec);
    while let Some(key) = referred.take_open() {
        let template =
            found(read(api(wds, namespace, &key).get(&key.name)).await).unwrap_or_else(|failure| {
                not_read.push(format!("{key}, for what the Workflow asks for: {failure}"));
                None
            });
        let reduced = template.and_then(|template| Reduced::of(template.data.get("spec")?));
        referred.learn(key, reduced.as_ref());
    }
    referred
}
