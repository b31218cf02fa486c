//! Tests that the catalog and the exposed metrics agree.

use std::collections::{BTreeMap, BTreeSet};

use argosy_core::hub::{
    shadow_pods::Counts,
    workflows::{CensusChange, ClusterState, EventRecord, Ignored, ResourceRoom},
};
use jiff::Timestamp;

use super::{catalog::ALL, *};

#[test]
fn the_text_tells_version_and_memory_and_ends_as_the_format_wants() {
    let text = Metrics::default().text();
    let version = format!("argosy_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"));
    assert!(text.contains(&version), "{text}");
    assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
}

/// A process in which every metric was recorded once.
fn busy() -> (Metrics, Vec<Box<dyn std::any::Any>>) {
    let metrics = Metrics::default();
    let reactions = metrics.reactions("workflows");
    reactions.exercise();
    requests::exercise(&metrics.requests);
    metrics.orphans("workflows").set(0);
    let watch = WatchCount::of("Workflow");
    watch.listed();
    watch.failed();
    metrics.fleet().learn(vec![
        CensusChange::Cluster("one".into(), Some(ClusterState::Available)),
        CensusChange::Room(
            "one".into(),
            vec![ResourceRoom {
                resource: "cpu".into(),
                unit: 1000,
                room: Some(8000),
                reserved: 100,
            }],
        ),
        CensusChange::Choices {
            cluster: None,
            outcome: "waiting",
            count: 1,
        },
        CensusChange::Waiting(1),
        CensusChange::Workflows {
            cluster: "one".into(),
            phase: "Running",
            count: 1,
        },
    ]);
    let ignored = BTreeMap::from([(("one".into(), Ignored::Foreign), 1)]);
    metrics.fleet().ignore(ignored);
    metrics.fleet().record(&[EventRecord {
        key: argosy_core::WorkflowKey::new("a", "b"),
        uid: "u".into(),
        is_warning: true,
        reason: "Ambiguous".to_owned(),
        message: String::new(),
    }]);
    metrics.reviews().reviewed("answered", Duration::ZERO);
    metrics.reviews().certificate_ends(Timestamp::now());
    metrics.kubelet().answered("opened");
    metrics.kubelet().shadow_pods(Counts::default());
    metrics.kubelet().tunnels_of([("one".into(), true)].into());
    let identity = metrics.identity();
    identity.holds_until(Timestamp::now());
    identity.asked("issued");
    let lease = metrics.lease("one");
    lease.renewed();
    (metrics, vec![Box::new(reactions), Box::new(lease)])
}

/// Parses the text: by name as in a query, the kind and the labels of its series.
fn told(text: &str) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let mut told = BTreeMap::new();
    let mut family = (String::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            let suffix = match kind {
                "counter" => "_total",
                "info" => "_info",
                _ => "",
            };
            family = (format!("{name}{suffix}"), kind.to_owned());
        } else if !line.starts_with('#') {
            let labels = line
                .split_once('{')
                .map_or("", |(_, rest)| rest.split_once('}').unwrap().0);
            let names = labels
                .split(',')
                .filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
            let (name, kind) = family.clone();
            told.insert(name, (kind, names.filter(|name| name != "le").collect()));
        }
    }
    told
}

#[test]
fn what_a_process_tells_is_what_the_list_says() {
    let (metrics, _alive) = busy();
    let listed: BTreeMap<String, (String, BTreeSet<String>)> = ALL
        .iter()
        .map(|metric| {
            let labels = metric.labels.iter().map(|label| (*label).to_owned()).collect();
            (metric.name.to_owned(), (metric.kind.to_string(), labels))
        })
        .collect();
    assert_eq!(listed.len(), ALL.len(), "a name is listed twice");
    assert_eq!(told(&metrics.text()), listed);
}

#[test]
fn names_carry_their_unit_and_helps_are_one_sentence_without_a_full_stop() {
    for metric in ALL {
        let is_time = matches!(metric.kind, catalog::Kind::Histogram);
        assert!(!is_time || metric.name.ends_with("_seconds"), "{}", metric.name);
        let is_counter = matches!(metric.kind, catalog::Kind::Counter);
        assert_eq!(is_counter, metric.name.ends_with("_total"), "{}", metric.name);
        assert!(!metric.help.ends_with('.'), "{}", metric.help);
    }
}
