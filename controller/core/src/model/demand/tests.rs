use serde_json::{Value, json};

use super::*;
use crate::model::amounts::{CPU, MEMORY};

/// A container that asks for CPU and a byte of memory.
fn asks(cpu: &str) -> Value {
    json!({ "resources": { "requests": { "cpu": cpu, "memory": "1" } } })
}

/// The demand of a Workflow that refers to no template that is there.
fn demand(spec: &Value) -> Demand {
    Demand::of(spec, &Referred::default())
}

/// The most that one pod requests, and the average of all.
fn cpu(spec: &Value) -> (u64, u64) {
    cpu_of(&demand(spec))
}

fn cpu_of(demand: &Demand) -> (u64, u64) {
    let cpu = |amounts: &Amounts| amounts.get(CPU).unwrap_or_default();
    (cpu(&demand.largest), cpu(&demand.typical))
}

/// A specification whose first template is the entry point. The others are `one` and `two`, which ask
/// for one and two CPUs.
fn spec(entry: &Value) -> Value {
    let mut entry = entry.clone();
    entry["name"] = json!("entry");
    json!({
        "entrypoint": "entry",
        "templates": [entry, { "name": "one", "container": asks("1") }, { "name": "two", "script": asks("2") }],
    })
}

fn use_of(template: &str) -> Value {
    json!({ "name": template, "template": template })
}

fn with(mut step: Value, field: &str, value: Value) -> Value {
    step[field] = value;
    step
}

#[test]
fn a_pod_asks_for_its_containers_together_or_for_an_init_container_that_asks_for_more() {
    for (template, expected) in [
        (json!({ "container": asks("3") }), 3000),
        (json!({ "container": {} }), 100),
        (json!({ "script": asks("250m") }), 250),
        (
            json!({ "container": { "resources": { "limits": { "cpu": 2 } } } }),
            2000,
        ),
        (
            json!({ "container": { "resources": { "limits": { "cpu": 2 }, "requests": { "cpu": 1 } } } }),
            1000,
        ),
        (
            json!({ "container": { "resources": { "requests": { "cpu": "{{inputs.parameters.cpu}}" } } } }),
            100,
        ),
        (
            json!({ "container": asks("1"), "sidecars": [asks("1"), asks("500m")] }),
            2500,
        ),
        (
            json!({ "container": asks("1"), "initContainers": [asks("4"), asks("2")] }),
            4000,
        ),
        (
            json!({ "container": asks("1"), "initContainers": [with(asks("2"), "restartPolicy", json!("Always")), asks("2")] }),
            4000,
        ),
        (
            json!({ "containerSet": { "containers": [asks("1"), asks("2")] } }),
            3000,
        ),
        (
            json!({ "container": asks("1"), "podResources": { "requests": { "cpu": "5" } } }),
            5000,
        ),
        (json!({ "resource": { "action": "create" } }), 100),
        (json!("no template"), 100),
    ] {
        let requested = if expected == 100 { 0 } else { expected };
        assert_eq!(cpu(&spec_of(&template)), (requested, expected), "{template}");
    }
    for type_ in ["suspend", "http", "plugin"] {
        assert_eq!(demand(&spec(&json!({ type_: {} }))), Demand::default(), "{type_}");
    }
}

fn spec_of(template: &Value) -> Value {
    match template {
        Value::Object(_) => spec(template),
        _ => json!({ "entrypoint": "entry", "templates": [template] }),
    }
}

#[test]
fn any_resource_counts_and_cpu_and_memory_are_assumed() {
    let gpu = json!({ "container": { "resources": { "limits": { "nvidia.com/gpu": 1 } } } });
    let asked = demand(&spec(&gpu));
    assert_eq!(
        asked.typical.to_string(),
        "cpu=100m,memory=200Mi,nvidia.com/gpu=1"
    );
    let unknown = demand(&json!({ "workflowTemplateRef": { "name": "t" } }));
    assert_eq!(unknown.typical.to_string(), "cpu=100m,memory=200Mi");
    assert!(
        unknown.largest.is_empty(),
        "what is assumed needs no room on a node"
    );
    assert_eq!(asked.largest.get(MEMORY), None);
}

