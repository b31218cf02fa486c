//! The resources that a Workflow asks for, as far as its specification tells before the run.
//!
//! It is an estimate for the choice of a cluster: conditions count as true, items that are computed
//! during the run count as one. The rules for a pod are those of the kube-scheduler (`requests`, or
//! else `limits`; the sum of the containers, or an init container that asks for more). Once a run has
//! pods, its status tells the templates that they are of. Not here: the choice
//! (`policy::best_cluster`).

mod graph;
mod pod;
mod running;
mod templates;

use std::collections::BTreeMap;

use serde_json::Value;

pub use self::templates::{Reduced, Referred};
use self::{graph::levels, pod::Pod};
pub(crate) use self::{pod::pod_requests, running::running};
use super::{
    amounts::Amounts,
    template_refs::{TemplateKey, key, whole},
};

/// Maximum number of steps, tasks and templates that are visited. Each counts once for each use.
const MOST_VISITS: usize = 10_000;

/// Maximum depth of templates that use each other.
const DEEPEST: usize = 32;

/// The demand of a Workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// For each resource the most that one pod requests.
    pub(crate) largest: Amounts,
    /// The amounts that its pods ask for at a time, on average over the levels of its graph, with the
    /// amounts that the kube-scheduler assumes where a container requests none. Reserving the maximum
    /// instead leaves clusters idle.
    pub(crate) typical: Amounts,
    /// The amounts that the pods of its widest level ask for, without regard to `parallelism`.
    pub(crate) widest: Amounts,
}

impl Demand {
    /// The demand of a Workflow with this specification, which refers to these templates.
    pub(crate) fn of(spec: &Value, referred: &Referred) -> Self {
        let whole = whole(spec).and_then(|key| referred.get(&key));
        let whole = whole.map(|(_, spec)| spec);
        // The fields of the Workflow replace those of its template.
        let field = |name: &str| spec.get(name).or_else(|| whole?.get(name));
        let entrypoint = field("entrypoint").and_then(Value::as_str);
        let own = [whole, Some(spec)].into_iter().flatten().flat_map(named);
        let found = referred.found();
        let found = found.map(|(key, spec)| (Some(key), named(spec).collect()));
        let mut estimate = Estimate {
            referred,
            scopes: found.chain([(None, own.collect())]).collect(),
            visits: 0,
        };
        let shape = estimate.named(None, entrypoint.unwrap_or_default(), 0);
        shape.limited(field("parallelism")).into()
    }

    /// The demand of a Workflow of which nothing is known: one pod that asks for nothing.
    pub(crate) fn unknown() -> Self {
        Shape::of_pod(Pod::unknown()).into()
    }

    /// The demand of a Workflow of which only the typical amounts are known.
    pub(crate) fn typical(typical: Amounts) -> Self {
        Self {
            typical,
            ..Self::default()
        }
    }
}

impl From<Shape> for Demand {
    fn from(shape: Shape) -> Self {
        Self {
            typical: shape.work.scaled(1, shape.levels).rounded(),
            largest: shape.largest,
            widest: shape.most.rounded(),
        }
    }
}

/// The pods of a template, level by level. A level is a set of pods that run at the same time.
#[derive(Clone, Debug, Default)]
struct Shape {
    /// The sum over all pods.
    work: Amounts,
    /// For each resource the most that all pods of a level ask for.
    most: Amounts,
    /// Number of levels.
    levels: u64,
    /// Number of pods.
    pods: u64,
    /// Number of pods of the widest level.
    width: u64,
    /// For each resource the most that one pod asks for.
    largest: Amounts,
}

impl Shape {
    fn of_pod(pod: Pod) -> Self {
        Self {
            most: pod.assumed.clone(),
            work: pod.assumed,
            levels: 1,
            pods: 1,
            width: 1,
            largest: pod.asked,
        }
    }

    fn join(&mut self, other: &Self) {
        self.work.add(&other.work);
        self.pods = self.pods.saturating_add(other.pods);
        self.largest.raise(&other.largest);
    }

    /// Both at the same time.
    fn beside(mut self, other: &Self) -> Self {
        self.join(other);
        self.most.add(&other.most);
        self.levels = self.levels.max(other.levels);
        self.width = self.width.saturating_add(other.width);
        self
    }

    /// One after the other.
    fn before(mut self, other: &Self) -> Self {
        self.join(other);
        self.most.raise(&other.most);
        self.levels = self.levels.saturating_add(other.levels);
        self.width = self.width.max(other.width);
        self
    }

