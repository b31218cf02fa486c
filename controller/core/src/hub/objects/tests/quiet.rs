//! After any sequence of events, once nothing is waited for, no key has an action left: none was
//! forgotten.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Object(u8, u8, u8, bool),
    Gone(u8),
    Confirm(u8, u8),
    Unreadable(bool),
    Kinds(bool),
    Policy(u8, u8, u8, u8, bool),
    NoPolicy(u8),
    Cluster(u8, u8),
    NoCluster(u8),
    Namespace(u8),
    NoNamespace,
    Collector(u8, u8),
    NoCollector(u8),
    Report(u8, u8, u8),
    NoReport(u8, u8),
    Applied(u8, u8, bool),
    Properties(u8, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3u8, 0..3u8, 0..3u8, any::<bool>()).prop_map(|(a, b, c, d)| Step::Object(a, b, c, d)),
        1 => (0..3u8).prop_map(Step::Gone),
        3 => (0..3u8, 0..2u8).prop_map(|(a, b)| Step::Confirm(a, b)),
        1 => any::<bool>().prop_map(Step::Unreadable),
        1 => any::<bool>().prop_map(Step::Kinds),
        4 => (0..3u8, 0..3u8, 0..6u8, 0..4u8, any::<bool>()).prop_map(|(a, b, c, d, e)| Step::Policy(a, b, c, d, e)),
        1 => (0..3u8).prop_map(Step::NoPolicy),
        2 => (0..2u8, 0..2u8).prop_map(|(a, b)| Step::Cluster(a, b)),
        1 => (0..2u8).prop_map(Step::NoCluster),
        2 => (0..3u8).prop_map(Step::Namespace),
        1 => Just(Step::NoNamespace),
        1 => (0..2u8, 0..3u8).prop_map(|(a, b)| Step::Collector(a, b)),
        1 => (0..2u8).prop_map(Step::NoCollector),
        2 => (0..3u8, 0..2u8, 0..3u8).prop_map(|(a, b, c)| Step::Report(a, b, c)),
        1 => (0..3u8, 0..2u8).prop_map(|(a, b)| Step::NoReport(a, b)),
        2 => (0..3u8, 0..2u8, any::<bool>()).prop_map(|(a, b, c)| Step::Applied(a, b, c)),
        1 => (0..2u8, any::<bool>()).prop_map(|(a, b)| Step::Properties(a, b)),
    ]
}

