//! Checks that alerts and the dashboard query only metrics and labels that a process exports.

use std::collections::BTreeMap;

use argosy::runtime::metrics::catalog::{self, Kind};
use serde_json::Value;

use super::{
    expression::{Expression, parse},
    read,
};

/// Labels that Prometheus itself adds.
const OF_PROMETHEUS: [&str; 4] = ["job", "instance", "namespace", "pod"];

/// Every series that a process may export, with its labels.
fn told() -> BTreeMap<String, Vec<&'static str>> {
    let mut told = BTreeMap::new();
    for metric in catalog::ALL {
        let labels = metric.labels.to_vec();
        if metric.kind == Kind::Histogram {
            told.insert(format!("{}_sum", metric.name), labels.clone());
            told.insert(format!("{}_count", metric.name), labels.clone());
            told.insert(format!("{}_bucket", metric.name), [labels, vec!["le"]].concat());
        } else {
            told.insert(metric.name.to_owned(), labels);
        }
    }
    told
}

/// The metrics and labels of an expression that no process exports.
fn faults(expression: &str) -> Vec<String> {
    let told = told();
    let Expression { asked, grouped_by } = parse(expression);
    let mut faults = Vec::new();
    let mut known = OF_PROMETHEUS.to_vec();
    for asked in &asked {
        let Some(labels) = told.get(&asked.metric) else {
            faults.push(asked.metric.clone());
            continue;
        };
        known.extend(labels);
        let is_unknown =
            |label: &&String| !labels.contains(&label.as_str()) && !OF_PROMETHEUS.contains(&label.as_str());
        faults.extend(asked.labels.iter().filter(is_unknown).cloned());
    }
    faults.extend(
        grouped_by
            .into_iter()
            .filter(|label| !known.contains(&label.as_str())),
    );
    faults.extend(asked.is_empty().then(|| "nothing is asked for".to_owned()));
    faults
}

#[test]
fn alerts_ask_for_metrics_that_are_told() {
    for chart in ["argosy", "argosy-agent"] {
        let rules: Value =
            serde_saphyr::from_str(&read(&format!("charts/{chart}/observe/alerts.yaml"))).unwrap();
        for rule in rules["groups"][0]["rules"].as_array().unwrap() {
            let faults = faults(rule["expr"].as_str().unwrap());
            assert!(faults.is_empty(), "{}: {faults:?}", rule["alert"]);
        }
    }
}

#[test]
fn descriptions_of_alerts_name_labels_that_their_expressions_leave() {
    for chart in ["argosy", "argosy-agent"] {
        let rules: Value =
            serde_saphyr::from_str(&read(&format!("charts/{chart}/observe/alerts.yaml"))).unwrap();
        for rule in rules["groups"][0]["rules"].as_array().unwrap() {
            let expression = rule["expr"].as_str().unwrap();
            let Expression { asked, grouped_by } = parse(expression);
            let is_grouped = expression.contains("by (");
            let text = rule["annotations"]["description"].as_str().unwrap();
            for (at, _) in text.match_indices("$labels.") {
                let rest = &text[at + "$labels.".len()..];
                let label = rest
                    .split(|character: char| !character.is_alphanumeric() && character != '_')
                    .next()
                    .unwrap();
                let told = told();
                let has = |series: &&String| told.get(*series).is_some_and(|labels| labels.contains(&label));
                let is_left = if is_grouped {
                    grouped_by.iter().any(|left| left == label)
                } else {
                    OF_PROMETHEUS.contains(&label)
                        || asked.iter().map(|asked| &asked.metric).any(|series| has(&series))
                };
                assert!(is_left, "{}: {label}", rule["alert"]);
            }
        }
    }
}

#[test]
fn the_dashboard_shows_metrics_that_are_told() {
    let dashboard: Value = serde_json::from_str(&read("charts/argosy/observe/dashboard.json")).unwrap();
    let mut expressions = 0;
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let faults = faults(target["expr"].as_str().unwrap());
            assert!(faults.is_empty(), "{}: {faults:?}", panel["title"]);
            expressions += 1;
        }
    }
    assert!(expressions > 10, "{expressions} expressions");
}

#[test]
fn what_nobody_tells_is_found() {
    assert_eq!(faults("rate(argosy_requests_totl[5m])"), ["argosy_requests_totl"]);
    assert_eq!(faults(r#"argosy_keys{engin="workflows"}"#), ["engin"]);
    assert_eq!(faults("sum by (stat) (argosy_keys)"), ["stat"]);
    assert_eq!(faults("argosy_wait_seconds"), ["argosy_wait_seconds"]);
    assert_eq!(faults("vector(1)"), ["nothing is asked for"]);
    assert_eq!(
        faults("sum by (engine, le) (rate(argosy_wait_seconds_bucket[5m]))"),
        [""; 0]
    );
}
