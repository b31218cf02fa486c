//! A Workflow that runs on every cluster: what a policy asks for with [`names::RUNS_ANNOTATION`], what the runs are called, and
//! which of them were created.
//!
//! Such a Workflow runs nowhere itself. For each cluster it has a run, which is a Workflow of its own with a claim of its own, so that
//! whatever is promised of one run is promised of each. A run is created once: the record on the Workflow remembers it when it
//! is gone, and nothing is sent before it stands there. Not here: when the controller does what (`hub::runs`).

use std::collections::BTreeMap;

use argosy_api::{Workflow, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{ClusterName, OriginUid, claim::Claim, digest::Digest};

/// The longest name that is also a label's value, and that Argo can name pods after.
const LONGEST: usize = 63;

/// Characters of a digest in a name that was shortened.
const DIGEST: usize = 8;

/// Whether a policy with these annotations asks for a run on every cluster.
///
/// # Errors
///
/// What is wrong with them, as a sentence for the policy's status.
pub(crate) fn asked(annotations: Option<&BTreeMap<String, String>>) -> Result<bool, String> {
    match annotations.and_then(|annotations| annotations.get(names::RUNS_ANNOTATION)) {
        None => Ok(false),
        Some(value) if value == names::EVERY_CLUSTER => Ok(true),
        Some(other) => Err(format!(
            "annotation {}: {other} is not known; {} is what there is",
            names::RUNS_ANNOTATION,
            names::EVERY_CLUSTER
        )),
    }
}

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
    Digest::of(&json!(texts))
        .to_string()
        .chars()
        .take(DIGEST)
        .collect()
}

/// At most `length` characters from the beginning, so that a hyphen may follow. Names are ASCII.
fn begin(name: &str, length: usize) -> String {
    let begin: String = name.chars().take(length).collect();
    begin.trim_end_matches(['-', '.']).to_owned()
}

/// Of which Workflow the object is a run, if it is one. A copy of a run is none, because a claim counts for one object.
pub fn run_of(metadata: &ObjectMeta) -> Option<OriginUid> {
    Claim::of(metadata)?.run_of
}

/// Whether the object is the run of the Workflow with UID `of`.
pub fn is_run_of(object: &Workflow, of: &OriginUid) -> bool {
    run_of(&object.metadata).as_ref() == Some(of)
}

/// The runs that were created, as they stand in the annotation [`names::RUNS_ON_ANNOTATION`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    pub(crate) runs: BTreeMap<ClusterName, Noted>,
    /// All of them had ended once, so that no other is created. The phase does not say so for good: a retry takes it off.
    pub(crate) has_ended: bool,
}

/// What the record says of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Noted {
    /// UID of the run. Another one of the same cluster was created by a request that was late.
    pub(crate) uid: String,
    /// The phase it has ended in, so that the end counts when the run is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) phase: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Wire {
    /// Of the Workflow; a record that was copied with other annotations is none.
    uid: String,
    runs: BTreeMap<String, Noted>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ended: bool,
}

impl Record {
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

    /// The annotation's value on the Workflow with `uid`.
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

    /// Adds what `known` says of runs of which this one says nothing, and that they had ended.
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
    fn every_cluster_is_only_asked_for_by_that_word() {
        let asked_with = |value: &str| {
            asked(Some(
                &[(names::RUNS_ANNOTATION.to_owned(), value.to_owned())].into(),
            ))
        };
        assert_eq!(asked(None), Ok(false));
        assert_eq!(asked_with("every-cluster"), Ok(true));
        let problem = asked_with("everywhere").unwrap_err();
        assert!(problem.contains("everywhere is not known"), "{problem}");
    }

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
        let record = Record {
            runs: [
                ("c1".into(), noted("r1", None)),
                ("c2".into(), noted("r2", Some("Failed"))),
            ]
            .into(),
            has_ended: true,
        };
        let text = record.to_annotation(&"u1".into());
        let on = |uid: &str| {
            Record::of(&ObjectMeta {
                uid: Some(uid.to_owned()),
                annotations: Some([(names::RUNS_ON_ANNOTATION.to_owned(), text.clone())].into()),
                ..ObjectMeta::default()
            })
        };
        assert_eq!(on("u1"), record);
        assert_eq!(on("u2"), Record::default());
        let mut less = Record {
            runs: [("c1".into(), noted("r1", Some("Error")))].into(),
            has_ended: false,
        };
        less.remember(&record);
        assert!(less.has_ended);
        assert_eq!(less.runs[&"c1".into()], noted("r1", Some("Error")));
        assert_eq!(less.runs[&"c2".into()], noted("r2", Some("Failed")));
    }
}