#[test]
fn the_typical_demand_is_the_average_over_the_levels() {
    let steps = |groups: Value| spec(&json!({ "steps": groups }));
    let (one, two) = (use_of("one"), use_of("two"));
    for (spec, expected) in [
        // One after the other, and at the same time.
        (steps(json!([[one], [two]])), (2000, 1500)),
        (steps(json!([[one, two]])), (2000, 3000)),
        (steps(json!([one, [one, two]])), (2000, 2000)),
        (steps(json!([])), (0, 0)),
        // Items.
        (
            steps(json!([[with(one.clone(), "withItems", json!([1, 2, 3]))]])),
            (1000, 3000),
        ),
        (
            steps(json!([[with(one.clone(), "withItems", json!("{{x}}"))]])),
            (1000, 1000),
        ),
        (
            steps(json!([[with(one.clone(), "withParam", json!("{{x}}"))]])),
            (1000, 1000),
        ),
        (
            steps(json!([[with(
                one.clone(),
                "withSequence",
                json!({ "count": "5" })
            )]])),
            (1000, 5000),
        ),
        (
            steps(json!([[with(
                one.clone(),
                "withSequence",
                json!({ "start": "3", "end": 1 })
            )]])),
            (1000, 3000),
        ),
        (
            steps(json!([[with(
                one.clone(),
                "withSequence",
                json!({ "count": "{{n}}" })
            )]])),
            (1000, 1000),
        ),
        // Inline, and a template of another Workflow.
        (
            steps(json!([[{ "name": "i", "inline": { "container": asks("7") } }]])),
            (7000, 7000),
        ),
        (
            steps(json!([[{ "name": "t", "templateRef": { "name": "n", "template": "t" } }]])),
            (0, 100),
        ),
    ] {
        assert_eq!(cpu(&spec), expected, "{spec}");
    }
}

#[test]
fn the_tasks_of_a_graph_come_after_those_that_they_depend_on() {
    let task =
        |name: &str, field: &str, needed: Value| json!({ "name": name, "template": "one", field: needed });
    let dag = |tasks: Vec<Value>| spec(&json!({ "dag": { "tasks": tasks } }));
    let first = || task("a", "dependencies", json!([]));
    for (tasks, typical) in [
        (vec![first(), task("b", "dependencies", json!([]))], 2000),
        (vec![first(), task("b", "dependencies", json!(["a"]))], 1000),
        (vec![task("b", "dependencies", json!(["a"])), first()], 1000),
        (
            vec![
                first(),
                task("b", "depends", json!("a.Succeeded")),
                task("c", "depends", json!("!(a || x)")),
            ],
            1500,
        ),
        // A circle.
        (
            vec![task("a", "depends", json!("b")), task("b", "depends", json!("a"))],
            2000,
        ),
    ] {
        assert_eq!(cpu(&dag(tasks.clone())), (1000, typical), "{tasks:?}");
    }
}

#[test]
fn parallelism_limits_what_runs_at_the_same_time() {
    let wide = with(use_of("one"), "withSequence", json!({ "count": 10 }));
    let steps = json!({ "steps": [[wide]], "parallelism": 2 });
    assert_eq!(cpu(&spec(&steps)), (1000, 2000));
    let mut whole = spec(&json!({ "steps": steps["steps"] }));
    assert_eq!(cpu(&whole), (1000, 10_000));
    whole["parallelism"] = json!(5);
    assert_eq!(cpu(&whole), (1000, 5000));
    whole["parallelism"] = json!(100);
    assert_eq!(cpu(&whole), (1000, 10_000));
}