    /// `count` of it at the same time.
    fn times(self, count: u64) -> Self {
        Self {
            work: self.work.scaled(count, 1),
            most: self.most.scaled(count, 1),
            pods: self.pods.saturating_mul(count),
            width: self.width.saturating_mul(count),
            ..self
        }
    }

    /// At most `parallelism` pods at the same time.
    fn limited(mut self, parallelism: Option<&Value>) -> Self {
        let most = parallelism.and_then(Value::as_u64).filter(|most| *most > 0);
        if let Some(most) = most.filter(|most| *most < self.width) {
            self.levels = self.levels.max(self.pods.div_ceil(most));
            self.width = most;
        }
        self
    }
}

/// The templates of a specification, by name.
fn named(spec: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let templates = spec.get("templates").and_then(Value::as_array);
    let named = templates.into_iter().flatten();
    named.filter_map(|template| Some((template.get("name")?.as_str()?, template)))
}

/// The object in which a name of a template is looked up: a template of the cluster, or `None` for the
/// Workflow itself.
type Scope<'a> = Option<&'a TemplateKey>;

/// The templates of a Workflow, and of the templates that it refers to.
struct Estimate<'a> {
    referred: &'a Referred,
    scopes: BTreeMap<Scope<'a>, BTreeMap<&'a str, &'a Value>>,
    visits: usize,
}

impl<'a> Estimate<'a> {
    /// The template of a name. One that is missing counts as a pod of which nothing is known.
    fn named(&mut self, scope: Scope<'a>, name: &str, depth: usize) -> Shape {
        let there = self.scopes.get(&scope);
        match there.and_then(|templates| templates.get(name).copied()) {
            Some(template) => self.template(scope, template, depth),
            None => Shape::of_pod(Pod::unknown()),
        }
    }

    fn template(&mut self, scope: Scope<'a>, template: &'a Value, depth: usize) -> Shape {
        let groups = template.get("steps").and_then(Value::as_array);
        let dag = template.get("dag");
        let tasks = dag.and_then(|dag| dag.get("tasks")?.as_array());
        let steps = groups
            .into_iter()
            .flatten()
            .map(|group| group.as_array().map_or(1, Vec::len));
        // Counted before they are looked at, so that a long list is not read again for each use.
        self.visits += 1 + steps.sum::<usize>() + tasks.map_or(0, Vec::len);
        if self.visits > MOST_VISITS || depth > DEEPEST {
            return Shape::of_pod(Pod::unknown());
        }
        let shape = match (groups, dag) {
            (Some(groups), _) => self.levels(scope, groups.iter().map(group), depth),
            (None, Some(dag)) => self.levels(scope, levels(dag).into_iter(), depth),
            (None, None) => Pod::of_template(template).map_or_else(Shape::default, Shape::of_pod),
        };
        shape.limited(template.get("parallelism"))
    }

    fn levels(
        &mut self,
        scope: Scope<'a>,
        levels: impl Iterator<Item = Vec<&'a Value>>,
        depth: usize,
    ) -> Shape {
        let mut whole = Shape::default();
        for level in levels {
            let mut shape = Shape::default();
            for step in level {
                shape = shape.beside(&self.step(scope, step, depth));
            }
            whole = whole.before(&shape);
        }
        whole
    }

    /// A step or a task.
    fn step(&mut self, scope: Scope<'a>, step: &'a Value, depth: usize) -> Shape {
        let reference = step.get("templateRef").filter(|reference| reference.is_object());
        let name = reference.unwrap_or(step).get("template").and_then(Value::as_str);
        let scope = match reference {
            None => Some(scope),
            Some(reference) => key(reference)
                .and_then(|key| self.referred.get(&key))
                .map(|(key, _)| Some(key)),
        };
        let shape = match (step.get("inline"), scope, name) {
            (Some(inline), Some(scope), _) => self.template(scope, inline, depth + 1),
            (None, Some(scope), Some(name)) => self.named(scope, name, depth + 1),
            _ => Shape::of_pod(Pod::unknown()),
        };
        shape.times(graph::items(step))
    }
}

/// The steps of a group. Argo also takes a single step for a group.
fn group(group: &Value) -> Vec<&Value> {
    match group {
        Value::Array(steps) => steps.iter().collect(),
        step => vec![step],
    }
}

#[cfg(test)]
mod tests;
