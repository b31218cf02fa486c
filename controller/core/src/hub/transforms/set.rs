//! The entries of `spec.set` of a CustomTransform: their values, given or computed by CEL
//! expressions, within limits of size and cost for each object.
//!
//! Not here: the paths and the fields that no transform may set (crate `argosy-transforms`), and the
//! evaluator of expressions (`cel`).

use std::collections::BTreeMap;

use argosy_api::{CustomTransformSpec, SetRule};
use argosy_transforms::{
    Location, MAX_WORK,
    set::{SetPath, Steps, put},
};
use cel::{Value as CelValue, common::value::CowVal, context::VariableResolver};
use serde_json::Value;

use crate::{
    cel::{
        Dialect, Expression, Functions, deep,
        json::{convert, map, text},
        to_json::to_json,
    },
    index::decode_error,
};

/// Maximum number of entries of one transform that are used.
const MOST: usize = 64;

/// Maximum size of one new value, in bytes of JSON.
const LARGEST: usize = 64 * 1024;

/// Maximum size of all new values of one object for one cluster, in bytes of JSON.
const LARGEST_SUM: usize = 1024 * 1024;

/// Limit of cost for all expressions of one object and cluster (`cel`). An ordinary expression costs
/// less than a hundred.
const PURSE: u64 = 500_000;

/// The names of the variables.
const VALUE: &str = "value";
const OBJECT: &str = "object";
const CLUSTER: &str = "cluster";

const DIALECT: Dialect = Dialect {
    variables: &[VALUE, OBJECT, CLUSTER],
    functions: Functions::Standard,
};

/// A valid entry.
#[derive(Debug)]
pub(super) struct Setter {
    /// Position in `spec.set`, from 0.
    pub(super) index: usize,
    path: SetPath,
    to: To,
}

/// The new value.
#[derive(Debug)]
enum To {
    Value { value: Value, bytes: usize },
    Expression { source: String, compiled: Expression },
}

impl PartialEq for Setter {
    fn eq(&self, other: &Self) -> bool {
        let is_same = match (&self.to, &other.to) {
            (To::Value { value: one, .. }, To::Value { value: other, .. }) => one == other,
            (To::Expression { source: one, .. }, To::Expression { source: other, .. }) => one == other,
            _ => false,
        };
        is_same && (self.index, &self.path) == (other.index, &other.path)
    }
}

/// Compiles the entries of `spec.set`. Invalid entries are reported in `errors` and left out.
pub(super) fn compile(spec: &CustomTransformSpec, errors: &mut Vec<String>) -> Vec<Setter> {
    let entries = || spec.set.iter().enumerate().take(MOST);
    let compile = || {
        let compiled = entries().map(|(index, rule)| Setter::compile(index, rule, spec));
        compiled.collect::<Vec<_>>()
    };
    let has_expressions = entries().any(|(_, rule)| rule.expression.is_some());
    let compiled = if has_expressions {
        deep::run(compile).unwrap_or_else(|error| vec![Err(error)])
    } else {
        compile()
    };
    let mut setters = Vec::new();
    for entry in compiled {
        match entry {
            Ok(setter) => setters.push(setter),
            Err(error) => errors.push(error),
        }
    }
    if spec.set.len() > MOST {
        errors.push(format!(
            "Error in spec.set[{MOST}]: only the first {MOST} entries are used; move this entry and the following ones to another CustomTransform"
        ));
    }
    setters
}

impl Setter {
    fn compile(index: usize, rule: &SetRule, spec: &CustomTransformSpec) -> Result<Self, String> {
        let error = |why: String| format!("Error in spec.set[{index}]: {why}");
        let to = match (&rule.value, &rule.expression) {
            (Some(value), None) => {
                let bytes = value.to_string().len();
                if bytes > LARGEST {
                    return Err(error(format!("value has {bytes} bytes; the limit is {LARGEST}")));
                }
                To::Value {
                    value: value.clone(),
                    bytes,
                }
            }
            (None, Some(source)) => To::Expression {
                source: source.clone(),
                compiled: Expression::compile(source, &DIALECT)
                    .map_err(|why| error(format!("expression {why}")))?,
            },
            (Some(_), Some(_)) => {
                return Err(error("it has both value and expression; remove one".to_owned()));
            }
            (None, None) => return Err(error("it has neither value nor expression".to_owned())),
        };
        let path = SetPath::parse(&rule.path, &spec.api_group, &spec.resource, rule.value.as_ref());
        let path =
            path.map_err(|problem| format!("{} spec.set[{index}].path: {problem}", problem.prefix()))?;
        Ok(Self { index, path, to })
    }

