//! Evaluation of a parsed path: the values of a document that it selects, within a limit on the
//! work.
//!
//! Owned here: the evaluation of segments and selectors (RFC 9535 §2.3 and §2.5). Not here: filters
//! (`filter`). The parser's own evaluation is not used: it treats `count` of nothing as nothing,
//! evaluates a filter directly on `@` incorrectly, compares numbers with a tolerance, and has no
//! limit on the multiplication of nodes by `$..*..*`. Here each node is kept only once, because a
//! value can be removed only once, so each segment costs at most the size of the document.

use std::collections::{BTreeSet, HashMap, HashSet};

use jsonpath_rust::parser::model::{Segment, Selector};
use regex::Regex;
use serde_json::Value;

use crate::filter;
use crate::location::{Location, Step};
use crate::pattern::Part;

/// Maximum number of steps for evaluating one path on one object: values visited, compared or
/// reported. The largest object that Kubernetes stores has a few hundred thousand values.
pub const MAX_WORK: usize = 2_000_000;

/// The evaluation exceeded its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutOfWork;

/// The rest of the allowed work.
#[derive(Debug)]
pub(crate) struct Work {
    left: usize,
    /// The patterns that were used, compiled; `None` for an invalid one. They are kept until the end,
    /// so that each is compiled once. Their number is limited by the steps that compiling costs.
    pub(crate) patterns: HashMap<(Part, String), Option<Regex>>,
}

impl Work {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            left: limit,
            patterns: HashMap::new(),
        }
    }

    pub(crate) fn spend(&mut self, steps: usize) -> Result<(), OutOfWork> {
        self.left = self.left.checked_sub(steps).ok_or(OutOfWork)?;
        Ok(())
    }
}

/// Steps for a copy of a key in a location. Locations are kept and compared, so a long key costs
/// more: one step per 16 bytes, which is less than the size of a step in memory.
pub(crate) fn to_copy(key: &str) -> usize {
    1 + key.len() / 16
}

/// A step that borrows its key from the document.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StepRef<'a> {
    Key(&'a str),
    Index(usize),
}

/// A value and its origin: the index of its parent in the arena and the step from there, or `None`
/// for the root.
struct Node<'a> {
    value: &'a Value,
    from: Option<(usize, StepRef<'a>)>,
}

/// All nodes reached so far. A node refers to its parent, so that no path is copied during the
/// evaluation.
struct Arena<'a, 'w> {
    root: &'a Value,
    nodes: Vec<Node<'a>>,
    work: &'w mut Work,
}

/// The locations that `segments` select in `root`.
pub(crate) fn locate(
    segments: &[Segment],
    root: &Value,
    work: &mut Work,
) -> Result<BTreeSet<Location>, OutOfWork> {
    let mut arena = Arena {
        root,
        nodes: vec![Node {
            value: root,
            from: None,
        }],
        work,
    };
    let mut selected = vec![0];
    for segment in segments {
        selected = arena.step(&selected, segment)?;
    }
    selected.into_iter().map(|node| arena.location(node)).collect()
}

impl Arena<'_, '_> {
    fn step(&mut self, from: &[usize], segment: &Segment) -> Result<Vec<usize>, OutOfWork> {
        let (scope, selectors) = match segment {
            Segment::Descendant(inner) => (self.with_descendants(from)?, selectors(inner)),
            Segment::Selector(_) | Segment::Selectors(_) => (from.to_vec(), selectors(segment)),
        };
        let mut seen = HashSet::new();
        let mut selected = Vec::new();
        for parent in scope {
            let Some(value) = self.nodes.get(parent).map(|node| node.value) else {
                continue;
            };
            for selector in selectors {
                let Self { root, nodes, work } = self;
                select(value, selector, root, work, &mut |step, child| {
                    // Two different values never have the same address, so the address identifies
                    // duplicates.
                    if seen.insert(std::ptr::from_ref(child)) {
                        selected.push(nodes.len());
                        nodes.push(Node {
                            value: child,
                            from: Some((parent, step)),
                        });
                    }
                })?;
            }
        }
        Ok(selected)
    }

    /// The nodes and all their descendants, without duplicates.
    fn with_descendants(&mut self, from: &[usize]) -> Result<Vec<usize>, OutOfWork> {
        let mut seen = HashSet::new();
        let mut found = Vec::new();
        let mut open = from.to_vec();
        while let Some(index) = open.pop() {
            let Some(value) = self.nodes.get(index).map(|node| node.value) else {
                continue;
            };
            if !seen.insert(std::ptr::from_ref(value)) {
                continue;
            }
            found.push(index);
            let Self { nodes, work, .. } = self;
            for_each_child(value, work, &mut |step, child, _| {
                open.push(nodes.len());
                nodes.push(Node {
                    value: child,
                    from: Some((index, step)),
                });
                Ok(())
            })?;
        }
        Ok(found)
    }

    fn location(&mut self, mut index: usize) -> Result<Location, OutOfWork> {
        let mut steps = Vec::new();
        while let Some((parent, step)) = self.nodes.get(index).and_then(|node| node.from) {
            steps.push(match step {
                StepRef::Key(key) => {
                    self.work.spend(to_copy(key))?;
                    Step::Key(key.to_owned())
                }
                StepRef::Index(index) => {
                    self.work.spend(1)?;
                    Step::Index(index)
                }
            });
            index = parent;
        }
        steps.reverse();
        Ok(Location(steps))
    }
}

