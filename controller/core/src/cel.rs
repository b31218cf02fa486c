//! A CEL expression that is parsed once, within size limits, and evaluated within a cost limit.
//!
//! The dialect is the standard library of CEL, as in KubeStellar: no extensions and no optional
//! values. OCM's condition rules have one additional function. cel-go finds unknown names in its
//! type check. The crate `cel` has no type checker, so `names` checks names, and a type error is an
//! error of the evaluation. Not here: the variables, and the use of the resulting value
//! (`hub/objects/collect`, `hub/transforms`,
//! `agent/manifests`).

mod conditions;
pub(crate) mod deep;
mod fault;
pub(crate) mod json;
mod meter;
mod names;
mod pattern;
pub(crate) mod to_json;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, LazyLock},
};

use cel::{
    Context, DeclarationError, Env, Value as CelValue,
    common::ast::{EntryExpr, Expr, IdedExpr},
    context::VariableResolver,
    parser::Parser,
};

#[cfg(test)]
pub(crate) use names::FUNCTIONS;

/// Maximum length of an expression in bytes.
const LONGEST: usize = 4096;

/// Maximum nesting that the parser accepts, and maximum depth of the parsed tree: `a + b + c` has
/// one level per operator.
const DEEPEST_SOURCE: u16 = 64;
const DEEPEST: usize = 128;

/// The error of an expression whose evaluation exceeds the cost limit.
const COSTS_TOO_MUCH: &str =
    "the expression costs too much: let it read less data, or nest map, filter, all and exists less deeply";

/// The names that an expression may refer to.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// The names of all variables.
    pub(crate) variables: &'static [&'static str],
    /// Functions in addition to the standard library.
    pub(crate) functions: Functions,
}

/// Functions in addition to the standard library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Functions {
    /// None.
    Standard,
    /// `hasConditions`, as in OCM's condition rules.
    Conditions,
}

impl Functions {
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Standard => &[],
            Self::Conditions => &[conditions::HAS_CONDITIONS],
        }
    }
}

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Expression {
    metered: IdedExpr,
    functions: Functions,
}

impl Expression {
    /// Compiles `source`. The caller must provide stack for deep recursion (`deep`).
    pub(crate) fn compile(source: &str, dialect: &Dialect) -> Result<Self, String> {
        if source.len() > LONGEST {
            return Err(format!("has {} bytes; the limit is {LONGEST}", source.len()));
        }
        let parser = Parser::new().max_recursion_depth(DEEPEST_SOURCE);
        let parsed = catch_unwind(AssertUnwindSafe(|| parser.parse(source)));
        let parsed = parsed.map_err(|_| "cannot be parsed: the parser gave up".to_owned())?;
        let parsed = parsed.map_err(|errors| format!("cannot be parsed: {}", fault::parse(&errors)))?;
        if depth(&parsed) > DEEPEST {
            return Err(format!("is nested deeper than {DEEPEST} levels"));
        }
        names::check(&parsed, dialect)?;
        Ok(Self {
            metered: meter::metered(parsed),
            functions: dialect.functions,
        })
    }

    /// Evaluates the expression with one set of variables. Returns the value and the rest of
    /// `purse`. The caller must provide stack for deep recursion (`deep`).
    pub(crate) fn evaluate(
        &self,
        inputs: &dyn VariableResolver,
        purse: u64,
    ) -> (Result<CelValue, String>, u64) {
        let environment = match self.functions {
            Functions::Standard => &*STANDARD,
            Functions::Conditions => &*CONDITIONS,
        };
        let environment = match environment {
            Ok(environment) => Arc::clone(environment),
            Err(error) => return (Err(error.to_string()), purse),
        };
        let mut context = Context::with_env(environment);
        context.set_variable_resolver(inputs);
        let resolve = || catch_unwind(AssertUnwindSafe(|| CelValue::resolve(&self.metered, &context)));
        let (resolved, left) = meter::with_purse(purse, resolve);
        let value = match resolved {
            // The result is rejected whatever it is, because an absorbed cost error may have
            // changed it.
            _ if left == 0 => Err(COSTS_TOO_MUCH.to_owned()),
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(fault::sentence(&error)),
            Err(_) => Err("the evaluator panicked; this is a bug in it".to_owned()),
        };
        (value, left)
    }
}

static STANDARD: LazyLock<Result<Arc<Env>, DeclarationError>> =
    LazyLock::new(|| Ok(Arc::new(environment()?)));

static CONDITIONS: LazyLock<Result<Arc<Env>, DeclarationError>> = LazyLock::new(|| {
    let mut environment = environment()?;
    conditions::declare(&mut environment)?;
    Ok(Arc::new(environment))
});

fn environment() -> Result<Env, DeclarationError> {
    let mut environment = Env::default().with_optional_support(false).with_stdlib();
    meter::declare(&mut environment)?;
    pattern::declare(&mut environment)?;
    Ok(environment)
}

fn depth(expression: &IdedExpr) -> usize {
    let deepest =
        |children: &mut dyn Iterator<Item = &IdedExpr>| children.map(depth).max().unwrap_or_default();
    1 + match &expression.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => 0,
        Expr::Call(call) => deepest(&mut call.args.iter().chain(call.target.as_deref())),
        Expr::Select(select) => depth(&select.operand),
        Expr::List(list) => deepest(&mut list.elements.iter()),
        Expr::Map(map) => deepest(&mut entries(&map.entries)),
        Expr::Struct(message) => deepest(&mut entries(&message.entries)),
        Expr::Comprehension(comprehension) => deepest(
            &mut [
                &comprehension.iter_range,
                &comprehension.loop_step,
                &comprehension.result,
            ]
            .into_iter(),
        ),
    }
}

/// The expressions in the entries of a map or a message.
fn entries(entries: &[cel::common::ast::IdedEntryExpr]) -> impl Iterator<Item = &IdedExpr> {
    entries.iter().flat_map(|entry| match &entry.expr {
        EntryExpr::MapEntry(entry) => [Some(&entry.key), Some(&entry.value)].into_iter().flatten(),
        EntryExpr::StructField(field) => [Some(&field.value), None].into_iter().flatten(),
    })
}
