//! The CEL for all selected Workflows, which API servers receive: in the webhook's match
//! conditions, and in the admission policy `argosy-create`, which guards creations while the
//! webhook is unavailable.
//!
//! Owned here: the size limits of API servers, and the handling of policies that exceed them.
//! Expressions that are too long are never replaced by shorter ones that select less: the policies
//! concerned are reported as unguarded, and the others stay guarded. Not here: the CEL of one
//! selector (`admission_cel`).

use std::collections::BTreeSet;

use super::{
    Rules,
    admission_cel::{Condition, Term, all, any, merged},
};

/// Maximum length of one expression in bytes. An API server parses at most 100,000 characters, and
/// evaluates the expression for every request.
const LONGEST: usize = 64 * 1024;

/// Maximum number of expressions of the admission policy. With it, they stay below the 1.5 MiB that
/// etcd accepts for one object.
const MOST: usize = 16;

/// The selection of policies as CEL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    /// CEL over `object`. True for all selected Workflows. If a policy reads the labels of
    /// namespaces, also true for some others. It is the literal `true` if the expression would be
    /// too long.
    pub(crate) broad: String,
    /// CEL over `object` and `namespaceObject`. One of the expressions is true for exactly the
    /// selected Workflows, except those of unguarded policies.
    pub(crate) exact: Vec<String>,
    /// The policies whose clauses are not in `exact`.
    pub(crate) unguarded: BTreeSet<String>,
}

impl Default for Selection {
    fn default() -> Self {
        Self::of(std::iter::empty())
    }
}

impl Selection {
    /// The selection of these policies, each with its name.
    pub(crate) fn of<'a>(policies: impl Iterator<Item = (&'a str, &'a Rules)>) -> Self {
        let policies: Vec<_> = policies.collect();
        let broad = policies.iter().flat_map(|(_, rules)| rules.selection()).cloned();
        let broad = any(&merged(broad.collect()));
        let (exact, unguarded) = guarded(&policies);
        Self {
            // A broader condition is safe, because the webhook checks the selection again.
            broad: if broad.len() <= LONGEST {
                broad
            } else {
                "true".to_owned()
            },
            exact,
            unguarded,
        }
    }
}

/// The policies whose Workflows do not fit into the admission policy.
pub(crate) fn unguarded<'a>(
    policies: impl Iterator<Item = (&'a str, &'a Rules)> + Clone,
) -> BTreeSet<String> {
    let lengths = policies.clone().map(|(_, rules)| rules.lengths());
    let (longest, sum) = lengths.fold((0, 0), |(longest, sum), (one, all)| (one.max(longest), sum + all));
    // Two adjacent expressions together are always longer than the limit, so at least half of the
    // room is filled.
    if longest <= LONGEST / 2 && sum <= LONGEST * (MOST / 2 - 1) {
        return BTreeSet::new();
    }
    guarded(&policies.collect::<Vec<_>>()).1
}

/// The expressions that guard the selections of `policies`, and the names of the policies that they
/// do not guard. If not all fit, the longest ones are left out.
fn guarded(policies: &[(&str, &Rules)]) -> (Vec<String>, BTreeSet<String>) {
    if let Some(exact) = told(policies) {
        return (exact, BTreeSet::new());
    }
    let mut sorted: Vec<_> = policies
        .iter()
        .filter(|policy| told(std::slice::from_ref(*policy)).is_some())
        .map(|(name, rules)| (rules.lengths().1, *name, *rules))
        .collect();
    sorted.sort_by_key(|(length, name, _)| (*length, *name));
    let sorted: Vec<_> = sorted.into_iter().map(|(_, name, rules)| (name, rules)).collect();
    let (mut exact, mut fit, mut too_many) = (vec![any(&[])], 0, sorted.len() + 1);
    while fit + 1 < too_many {
        let count = usize::midpoint(fit, too_many);
        match sorted.get(..count).and_then(told) {
            Some(expressions) => (exact, fit) = (expressions, count),
            None => too_many = count,
        }
    }
    let guarded: BTreeSet<&str> = sorted.iter().take(fit).map(|(name, _)| *name).collect();
    let left = policies.iter().filter(|(name, _)| !guarded.contains(name));
    (exact, left.map(|(name, _)| (*name).to_owned()).collect())
}

fn told(policies: &[(&str, &Rules)]) -> Option<Vec<String>> {
    let terms = policies.iter().flat_map(|(_, rules)| rules.exact_selection());
    expressions(merged(terms.cloned().collect()))
}

/// Expressions of which one is true if any of `terms` is true. `None` if they would be too long or
/// too many.
fn expressions(terms: Vec<Term>) -> Option<Vec<String>> {
    let mut expressions: Vec<String> = Vec::new();
    for term in terms {
        for text in pieces(term)? {
            match expressions.last_mut() {
                Some(last) if last.len() + text.len() + 4 <= LONGEST => {
                    last.push_str(" || ");
                    last.push_str(&text);
                }
                _ => expressions.push(text),
            }
        }
        if expressions.len() > MOST {
            return None;
        }
    }
    if expressions.is_empty() {
        expressions.push(any(&[]));
    }
    Some(expressions)
}

/// Splits a term into expressions within the length limit by distributing the values of its longest
/// list. `None` if that is not enough.
fn pieces(term: Term) -> Option<Vec<String>> {
    let mut pieces = Vec::new();
    let mut left = vec![term];
    while let Some(term) = left.pop() {
        let text = all(&term);
        if text.len() <= LONGEST {
            pieces.push(text);
        } else {
            left.extend(halves(&term)?);
        }
        // Most pieces are longer than half of the limit.
        if pieces.len() + left.len() > 4 * MOST {
            return None;
        }
    }
    Some(pieces)
}

fn halves(term: &Term) -> Option<[Term; 2]> {
    let count = |condition: &Condition| match condition {
        Condition::In(_, values) => values.len(),
        Condition::Other(_) => 0,
    };
    let (index, longest) = term
        .iter()
        .enumerate()
        .max_by_key(|(_, condition)| count(condition))?;
    let Condition::In(place, values) = longest else {
        return None;
    };
    let middle = values.iter().nth(values.len() / 2).filter(|_| values.len() > 1)?;
    let (first, second) = values.iter().cloned().partition(|value| value < middle);
    Some([first, second].map(|values| {
        let mut half = term.clone();
        half.remove(index);
        half.push(Condition::In(place.clone(), values));
        half
    }))
}
