//! The cost limit of expressions. The crate `cel` has none, and each link in a chain of
//! `[a].map(x, x + x)` doubles the value.
//!
//! An expression is rewritten before its evaluation: every operand of a call, element of a literal,
//! range of a comprehension and body of its step is passed through [`SPEND`], which deducts the
//! size of the value from a purse and fails when the purse is empty. Every operation is linear in
//! its operands, so the purse bounds time and memory. An expression cannot escape by absorbing the
//! error with `||`, `all` or `exists`: the purse stays empty, so the next value fails as well, and
//! the evaluation as a whole is rejected.
//!
//! The purse is thread-local, because overloads are plain functions. Not here: the size of an
//! evaluation's purse.

use std::cell::Cell;

use cel::{
    DeclarationError, Env, ExecutionError,
    common::{
        ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators},
        types::{CelBytes, CelList, CelMap, CelString, DYN_TYPE},
        value::{CowVal, Val},
    },
    objects::Key,
};

/// The function that every value is passed through. Its name cannot be written in CEL.
const SPEND: &str = "@spend";

/// The same for the range of a comprehension. A map is replaced by the sorted list of its keys,
/// because a comprehension iterates over the keys of a map in random order.
const RANGE: &str = "@range";

/// The cost of a pass through these functions, in addition to the size of the value. Converting a
/// value from JSON costs one unit per node, and takes about a tenth of the time.
const STEP: u64 = 10;

/// Bytes of text that cost as much as one number.
const TEXT: u64 = 8;

thread_local! {
    static PURSE: Cell<u64> = const { Cell::new(0) };
}

/// Runs `work` with a purse of `units` and returns the rest of the purse. A rest of 0 means that
/// the limit was exceeded.
pub(super) fn with_purse<T>(units: u64, work: impl FnOnce() -> T) -> (T, u64) {
    PURSE.set(units);
    let result = work();
    (result, PURSE.take())
}

/// Deducts `units` from the purse. Returns false if the purse is empty now or was empty before.
pub(super) fn charge(units: u64) -> bool {
    let left = PURSE.get().saturating_sub(units);
    PURSE.set(left);
    left > 0
}

/// Declares [`SPEND`] and [`RANGE`].
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload(SPEND, SPEND, vec![DYN_TYPE], take)?;
    env.add_overload(RANGE, RANGE, vec![DYN_TYPE], range)
}

fn range<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = take(args)?;
    // All iterations are paid for here: an iteration that fails early pays nothing, and `exists`
    // continues with the next one.
    let rounds = value.as_sizer().map_or(0, |sizer| *sizer.size().inner());
    if !charge(STEP.saturating_mul(rounds.unsigned_abs())) {
        return Err(too_much());
    }
    let Some(map) = value.downcast_ref::<CelMap<'v>>() else {
        return Ok(value);
    };
    let mut keys: Vec<_> = map
        .inner()
        .keys()
        .map(|key| (Key::from(key.clone()), key))
        .collect();
    keys.sort_by(|(one, _), (other, _)| one.cmp(other));
    let keys: Vec<_> = keys
        .into_iter()
        .map(|(_, key)| key.inner().clone_as_boxed())
        .collect();
    Ok(CowVal::owned(CelList::from(keys)))
}

fn take<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Result<CowVal<'b, 'v>, ExecutionError> {
    let value = args.into_iter().next();
    let value = value.ok_or_else(ExecutionError::missing_argument_or_target)?;
    // Measures slightly beyond the purse but not much further, because measuring takes time, too.
    if charge(STEP + size(value.as_ref(), PURSE.get())) {
        Ok(value)
    } else {
        Err(too_much())
    }
}

fn too_much() -> ExecutionError {
    ExecutionError::function_error(SPEND, "the expression costs too much")
}

/// The size of a value, or any number above `limit` if it is larger.
fn size(value: &dyn Val, limit: u64) -> u64 {
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        return 1 + text.inner().len() as u64 / TEXT;
    }
    if let Some(bytes) = value.downcast_ref::<CelBytes<'_>>() {
        return 1 + bytes.inner().len() as u64 / TEXT;
    }
    let mut total = 1;
    if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        for item in list.inner() {
            total += size(item.as_ref(), limit.saturating_sub(total));
            if total > limit {
                break;
            }
        }
    } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        for (key, item) in map.inner() {
            total += size(key.inner(), limit) + size(item.as_ref(), limit.saturating_sub(total));
            if total > limit {
                break;
            }
        }
    }
    total
}

/// Rewrites an expression so that every value is paid for.
pub(super) fn metered(expression: IdedExpr) -> IdedExpr {
    paid(within(expression))
}

/// Keeps the shape of the steps into which macros expand, because the evaluator recognizes it and
/// appends to a list in place instead of copying the list.
fn within(IdedExpr { id, expr }: IdedExpr) -> IdedExpr {
    let operand = |operand: IdedExpr| paid(within(operand));
    let expr = match expr {
        Expr::Call(call) => Expr::Call(CallExpr {
            func_name: call.func_name,
            target: call.target.map(|target| Box::new(operand(*target))),
            args: call.args.into_iter().map(operand).collect(),
        }),
        Expr::List(mut list) => {
            list.elements = list.elements.into_iter().map(operand).collect();
            Expr::List(list)
        }
        Expr::Map(mut map) => {
            for entry in &mut map.entries {
                if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                    entry.key = operand(std::mem::take(&mut entry.key));
                    entry.value = operand(std::mem::take(&mut entry.value));
                }
            }
            Expr::Map(map)
        }
        Expr::Select(mut select) => {
            *select.operand = within(std::mem::take(&mut *select.operand));
            Expr::Select(select)
        }
        Expr::Comprehension(mut comprehension) => {
            comprehension.iter_range = through(RANGE, within(comprehension.iter_range));
            comprehension.loop_step = within(comprehension.loop_step);
            Expr::Comprehension(comprehension)
        }
        other @ (Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) | Expr::Struct(_)) => other,
    };
    IdedExpr { id, expr }
}

fn paid(expression: IdedExpr) -> IdedExpr {
    if is_free(&expression.expr) {
        return expression;
    }
    through(SPEND, expression)
}

fn through(function: &str, expression: IdedExpr) -> IdedExpr {
    let call = CallExpr {
        func_name: function.to_owned(),
        target: None,
        args: vec![expression],
    };
    IdedExpr {
        id: 0,
        expr: Expr::Call(call),
    }
}

/// True for a literal number or boolean, for the accumulator of a comprehension, and for the list
/// that is appended to the accumulator, because its elements are paid for.
fn is_free(expression: &Expr) -> bool {
    let is_accumulator = |expression: &Expr| matches!(expression, Expr::Ident(name) if name.starts_with('@'));
    match expression {
        Expr::Literal(literal) => !matches!(literal, LiteralValue::String(_) | LiteralValue::Bytes(_)),
        Expr::Ident(_) => is_accumulator(expression),
        Expr::List(list) => list.elements.len() == 1,
        Expr::Call(call) if call.func_name == operators::ADD => {
            call.args.first().is_some_and(|first| is_accumulator(&first.expr))
        }
        _ => false,
    }
}
