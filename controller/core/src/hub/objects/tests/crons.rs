//! A CronWorkflow is fired by one Argo. It stays on the control cluster, or goes to the clusters of
//! a policy that asks for copies.

use argosy_api::names;

use super::*;

/// The Event for the user about an action.
pub(super) fn told_of(action: &DownsyncAction) -> Option<String> {
    let DownsyncAction::DeleteWork { told, .. } = action else {
        return None;
    };
    let ObjectEvent {
        place,
        reason,
        message,
    } = told.as_deref()?;
    Some(format!("{} {reason}: {message}", place.name))
}

fn crons() -> Kind {
    kind("argoproj.io", "cronworkflows", "CronWorkflow", true, false)
}

/// The CronWorkflow `team/nightly` with UID `n1`.
fn nightly(is_suspended: bool) -> Value {
    json!({
        "apiVersion": "argoproj.io/v1", "kind": "CronWorkflow",
        "metadata": { "namespace": "team", "name": "nightly", "uid": "n1", "labels": { "app": "web" } },
        "spec": { "suspend": is_suspended, "schedules": ["@daily"], "workflowSpec": { "entrypoint": "main" } },
    })
}

/// A policy for all kinds over `cluster1`, as in KubeStellar's samples.
fn one() -> Value {
    policy("one", &json!({ "name": "cluster1" }))
}

fn asking(policy: Value, value: &str) -> Value {
    with(
        policy,
        json!({ "metadata": { "annotations": { names::CRON_ANNOTATION: value } } }),
    )
}

fn spaces() -> Spaces {
    let mut spaces = Spaces::new();
    spaces.learn(DownsyncInput::Kinds(vec![config_maps(), crons()]));
    spaces.learn(DownsyncInput::object(
        Arc::new(crons()),
        Change::Reset(Vec::new()),
    ));
    spaces
}

/// A user writes annotations of the policy, which are no part of its generation.
fn annotate(spaces: &mut Spaces, annotations: Value) {
    let mut object = spaces.policies["one"].clone();
    object["metadata"]["annotations"] = annotations;
    let object = spaces.next(object);
    spaces.policies.insert("one".to_owned(), object.clone());
    spaces.learn(DownsyncInput::Policy(Change::Apply(read(object))));
}

#[test]
fn one_that_a_policy_selects_by_its_label_stays_here_and_nothing_lacks() {
    for is_suspended in [false, true] {
        let mut spaces = spaces();
        spaces.policy(one());
        spaces.write(&crons(), nightly(is_suspended));
        spaces.write(&config_maps(), settings());
        assert_eq!(spaces.sent(), ["cluster1/c1"]);
        spaces.applied("cluster1", "argosy-c1", "True", "");
        spaces.pass(2);
        spaces.pass(4);
        assert_eq!(spaces.condition("one", "Synced"), "True Applied");
        assert_eq!(spaces.status("one")["objects"], 1);
        assert_eq!(
            spaces.bindings["one"]["spec"]["workload"]["namespaceScope"]
                .as_array()
                .unwrap()
                .len(),
            1
        );
    }
}

#[test]
fn a_policy_that_names_the_kind_and_does_not_ask_for_copies_says_that_they_stay() {
    let mut spaces = spaces();
    let named = json!({ "apiGroup": "argoproj.io", "resources": ["cronworkflows"] });
    spaces.policy(wanting(one(), named.clone()));
    spaces.pass(2);
    let warning = "cronworkflows.argoproj.io: CronWorkflows fire on the control cluster for the whole fleet and are not sent; \
                   to send them, annotate the policy with argosy.dev/cron=each-cluster";
    assert_eq!(spaces.status("one")["warnings"], json!([warning]));
    spaces.policy(asking(wanting(one(), named), "each-cluster"));
    spaces.pass(2);
    assert_eq!(spaces.status("one")["warnings"], Value::Null);
}