#[test]
fn templates_that_use_themselves_and_graphs_without_end_are_bounded() {
    let itself =
        json!({ "name": "x", "template": "entry", "withSequence": { "count": u64::MAX.to_string() } });
    let entry = json!({ "steps": [[itself, itself], [itself, itself]] });
    // Without the bound it would take years.
    let asked = demand(&spec(&entry));
    assert!(asked.typical.get(CPU).is_some(), "{asked:?}");
    let many: Vec<Value> = (0..20_000).map(|_| json!([use_of("entry")])).collect();
    let asked = demand(&spec(&json!({ "steps": many })));
    assert_eq!(
        asked.typical.get(CPU),
        Some(100),
        "too many steps count as one pod"
    );
}

#[test]
fn what_is_used_many_times_is_read_once_and_empty_groups_count() {
    let sidecars: Vec<Value> = (0..40_000).map(|_| asks("1")).collect();
    let depends = "x || ".repeat(200_000);
    let task = json!({ "name": "a", "template": "one", "depends": depends });
    let mut whole = spec(&json!({ "steps": [vec![use_of("wide"); 3_000], vec![use_of("long"); 900]] }));
    let templates = whole["templates"].as_array_mut().unwrap();
    templates.push(json!({ "name": "wide", "container": asks("1"), "sidecars": sidecars }));
    templates.push(json!({ "name": "long", "dag": { "tasks": [task] } }));
    // It would take many minutes to read them for each use.
    assert_eq!(cpu(&whole), (40_001_000, 60_001_950_000));
    let asked = demand(&spec(&json!({ "steps": vec![json!([]); 20_000] })));
    assert_eq!(
        asked.typical.get(CPU),
        Some(100),
        "too many groups count as one pod"
    );
}

#[test]
fn the_widest_demand_is_never_less_than_what_tasks_ask_for_at_a_time() {
    let task = |name: &str, template: &str, needed: Value| json!({ "name": name, "template": template, "dependencies": needed });
    // While the first task runs, the others run one after the other.
    let tasks = [
        task("a", "one", json!([])),
        task("b", "one", json!([])),
        task("c", "two", json!(["b"])),
    ];
    let (one, two) = (use_of("one"), use_of("two"));
    for (entry, widest) in [
        (json!({ "dag": { "tasks": tasks } }), 4000),
        (json!({ "steps": [[one, one], [two]] }), 2000),
    ] {
        assert_eq!(demand(&spec(&entry)).widest.get(CPU), Some(widest), "{entry}");
    }
}

#[test]
fn a_pod_that_exists_asks_for_what_the_kube_scheduler_counts() {
    let asks = |cpu: &str| json!({ "name": "c", "resources": { "requests": { "cpu": cpu } } });
    let sidecar = |cpu: &str| with(asks(cpu), "restartPolicy", json!("Always"));
    let none = json!({ "name": "c" });
    for (pod, expected) in [
        (json!({ "containers": [none] }), ""),
        (
            json!({ "containers": [asks("1"), asks("500m"), none] }),
            "cpu=1500m",
        ),
        // The API server takes limits for requests, so limits alone mean an older pod without any.
        (
            json!({ "containers": [{ "name": "c", "resources": { "limits": { "cpu": "1" } } }] }),
            "",
        ),
        (
            json!({ "containers": [asks("1")], "initContainers": [asks("3"), asks("2")] }),
            "cpu=3",
        ),
        (
            json!({ "containers": [asks("2")], "initContainers": [asks("1"), asks("1")] }),
            "cpu=2",
        ),
        (
            json!({ "containers": [asks("2")], "initContainers": [sidecar("1")] }),
            "cpu=3",
        ),
        (
            json!({ "containers": [asks("2")], "initContainers": [sidecar("1"), asks("4"), sidecar("1")] }),
            "cpu=5",
        ),
        (
            json!({ "containers": [asks("2")], "initContainers": [asks("4"), sidecar("1")] }),
            "cpu=4",
        ),
        (
            json!({ "containers": [asks("2")], "overhead": { "cpu": "250m", "memory": "1Gi" } }),
            "cpu=2250m,memory=1Gi",
        ),
        (
            json!({
                "containers": [{ "name": "c", "resources": { "requests": { "cpu": "2", "nvidia.com/gpu": "1" } } }],
                "resources": { "requests": { "cpu": "3", "memory": "1Gi", "nvidia.com/gpu": "7" } },
                "overhead": { "cpu": "1" },
            }),
            "cpu=4,memory=1Gi,nvidia.com/gpu=1",
        ),
        (
            json!({ "containers": [asks("much"), asks("-1"), asks("1")] }),
            "cpu=1",
        ),
    ] {
        let spec: k8s_openapi::api::core::v1::PodSpec = crate::testing::read(pod.clone());
        assert_eq!(pod_requests(&spec).to_string(), expected, "{pod}");
    }
}