    /// True if the new value is computed.
    pub(super) fn is_computed(&self) -> bool {
        matches!(self.to, To::Expression { .. })
    }

    /// True if the new value may depend on the properties of the cluster.
    pub(super) fn reads_cluster(&self) -> bool {
        // A variable can be written only by its name.
        matches!(&self.to, To::Expression { source, .. } if source.contains(CLUSTER))
    }

    /// Sets the values in `object`, all or none of them. The caller provides stack for deep
    /// recursion if the new value is computed (`deep`).
    ///
    /// # Errors
    ///
    /// The location, if known, and the reason why nothing is set.
    pub(super) fn apply(
        &self,
        object: &mut Value,
        cluster: &BTreeMap<String, String>,
        limits: &mut Limits,
    ) -> Result<(), String> {
        let located = self.path.locate(object, &mut limits.steps);
        let located = located.ok_or_else(|| {
            format!("the paths of set take more than {MAX_WORK} steps on this object; narrow them")
        })?;
        let mut values = Vec::new();
        for location in located {
            let value = self.value(object, &location, cluster, limits);
            let value = value.map_err(|why| format!("at {location}: {why}"))?;
            values.push((location, value));
        }
        put(object, values);
        Ok(())
    }

    /// The new value at a location.
    fn value(
        &self,
        object: &Value,
        location: &Location,
        cluster: &BTreeMap<String, String>,
        limits: &mut Limits,
    ) -> Result<Value, String> {
        let value = match &self.to {
            To::Value { value, bytes } => {
                limits.take(*bytes)?;
                value.clone()
            }
            To::Expression { compiled, .. } => {
                let variables = Variables {
                    value: location.of(object).unwrap_or(&Value::Null),
                    object,
                    cluster,
                };
                let value = limits.evaluate(compiled, &variables)?;
                let value = to_json(&value)?;
                limits.take(value.to_string().len())?;
                value
            }
        };
        if let Some(field) = self.path.owned(location, &value) {
            return Err(if field == *location {
                "only Argosy or the API server sets this field; narrow the path".to_owned()
            } else {
                format!(
                    "the new value contains {field}, which only Argosy or the API server sets; leave it out"
                )
            });
        }
        match decode_error::too_deep("the object", &value, location.0.len()) {
            Some(error) => Err(error),
            None => Ok(value),
        }
    }
}

/// The work and size that are left for one object and one cluster.
pub(super) struct Limits {
    steps: Steps,
    purse: u64,
    bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: Steps::default(),
            purse: PURSE,
            bytes: LARGEST_SUM,
        }
    }
}

impl Limits {
    fn take(&mut self, bytes: usize) -> Result<(), String> {
        if bytes > LARGEST {
            return Err(format!("the new value has {bytes} bytes; the limit is {LARGEST}"));
        }
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| {
            format!("the new values of the object have more than {LARGEST_SUM} bytes together")
        })?;
        Ok(())
    }

    fn evaluate(&mut self, expression: &Expression, variables: &Variables<'_>) -> Result<CelValue, String> {
        if self.purse == 0 {
            return Err(
                "the expressions of set cost too much for this object: select fewer values".to_owned(),
            );
        }
        let (value, left) = expression.evaluate(variables, self.purse);
        self.purse = left;
        value
    }
}

/// The variables of an expression. Only the parts that the expression names are converted: the
/// evaluator asks for the longest name first.
struct Variables<'a> {
    value: &'a Value,
    object: &'a Value,
    cluster: &'a BTreeMap<String, String>,
}

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        let mut path = name.split('.');
        let (root, value) = match path.next()? {
            VALUE => (self.value, None),
            OBJECT => (self.object, None),
            CLUSTER => (&Value::Null, Some(self.cluster)),
            _ => return None,
        };
        let value = match (value, path.next()) {
            (Some(properties), None) => {
                map(properties.iter().map(|(key, value)| (key.as_str(), text(value))))
            }
            (Some(properties), Some(key)) => {
                let property = properties.get(key).filter(|_| path.next().is_none());
                text(property?)
            }
            (None, first) => convert(
                first
                    .into_iter()
                    .chain(path)
                    .try_fold(root, |value, key| value.get(key))?,
            ),
        };
        Some(CowVal::Owned(value))
    }
}

/// Runs `work`, on a deep stack if it evaluates expressions.
pub(super) fn run<T: Send>(is_computed: bool, work: impl FnOnce() -> T + Send) -> Result<T, String> {
    if is_computed { deep::run(work) } else { Ok(work()) }
}
