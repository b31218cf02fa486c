//! What is generated from the code and committed: the CRDs in chart argosy-crds, and parts of the reference. `UPDATE=1 cargo test`
//! rewrites them.

#[path = "generated/reference.rs"]
mod reference;

use std::path::Path;

use argosy::{
    cli::{CrdsArgs, crds_yaml},
    webhook::marks_yaml,
};

#[track_caller]
#[expect(
    clippy::expect_used,
    reason = "clippy does not see that a function beside a test is part of it"
)]
fn is_up_to_date(path: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    if std::env::var_os("UPDATE").is_some() {
        let folder = path.parent().expect("a file lies in a folder");
        std::fs::create_dir_all(folder).expect("its folder can be made");
        std::fs::write(&path, generated).expect("its folder can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "{} is out of date; run UPDATE=1 cargo test -p argosy",
        path.display()
    );
}

/// Definitions as a template of the chart, rendered where `condition` holds. They are kept when the chart goes, because with a
/// definition goes every object of its kind.
fn template(condition: &str, definitions: &str) -> String {
    // What looks like a template in a description is none.
    let definitions = definitions.replace("{{", "{{`{{`}}").replace(
        "\nmetadata:\n",
        "\nmetadata:\n  annotations: {helm.sh/resource-policy: keep}\n  \
         labels: {{- include \"argosy-crds.labels\" . | nindent 4 }}\n",
    );
    format!(
        "{{{{- /* Generated from the types: UPDATE=1 cargo test -p argosy --test generated */}}}}\n\
         {{{{- if {condition} }}}}\n---\n{definitions}{{{{- end }}}}\n"
    )
}

#[test]
fn the_charts_hold_the_definitions_that_the_types_generate() {
    let print = |ocm, agent| crds_yaml(&CrdsArgs { ocm, agent }).unwrap();
    for (name, condition, definitions) in [
        ("kubestellar", ".Values.hub", print(false, false)),
        (
            "open-cluster-management",
            "and .Values.hub .Values.ocm",
            print(true, false),
        ),
        (
            "applied-manifest-work",
            "and .Values.agent .Values.ocm",
            print(false, true),
        ),
    ] {
        let path = format!("charts/argosy-crds/templates/{name}.yaml");
        is_up_to_date(&path, &template(condition, &definitions));
    }
}

#[test]
fn the_chart_holds_the_policy_that_guards_what_only_argosy_writes() {
    let policy = marks_yaml("{{ .Release.Namespace }}").unwrap();
    let policy = policy.replace(
        "  labels:\n    app.kubernetes.io/part-of: argosy\n",
        "  labels: {{- include \"argosy.labels\" . | nindent 4 }}\n",
    );
    let head = "{{- /* Generated from the code, as the controller keeps it: UPDATE=1 cargo test -p argosy --test generated */}}";
    is_up_to_date("charts/argosy/templates/marks.yaml", &format!("{head}\n{policy}"));
}

#[test]
fn the_reference_lists_every_metric_and_every_field_of_a_log_line() {
    is_up_to_date(
        "docs/reference/metrics.md",
        &argosy::metrics::catalogue::reference(),
    );
    is_up_to_date("docs/reference/logs.md", &argosy::telemetry::reference());
}
