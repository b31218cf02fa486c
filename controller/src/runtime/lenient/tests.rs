//! Tests of parsing broken objects. The texts are literals, because a tree of values could not hold
//! them.

use argosy_api::{
    BindingPolicy, CombinedStatus, CustomTransform, ManagedCluster, ManifestWork, StatusCollector,
    WorkStatus, Workflow,
};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Namespace, Secret},
};
use kube::{
    ResourceExt,
    core::{DynamicObject, ObjectList, PartialObjectMeta, WatchEvent},
};
use serde_json::Value;

use super::*;

/// The year 10000 in UTC.
const LATE: &str = "10000-01-01T00:00:00Z";

fn read<K: Readable>(text: &str) -> (K, Option<String>) {
    let read: Lenient<K> = serde_json::from_str(text).unwrap();
    let decode_error = read.decode_error().map(str::to_owned);
    let mut object = read.into_object();
    assert_eq!(
        decode_error::take(object.meta_mut()),
        decode_error,
        "the error travels with it"
    );
    (object, decode_error)
}

/// Nested lists.
fn nested(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

/// Values that are valid JSON, but that none of our parsers reads into a tree, or into another one.
fn poisons() -> Vec<String> {
    vec![
        nested(128),
        nested(200),
        nested(9000),
        format!(r#"{{"a":{}}}"#, nested(500)),
        "1e999".to_owned(),
        r#"{"a":[-1e400]}"#.to_owned(),
        r#""\ud800""#.to_owned(),
        r#"{"\udc00":1}"#.to_owned(),
        r#"{"$serde_json::private::RawValue":"[1]"}"#.to_owned(),
        r#"{"a":[{"\u0024serde_json::private::RawValue":"[1]"}]}"#.to_owned(),
    ]
}

#[test]
fn what_is_well_formed_is_read_whole() {
    let (report, decode_error) = read::<WorkStatus>(
        r#"{"metadata":{"name":"a"},"status":{"phase":"Running"},"reported":{"attempt":2}}"#,
    );
    assert_eq!(decode_error, None);
    assert_eq!(report.reported.unwrap().attempt, 2);
}

#[test]
fn whatever_is_in_a_part_only_that_part_is_dropped() {
    for poison in poisons() {
        let shown = &poison[..poison.len().min(20)];
        let text = format!(
            r#"{{"apiVersion":"argoproj.io/v1alpha1","kind":"Workflow","metadata":{{"name":"a","namespace":"b","uid":"u","resourceVersion":"7","labels":{{"c":"d"}}}},
            "spec":{{"entrypoint":"main","x":{poison}}},"status":{{"phase":"Running","nodes":{{"n":{poison}}},"conditions":[]}}}}"#
        );
        let (run, decode_error) = read::<Workflow>(&text);
        let decode_error = decode_error.unwrap_or_else(|| panic!("{shown} has no error"));
        assert!(decode_error.starts_with("spec.x"), "{shown}: {decode_error}");
        assert!(
            decode_error.contains(", status.nodes.n cannot be read: "),
            "{shown}: {decode_error}"
        );
        assert!(decode_error.len() < 300, "{decode_error}");
        assert_eq!(
            (run.name_any(), run.namespace(), run.uid(), run.resource_version()),
            (
                "a".to_owned(),
                Some("b".to_owned()),
                Some("u".to_owned()),
                Some("7".to_owned())
            )
        );
        assert_eq!(run.labels()["c"], "d");
        assert_eq!(run.spec["entrypoint"], "main");
        assert_eq!(argosy_api::workflow::phase(run.status.as_ref()), "Running");
    }
}

