//! The templates of the control cluster that a Workflow refers to, reduced to what its demand depends
//! on.
//!
//! Anybody writes templates, so their length, their number for one Workflow and, as for the templates
//! of a Workflow, their depth are limited. A template beyond a limit counts as one that is missing.
//! Not here: the templates that exist (`hub::template_demand`, or the command line), and the demand
//! itself ([`super::Demand`]).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::{
    index::compact_json::CompactJson,
    model::template_refs::{TemplateKey, referred},
};

/// Maximum length of a reduced template in bytes.
const LONGEST: usize = 8 * 1024;

/// Maximum number of templates that are looked up for one Workflow.
const MOST: usize = 32;

/// Fields that are kept as they are.
const WHOLE: [&str; 13] = [
    "clusterScope",
    "count",
    "dependencies",
    "depends",
    "end",
    "entrypoint",
    "limits",
    "name",
    "onExit",
    "parallelism",
    "requests",
    "start",
    "template",
];

/// Fields of which these fields are kept in turn.
const PARTLY: [&str; 17] = [
    "container",
    "containerSet",
    "containers",
    "dag",
    "initContainers",
    "inline",
    "podResources",
    "resources",
    "script",
    "sidecars",
    "steps",
    "tasks",
    "templateDefaults",
    "templateRef",
    "templates",
    "withSequence",
    "workflowTemplateRef",
];

/// Fields that name the type of a template. Their content does not matter.
const TYPES: [&str; 5] = ["data", "http", "plugin", "resource", "suspend"];

/// The specification of a WorkflowTemplate or ClusterWorkflowTemplate, reduced to the fields on which
/// demand depends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduced(CompactJson);

impl Reduced {
    /// Reduces a specification. `None` if it is too long even then.
    pub fn of(spec: &Value) -> Option<Self> {
        let text = reduced(spec).to_string();
        (text.len() <= LONGEST).then(|| Self(CompactJson::of_text(&text)))
    }
}

fn reduced(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(reduced).collect(),
        Value::Object(fields) => {
            let kept = fields.iter().filter_map(|(name, field)| {
                let kept = match name.as_str() {
                    whole if WHOLE.contains(&whole) => field.clone(),
                    partly if PARTLY.contains(&partly) => reduced(field),
                    type_ if TYPES.contains(&type_) => json!({}),
                    "hooks" => hooks(field),
                    _ => return None,
                };
                Some((name.clone(), kept))
            });
            let mut kept: Map<String, Value> = kept.collect();
            // Of items, only the number matters.
            if let Some(items) = fields.get("withItems").and_then(Value::as_array) {
                let count = json!({ "count": items.len() });
                kept.insert("withSequence".to_owned(), count);
            }
            Value::Object(kept)
        }
        scalar => scalar.clone(),
    }
}

/// The templates of hooks, which have names.
fn hooks(hooks: &Value) -> Value {
    let hooks = hooks.as_object().into_iter().flatten();
    let hooks = hooks.map(|(name, hook)| (name.clone(), reduced(hook)));
    Value::Object(hooks.collect())
}

/// The templates that a Workflow refers to, at any depth, as far as they were looked up: take the
/// next one until there is none, and tell what it is.
#[derive(Debug, Default)]
pub struct Referred {
    open: BTreeSet<TemplateKey>,
    /// `None` for a template that is missing.
    known: BTreeMap<TemplateKey, Option<Value>>,
}

impl Referred {
    /// The templates to which a specification refers. None was looked up yet.
    pub fn by(spec: &Value) -> Self {
        Self {
            open: referred(spec),
            known: BTreeMap::new(),
        }
    }

    /// The next template to look up.
    pub fn take_open(&mut self) -> Option<TemplateKey> {
        let next = self.open.pop_first()?;
        (self.known.len() < MOST).then_some(next)
    }

    /// Takes the template that was looked up, `None` if there is none.
    pub fn learn(&mut self, key: TemplateKey, template: Option<&Reduced>) {
        let spec = template.map(|template| template.0.value());
        let further = spec.iter().flat_map(referred);
        let further: Vec<TemplateKey> = further
            .filter(|further| *further != key && !self.known.contains_key(further))
            .collect();
        self.open.extend(further);
        self.known.insert(key, spec);
    }

    /// The template of this key, with the key as it is stored.
    pub(super) fn get(&self, key: &TemplateKey) -> Option<(&TemplateKey, &Value)> {
        let (key, spec) = self.known.get_key_value(key)?;
        Some((key, spec.as_ref()?))
    }

    /// All templates that were found.
    pub(super) fn found(&self) -> impl Iterator<Item = (&TemplateKey, &Value)> {
        let known = self.known.iter();
        known.filter_map(|(key, spec)| Some((key, spec.as_ref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(spec: &Value) -> Value {
        Reduced::of(spec).unwrap().0.value()
    }

    #[test]
    fn only_what_demand_reads_is_kept() {
        let resources = json!({ "limits": { "nvidia.com/gpu": 1 }, "requests": { "cpu": "2" } });
        let spec = json!({
            "entrypoint": "main", "parallelism": 3, "arguments": { "parameters": [{ "name": "x", "value": "y" }] },
            "templates": [
                { "name": "main", "metadata": { "labels": { "a": "b" } }, "steps": [[{
                    "name": "s", "when": "true", "withItems": ["a", { "b": "c" }],
                    "templateRef": { "name": "n", "template": "t", "clusterScope": true },
                }]] },
                { "name": "pod", "container": { "image": "busybox", "args": ["x"], "resources": resources } },
                { "name": "waits", "suspend": { "duration": "10s" } },
            ],
        });
        let expected = json!({
            "entrypoint": "main", "parallelism": 3,
            "templates": [
                { "name": "main", "steps": [[{
                    "name": "s", "withSequence": { "count": 2 },
                    "templateRef": { "name": "n", "template": "t", "clusterScope": true },
                }]] },
                { "name": "pod", "container": { "resources": resources } },
                { "name": "waits", "suspend": {} },
            ],
        });
        assert_eq!(kept(&spec), expected);
        assert_eq!(kept(&expected), expected);
    }

    #[test]
    fn a_template_that_is_too_long_is_not_kept() {
        let of = |length: usize| json!({ "templates": [{ "name": "x".repeat(length) }] });
        assert!(Reduced::of(&of(LONGEST / 2)).is_some());
        assert!(Reduced::of(&of(LONGEST)).is_none());
        let scripts = json!({ "templates": [{ "script": { "source": "x".repeat(LONGEST) } }] });
        assert!(Reduced::of(&scripts).is_some(), "what is not read does not count");
    }

    #[test]
    fn so_many_templates_are_looked_up_for_a_workflow_and_each_one_once() {
        let reference = |name: String| json!({ "templateRef": { "name": name, "template": "t" } });
        let many: Vec<Value> = (0..100).map(|number| reference(format!("a{number}"))).collect();
        let mut referred = Referred::by(&json!(many));
        let mut looked_up = 0;
        while let Some(key) = referred.take_open() {
            looked_up += 1;
            referred.learn(key, None);
        }
        assert_eq!(looked_up, MOST);
        // Two templates that refer to each other.
        let mut referred = Referred::by(&reference("a".to_owned()));
        let mut looked_up = Vec::new();
        while let Some(key) = referred.take_open() {
            looked_up.push(key.name.clone());
            let other = if key.name == "a" { "b" } else { "a" };
            referred.learn(key, Reduced::of(&reference(other.to_owned())).as_ref());
        }
        assert_eq!(looked_up, ["a", "b"]);
    }
}