/// The values that `segments` select from `start`, with the duplicates of RFC 9535. For queries in
/// filters.
pub(crate) fn values<'a>(
    segments: &[Segment],
    start: &'a Value,
    root: &'a Value,
    work: &mut Work,
) -> Result<Vec<&'a Value>, OutOfWork> {
    let mut selected = vec![start];
    for segment in segments {
        let scope = match segment {
            Segment::Descendant(_) => descendants(selected, work)?,
            Segment::Selector(_) | Segment::Selectors(_) => selected,
        };
        selected = Vec::new();
        for value in scope {
            for selector in selectors(segment) {
                select(value, selector, root, work, &mut |_, child| selected.push(child))?;
            }
        }
    }
    Ok(selected)
}

fn descendants<'a>(from: Vec<&'a Value>, work: &mut Work) -> Result<Vec<&'a Value>, OutOfWork> {
    let mut found = Vec::new();
    let mut open = from;
    while let Some(value) = open.pop() {
        found.push(value);
        for_each_child(value, work, &mut |_, child, _| {
            open.push(child);
            Ok(())
        })?;
    }
    Ok(found)
}

/// The selectors of a segment; for a descendant segment, the selectors that it applies to each
/// descendant.
fn selectors(segment: &Segment) -> &[Selector] {
    match segment {
        Segment::Descendant(inner) => selectors(inner),
        Segment::Selector(selector) => std::slice::from_ref(selector),
        Segment::Selectors(selectors) => selectors,
    }
}

/// Reports the children of `value` that `selector` selects.
fn select<'a>(
    value: &'a Value,
    selector: &Selector,
    root: &'a Value,
    work: &mut Work,
    found: &mut dyn FnMut(StepRef<'a>, &'a Value),
) -> Result<(), OutOfWork> {
    work.spend(1)?;
    match selector {
        Selector::Name(name) => {
            if let Some((key, child)) = value.as_object().and_then(|members| members.get_key_value(name)) {
                found(StepRef::Key(key), child);
            }
        }
        Selector::Index(index) => {
            if let Some((index, child)) = element(value, *index) {
                found(StepRef::Index(index), child);
            }
        }
        Selector::Wildcard => for_each_child(value, work, &mut |step, child, _| {
            found(step, child);
            Ok(())
        })?,
        Selector::Slice(start, end, step) => {
            let elements = value.as_array().map_or(&[][..], Vec::as_slice);
            for index in slice(elements.len(), *start, *end, step.unwrap_or(1)) {
                work.spend(1)?;
                if let Some(child) = elements.get(index) {
                    found(StepRef::Index(index), child);
                }
            }
        }
        Selector::Filter(condition) => for_each_child(value, work, &mut |step, child, work| {
            if filter::holds(condition, child, root, work)? {
                found(step, child);
            }
            Ok(())
        })?,
    }
    Ok(())
}

type Visit<'a, 'v> = dyn FnMut(StepRef<'a>, &'a Value, &mut Work) -> Result<(), OutOfWork> + 'v;

fn for_each_child<'a>(value: &'a Value, work: &mut Work, visit: &mut Visit<'a, '_>) -> Result<(), OutOfWork> {
    match value {
        Value::Object(members) => {
            work.spend(members.len())?;
            members
                .iter()
                .try_for_each(|(key, child)| visit(StepRef::Key(key), child, work))
        }
        Value::Array(elements) => {
            work.spend(elements.len())?;
            let mut indexed = elements.iter().enumerate();
            indexed.try_for_each(|(index, child)| visit(StepRef::Index(index), child, work))
        }
        _ => Ok(()),
    }
}

/// The element at `index`; a negative index counts from the end.
pub(crate) fn element(value: &Value, index: i64) -> Option<(usize, &Value)> {
    let elements = value.as_array()?;
    let distance = usize::try_from(index.unsigned_abs()).ok()?;
    let index = if index < 0 {
        elements.len().checked_sub(distance)?
    } else {
        distance
    };
    elements.get(index).map(|element| (index, element))
}

/// The indexes that a slice selects (RFC 9535 §2.3.4.2).
fn slice(len: usize, start: Option<i64>, end: Option<i64>, step: i64) -> Vec<usize> {
    let Ok(len) = i64::try_from(len) else {
        return Vec::new();
    };
    let normal = |index: i64| {
        if index < 0 {
            len.saturating_add(index)
        } else {
            index
        }
    };
    let mut indexes = Vec::new();
    let mut push = |index: i64| indexes.extend(usize::try_from(index).ok());
    if step > 0 {
        let upper = end.map_or(len, normal).clamp(0, len);
        let mut index = start.map_or(0, normal).clamp(0, len);
        while index < upper {
            push(index);
            index = index.saturating_add(step);
        }
    } else if step < 0 {
        let lower = end.map_or(-1, normal).clamp(-1, len - 1);
        let mut index = start.map_or(len - 1, normal).clamp(-1, len - 1);
        while index > lower {
            push(index);
            index = index.saturating_add(step);
        }
    }
    indexes
}

#[cfg(test)]
mod tests;