#[test]
fn one_such_object_fails_neither_a_list_nor_a_watch() {
    fn check<K: Readable + Clone + Debug>(spec: &str) {
        let bad: Vec<String> = poisons()
            .iter()
            .flat_map(|poison| {
                [
                    "spec", "status", "data", "results", "metadata", "reported", "kind", "x",
                ]
                .map(|part| {
                    let metadata = if part == "metadata" {
                        ""
                    } else {
                        r#""metadata":{"name":"bad"},"#
                    };
                    format!(r#"{{{metadata}"{part}":{poison}}}"#)
                })
            })
            .collect();
        let good = format!(r#"{{"metadata":{{"name":"good"}}{spec}}}"#);
        let list = format!(
            r#"{{"apiVersion":"v1","kind":"List","metadata":{{"resourceVersion":"1"}},"items":[{},{good}]}}"#,
            bad.join(",")
        );
        let list: ObjectList<Lenient<K>> = serde_json::from_str(&list).unwrap();
        let sound = list.items.last().unwrap();
        assert_eq!(
            (sound.name_any(), sound.decode_error()),
            ("good".to_owned(), None)
        );
        for bad in bad {
            let event = format!(r#"{{"type":"MODIFIED","object":{bad}}}"#);
            let event: Result<WatchEvent<Lenient<K>>, _> = serde_json::from_str(&event);
            assert!(matches!(event, Ok(WatchEvent::Modified(_))), "{bad:.60}");
        }
    }
    check::<Workflow>("");
    check::<WorkStatus>("");
    check::<ManifestWork>(r#","spec":{}"#);
    check::<ManagedCluster>(r#","spec":{}"#);
    check::<BindingPolicy>(r#","spec":{}"#);
    check::<CustomTransform>(r#","spec":{"apiGroup":"","resource":"x"}"#);
    check::<StatusCollector>(r#","spec":{}"#);
    check::<CombinedStatus>("");
    check::<Lease>("");
    check::<Secret>("");
    check::<ConfigMap>("");
    check::<Namespace>("");
    check::<DynamicObject>("");
    check::<PartialObjectMeta<Workflow>>("");
}

#[test]
fn a_field_of_the_metadata_that_cannot_be_read_is_dropped_and_the_others_stay() {
    let wrong = [
        "7",
        "-1e400",
        "true",
        "null",
        r#""x""#,
        "[7]",
        r#"[{"a":7}]"#,
        r#"{"a":7}"#,
        r#"{"a":{"b":[]}}"#,
        "[[[]]]",
    ];
    let fields = [
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
        "selfLink",
        "unknown",
    ];
    for field in fields {
        for value in wrong
            .iter()
            .map(|text| (*text).to_owned())
            .chain([nested(200), format!(r#""{LATE}""#)])
        {
            let text =
                format!(r#"{{"metadata":{{"{field}":{value},"name":"a"}},"status":{{"phase":"Running"}}}}"#);
            let (report, _) = read::<WorkStatus>(&text);
            assert_eq!(report.name_any(), "a", "{field}: {value:.40}");
            assert!(report.status.is_some(), "{field}: {value:.40}");
        }
    }
    let (_, decode_error) = read::<WorkStatus>(r#"{"metadata":[]}"#);
    assert!(decode_error.unwrap().starts_with("metadata cannot be read: "));
    let (report, decode_error) = read::<WorkStatus>(r#"{"metadata":{"name":["a"],"uid":"u"}}"#);
    assert_eq!(
        (report.metadata.name, report.metadata.uid),
        (None, Some("u".to_owned()))
    );
    assert!(
        decode_error
            .unwrap()
            .starts_with("metadata.name cannot be read: ")
    );
}

#[test]
fn labels_and_finalizers_stay_as_far_as_they_can_be_read() {
    let text = r#"{"metadata":{
        "name":"a","labels":{"b":"c","d":7,"e":[[]]},"annotations":{"f":"g","h":{}},"finalizers":["i",7,"j"]}}"#;
    let (work, decode_error) = read::<ManifestWork>(text);
    assert!(
        decode_error
            .unwrap()
            .starts_with("metadata.finalizers, metadata.annotations, metadata.labels cannot be read")
    );
    assert_eq!(
        work.labels().iter().collect::<Vec<_>>(),
        [(&"b".to_owned(), &"c".to_owned())]
    );
    assert_eq!(
        work.annotations().iter().collect::<Vec<_>>(),
        [(&"f".to_owned(), &"g".to_owned())]
    );
    assert_eq!(work.finalizers(), ["i", "j"]);
}

#[test]
fn who_manages_a_field_is_known_also_where_the_time_is_none() {
    let text = format!(
        r#"{{"metadata":{{"name":"a","managedFields":[
            {{"manager":"m","operation":"Apply","time":"{LATE}","fieldsType":"FieldsV1","fieldsV1":{{"f:spec":{{}}}}}},{{"manager":7}},7]}},
            "spec":{{"entrypoint":"main"}}}}"#
    );
    let (run, decode_error) = read::<Workflow>(&text);
    assert_eq!(decode_error, None, "it decides nothing");
    let managed = run.metadata.managed_fields.unwrap();
    assert_eq!(managed.len(), 1);
    assert_eq!(managed[0].manager.as_deref(), Some("m"));
    assert!(managed[0].fields_v1.is_some());
}

#[test]
fn of_two_fields_of_one_name_the_last_counts() {
    let text = r#"{"metadata":{"name":"a","name":"b","labels":{"c":"d","c":"e"}},"metadata":{"name":"z","name":"y"},"spec":{},"spec":{"leaseDurationSeconds":7}}"#;
    let (lease, _) = read::<Lease>(text);
    assert_eq!(lease.name_any(), "y");
    assert_eq!(lease.spec.unwrap().lease_duration_seconds, Some(7));
}

#[test]
fn a_bound_holds_before_anything_is_parsed() {
    let deep = |levels: usize| {
        format!(
            r#"{{"metadata":{{"name":"a"}},"spec":{{"x":{}}}}}"#,
            nested(levels)
        )
    };
    let most = Workflow::LEVELS - 2;
    assert_eq!(read::<Workflow>(&deep(most)).1, None);
    let (run, decode_error) = read::<Workflow>(&deep(most + 1));
    let expected = "spec.x cannot be read: it is nested in 111 levels; the limit is 110";
    assert_eq!(decode_error.as_deref(), Some(expected));
    assert_eq!(run.spec, serde_json::json!({}));
    let wide = format!(
        r#"{{"metadata":{{"name":"a"}},"spec":[{}0]}}"#,
        "0,".repeat(4_200_000)
    );
    let (_, decode_error) = read::<Workflow>(&wide);
    assert!(decode_error.unwrap().contains("bytes; the limit is 8388608"));
    // Brackets in a string do not count as nesting.
    let text = format!(r#"{{"metadata":{{}},"spec":{{"x":"\"{}"}}}}"#, "[".repeat(300));
    assert_eq!(read::<Workflow>(&text).1, None);
}

#[test]
fn what_an_administrator_has_written_outlives_a_malformed_status() {
    let (cluster, decode_error) = read::<ManagedCluster>(&format!(
        r#"{{"metadata":{{"name":"a"}},"spec":{{"hubAcceptsClient":true}},"status":{{"conditions":[
            {{"type":"A","status":"True","reason":"R","message":"","lastTransitionTime":"{LATE}"}}]}}}}"#
    ));
    assert!(decode_error.unwrap().starts_with("status cannot be read: "));
    assert!(cluster.spec.hub_accepts_client);
    assert_eq!(cluster.status, None);
}

#[test]
fn a_lease_of_the_year_ten_thousand_is_a_lease_that_nobody_renews() {
    let (lease, decode_error) = read::<Lease>(
        r#"{"metadata":{"name":"a","namespace":"b","managedFields":[{"time":"10000-01-01T00:00:00Z"}]},
            "spec":{"renewTime":"10000-01-01T00:00:00.000000Z"}}"#,
    );
    assert!(decode_error.is_some());
    assert_eq!(
        (lease.name_any(), lease.namespace()),
        ("a".to_owned(), Some("b".to_owned()))
    );
    assert_eq!(lease.spec.and_then(|spec| spec.renew_time), None);
}

#[test]
fn what_is_going_is_going_whatever_else_is_wrong_with_it() {
    let (work, decode_error) = read::<ManifestWork>(&format!(
        r#"{{"metadata":{{"name":"a","deletionTimestamp":"{LATE}","finalizers":["f"]}},"spec":{{}},"status":[]}}"#
    ));
    assert!(decode_error.is_some());
    assert!(work.metadata.deletion_timestamp.is_some());
    assert_eq!(work.metadata.finalizers, Some(vec!["f".to_owned()]));
}

#[test]
fn an_object_of_any_kind_is_known_by_what_can_be_read_of_it() {
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"Thing","metadata":{{"name":"a","uid":"u"}},"spec":{{"deep":{},"flat":1}}}}"#,
        nested(200)
    );
    let (thing, decode_error) = read::<DynamicObject>(&text);
    assert_eq!(thing.title(), "Thing");
    assert_eq!(thing.uid().as_deref(), Some("u"));
    assert_eq!(thing.data.pointer("/spec/flat"), Some(&Value::from(1)));
    assert!(decode_error.unwrap().starts_with("spec.deep cannot be read"));
}

