//! `matches` of CEL, with a limit on the cost of a pattern. The implementation of the crate `cel`
//! has no limit and is not compiled in.
//!
//! The syntax is that of RE2 as far as the crate `regex` supports it, which is all except `\C`.
//! Unlike in RE2, `\d`, `\w` and `\s` match Unicode.

use std::{cell::RefCell, collections::HashMap};

use cel::{
    DeclarationError, Env, ExecutionError,
    common::{
        types::{CelBool, CelString, STRING_TYPE},
        value::CowVal,
    },
};
use regex::{Regex, RegexBuilder};

use super::meter;

const MATCHES: &str = "matches";

/// Maximum length of a pattern in bytes.
const LONGEST: usize = 256;

/// Maximum size of a compiled pattern in bytes. One `\w` takes an eighth of it; `(a{100}){100}` is
/// rejected before it is built.
const LARGEST: usize = 256 * 1024;

/// Maximum number of compiled patterns that are kept for the other clusters of a table.
const KEPT: usize = 16;

/// Cost of compiling a pattern, and cost per byte of the text: matching takes time proportional to
/// text and compiled pattern.
const TO_COMPILE: u64 = 20_000;
const PER_BYTE: u64 = 64;

thread_local! {
    static PATTERNS: RefCell<HashMap<String, Result<Regex, String>>> = RefCell::default();
}

/// Declares `matches(text, pattern)` and `text.matches(pattern)`.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload(MATCHES, "matches", vec![STRING_TYPE, STRING_TYPE], matches)?;
    env.add_member_overload(MATCHES, "string_matches", STRING_TYPE, vec![STRING_TYPE], matches)
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of an overload")]
fn matches<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let texts: Vec<&str> = args
        .iter()
        .filter_map(|arg| arg.as_ref().downcast_ref::<CelString<'v>>())
        .map(CelString::inner)
        .collect();
    let [text, pattern] = texts.as_slice() else {
        return Err(ExecutionError::missing_argument_or_target());
    };
    let refused = |why: String| ExecutionError::function_error(MATCHES, why);
    if pattern.len() > LONGEST {
        return Err(refused(format!("the pattern has more than {LONGEST} bytes")));
    }
    if !meter::charge(PER_BYTE * text.len() as u64) {
        return Err(refused("the expression costs too much".to_owned()));
    }
    let regex = compiled(pattern).map_err(refused)?;
    Ok(CowVal::owned(CelBool::from(regex.is_match(text))))
}

/// Returns the cached result for a pattern that this thread has compiled before, including a
/// failure.
fn compiled(pattern: &str) -> Result<Regex, String> {
    let known = PATTERNS.with_borrow(|patterns| patterns.get(pattern).cloned());
    if let Some(known) = known {
        return known;
    }
    if !meter::charge(TO_COMPILE) {
        return Err("the expression costs too much".to_owned());
    }
    let regex = RegexBuilder::new(pattern).size_limit(LARGEST).build();
    let regex = regex.map_err(|error| error.to_string());
    PATTERNS.with_borrow_mut(|patterns| {
        if patterns.len() < KEPT {
            patterns.insert(pattern.to_owned(), regex.clone());
        }
    });
    regex
}
