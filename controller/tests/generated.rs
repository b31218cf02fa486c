//! Checks the files that are generated from the code and committed: the CRDs in the chart
//! argosy-crds, and parts of the reference. `UPDATE=1 cargo test` rewrites them.

#[path = "generated/reference.rs"]
mod reference;

use std::path::Path;

use argosy::{
    cli::{CrdsArgs, crds_yaml},
    hub::webhook::{marks_yaml, members_yaml},
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

/// The definitions as a chart template that is rendered if `condition` holds. helm keeps them when
/// the chart is uninstalled, because deleting a definition deletes every object of its kind.
fn template(condition: &str, definitions: &str) -> String {
    // Escapes text in descriptions that looks like a template.
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

/// Admission policies as a template of the chart.
fn policies(template: &str, head: &str, policies: &str) {
    let policies = policies.replace(
        "  labels:\n    app.kubernetes.io/part-of: argosy\n",
        "  labels: {{- include \"argosy.labels\" . | nindent 4 }}\n",
    );
    let head = format!(
        "{{{{- /* Generated from the code{head}: UPDATE=1 cargo test -p argosy --test generated */}}}}"
    );
    is_up_to_date(
        &format!("charts/argosy/templates/{template}"),
        &format!("{head}\n{policies}"),
    );
}

#[test]
fn the_chart_holds_the_policy_that_guards_what_only_argosy_writes() {
    let marks = marks_yaml("{{ .Release.Namespace }}").unwrap();
    policies("marks.yaml", ", as the controller keeps it", &marks);
}

#[test]
fn the_chart_holds_the_policy_that_keeps_members_to_what_their_agents_write() {
    policies("members.yaml", "", &members_yaml().unwrap());
}

#[test]
fn the_book_lists_the_rules_in_the_order_in_which_they_speak() {
    let head = "# Rules\n\n<!-- Generated from the code: UPDATE=1 cargo test -p argosy --test generated -->\n\n\
        The controller asks these rules about a Workflow, in this order, whenever something about it has changed.\n\
        The first rule that applies wins, even if it only waits; the log names the rule of each action (`rule=…`, at level `debug`).\n\
        A read that its action needs goes first.\n\
        [Hold and claim](../concepts/hold.md) and [Exactly one run](../concepts/once.md) explain the words.\n";
    let tables = argosy_core::hub::workflows::rules().map(|(title, rules)| {
        let rows = rules
            .iter()
            .map(|(name, sentence)| format!("| `{name}` | {sentence} |\n"));
        format!(
            "\n## {title}\n\n| rule | does |\n| --- | --- |\n{}",
            rows.collect::<String>()
        )
    });
    let page = format!("{head}{}", tables.concat());
    is_up_to_date("docs/reference/rules.md", &page);
}

#[test]
fn the_reference_lists_every_metric_and_every_field_of_a_log_line() {
    is_up_to_date(
        "docs/reference/metrics.md",
        &argosy::runtime::metrics::catalog::reference(),
    );
    is_up_to_date("docs/reference/logs.md", &argosy::runtime::telemetry::reference());
}
