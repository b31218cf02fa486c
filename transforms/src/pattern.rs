//! The patterns of the functions `match` and `search` (RFC 9535 §2.4.6 and §2.4.7), with limits on
//! their cost.
//!
//! The crate `regex` matches in time proportional to text and compiled pattern. Not here: the
//! syntax of a pattern (`iregexp`), and the arguments of the functions (`filter`).

use std::cell::RefCell;
use std::collections::HashMap;

use regex::{Regex, RegexBuilder};

use crate::evaluate::{OutOfWork, Work};
use crate::iregexp;

/// Maximum length of a pattern in bytes.
const LONGEST: usize = 256;

/// Maximum size of a compiled pattern, and of the memory for matching it, in bytes. One `\p{L}`
/// takes a fraction of it; `(a{100}){100}` is rejected before it is built.
const LARGEST: usize = 128 * 1024;

/// Maximum number of compiled patterns that a thread keeps for the next objects.
const KEPT: usize = 16;

/// Steps for the first use of a pattern on an object, which compiles it. A pattern that the thread
/// has kept costs the same, so that the result is the same.
const TO_COMPILE: usize = 20_000;

/// Steps per byte of the text.
const PER_BYTE: usize = 16;

/// The part of a text that a pattern must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// All of it: `match`.
    Whole,
    /// Any part of it: `search`.
    Any,
}

type Compiled = Result<Regex, String>;

thread_local! {
    static KNOWN: RefCell<HashMap<(Part, String), Compiled>> = RefCell::default();
}

/// Checks a pattern that is written in a path. The error describes the problem.
pub(crate) fn check(pattern: &str) -> Result<(), String> {
    compiled(pattern, Part::Whole).map(drop)
}

/// Returns true if `pattern` matches `text`. An invalid pattern matches nothing.
pub(crate) fn matches(pattern: &str, text: &str, part: Part, work: &mut Work) -> Result<bool, OutOfWork> {
    // Checked first, because a search among the compiled patterns reads the whole pattern.
    if pattern.len() > LONGEST {
        return Ok(false);
    }
    let key = (part, pattern.to_owned());
    if !work.patterns.contains_key(&key) {
        work.spend(TO_COMPILE)?;
    }
    work.spend(PER_BYTE.saturating_mul(text.len()))?;
    let regex = work
        .patterns
        .entry(key)
        .or_insert_with(|| compiled(pattern, part).ok());
    Ok(regex.as_ref().is_some_and(|regex| regex.is_match(text)))
}

fn compiled(pattern: &str, part: Part) -> Compiled {
    if pattern.len() > LONGEST {
        return Err(format!("it has {} bytes; the limit is {LONGEST}", pattern.len()));
    }
    let key = (part, pattern.to_owned());
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&key).cloned()) {
        return known;
    }
    let compiled = iregexp::translate(pattern).and_then(|translated| build(&translated, part));
    KNOWN.with_borrow_mut(|known| {
        if known.len() == KEPT {
            known.clear();
        }
        known.insert(key, compiled.clone());
    });
    compiled
}

fn build(translated: &str, part: Part) -> Compiled {
    let bounded = match part {
        Part::Whole => format!(r"\A(?:{translated})\z"),
        Part::Any => translated.to_owned(),
    };
    let regex = RegexBuilder::new(&bounded)
        .size_limit(LARGEST)
        .dfa_size_limit(LARGEST)
        .build();
    regex.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "it is too large; repeat less".to_owned(),
        _ => "a range or a repetition in it is invalid".to_owned(),
    })
}

#[cfg(test)]
mod tests;
