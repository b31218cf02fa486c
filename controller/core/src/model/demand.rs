//! The resources that a Workflow requests, as far as its specification says before the run.
//!
//! It is an estimate for the choice of a cluster: conditions count as true, items that are computed
//! during the run count as one. The rules for a pod are those of the kube-scheduler (`requests`, or
//! else `limits`; the sum of the containers, or an init container that asks for more). Once a run has
//! pods, its status names their templates. Not here: the choice
//! (`policy::best_cluster`).

mod graph;
mod pod;
mod running;
mod stated;
mod templates;

use std::{collections::BTreeMap, ptr, rc::Rc};

use argosy_api::Workflow;
use serde_json::{Map, Value};

pub use self::templates::{Reduced, Referred};
use self::{graph::levels, pod::Pod};
pub(crate) use self::{
    pod::pod_requests,
    running::running,
    stated::{requests, stated, unreadable},
};
use super::{
    amounts::Amounts,
    template_refs::{TemplateKey, key, whole},
};

/// Maximum number of steps, tasks and templates that are visited. Each counts once for each use; the
/// containers of a template and the order of its tasks are read once.
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
    /// An upper bound of the amounts that its pods ask for at a time, without regard to `parallelism`:
    /// those of its widest group of steps, or of all tasks of a `dag`, because those of different
    /// levels may run at the same time.
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
            defaults: field("templateDefaults"),
            leaves: BTreeMap::new(),
            graphs: BTreeMap::new(),
            visits: 0,
        };
        let shape = estimate.named(None, entrypoint.unwrap_or_default(), 0);
        let mut shape = estimate.with_hooks(shape, None, field("hooks"), 0);
        if let Some(name) = field("onExit").and_then(Value::as_str) {
            shape.take_hook(&estimate.named(None, name, 1));
        }
        shape.limited(field("parallelism")).into()
    }

    /// The same, for a Workflow that states what it requests (`argosy.dev/requests`).
    pub(crate) fn of_workflow(run: &Workflow, referred: &Referred) -> Self {
        Self::of(&run.spec, referred).with(requests(&run.metadata))
    }

    /// The demand with the stated amounts in place of the estimated ones.
    pub(crate) fn with(mut self, requests: Option<&str>) -> Self {
        let Some(stated) = stated(requests) else {
            return self;
        };
        self.typical.replace(&stated);
        self.widest.replace(&stated);
        self.largest.lower_to(&stated);
        self
    }

    /// The demand of a Workflow of which nothing is known: one pod that asks for nothing.
    pub(crate) fn unknown() -> Self {
        Shape::of_pod(Pod::unknown()).into()
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
    /// For each resource an upper bound of what all pods at a time ask for.
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

    /// One level after the other, of which parts may run at the same time.
    fn before_or_beside(self, other: &Self) -> Self {
        let mut most = self.most.clone();
        most.add(&other.most);
        Self {
            most,
            ..self.before(other)
        }
    }

    /// A hook or an exit handler of it. It is brief, so it does not count for the average.
    fn take_hook(&mut self, hook: &Self) {
        self.most.add(&hook.most);
        self.largest.raise(&hook.largest);
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
    /// The fields that all templates have, as far as they do not replace them.
    defaults: Option<&'a Value>,
    /// The shapes of templates that have a pod, by the place of the template in memory.
    leaves: BTreeMap<*const Value, Shape>,
    /// The tasks of each `dag` by level, in the same way.
    graphs: BTreeMap<*const Value, Rc<Graph<'a>>>,
    visits: usize,
}

/// The tasks of a `dag` by level.
type Graph<'a> = Vec<Vec<&'a Value>>;

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
        // Counted before they are looked at, so that a long list is not read again for each use.
        self.visits += 1 + groups.map_or(0, Vec::len) + tasks.map_or(0, Vec::len);
        if self.visits > MOST_VISITS {
            return Shape::of_pod(Pod::unknown());
        }
        let steps = groups
            .into_iter()
            .flatten()
            .map(|group| group.as_array().map_or(0, Vec::len));
        self.visits += steps.sum::<usize>();
        if self.visits > MOST_VISITS || depth > DEEPEST {
            return Shape::of_pod(Pod::unknown());
        }
        let shape = match (groups, dag) {
            (Some(groups), _) => {
                let levels = groups
                    .iter()
                    .map(|group| self.level(scope, self::group(group), depth));
                levels.fold(Shape::default(), |whole, level| whole.before(&level))
            }
            (None, Some(dag)) => {
                let graph = self.graphs.entry(ptr::from_ref(dag));
                let graph = Rc::clone(graph.or_insert_with(|| Rc::new(levels(dag))));
                let levels = graph
                    .iter()
                    .map(|tasks| self.level(scope, tasks.iter().copied(), depth));
                levels.fold(Shape::default(), |whole, level| whole.before_or_beside(&level))
            }
            (None, None) => self.leaf(template),
        };
        shape.limited(template.get("parallelism"))
    }

    /// A template without steps and tasks.
    fn leaf(&mut self, template: &Value) -> Shape {
        let known = self.leaves.entry(ptr::from_ref(template));
        let defaults = self.defaults.unwrap_or(&Value::Null);
        let shape = || Pod::of_template(template, defaults).map_or_else(Shape::default, Shape::of_pod);
        known.or_insert_with(shape).clone()
    }

    /// Adds the hooks of a Workflow, a step or a task.
    fn with_hooks(
        &mut self,
        mut shape: Shape,
        scope: Scope<'a>,
        hooks: Option<&'a Value>,
        depth: usize,
    ) -> Shape {
        for hook in hooks.and_then(Value::as_object).into_iter().flat_map(Map::values) {
            self.visits += 1;
            if self.visits > MOST_VISITS {
                break;
            }
            let hook = self.step(scope, hook, depth);
            shape.take_hook(&hook);
        }
        shape
    }

    /// Steps or tasks that run at the same time.
    fn level(&mut self, scope: Scope<'a>, steps: impl IntoIterator<Item = &'a Value>, depth: usize) -> Shape {
        let steps = steps.into_iter().map(|step| self.step(scope, step, depth));
        steps.fold(Shape::default(), |level, step| level.beside(&step))
    }

    /// A step or a task.
    fn step(&mut self, scope: Scope<'a>, step: &'a Value, depth: usize) -> Shape {
        let reference = step.get("templateRef").filter(|reference| reference.is_object());
        let name = reference.unwrap_or(step).get("template").and_then(Value::as_str);
        let own = scope;
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
        let shape = self.with_hooks(shape, own, step.get("hooks"), depth + 1);
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
