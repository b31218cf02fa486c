//! The schemas of the output of commands with `-o json` and `-o yaml`. The reference is generated
//! from them.
//!
//! Not here: the meaning of the fields, which is documented at each.

use argosy_api::crds::printed;
use argosy_core::{agent::events::RunEvent, explain::Explanation};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;

use super::{cluster, doctor, get, version};

/// The output of a command.
#[derive(Debug)]
pub struct Shape {
    /// The command.
    pub command: &'static str,
    /// True if it prints a list of these objects, not one.
    pub is_list: bool,
    /// Schema of one object.
    pub schema: JSONSchemaProps,
}

/// Returns the schemas of all commands that print their own objects; `argosy render` prints those
/// of Kubernetes.
pub fn shapes() -> Vec<Shape> {
    let shapes = [
        ("argosy get workflows", true, printed::<get::workflows::Listed>()),
        ("argosy get clusters", true, printed::<get::clusters::Listed>()),
        ("argosy cluster list", true, printed::<cluster::list::Member>()),
        ("argosy doctor", true, printed::<doctor::finding::Finding>()),
        ("argosy events", true, printed::<RunEvent>()),
        ("argosy version", false, printed::<version::Versions>()),
        ("argosy why", false, printed::<Explanation>()),
    ];
    let shapes = shapes.into_iter();
    let shapes = shapes.filter_map(|(command, is_list, schema)| {
        Some(Shape {
            command,
            is_list,
            schema: schema?,
        })
    });
    shapes.collect()
}