#[expect(clippy::too_many_lines, reason = "one arm for each step")]
fn take(spaces: &mut Spaces, step: &Step, n: usize) {
    match step {
        Step::Object(index, label, data, templated) => {
            let uid = format!("o{index}");
            let status = spaces
                .objects
                .get(&uid)
                .map(|o| o["status"].clone())
                .unwrap_or_default();
            let marks: Value = spaces
                .objects
                .get(&uid)
                .map(|o| o["metadata"]["labels"].clone())
                .unwrap_or(json!({}));
            let more = json!({ "metadata": { "name": uid, "uid": uid, "labels": with(marks, json!({ "app": (["web", "db", "web"][usize::from(*label)]) })),
                "annotations": if *templated { json!({ "control.kubestellar.io/expand-templates": "true" }) } else { json!({}) } },
                "spec": { "replicas": data, "paused": "{{.zone}}" } });
            let mut object = with(web(), more);
            if !status.is_null() {
                object["status"] = status;
            }
            spaces.write(&deployments(), object);
        }
        Step::Gone(index) => {
            let uid = format!("o{index}");
            if spaces.objects.contains_key(&uid) {
                spaces.delete(&deployments(), &uid);
            }
        }
        Step::Confirm(object, cluster) => {
            let address = (format!("cluster{}", cluster + 1), format!("argosy-o{object}"));
            if spaces
                .works
                .get(&address)
                .is_some_and(|work| !work["metadata"]["deletionTimestamp"].is_null())
            {
                let work = spaces.works.remove(&address).unwrap();
                let work = spaces.next(work);
                spaces.learn(DownsyncInput::work(Change::Delete(read(work))));
            }
        }
        Step::Unreadable(is) => {
            if *is {
                spaces.learn(DownsyncInput::Unreadable(
                    deployments().name(),
                    "forbidden".to_owned(),
                ));
            } else {
                let live = spaces.objects.values().map(|o| read(o.clone())).collect();
                spaces.learn(DownsyncInput::object(
                    Arc::new(deployments()),
                    Change::Reset(live),
                ));
            }
        }
        Step::Kinds(all) => {
            let kinds = if *all {
                vec![config_maps(), deployments(), namespaces()]
            } else {
                vec![config_maps()]
            };
            spaces.learn(DownsyncInput::Kinds(kinds));
        }
        Step::Policy(index, clusters, wants, selects, fresh) => {
            let name = format!("p{index}");
            let clusters = [json!({ "fleet": "a" }), json!({ "name": "cluster1" }), json!({})]
                [usize::from(*clusters)]
            .clone();
            let wants = [
                json!({}),
                json!({ "createOnly": true }),
                json!({ "wantSingletonReportedState": true }),
                json!({ "wantMultiWECReportedState": true }),
                json!({ "statusCollectors": ["s0"] }),
                json!({ "statusCollectors": ["s0", "s1"] }),
            ][usize::from(*wants)]
            .clone();
            let selects = [
                json!({}),
                json!({ "namespaceSelectors": [{ "matchLabels": { "team": "1" } }] }),
                json!({ "objectNames": ["o0"] }),
                json!({ "objectSelectors": [{ "matchLabels": { "app": "db" } }] }),
            ][usize::from(*selects)]
            .clone();
            let mut object = wanting(wanting(policy(&name, &clusters), wants), selects);
            if *fresh {
                if spaces.policies.contains_key(&name) {
                    spaces.delete_policy(&name);
                }
                object["metadata"]["uid"] = json!(format!("policy-{name}-{n}"));
            } else if let Some(known) = spaces.policies.get(&name) {
                object["metadata"]["uid"] = known["metadata"]["uid"].clone();
                if !known["status"].is_null() {
                    object["status"] = known["status"].clone();
                }
            }
            spaces.policy(object);
        }
        Step::NoPolicy(index) => {
            let name = format!("p{index}");
            if spaces.policies.contains_key(&name) {
                spaces.delete_policy(&name);
            }
        }
        Step::Cluster(index, fleet) => {
            let labels = if *fleet == 0 {
                json!({ "fleet": "a", "zone": "z" })
            } else {
                json!({ "fleet": "b" })
            };
            spaces.cluster(&format!("cluster{}", index + 1), labels);
        }
        Step::NoCluster(index) => {
            let name = format!("cluster{}", index + 1);
            spaces.learn(DownsyncInput::Cluster(Change::Delete(read(managed(
                &name,
                json!({}),
            )))));
        }
        Step::Namespace(label) => {
            let object = spaces.next(json!({ "metadata": { "name": "team", "uid": "n", "labels": { "team": label.to_string() } } }));
            spaces.learn(DownsyncInput::Namespace(Change::Apply(read(object))));
        }
        Step::NoNamespace => {
            let object = spaces.next(json!({ "metadata": { "name": "team", "uid": "n" } }));
            spaces.learn(DownsyncInput::Namespace(Change::Delete(read(object))));
        }
        Step::Collector(index, def) => {
            let name = format!("s{index}");
            let def = ["inventory.name", "returned.status.n", "((("][usize::from(*def)];
            let generation = n + 1;
            let mut object = json!({ "metadata": { "name": name, "uid": name, "generation": generation },
                "spec": { "select": [{ "name": "n", "def": def }], "limit": 10 } });
            if let Some(known) = spaces.collectors.get(&name)
                && !known["status"].is_null()
            {
                object["status"] = known["status"].clone();
            }
            let object = spaces.next(object);
            spaces.collectors.insert(name, object.clone());
            spaces.learn(DownsyncInput::Collector(Change::Apply(read(object))));
        }
        Step::NoCollector(index) => {
            if let Some(object) = spaces.collectors.remove(&format!("s{index}")) {
                spaces.learn(DownsyncInput::Collector(Change::Delete(read(object))));
            }
        }
        Step::Report(object, cluster, n) => {
            let status = if *n == 0 {
                json!(null)
            } else {
                json!({ "replicas": n, "n": n })
            };
            spaces.report(&format!("cluster{}", cluster + 1), &format!("o{object}"), &status);
        }
        Step::NoReport(object, cluster) => {
            let uid = format!("o{object}");
            let cluster = format!("cluster{}", cluster + 1);
            let report = spaces.next(work_status(&cluster, &uid, &Value::Null));
            spaces.learn(DownsyncInput::report(Change::Delete(read(report))));
        }
        Step::Applied(object, cluster, good) => {
            let (cluster, name) = (format!("cluster{}", cluster + 1), format!("argosy-o{object}"));
            if spaces.works.contains_key(&(cluster.clone(), name.clone())) {
                spaces.applied(&cluster, &name, if *good { "True" } else { "False" }, "said");
            }
        }
        Step::Properties(cluster, has) => {
            let name = format!("cluster{}", cluster + 1);
            let data = if *has { json!({ "zone": "q" }) } else { json!({}) };
            let object = spaces.next(json!({ "metadata": { "name": name }, "data": data }));
            spaces.learn(DownsyncInput::Properties(Change::Apply(read(object))));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_key_with_something_to_do_is_left_clean(steps in prop::collection::vec(step(), 1..40)) {
        let mut spaces = Spaces::new();
        spaces.is_slow = true;
        for (n, step) in steps.iter().enumerate() {
            spaces.now = spaces.now.saturating_add(jiff::SignedDuration::from_secs(20)).unwrap();
            take(&mut spaces, step, n);
            for _ in 0..5 {
                spaces.now = spaces.now.saturating_add(jiff::SignedDuration::from_secs(20)).unwrap();
                let pending = std::mem::take(&mut spaces.pending);
                spaces.settle(pending);
            }
            for key in spaces.index.every_key() {
                let decision = spaces.index.decide(&key, spaces.now);
                prop_assert_eq!(decision.action.map(|action| format!("{action}: {action:?}")), None, "{} after {:?}", key, step);
            }
        }
    }
}
