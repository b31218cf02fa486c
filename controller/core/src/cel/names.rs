//! Check of the names in an expression: unknown variables, functions and types are found before the
//! evaluation.

use cel::common::ast::{Expr, IdedExpr, operators};

use super::{Dialect, entries};

/// The functions of CEL's standard library, besides the operators.
pub(crate) const FUNCTIONS: [&str; 28] = [
    "bool",
    "bytes",
    "contains",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getFullYear",
    "getHours",
    "getMilliseconds",
    "getMinutes",
    "getMonth",
    "getSeconds",
    "int",
    "matches",
    "size",
    "startsWith",
    "string",
    "timestamp",
    "type",
    "uint",
    operators::IN,
    operators::NEGATE,
    operators::LOGICAL_NOT,
];

/// The types that an expression may compare `type(x)` with.
const TYPES: [&str; 11] = [
    "bool",
    "bytes",
    "double",
    "google",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
];

/// Returns an error about the first unknown name in `expression`.
pub(super) fn check(expression: &IdedExpr, dialect: &Dialect) -> Result<(), String> {
    check_in(dialect, &mut Vec::new(), expression)
}

/// `bound` contains the variables of the enclosing comprehensions.
fn check_in<'e>(dialect: &Dialect, bound: &mut Vec<&'e str>, expression: &'e IdedExpr) -> Result<(), String> {
    match &expression.expr {
        Expr::Unspecified | Expr::Literal(_) => Ok(()),
        Expr::Ident(name) => {
            let plain = name.strip_prefix('.').unwrap_or(name);
            let is_known = dialect.variables.contains(&plain)
                || TYPES.contains(&plain)
                || name.starts_with('@')
                || bound.contains(&name.as_str());
            is_known.then_some(()).ok_or_else(|| {
                format!(
                    "refers to the unknown variable {name}; available: {}",
                    dialect.variables.join(", ")
                )
            })
        }
        Expr::Call(call) => {
            let name = call.func_name.as_str();
            // The parser spells operators with `_` or `@`, which no library function contains.
            if !name.contains(['_', '@'])
                && !FUNCTIONS.contains(&name)
                && !dialect.functions.names().contains(&name)
            {
                return Err(format!(
                    "calls {name}, which is unknown or called in the wrong form"
                ));
            }
            let operands = call.target.as_deref().into_iter().chain(&call.args);
            operands
                .into_iter()
                .try_for_each(|operand| check_in(dialect, bound, operand))
        }
        Expr::Select(select) => check_in(dialect, bound, &select.operand),
        Expr::List(list) => list
            .elements
            .iter()
            .try_for_each(|item| check_in(dialect, bound, item)),
        Expr::Map(map) => entries(&map.entries).try_for_each(|item| check_in(dialect, bound, item)),
        Expr::Struct(message) => Err(format!(
            "creates a value of the unknown type {}",
            message.type_name
        )),
        Expr::Comprehension(comprehension) => {
            check_in(dialect, bound, &comprehension.iter_range)?;
            bound.push(&comprehension.iter_var);
            let checked = check_in(dialect, bound, &comprehension.loop_step);
            bound.pop();
            checked
        }
    }
}