#[test]
fn a_policy_that_asks_sends_what_is_suspended_here_and_it_fires_there() {
    let mut spaces = spaces();
    spaces.policy(asking(one(), "each-cluster"));
    spaces.policy(with(
        policy("other", &json!({ "name": "cluster2" })),
        json!({ "metadata": { "uid": "other" } }),
    ));
    spaces.write(&crons(), nightly(false));
    assert!(spaces.sent().is_empty());
    spaces.pass(2);
    assert_eq!(spaces.condition("one", "Synced"), "False Failing");
    let errors = json!([
        "cluster1: cronworkflows.argoproj.io team/nightly is not sent: it also fires on the control cluster; it is \
         sent once its spec.suspend is true on the control cluster"
    ]);
    assert_eq!(spaces.status("one")["errors"], errors);

    spaces.write(&crons(), nightly(true));
    assert_eq!(spaces.sent(), ["cluster1/n1"]);
    let spec = &spaces.manifest("cluster1", "n1")["spec"];
    assert_eq!(
        spec,
        &json!({ "schedules": ["@daily"], "workflowSpec": { "entrypoint": "main" } })
    );
    spaces.pass(2);
    assert_eq!(spaces.condition("one", "Synced"), "False Applying");
    assert_eq!(spaces.status("one")["errors"], Value::Null);
    assert!(spaces.told.is_empty());

    spaces.write(&crons(), nightly(false));
    assert!(spaces.sent().is_empty());
    let told = "nightly TakenBack: removed from cluster1, because it also fires on the control cluster; it is sent again once its spec.suspend \
                is true there; the Workflows that it has created on cluster1 stay";
    assert_eq!(spaces.told, [told]);
}

#[test]
fn a_copy_that_is_not_to_be_there_is_taken_back_and_its_user_told() {
    for change in ["annotation", "label", "an earlier version's"] {
        let mut spaces = spaces();
        spaces.policy(asking(one(), "each-cluster"));
        spaces.write(&crons(), nightly(true));
        spaces.write(&config_maps(), settings());
        match change {
            "annotation" => annotate(&mut spaces, json!({})),
            "label" => spaces.write(
                &crons(),
                with(
                    nightly(true),
                    json!({ "metadata": { "labels": { "app": "db" } } }),
                ),
            ),
            _ => {
                let copy = spaces.work("cluster1", "n1");
                spaces = self::spaces();
                spaces.policy(one());
                spaces.write(&crons(), nightly(false));
                spaces.write(&config_maps(), settings());
                let address = ("cluster1".to_owned(), "argosy-n1".to_owned());
                spaces.works.insert(address, copy.clone());
                spaces.learn(DownsyncInput::work(Change::Apply(read(copy))));
            }
        }
        assert_eq!(spaces.sent(), ["cluster1/c1"], "{change}");
        let told = "nightly TakenBack: removed from cluster1, because no policy with the annotation argosy.dev/cron=each-cluster \
                    sends it there; the Workflows that it has created on cluster1 stay";
        assert_eq!(spaces.told, [told], "{change}");
    }
}

#[test]
fn an_annotation_that_comes_later_sends_what_was_there_before() {
    let mut spaces = spaces();
    spaces.policy(one());
    spaces.write(&crons(), nightly(true));
    assert!(spaces.sent().is_empty());
    annotate(&mut spaces, json!({ names::CRON_ANNOTATION: "each-cluster" }));
    assert_eq!(spaces.sent(), ["cluster1/n1"]);
}

#[test]
fn a_word_that_is_not_known_is_a_condition_of_the_policy() {
    let mut spaces = spaces();
    spaces.policy(asking(one(), "everywhere"));
    spaces.write(&crons(), nightly(true));
    spaces.pass(2);
    assert!(spaces.sent().is_empty());
    assert_eq!(spaces.condition("one", "Ready"), "False Invalid");
    let error = "annotation argosy.dev/cron: everywhere is not known; the only value is each-cluster";
    assert_eq!(spaces.status("one")["errors"], json!([error]));
}

#[test]
fn its_status_is_that_of_the_argo_here() {
    let mut spaces = spaces();
    let wanting_status = wanting(one(), json!({ "wantSingletonReportedState": true }));
    spaces.policy(asking(wanting_status, "each-cluster"));
    spaces.write(&crons(), nightly(true));
    let writes = spaces.log.len();
    spaces.report("cluster1", "n1", &json!({ "active": [{ "name": "nightly-1" }] }));
    spaces.pass(2);
    let written: Vec<&String> = spaces.log[writes..]
        .iter()
        .filter(|line| line.starts_with("object n1:"))
        .collect();
    assert!(written.is_empty(), "{written:?}");
    assert_eq!(spaces.status("one")["errors"], Value::Null);
    // A status that an earlier version has left.
    let shown = json!({
        "metadata": { "labels": { names::SINGLETON_STATUS_LABEL: "true" } }, "status": { "active": [{ "name": "nightly-1" }] },
    });
    spaces.write(&crons(), with(nightly(true), shown));
    let object = &spaces.objects["n1"];
    assert_eq!(object["metadata"]["labels"], json!({ "app": "web" }));
    assert_eq!(object["status"], json!({}));
}
