//! Checks the policies in `samples/policies`, which users copy.

use std::fs;

use argosy_api::BindingPolicy;
use serde_json::Value;

use crate::{in_checkout, none};

fn policies() -> Vec<BindingPolicy> {
    let folder = fs::read_dir(in_checkout("samples/policies")).expect("there are samples");
    let texts = folder.map(|file| {
        let path = file.expect("a file of the samples").path();
        fs::read_to_string(path).expect("a sample can be read")
    });
    let objects =
        texts.flat_map(|text| serde_saphyr::from_multiple::<Value>(&text).expect("a sample is YAML"));
    let policies = objects.filter(|object| object["kind"] == "BindingPolicy");
    policies
        .map(|policy| serde_json::from_value(policy).expect("a BindingPolicy is one"))
        .collect()
}

/// A clause without kinds selects every readable kind, makes the controller watch all of them, and
/// causes warnings about those that it may not read.
#[test]
fn every_clause_of_a_sample_names_its_kinds_and_none_that_starts_workflows() {
    let policies = policies();
    assert!(!policies.is_empty(), "there are policies");
    let clauses = policies.iter().flat_map(|policy| {
        let name = policy.metadata.name.clone().unwrap_or_default();
        policy
            .spec
            .downsync
            .iter()
            .map(move |clause| (name.clone(), clause))
    });
    let is_well = |resources: &[String]| {
        !resources.is_empty()
            && resources.iter().all(|resource| {
                ["workflows", "workflowtemplates", "clusterworkflowtemplates"].contains(&resource.as_str())
            })
    };
    let odd: Vec<String> = clauses
        .filter(|(_, clause)| {
            clause.api_group.as_deref() != Some("argoproj.io") || !is_well(&clause.resources)
        })
        .map(|(name, clause)| format!("{name}: {:?} {:?}", clause.api_group, clause.resources))
        .collect();
    none(&odd);
}
