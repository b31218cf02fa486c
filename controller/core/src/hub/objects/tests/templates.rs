//! Templates in objects: they are expanded for each cluster, and never withdraw a copy.

use super::*;

fn templated(text: &str) -> Value {
    let annotations = json!({ "control.kubestellar.io/expand-templates": "true" });
    with(
        settings(),
        json!({ "metadata": { "annotations": annotations }, "data": { "a": text } }),
    )
}

fn data(spaces: &Spaces, cluster: &str) -> Value {
    spaces.manifest(cluster, "c1")["data"]["a"].clone()
}

impl Spaces {
    fn properties(&mut self, cluster: &str, data: &Value) {
        let map = self.next(
            json!({ "metadata": { "name": cluster, "namespace": "customization-properties" }, "data": data }),
        );
        self.learn(DownsyncInput::Properties(Change::Apply(read(map))));
    }
}

#[test]
fn each_cluster_gets_its_own_and_follows_its_properties() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "fleet": "a" })));
    spaces.write(&config_maps(), templated("{{.clusterName}} in {{.fleet}}"));
    assert_eq!(
        (data(&spaces, "cluster1"), data(&spaces, "cluster2")),
        (json!("cluster1 in a"), json!("cluster2 in a"))
    );
    assert_eq!(
        spaces.manifest("cluster1", "c1")["metadata"]["annotations"],
        Value::Null
    );
    let writes = spaces.log.len();
    spaces.properties("cluster2", &json!({ "fleet": "of ships" }));
    assert_eq!(
        (data(&spaces, "cluster1"), data(&spaces, "cluster2")),
        (json!("cluster1 in a"), json!("cluster2 in of ships"))
    );
    assert_eq!(spaces.log.len(), writes + 1, "{:#?}", &spaces.log[writes..]);
}

#[test]
fn without_the_annotation_nothing_is_expanded() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "fleet": "a" })));
    spaces.write(
        &config_maps(),
        with(settings(), json!({ "data": { "a": "{{.clusterName}}" } })),
    );
    assert_eq!(data(&spaces, "cluster1"), "{{.clusterName}}");
}

#[test]
fn what_cannot_be_expanded_is_said_and_what_is_out_there_stays_until_it_can() {
    let mut spaces = Spaces::new();
    spaces.policy(policy("p", &json!({ "fleet": "a" })));
    spaces.write(&config_maps(), templated("{{.clusterName}}"));
    spaces.write(&config_maps(), templated("{{.zone}}"));
    assert_eq!(data(&spaces, "cluster1"), "cluster1");
    spaces.properties("cluster2", &json!({ "zone": "z2" }));
    assert_eq!(
        (data(&spaces, "cluster1"), data(&spaces, "cluster2")),
        (json!("cluster1"), json!("z2"))
    );
    spaces.pass(2);
    let said = spaces.status("p")["errors"].clone();
    assert_eq!(said.as_array().map(Vec::len), Some(1));
    let said = said[0].as_str().unwrap();
    assert!(
        said.starts_with("cluster1: configmaps team/settings: .data.a: "),
        "{said}"
    );
    assert_eq!(spaces.condition("p", "Synced"), "False Failing");
    spaces.cluster("cluster1", json!({ "zone": "z1" }));
    spaces.pass(2);
    assert_eq!(data(&spaces, "cluster1"), "z1");
    assert_eq!(spaces.status("p")["errors"], Value::Null);
}

#[test]
fn of_argos_kinds_only_what_begins_with_a_dot_is_ours() {
    let templates = kind(
        "argoproj.io",
        "workflowtemplates",
        "WorkflowTemplate",
        true,
        false,
    );
    let mut spaces = Spaces::new();
    spaces.learn(DownsyncInput::Kinds(vec![templates.clone()]));
    spaces.policy(policy("p", &json!({ "name": "cluster1" })));
    let args = json!({ "args": ["{{inputs.parameters.x}}", "{{.clusterName}}", "{{=1+1}}"] });
    let template = json!({ "apiVersion": "argoproj.io/v1", "kind": "WorkflowTemplate", "spec": args });
    spaces.write(&templates, with(templated("x"), template));
    assert_eq!(
        spaces.manifest("cluster1", "c1")["spec"]["args"],
        json!(["{{inputs.parameters.x}}", "cluster1", "{{=1+1}}"])
    );
}