#[test]
fn a_mark_that_somebody_has_written_marks_nothing() {
    let (run, decode_error) =
        read::<Workflow>(r#"{"metadata":{"name":"a","annotations":{"argosy.dev/flaw":"forged"}}}"#);
    assert_eq!(decode_error, None);
    assert_eq!(run.metadata.annotations, None);
}

#[test]
fn what_would_take_a_hundred_times_its_text_as_a_tree_is_dropped_and_the_rest_is_read() {
    let heavy = format!("[{}]", vec![r#"{"":0}"#; 100_000].join(","));
    let (workflow, decode_error) = read::<Workflow>(&format!(
        r#"{{"metadata":{{"name":"a"}},"spec":{{"entrypoint":"main","templates":[{{"plugin":{heavy}}}]}}}}"#
    ));
    assert!(decode_error.unwrap().contains("bytes of memory"));
    assert_eq!(workflow.name_any(), "a");
    assert_eq!(workflow.spec["entrypoint"], "main");
    assert_eq!(workflow.spec.get("templates"), None);
    // About as many steps as etcd accepts of a realistic Workflow.
    let step = r#"{"name":"step","container":{"image":"busybox","command":["sh","-c"],"args":["true"]}}"#;
    let real = vec![step; 14_000].join(",");
    let (_, decode_error) = read::<Workflow>(&format!(
        r#"{{"metadata":{{"name":"a"}},"spec":{{"templates":[{real}]}}}}"#
    ));
    assert_eq!(decode_error, None);
}

#[test]
fn parts_that_are_read_by_themselves_have_a_bound_together() {
    // None of the parts is too heavy alone.
    let heavy = format!("[{}0]", r#"{"":0},"#.repeat(15_000));
    let (workflow, decode_error) = read::<Workflow>(&format!(
        r#"{{"metadata":{{"name":"a","finalizers":["f"],"managedFields":[{{"manager":"m","fieldsV1":{{"a":{heavy}}}}}]}},
            "spec":{{"a":{heavy},"b":{heavy},"c":{heavy},"entrypoint":"main"}},"status":{{"a":{heavy},"phase":"Running"}}}}"#
    ));
    let decode_error = decode_error.unwrap();
    assert!(decode_error.contains("bytes of memory"), "{decode_error}");
    assert_eq!(workflow.name_any(), "a");
    assert_eq!(workflow.metadata.finalizers, Some(vec!["f".to_owned()]));
    assert_eq!(workflow.spec, serde_json::json!({ "entrypoint": "main" }));
    assert_eq!(argosy_api::workflow::phase(workflow.status.as_ref()), "Running");
}

#[test]
fn a_value_that_is_the_name_for_the_parser_takes_nothing_away() {
    let reserved = argosy_core::index::weight::RESERVED;
    let (run, decode_error) = read::<Workflow>(&format!(
        r#"{{"metadata":{{"name":"a","annotations":{{"x":"{reserved}","y":"z"}},"ownerReferences":
            [{{"apiVersion":"v1","kind":"Pod","name":"{reserved}","uid":"{reserved}"}}],
            "managedFields":[{{"manager":"{reserved}"}}]}},"spec":{{"entrypoint":"{reserved}"}}}}"#
    ));
    assert_eq!(decode_error, None);
    assert_eq!(run.annotations().len(), 2);
    assert_eq!(run.owner_references().len(), 1);
    assert_eq!(run.spec["entrypoint"], reserved);
}

