//! Workflows that run on every cluster: the names of the runs, and the record of the created runs.
//!
//! Such a Workflow does not run itself. For each cluster it has a run, which is a Workflow with a
//! claim of its own, so every guarantee for one run holds for each of them. A run is created only
//! once: the record on the Workflow remembers it even after its deletion, and no run is sent before
//! it is recorded. Not here: the times at which the controller creates runs
//! (`hub::workflows::fan_out`).

use std::collections::BTreeMap;

use argosy_api::{Workflow, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{ClusterName, OriginUid, index::fingerprint::Fingerprint, model::claim::Claim};

/// Maximum length of a name that can also be the value of a label, and after which Argo can name
/// pods.
const LONGEST: usize = 63;

/// Length of the digest in a shortened name.
const DIGEST: usize = 8;

/// The name of the run of the Workflow `of` on `cluster`.
pub(crate) fn run_name(of: &str, cluster: &ClusterName) -> String {
    let name = format!("{of}-{cluster}");
    if name.len() <= LONGEST {
        return name;
    }
    let digest = short_digest(&[of, cluster.as_str()]);
    let cluster = begin(cluster.as_str(), LONGEST - DIGEST - 3);
    let of = begin(of, LONGEST - DIGEST - 2 - cluster.len());
    format!("{of}-{digest}-{cluster}")
}

/// The value of [`names::RUN_OF_LABEL`] for runs of the Workflow `of`.
pub(crate) fn run_of_label(of: &str) -> String {
    if of.len() <= LONGEST {
        return of.to_owned();
    }
    format!("{}-{}", begin(of, LONGEST - DIGEST - 1), short_digest(&[of]))
}

fn short_digest(texts: &[&str]) -> String {
    Fingerprint::of(&json!(texts))
        .to_string()
        .chars()
        .take(DIGEST)
        .collect()
}

/// Returns at most `length` characters from the beginning, without trailing hyphens and dots, so
/// that a hyphen may follow. Names are ASCII.
fn begin(name: &str, length: usize) -> String {
    let begin: String = name.chars().take(length).collect();
    begin.trim_end_matches(['-', '.']).to_owned()
}

/// The Workflow of which the object is a run, if it is one. A copy of a run is not a run, because a
/// claim is valid for one object only.
pub fn run_of(metadata: &ObjectMeta) -> Option<OriginUid> {
    Claim::of(metadata)?.run_of
}

/// Returns true if the object is a run of the Workflow with UID `of`.
pub fn is_run_of(object: &Workflow, of: &OriginUid) -> bool {
    run_of(&object.metadata).as_ref() == Some(of)
}

/// The created runs, as stored in the annotation [`names::RUNS_ON_ANNOTATION`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FanOutRecord {
    pub(crate) runs: BTreeMap<ClusterName, Noted>,
    /// True if all runs have ended once, so that no other run is created. The phase does not show
    /// this permanently, because a retry removes it.
    pub(crate) has_ended: bool,
}

/// The record of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Noted {
    /// UID of the run. A run of the same cluster with another UID was created by a delayed request.
    pub(crate) uid: String,
    /// The phase in which the run has ended, so that the end counts after the run is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    /// UID of the Workflow. A record that was copied with other annotations has another UID and is
    /// invalid.
    uid: String,
    runs: BTreeMap<String, Noted>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ended: bool,
}

impl FanOutRecord {
    /// The record of an object.
    pub(crate) fn of(metadata: &ObjectMeta) -> Self {
        let annotations = metadata.annotations.as_ref();
        let text = annotations.and_then(|annotations| annotations.get(names::RUNS_ON_ANNOTATION));
        let wire = text
            .and_then(|text| serde_json::from_str::<Wire>(text).ok())
            .filter(|wire| Some(&wire.uid) == metadata.uid.as_ref());
        let (runs, has_ended) = wire.map(|wire| (wire.runs, wire.ended)).unwrap_or_default();
        let runs = runs
            .into_iter()
            .map(|(cluster, noted)| (cluster.as_str().into(), noted));
        Self {
            runs: runs.collect(),
            has_ended,
        }
    }

    /// The annotation's value for the Workflow with `uid`.
    pub(crate) fn to_annotation(&self, uid: &OriginUid) -> String {
        let runs = self.runs.iter();
        json!(Wire {
            uid: uid.to_string(),
            runs: runs
                .map(|(cluster, noted)| (cluster.to_string(), noted.clone()))
                .collect(),
            ended: self.has_ended,
        })
        .to_string()
    }

    /// Adds runs from `known` that are missing here, and its fact that all runs have ended.
    pub(crate) fn remember(&mut self, known: &Self) {
        self.has_ended |= known.has_ended;
        for (cluster, noted) in &known.runs {
            self.runs.entry(cluster.clone()).or_insert_with(|| noted.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_named_after_its_workflow_and_cluster_and_never_too_long() {
        let (long, longer) = ("w".repeat(60), format!("{}.", "v".repeat(200)));
        let far = "c".repeat(63);
        let table = [
            ("w", "c1", "w-c1"),
            (
                "abcdefghi-abcdefghi-abcdefghi-abcdefghi-abcdefghi",
                "abcdefghi-abc",
                "abcdefghi-abcdefghi-abcdefghi-abcdefghi-abcdefghi-abcdefghi-abc",
            ),
        ];
        for (of, cluster, name) in table {
            assert_eq!(run_name(of, &cluster.into()), name);
        }
        for (of, cluster) in [(&long, "c-1"), (&longer, "c1"), (&long, &far), (&longer, &far)] {
            let name = run_name(of, &cluster.into());
            assert!(name.len() <= LONGEST, "{name}");
            assert!(
                name.ends_with(&format!("-{}", begin(cluster, 52))),
                "{name} does not name {cluster}"
            );
            assert!(!name.contains(".-"), "{name}");
            assert_ne!(name, run_name(&format!("{of}x"), &cluster.into()));
        }
    }

    #[test]
    fn a_label_names_the_workflow_or_its_beginning() {
        assert_eq!(run_of_label("w"), "w");
        let long = "w".repeat(64);
        let label = run_of_label(&long);
        assert_eq!(label.len(), LONGEST);
        assert_ne!(label, run_of_label(&format!("{long}w")));
    }

    #[test]
    fn a_record_is_that_of_one_object() {
        let noted = |uid: &str, phase: Option<&str>| Noted {
            uid: uid.to_owned(),
            phase: phase.map(ToOwned::to_owned),
        };
        let record = FanOutRecord {
            runs: [
                ("c1".into(), noted("r1", None)),
                ("c2".into(), noted("r2", Some("Failed"))),
            ]
            .into(),
            has_ended: true,
        };
        let text = record.to_annotation(&"u1".into());
        let on = |uid: &str| {
            FanOutRecord::of(&ObjectMeta {
                uid: Some(uid.to_owned()),
                annotations: Some([(names::RUNS_ON_ANNOTATION.to_owned(), text.clone())].into()),
                ..ObjectMeta::default()
            })
        };
        assert_eq!(on("u1"), record);
        assert_eq!(on("u2"), FanOutRecord::default());
        let mut less = FanOutRecord {
            runs: [("c1".into(), noted("r1", Some("Error")))].into(),
            has_ended: false,
        };
        less.remember(&record);
        assert!(less.has_ended);
        assert_eq!(less.runs[&"c1".into()], noted("r1", Some("Error")));
        assert_eq!(less.runs[&"c2".into()], noted("r2", Some("Failed")));
    }
}