/// Specifications of templates, by name; a name with a star is that of a ClusterWorkflowTemplate.
type Templates<'a> = &'a [(&'a str, Value)];

/// The same as [`cpu`], for a Workflow that refers to templates.
fn cpu_with(spec: &Value, templates: Templates<'_>) -> (u64, u64) {
    let mut referred = Referred::by(spec);
    while let Some(key) = referred.take_open() {
        let star = if key.is_cluster_scoped { "*" } else { "" };
        let name = format!("{}{star}", key.name);
        let found = templates.iter().find(|(known, _)| *known == name);
        let reduced = found.and_then(|(_, spec)| Reduced::of(spec));
        referred.learn(key, reduced.as_ref());
    }
    cpu_of(&Demand::of(spec, &referred))
}

#[test]
fn the_templates_that_a_workflow_refers_to_count_like_its_own() {
    let step = |reference: Value| json!({ "name": "s", "templateRef": reference });
    let steps = |steps: Value| json!({ "name": "main", "steps": [steps] });
    let pod = |name: &str, cpu: &str| json!({ "name": name, "container": asks(cpu) });
    let shop = json!({
        "entrypoint": "all", "parallelism": 2,
        "templates": [
            pod("one", "1"), pod("two", "2"),
            { "name": "all", "steps": [[use_of("one"), use_of("two"), use_of("one"), use_of("two")]] },
            { "name": "far", "steps": [[step(json!({ "name": "depot", "template": "four", "clusterScope": true }))]] },
        ],
    });
    let depot = json!({ "templates": [pod("four", "4"), { "name": "back", "steps": [[
        step(json!({ "name": "shop", "template": "two" })), use_of("four"),
    ]] }] });
    let templates = [("shop", shop), ("depot*", depot)];
    let shop = |template: &str| json!({ "name": "shop", "template": template });
    let depot = |template: &str| json!({ "name": "depot", "template": template, "clusterScope": true });
    for (spec, expected) in [
        // The whole Workflow, and fields of the Workflow that replace those of the template.
        (json!({ "workflowTemplateRef": { "name": "shop" } }), (2000, 3000)),
        (
            json!({ "workflowTemplateRef": { "name": "shop" }, "parallelism": 4 }),
            (2000, 6000),
        ),
        (
            json!({ "workflowTemplateRef": { "name": "shop" }, "entrypoint": "one" }),
            (1000, 1000),
        ),
        (
            json!({ "workflowTemplateRef": { "name": "depot", "clusterScope": true }, "entrypoint": "four" }),
            (4000, 4000),
        ),
        // Single templates. A name in a template is looked up where the template is.
        (
            spec(&steps(json!([step(shop("one")), use_of("two")]))),
            (2000, 3000),
        ),
        (
            spec(&steps(json!([with(
                step(shop("two")),
                "withItems",
                json!([1, 2, 3])
            )]))),
            (2000, 6000),
        ),
        (spec(&steps(json!([step(shop("far"))]))), (4000, 4000)),
        (spec(&steps(json!([step(depot("back"))]))), (4000, 6000)),
        // What is missing is not known.
        (
            json!({ "workflowTemplateRef": { "name": "depot" }, "entrypoint": "four" }),
            (0, 100),
        ),
        (
            spec(&steps(json!([
                step(shop("three")),
                step(json!({ "name": "none", "template": "one" }))
            ]))),
            (0, 200),
        ),
        (
            spec(&steps(json!([step(
                json!({ "name": "{{x}}", "template": "one" })
            )]))),
            (0, 100),
        ),
    ] {
        assert_eq!(cpu_with(&spec, &templates), expected, "{spec}");
    }
}

#[test]
fn hooks_and_exit_handlers_must_fit_and_do_not_count_for_the_average() {
    let hook = |template: &str| json!({ "exit": { "template": template }, "other": { "template": "one", "expression": "true" } });
    let entry = json!({ "steps": [[use_of("one")]] });
    let more = |field: &str, value: Value| with(spec(&entry), field, value);
    let in_step = spec(&json!({ "steps": [[with(use_of("one"), "hooks", hook("two"))]] }));
    for spec in [more("onExit", json!("two")), more("hooks", hook("two")), in_step] {
        assert_eq!(cpu(&spec), (2000, 1000), "{spec}");
        let whole = [("whole", spec)];
        let reference = json!({ "workflowTemplateRef": { "name": "whole" } });
        assert_eq!(cpu_with(&reference, &whole), (2000, 1000));
    }
    // A hook that leads to itself comes to an end.
    let looping = spec(&json!({ "steps": [[with(use_of("one"), "hooks", hook("entry"))]] }));
    assert_eq!(cpu(&looping).0, 1000);
}

#[test]
fn defaults_of_all_templates_count_where_a_template_has_none_of_its_own() {
    let defaults = json!({
        "container": asks("4"), "script": asks("3"), "sidecars": [with(asks("1"), "name", json!("side"))],
    });
    let of = |template: Value| {
        let spec = with(spec_of(&template), "templateDefaults", defaults.clone());
        let whole = [("whole", spec.clone())];
        let reference = json!({ "workflowTemplateRef": { "name": "whole" } });
        assert_eq!(cpu(&spec), cpu_with(&reference, &whole));
        cpu(&spec).0
    };
    assert_eq!(of(json!({ "container": {} })), 5000);
    assert_eq!(of(json!({ "script": {} })), 4000);
    assert_eq!(of(json!({ "container": asks("2") })), 3000);
    let own = json!({ "container": {}, "sidecars": [with(asks("2"), "name", json!("side"))] });
    assert_eq!(of(own), 6000);
    assert_eq!(of(json!({ "suspend": {} })), 0);
}

#[test]
fn many_defaults_are_not_read_again_for_each_of_many_templates() {
    let many = |count: usize, name: &str| vec![json!({ "name": name, "resources": {} }); count];
    let templates: Vec<Value> = (0..1000)
        .map(|number| json!({ "name": number.to_string(), "container": {}, "sidecars": many(40, "b") }))
        .collect();
    let tasks: Vec<Value> = (0..1000)
        .map(|number| json!([use_of(&number.to_string())]))
        .collect();
    let mut spec = spec(&json!({ "steps": tasks }));
    spec["templates"].as_array_mut().unwrap().extend(templates);
    spec["templateDefaults"] = json!({ "sidecars": many(40_000, "a") });
    // They count as if there were none.
    assert_eq!(cpu(&spec).1, 4100);
    spec["templateDefaults"] = json!({ "sidecars": many(60, "a") });
    assert_eq!(cpu(&spec).1, 10_100);
}

#[test]
fn templates_that_refer_to_each_other_are_bounded() {
    let step = |name: &str| json!({ "name": "s", "templateRef": { "name": name, "template": "main" }, "withSequence": { "count": u64::MAX.to_string() } });
    let template = |other: &str| json!({ "templates": [{ "name": "main", "steps": [[step(other), step(other)], [step(other)]] }] });
    let templates = [("a", template("b")), ("b", template("a"))];
    let (_, typical) = cpu_with(&spec(&json!({ "steps": [[step("a")]] })), &templates);
    assert!(typical > 0, "it comes to an end");
}
