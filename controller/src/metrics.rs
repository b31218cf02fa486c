//! What a process counts and times, and how it is read: `/metrics` in the OpenMetrics text format.
//!
//! Every label has few values: spaces, verbs, kinds, names of steps. Never the name of a cluster or of an object, of which a fleet
//! has too many. Not here: what a single object went through, which logs and conditions tell.

mod process;
mod reactions;
mod requests;

use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::{encoding::text::encode, metrics::info::Info, registry::Registry};

pub use reactions::Reactions;
pub use requests::{Counted, Space};

/// The content type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of a process. Clones share them.
#[derive(Clone, Debug)]
pub struct Metrics {
    registry: Arc<Mutex<Registry>>,
    requests: requests::Requests,
    reactions: reactions::Families,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut root = Registry::default();
        root.register_collector(Box::new(process::Process));
        let registry = root.sub_registry_with_prefix("argosy");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Which Argosy this is", build);
        let requests = requests::Requests::register(registry);
        let reactions = reactions::Families::register(registry);
        Self {
            registry: Arc::new(Mutex::new(root)),
            requests,
            reactions,
        }
    }
}

impl Metrics {
    /// A layer that counts the requests of a client of `space`.
    pub fn requests(&self, space: Space) -> Counted {
        Counted::new(self.requests.clone(), space)
    }

    /// What the loop with this name reports to.
    pub fn reactions(&self, engine: &'static str) -> Reactions {
        self.reactions.of(engine)
    }

    /// All of them as text.
    pub fn text(&self) -> String {
        let registry = self.registry.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        if let Err(error) = encode(&mut text, &registry) {
            // Writing to a string does not fail, so a metric of ours is at fault.
            tracing::error!(%error, "cannot write the metrics");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_tells_version_and_memory_and_ends_as_the_format_wants() {
        let text = Metrics::default().text();
        let version = format!("argosy_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
        assert!(text.contains(&version), "{text}");
        assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
        assert!(text.ends_with("# EOF\n"), "{text}");
    }
}
