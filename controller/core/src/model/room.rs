//! The room that a cluster has for runs: its size, and the number of runs that it may have.
//!
//! The size is the CPU that the nodes have for pods, or the one in the administrator's annotation
//! [`names::ROOM_ANNOTATION`]. A member reports its nodes itself, so without the annotation it can
//! draw Workflows to itself, within the policies that match it. Not here: the number of runs that it
//! has (`hub::workflows::room`).

use std::collections::BTreeMap;

use argosy_api::{ManagedCluster, names};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::quantity::thousandths;

/// Maximum length of the annotation in bytes.
const LONGEST: usize = 1024;

/// Room of one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// CPU in thousandths; `None` if nobody says it.
    pub cpu: Option<u64>,
    /// Maximum number of unfinished runs.
    pub runs: Option<u64>,
}

impl Room {
    /// The room of a cluster. An annotation that cannot be read leaves no room, so that a mistake
    /// does not fill a cluster.
    pub fn of(cluster: &ManagedCluster) -> Self {
        let annotations = cluster.metadata.annotations.as_ref();
        let told = match annotations.and_then(|annotations| annotations.get(names::ROOM_ANNOTATION)) {
            None => Self::default(),
            Some(text) => Self::parse(text).unwrap_or(Self {
                cpu: None,
                runs: Some(0),
            }),
        };
        let nodes = cluster
            .status
            .as_ref()
            .and_then(|status| cpu(&status.allocatable));
        Self {
            cpu: told.cpu.or(nodes),
            runs: told.runs,
        }
    }

    /// Reads the annotation.
    ///
    /// # Errors
    ///
    /// The part that cannot be read.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut room = Self::default();
        if text.len() > LONGEST {
            return Err(format!("it is longer than {LONGEST} bytes"));
        }
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let unreadable = || format!("{part:?} is neither cpu=QUANTITY nor runs=NUMBER");
            let (name, value) = part.split_once('=').ok_or_else(unreadable)?;
            match name.trim() {
                "cpu" => {
                    let cpu = thousandths(&Quantity(value.trim().to_owned()));
                    room.cpu = Some(cpu.ok_or_else(unreadable)?);
                }
                "runs" => room.runs = Some(value.trim().parse().map_err(|_| unreadable())?),
                _ => return Err(unreadable()),
            }
        }
        Ok(room)
    }
}

fn cpu(resources: &BTreeMap<String, Quantity>) -> Option<u64> {
    resources.get("cpu").and_then(thousandths)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::read;

    fn cluster(room: Option<&str>, cpu: &Value) -> ManagedCluster {
        let annotations: Value =
            room.map_or_else(|| json!({}), |room| json!({ names::ROOM_ANNOTATION: room }));
        read(json!({
            "metadata": { "name": "cluster1", "annotations": annotations }, "spec": {},
            "status": { "allocatable": { "cpu": cpu } },
        }))
    }

    #[test]
    fn the_annotation_wins_over_the_nodes_and_one_that_cannot_be_read_leaves_no_room() {
        let room = |cpu, runs| Room { cpu, runs };
        for (annotation, cpu, expected) in [
            (None, json!("3800m"), room(Some(3800), None)),
            (None, json!("nonsense"), room(None, None)),
            (None, json!("-4"), room(None, None)),
            (Some("cpu=100,runs=20"), json!("4"), room(Some(100_000), Some(20))),
            (Some(" runs = 5 "), json!("4"), room(Some(4000), Some(5))),
            (Some("cpu=0"), json!("4"), room(Some(0), None)),
            (Some(""), json!("4"), room(Some(4000), None)),
            (Some("cpu=much"), json!("4"), room(Some(4000), Some(0))),
            (Some("memory=4Gi"), json!("4"), room(Some(4000), Some(0))),
            (Some("runs=-1"), json!("4"), room(Some(4000), Some(0))),
        ] {
            assert_eq!(
                Room::of(&cluster(annotation, &cpu)),
                expected,
                "{annotation:?} {cpu}"
            );
        }
    }
}
