//! Templates in objects: they are expanded for each cluster, and never withdraw a copy.

use base64::{Engine, engine::general_purpose::STANDARD};

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

fn secrets() -> Kind {
    kind("", "secrets", "Secret", true, false)
}

/// A Secret of a namespace, with a template in its data.
fn templated_secret(namespace: &str, text: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "namespace": namespace, "name": "s3", "uid": format!("s-{namespace}"), "labels": { "app": "web" },
            "annotations": { "control.kubestellar.io/expand-templates": "true" },
        },
        "data": { "key": STANDARD.encode(text), "binary": STANDARD.encode([0xff, 0xfe]) },
    })
}

fn decoded(spaces: &Spaces, cluster: &str, namespace: &str) -> String {
    let manifest = spaces.manifest(cluster, &format!("s-{namespace}"));
    assert_eq!(manifest["data"]["binary"], STANDARD.encode([0xff, 0xfe]));
    let bytes = STANDARD
        .decode(manifest["data"]["key"].as_str().unwrap())
        .unwrap();
    String::from_utf8(bytes).unwrap()
}

impl Spaces {
    /// Spaces in which a policy sends ConfigMaps and Secrets to the first cluster.
    fn with_secrets() -> Self {
        let mut spaces = Self::new();
        spaces.learn(DownsyncInput::Kinds(vec![config_maps(), secrets()]));
        spaces.learn(DownsyncInput::object(
            Arc::new(secrets()),
            Change::Reset(Vec::new()),
        ));
        spaces.policy(policy("p", &json!({ "name": "cluster1" })));
        spaces
    }

    fn secret_properties(&mut self, name: &str, data: &[(&str, &str)]) {
        let data: BTreeMap<_, _> = data
            .iter()
            .map(|(key, text)| (*key, STANDARD.encode(text)))
            .collect();
        let secret = self.next(json!({ "metadata": { "name": name }, "data": data }));
        self.learn(DownsyncInput::SecretProperties(Change::Apply(read(secret))));
    }
}

#[test]
fn only_secrets_get_secret_properties_and_those_of_a_namespace_only_its_own() {
    let mut spaces = Spaces::with_secrets();
    spaces.secret_properties("cluster1", &[("user", "all"), ("key", "shared")]);
    spaces.secret_properties("cluster1.team-a", &[("key", "of team a")]);
    spaces.secret_properties("cluster2.team-b", &[("key", "of another cluster")]);
    for namespace in ["team-a", "team-b"] {
        let secret = templated_secret(namespace, "{{.user}}: {{.key}} on {{.clusterName}}");
        spaces.write(&secrets(), secret);
    }
    assert_eq!(
        decoded(&spaces, "cluster1", "team-a"),
        "all: of team a on cluster1"
    );
    assert_eq!(decoded(&spaces, "cluster1", "team-b"), "all: shared on cluster1");
    spaces.secret_properties("cluster1.team-b", &[("key", "of team b")]);
    assert_eq!(
        decoded(&spaces, "cluster1", "team-b"),
        "all: of team b on cluster1"
    );
    spaces.write(&config_maps(), templated("{{.key}}"));
    assert!(
        !spaces
            .works
            .values()
            .any(|work| work.to_string().contains("ConfigMap"))
    );
}

#[test]
fn the_reason_why_a_secret_is_not_expanded_quotes_nothing_of_it() {
    let mut spaces = Spaces::with_secrets();
    spaces.write(&secrets(), templated_secret("team-a", "pass{{word"));
    spaces.pass(2);
    let said = spaces.status("p")["errors"].to_string();
    assert!(
        said.contains("secrets team-a/s3: .data.key: the template cannot be expanded"),
        "{said}"
    );
    assert!(!said.contains("word"), "{said}");
}

#[test]
fn the_reason_why_a_value_of_a_secret_is_not_set_quotes_nothing_of_it() {
    let mut spaces = Spaces::with_secrets();
    let transform = spaces.next(json!({
        "metadata": { "name": "t", "generation": 1 },
        "spec": { "apiGroup": "", "resource": "secrets", "set": [
            { "path": "$.data.key", "expression": "value < 3 ? 'a' : 'b'" },
            { "path": "$.metadata.labels", "expression": "{'argosy.dev/' + object.data.key: 'x'}" },
            { "path": "$.stringData", "expression": "{object.data.key: 1}" },
            { "path": "$.stringData.*", "expression": "value + 'x'" },
        ] },
    }));
    spaces.learn(DownsyncInput::Transform(Change::Apply(read(transform))));
    spaces.write(&secrets(), templated_secret("team-a", "password"));
    spaces.pass(2);
    let said = spaces.status("p")["errors"].to_string();
    for index in [0, 1, 3] {
        let sentence =
            format!("CustomTransform t: spec.set[{index}]: the value cannot be set; argosy render");
        assert!(said.contains(&sentence), "{said}");
    }
    assert!(!said.contains(&STANDARD.encode("password")), "{said}");
}
