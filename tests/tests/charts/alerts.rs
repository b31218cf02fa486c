//! Alerts, their runbooks and the dashboard: all are complete and agree with each other.
//!
//! Not here: the existence of the metrics that they query, which is tested beside the code
//! (`controller/tests/charts.rs`).

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{
    goldens::rendered,
    helm::{objects, read, render},
};

/// The rules of a chart by alert name.
fn alerts(chart: &str) -> Result<BTreeMap<String, Value>> {
    let rules: Value = serde_saphyr::from_str(&read(&format!("charts/{chart}/observe/alerts.yaml"))?)?;
    rules_of(&rules)
}

fn rules_of(rules: &Value) -> Result<BTreeMap<String, Value>> {
    let mut alerts = BTreeMap::new();
    for group in rules["groups"].as_array().context("groups")? {
        for rule in group["rules"].as_array().context("rules")? {
            let name = rule["alert"].as_str().context("a name")?.to_owned();
            let former = alerts.insert(name.clone(), rule.clone());
            ensure!(former.is_none(), "{name} is there twice");
        }
    }
    Ok(alerts)
}

fn all_alerts() -> Result<BTreeMap<String, Value>> {
    let mut all = alerts("argosy")?;
    for (name, rule) in alerts("argosy-agent")? {
        ensure!(
            all.insert(name.clone(), rule).is_none(),
            "{name} is in both charts"
        );
    }
    Ok(all)
}

#[test]
fn every_alert_says_what_is_wrong_and_how_bad_it_is() -> Result<()> {
    let alerts = all_alerts()?;
    ensure!(alerts.len() > 10, "{} alerts", alerts.len());
    for (name, rule) in alerts {
        let severity = rule["labels"]["severity"].as_str().unwrap_or_default();
        ensure!(
            ["critical", "warning", "info"].contains(&severity),
            "{name}: {severity}"
        );
        for text in ["summary", "description"] {
            let text = rule["annotations"][text].as_str().unwrap_or_default();
            ensure!(text.len() > 10, "{name}: {text:?}");
        }
    }
    Ok(())
}

#[test]
fn every_alert_has_its_runbook_and_every_runbook_its_alert() -> Result<()> {
    let page = read("docs/runbooks.md")?;
    let sections: BTreeSet<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    let alerts = all_alerts()?;
    let names: BTreeSet<&str> = alerts.keys().map(String::as_str).collect();
    assert_eq!(sections, names);
    for (name, rule) in &alerts {
        let runbook = format!("docs/runbooks.md#{}", name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook"], runbook);
        let (_, section) = page.split_once(&format!("## {name}\n")).unwrap_or_default();
        let section = section.split("\n## ").next().unwrap_or_default();
        for part in ["**Means**:", "**Look**:", "**Do**:"] {
            ensure!(section.contains(part), "the runbook of {name} has no {part}");
        }
    }
    Ok(())
}

fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> Result<&'a Value> {
    let found = objects
        .iter()
        .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.with_context(|| format!("no {kind} {name} is rendered"))
}

#[test]
fn with_and_without_the_operator_the_same_rules_are_there() -> Result<()> {
    for (chart, release) in [("argosy", "argosy-controller"), ("argosy-agent", "argosy-agent")] {
        let flags = [
            "--set",
            "clusterName=one,metrics.prometheusRule.enabled=true,metrics.alertsConfigMap.enabled=true",
        ];
        let flags = if chart == "argosy" {
            ["--set", flags[1].trim_start_matches("clusterName=one,")]
        } else {
            flags
        };
        let rendered = objects(&render(chart, &flags)?)?;
        let of_operator = &find(&rendered, "PrometheusRule", release)?["spec"];
        let map = find(&rendered, "ConfigMap", &format!("{release}-alerts"))?;
        let text = map["data"][format!("{release}.yaml")]
            .as_str()
            .context("the rules")?;
        let plain: Value = serde_saphyr::from_str(text)?;
        assert_eq!(*of_operator, plain);
        assert_eq!(rules_of(&plain)?, alerts(chart)?);
    }
    Ok(())
}

#[test]
fn where_runbooks_are_published_alerts_lead_there() -> Result<()> {
    let flags = [
        "--set",
        "metrics.prometheusRule.enabled=true,metrics.runbookUrl=https://example.com/runbooks.html",
    ];
    let rendered = objects(&render("argosy", &flags)?)?;
    let rules = rules_of(&find(&rendered, "PrometheusRule", "argosy-controller")?["spec"])?;
    ensure!(!rules.is_empty(), "there are no rules");
    for (name, rule) in rules {
        let url = format!("https://example.com/runbooks.html#{}", name.to_lowercase());
        assert_eq!(rule["annotations"]["runbook_url"], url);
        assert_eq!(rule["annotations"]["runbook"], Value::Null, "{name}");
    }
    Ok(())
}

#[test]
fn nothing_of_a_cluster_that_is_pushed_to_is_watched_there() -> Result<()> {
    let rendered = objects(&rendered("argosy-agent/push")?)?;
    for kind in [
        "Deployment",
        "Job",
        "Service",
        "ServiceMonitor",
        "PrometheusRule",
        "ConfigMap",
        "NetworkPolicy",
    ] {
        ensure!(rendered.iter().all(|object| object["kind"] != kind), "{kind}");
    }
    Ok(())
}

#[test]
fn the_dashboard_is_whole_and_its_panels_stand_beside_each_other() -> Result<()> {
    let rendered = objects(&render("argosy", &["--set", "metrics.dashboard.enabled=true"])?)?;
    let map = find(&rendered, "ConfigMap", "argosy-dashboard")?;
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let dashboard: Value =
        serde_json::from_str(map["data"]["argosy.json"].as_str().context("the dashboard")?)?;
    let mut ids = BTreeSet::new();
    let mut taken = BTreeSet::new();
    for panel in dashboard["panels"].as_array().context("panels")? {
        let title = &panel["title"];
        ensure!(
            ids.insert(panel["id"].as_u64()),
            "{title} has the number of another panel"
        );
        let place = |key: &str| panel["gridPos"][key].as_u64().context("a place");
        ensure!(place("x")? + place("w")? <= 24, "{title} is too wide");
        for x in place("x")?..place("x")? + place("w")? {
            for y in place("y")?..place("y")? + place("h")? {
                ensure!(taken.insert((x, y)), "{title} stands on another panel");
            }
        }
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().unwrap_or_default();
            ensure!(
                expression.contains(r#"job=~"$job""#),
                "{title} shows all jobs: {expression}"
            );
            assert_eq!(target["datasource"]["uid"], "${datasource}", "{title}");
        }
    }
    ensure!(ids.len() > 10, "{} panels", ids.len());
    Ok(())
}