#[test]
fn annotations_that_take_all_memory_take_away_neither_the_names_of_an_object_nor_our_own() {
    let many: Vec<String> = (0..79_000).map(|number| format!("\"{number:x}\":\"\"")).collect();
    let with = |pad: usize| {
        let many = many.join(",");
        format!(r#"{{{many},"p":"{}","argosy.dev/claim":"c"}}"#, "x".repeat(pad))
    };
    // Alone, they leave no room for anything else.
    let room = parts::HEAVIEST_PARTS - argosy_core::index::weight::weight(&with(0));
    let annotations = with(room / 2);
    let (run, decode_error) = read::<Workflow>(&format!(
        r#"{{"metadata":{{"annotations":{annotations},"deletionTimestamp":"2026-01-01T00:00:00Z","finalizers":["f"],
            "generation":3,"name":"a","namespace":"b","resourceVersion":"7","uid":"u"}},
            "spec":{{"entrypoint":"main","a":{}}}}}"#,
        nested(200)
    ));
    let decode_error = decode_error.unwrap();
    assert!(
        decode_error.starts_with("metadata.annotations, "),
        "{decode_error}"
    );
    let metadata = &run.metadata;
    let claim = [("argosy.dev/claim".to_owned(), "c".to_owned())];
    assert_eq!(metadata.annotations, Some(claim.into()));
    assert_eq!(metadata.name.as_deref(), Some("a"));
    assert_eq!(metadata.namespace.as_deref(), Some("b"));
    assert_eq!(metadata.uid.as_deref(), Some("u"));
    assert_eq!(metadata.resource_version.as_deref(), Some("7"));
    assert_eq!(metadata.generation, Some(3));
    assert!(metadata.deletion_timestamp.is_some());
    assert_eq!(run.finalizers(), ["f"]);
}
