//! The values of the charts: every key of `values.yaml` has an explanation and is in the schema,
//! and any other key is rejected.

use std::fs;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::{
    goldens,
    helm::{CHARTS, checkout, helm, read, render},
};

/// Values that a chart requires.
fn needed(chart: &str) -> &'static [&'static str] {
    match chart {
        "argosy-agent" => &["--set", "clusterName=one"],
        _ => &[],
    }
}

fn lint(chart: &str, flags: &[&str]) -> Result<super::helm::Said> {
    let path = format!("charts/{chart}");
    helm(&[&["lint", "--strict", path.as_str()], flags].concat())
}

#[test]
fn helm_finds_nothing_to_warn_about() -> Result<()> {
    for chart in CHARTS {
        for flags in [&[], needed(chart)] {
            let said = lint(chart, flags)?;
            ensure!(said.is_well, "{chart}: {}", said.text);
        }
    }
    for case in goldens::cases()? {
        let (chart, _) = case.split_once('/').unwrap_or_default();
        let said = lint(
            chart,
            &["--values", &format!("tests/goldens/charts/{case}.values.yaml")],
        )?;
        ensure!(said.is_well, "{case}: {}", said.text);
    }
    Ok(())
}

/// The values files that chart-testing (`ct lint`, `ct install`) uses for a chart.
fn of_chart_testing(chart: &str) -> Result<Vec<String>> {
    let mut files = Vec::new();
    for file in fs::read_dir(checkout(&format!("charts/{chart}/ci")))? {
        let name = file?.file_name().to_string_lossy().into_owned();
        ensure!(
            name.ends_with("-values.yaml"),
            "chart-testing does not look at {chart}/ci/{name}"
        );
        files.push(format!("charts/{chart}/ci/{name}"));
    }
    ensure!(!files.is_empty(), "{chart} has no values for chart-testing");
    Ok(files)
}

#[test]
fn every_chart_passes_with_the_values_that_chart_testing_tries() -> Result<()> {
    for chart in CHARTS {
        for file in of_chart_testing(chart)? {
            let flags = ["--values", file.as_str()];
            let said = lint(chart, &flags)?;
            ensure!(said.is_well, "{file}: {}", said.text);
            ensure!(!render(chart, &flags)?.is_empty(), "{file} renders nothing");
        }
    }
    Ok(())
}

#[test]
fn without_the_name_of_its_cluster_no_agent_is_installed() -> Result<()> {
    for mode in ["mode=pull", "mode=push"] {
        let refused = render("argosy-agent", &["--set", mode]);
        let error = refused.err().map(|error| error.to_string()).unwrap_or_default();
        ensure!(error.contains("clusterName is missing"), "{mode}: {error}");
    }
    Ok(())
}

#[test]
fn a_value_that_is_misspelt_or_of_another_kind_is_refused() -> Result<()> {
    let refusals = [
        ("argosy", "replica=2", "replica"),
        ("argosy", "image.repo=x", "repo"),
        ("argosy", "image.digest=1234", "digest"),
        ("argosy", "webhook.enable=false", "enable"),
        ("argosy", "webhook.enabled=maybe", "enabled"),
        ("argosy", "metrics.serviceMonitor.enable=true", "enable"),
        ("argosy", "metrics.serviceMonitor.interval=often", "interval"),
        ("argosy", "networkPolicy.egres[0]=x", "egres"),
        ("argosy", "networkPolicy.metricsFrom[0].pod=x", "metricsFrom"),
        ("argosy", "clusters[0].name=One,clusters[0].mode=pull", "name"),
        ("argosy", "clusters[0].name=one,clusters[0].mode=poll", "mode"),
        (
            "argosy",
            "clusters[0].name=one,clusters[0].mode=pull,clusters[0].token=some",
            "token",
        ),
        ("argosy", "resources.limit.memory=1Gi", "limit"),
        ("argosy", "tolerations[0].efect=NoSchedule", "efect"),
        ("argosy", "extraArgs[0]=log-format=json", "extraArgs"),
        (
            "argosy",
            r"podLabels.app\.kubernetes\.io/name=mine",
            "invalid propertyName",
        ),
        ("argosy-agent", "clusterName=One", "clusterName"),
        ("argosy-agent", "mode=both", "mode"),
        ("argosy-agent", "capacity=all", "capacity"),
        ("argosy-agent", "argoInstanceID=a/b", "argoInstanceID"),
        ("argosy-agent", "objects.rule[0]=x", "rule"),
        ("argosy-agent", "leaseDuration=soon", "leaseDuration"),
        ("argosy-agent", "serviceAccount.name=x", "name"),
        ("argosy-crds", "ocm=yes", "ocm"),
        ("argosy-crds", "wec=true", "wec"),
    ];
    for (chart, value, named) in refusals {
        let mut flags = needed(chart).to_vec();
        flags.extend(["--set", value]);
        let said = lint(chart, &flags)?;
        ensure!(!said.is_well, "{chart} takes {value}");
        ensure!(
            said.text.contains("meet the specifications of the schema") && said.text.contains(named),
            "{chart} refuses {value} without saying why: {}",
            said.text
        );
    }
    Ok(())
}

/// Paths of the keys of `values.yaml`, down to the level at which users choose the keys.
fn keys(values: &Value, schema: &Value, path: &str, found: &mut Vec<String>) -> Result<()> {
    for (key, value) in values.as_object().into_iter().flatten() {
        let path = format!("{path}/{key}");
        let known = &schema["properties"][key];
        ensure!(!known.is_null(), "{path} is not in the schema");
        found.push(path.clone());
        if known["properties"].is_object() {
            keys(value, known, &path, found)?;
        }
    }
    Ok(())
}

#[test]
fn every_value_is_in_the_schema_and_every_object_of_the_schema_is_closed() -> Result<()> {
    for chart in CHARTS {
        let values: Value = serde_saphyr::from_str(&read(&format!("charts/{chart}/values.yaml"))?)?;
        let schema: Value = serde_json::from_str(&read(&format!("charts/{chart}/values.schema.json"))?)?;
        let mut found = Vec::new();
        keys(&values, &schema, "", &mut found)?;
        ensure!(found.len() > 2, "{chart} has no values");
        for name in schema["properties"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name)
        {
            ensure!(
                found.contains(&format!("/{name}")) || name == "global",
                "{chart}: {name} is in the schema and not in values.yaml"
            );
        }
        let mut open = Vec::new();
        open_objects(&schema, "", &mut open);
        ensure!(open.is_empty(), "{chart}: {open:?} take anything");
    }
    Ok(())
}

/// Objects in the schema that have known keys and also accept others.
fn open_objects(schema: &Value, path: &str, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            if fields.get("properties").is_some_and(Value::is_object) && fields.contains_key("type") {
                let is_closed = fields.get("additionalProperties") == Some(&Value::Bool(false));
                found.extend((!is_closed).then(|| path.to_owned()));
            }
            for (name, field) in fields {
                open_objects(field, &format!("{path}/{name}"), found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| open_objects(item, path, found)),
        _ => {}
    }
}

#[test]
fn every_value_is_explained() -> Result<()> {
    for chart in CHARTS {
        let text = read(&format!("charts/{chart}/values.yaml"))?;
        let mut is_explained = false;
        for line in text.lines() {
            let line = line.trim();
            if line.starts_with('#') {
                is_explained = true;
            } else if line.is_empty() {
                is_explained = false;
            } else {
                // A comment above a key also explains the following keys up to a blank line.
                ensure!(
                    is_explained || line.contains(" # "),
                    "{chart}: nothing says what this is: {line}"
                );
            }
        }
    }
    Ok(())
}
