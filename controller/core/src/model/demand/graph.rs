//! The levels of a `dag`, and the number of items of a step.

use std::collections::BTreeMap;

use serde_json::Value;

/// The tasks of a `dag` by depth: a task comes after all tasks that it depends on. The order of the
/// tasks in the list does not matter, and a task in a circle, which Argo refuses, counts as if it
/// depended on nothing.
pub(super) fn levels(dag: &Value) -> Vec<Vec<&Value>> {
    let tasks = dag.get("tasks").and_then(Value::as_array);
    let tasks: Vec<&Value> = tasks.into_iter().flatten().collect();
    let name = |task: &&Value| task.get("name").and_then(Value::as_str).map(ToOwned::to_owned);
    let numbers = tasks.iter().enumerate();
    let numbers: BTreeMap<String, usize> = numbers
        .filter_map(|(number, task)| Some((name(task)?, number)))
        .collect();
    let needed: Vec<Vec<usize>> = tasks.iter().map(|task| needed(task, &numbers)).collect();
    let depths = depths(&needed);
    let mut levels: BTreeMap<usize, Vec<&Value>> = BTreeMap::new();
    for (task, depth) in tasks.into_iter().zip(depths) {
        levels.entry(depth).or_default().push(task);
    }
    levels.into_values().collect()
}

/// The numbers of the tasks that a task depends on.
fn needed(task: &Value, numbers: &BTreeMap<String, usize>) -> Vec<usize> {
    let listed = task
        .get("dependencies")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let listed = listed.filter_map(Value::as_str);
    // An expression such as `a.Succeeded && (b || !c)`.
    let expression = task.get("depends").and_then(Value::as_str).unwrap_or_default();
    let words = expression.split(|c: char| !(c.is_alphanumeric() || "-_.".contains(c)));
    let words = words.map(|word| word.split('.').next().unwrap_or_default());
    listed
        .chain(words)
        .filter_map(|name| numbers.get(name).copied())
        .collect()
}

/// The depth of each task: the length of the longest way to it. Tasks are taken when all tasks that
/// they need were taken, so the work is linear.
fn depths(needed: &[Vec<usize>]) -> Vec<usize> {
    let mut tasks: Vec<Task> = needed
        .iter()
        .map(|needs| Task::waiting_for(needs.len()))
        .collect();
    for (number, needs) in needed.iter().enumerate() {
        for need in needs {
            if let Some(task) = tasks.get_mut(*need) {
                task.users.push(number);
            }
        }
    }
    let numbers = tasks.iter().enumerate();
    let ready = numbers.filter(|(_, task)| task.open == 0);
    let mut ready: Vec<usize> = ready.map(|(number, _)| number).collect();
    while let Some(number) = ready.pop() {
        let Some(task) = tasks.get_mut(number) else { break };
        let (depth, users) = (task.depth, std::mem::take(&mut task.users));
        for user in users {
            let Some(task) = tasks.get_mut(user) else { break };
            task.depth = task.depth.max(depth + 1);
            task.open -= 1;
            if task.open == 0 {
                ready.push(user);
            }
        }
    }
    tasks.into_iter().map(|task| task.depth).collect()
}

/// A task on the way to its depth.
#[derive(Default)]
struct Task {
    depth: usize,
    /// Number of needed tasks that were not taken yet.
    open: usize,
    /// The tasks that need it.
    users: Vec<usize>,
}

impl Task {
    fn waiting_for(open: usize) -> Self {
        Self {
            open,
            ..Self::default()
        }
    }
}

/// The number of times that a step runs at the same time. Numbers that are computed during the run
/// count as one.
pub(super) fn items(step: &Value) -> u64 {
    let counted = if let Some(items) = step.get("withItems") {
        items.as_array().map(|items| items.len() as u64)
    } else if let Some(sequence) = step.get("withSequence") {
        count(sequence)
    } else {
        None
    };
    counted.unwrap_or(1)
}

/// The length of a `withSequence`, if it is written out.
fn count(sequence: &Value) -> Option<u64> {
    let number = |field: &str| -> Option<i64> {
        match sequence.get(field)? {
            Value::String(text) => text.parse().ok(),
            number => number.as_i64(),
        }
    };
    if sequence.get("count").is_some() {
        return u64::try_from(number("count")?).ok();
    }
    let (start, end) = (number("start").unwrap_or_default(), number("end")?);
    start.abs_diff(end).checked_add(1)
}
