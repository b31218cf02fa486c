//! Evaluates OCM's condition rules for an object: additional conditions of its manifest, computed
//! by CEL or by OCM's built-in knowledge of a kind.
//!
//! Status, reason and message are those of OCM (`pkg/work/spoke/conditions`). Unlike OCM, CEL here
//! has only the standard library and `hasConditions`. The cost of an evaluation is bounded, but it
//! may take a second. It is therefore not part of a decision: an action carries all its inputs
//! ([`Evaluation`]) and is created again when the object has changed. Not here: where the
//! conditions are written (`status`, `aggregate_conditions`).

use argosy_api::{
    conditions::{manifest_work as types, reason},
    manifest_work::ConditionRule,
};
use cel::{Value as CelValue, common::value::CowVal, context::VariableResolver};
#[cfg(test)]
use kube::core::DynamicObject;
use serde_json::Value;

use super::{
    ApplyAction, GroupVersion, ManifestIndex, ObjectKey, manifest::Verdict, object_view::ObjectView,
    rest_mapping::RestMapping, views::ManifestWorkView,
};
use crate::{
    WorkName,
    cel::{Dialect, Expression, Functions, deep, json},
};

/// The inputs for evaluating the rules of an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    rules: Vec<ConditionRule>,
    generation: i64,
    api: GroupVersion,
    kind: String,
    resource_version: String,
    there: ObjectView,
    /// Memory in bytes that the object and the values of the expressions may take.
    weight: usize,
}

/// The results of the rules of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    /// Generation of the ManifestWork that the rules are from.
    generation: i64,
    /// Resource version of the object.
    resource_version: String,
    pub(super) outcomes: Vec<Outcome>,
}

/// The result of one rule: a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) type_: String,
    /// `True`, `False` or `Unknown`.
    pub(super) status: &'static str,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// Conditions that the agent sets itself. A rule for one of them is ignored, because both would
/// overwrite each other forever.
const OWN: [&str; 4] = [
    types::APPLIED,
    types::STATUS_FEEDBACK_SYNCED,
    types::WATCHED,
    types::WITHDRAWN,
];

/// Limits of the cost (in the units of `cel::meter`) for one expression and for all expressions of
/// an object. A typical expression costs less than a hundred.
const OF_EXPRESSION: u64 = 500_000;
const OF_OBJECT: u64 = 2_000_000;

/// Maximum number of expressions for one object. Each further expression fails with an error.
const MOST_EXPRESSIONS: usize = 64;

/// Maximum number of characters of a message.
const LONGEST: usize = 4096;

const OBJECT: &str = "object";
const RESULT: &str = "result";

const OF_RULES: Dialect = Dialect {
    variables: &[OBJECT],
    functions: Functions::Conditions,
};
const OF_MESSAGES: Dialect = Dialect {
    variables: &[OBJECT, RESULT],
    functions: Functions::Conditions,
};

impl ManifestIndex {
    /// Evaluates the rules of the first object whose present version has not been evaluated. With
    /// `is_first`, only objects count that have no result of the present rules at all.
    pub(super) fn evaluate(
        &self,
        name: &WorkName,
        work: &ManifestWorkView,
        verdicts: &[Verdict],
        is_first: bool,
    ) -> Option<ApplyAction> {
        work.items.iter().zip(verdicts).find_map(|(item, verdict)| {
            let RestMapping::Known(key) = self.naming(item) else {
                return None;
            };
            let rules = rules_of(work, &key);
            // The existing object belongs to another owner, so its state is irrelevant for this
            // manifest.
            let is_foreign = matches!(verdict, Verdict::Failed(reason::FOREIGN_OBJECT, _));
            if rules.is_empty() || is_foreign || !self.may_tell(name, work, &key) {
                return None;
            }
            let there = self.observed(&key)?;
            let known = self.evaluated_for(name, work, &key);
            let is_due = match known {
                None => true,
                Some(known) => !is_first && known.resource_version != there.resource_version,
            };
            is_due.then(|| ApplyAction::Evaluate {
                evaluation: Box::new(Evaluation::new(rules, work, item.api.clone(), &item.kind, there)),
                key,
            })
        })
    }

    /// The result of the ManifestWork's present rules for an object, if there is one.
    pub(super) fn evaluated_for(
        &self,
        name: &WorkName,
        work: &ManifestWorkView,
        key: &ObjectKey,
    ) -> Option<&Evaluated> {
        let evaluated = self.evaluated.get(&(name.clone(), key.clone()));
        evaluated.filter(|evaluated| evaluated.generation == work.generation)
    }
}

/// The rules that are evaluated. If several are for one condition, which OCM's CRD forbids, only
/// the first counts.
pub(super) fn rules_of<'a>(work: &'a ManifestWorkView, key: &ObjectKey) -> Vec<&'a ConditionRule> {
    let mut counting: Vec<&ConditionRule> = Vec::new();
    for rule in work.condition_rules(key) {
        let is_there = counting.iter().any(|other| other.condition == rule.condition);
        if !is_there && is_type(&rule.condition) && !OWN.contains(&rule.condition.as_str()) {
            counting.push(rule);
        }
    }
    counting
}

/// True if the text is valid as the type of a condition. The API server would reject the whole
/// status because of an invalid type.
fn is_type(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric();
    let mut bytes = text.bytes();
    text.len() <= 316
        && bytes.all(|byte| is_plain(byte) || b"-_./".contains(&byte))
        && text.bytes().next().is_some_and(is_plain)
        && text.bytes().next_back().is_some_and(is_plain)
}

impl Evaluation {
    fn new(
        rules: Vec<&ConditionRule>,
        work: &ManifestWorkView,
        api: GroupVersion,
        kind: &str,
        there: &ObjectView,
    ) -> Self {
        Self {
            rules: rules.into_iter().cloned().collect(),
            generation: work.generation,
            api,
            kind: kind.to_owned(),
            resource_version: there.resource_version.clone(),
            weight: there.weight().saturating_mul(2),
            there: there.clone(),
        }
    }

    /// For tests: an evaluation of an object that has `apiVersion` and `kind`.
    #[cfg(test)]
    pub(super) fn of(rules: Vec<ConditionRule>, object: DynamicObject) -> Self {
        let types = object.types.clone().unwrap_or_default();
        Self {
            rules,
            generation: 1,
            api: GroupVersion::parse(&types.api_version),
            kind: types.kind,
            resource_version: String::new(),
            there: object.into(),
            weight: 0,
        }
    }

    /// Memory in bytes that the evaluation may take.
    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    /// Evaluates the rules. This blocks for at most about a second and uses a thread of its own.
    pub fn run(&self) -> Evaluated {
        let object = self.there.to_value_of(&self.api, &self.kind);
        let outcomes = deep::run(|| self.outcomes(&object));
        let outcomes = outcomes.unwrap_or_else(|error| {
            let rules = self.rules.iter();
            let internal = reason::CONDITION_RULE_INTERNAL_ERROR;
            rules
                .map(|rule| Outcome::new(rule, "Unknown", internal, &error))
                .collect()
        });
        Evaluated {
            generation: self.generation,
            resource_version: self.resource_version.clone(),
            outcomes,
        }
    }

    fn outcomes(&self, object: &Value) -> Vec<Outcome> {
        let mut judge = Judge {
            object,
            purse: OF_OBJECT,
            expressions: 0,
        };
        let api = self.api.to_string();
        self.rules
            .iter()
            .filter_map(|rule| match rule.type_.as_str() {
                "CEL" => Some(judge.outcome(rule)),
                "WellKnownConditions" => {
                    let known = well_known(&api, &self.kind, rule)?;
                    Some(judge.outcome(&known))
                }
                other => {
                    let message = format!("unrecognized condition rule type {other}");
                    Some(Outcome::new(
                        rule,
                        "Unknown",
                        reason::CONDITION_RULE_INVALID,
                        &message,
                    ))
                }
            })
            .collect()
    }
}

impl Outcome {
    fn new(rule: &ConditionRule, status: &'static str, reason: &'static str, message: &str) -> Self {
        Self {
            type_: rule.condition.clone(),
            status,
            reason,
            message: message.chars().take(LONGEST).collect(),
        }
    }
}

/// OCM's table of well-known conditions (`pkg/work/spoke/conditions/rules`), with the messages of
/// `rule`. `None` if the table has no entry for the kind.
fn well_known(api: &str, kind: &str, rule: &ConditionRule) -> Option<ConditionRule> {
    let (expression, message) = match (api, kind, rule.condition.as_str()) {
        ("batch/v1", "Job", types::COMPLETE) => (
            "hasConditions(object.status) ? object.status.conditions.filter(c, c.type == 'Complete' || c.type == 'Failed')\
             .exists(c, c.status == 'True') : false",
            r#"result ? "Job is finished" : "Job is not finished""#,
        ),
        ("v1", "Pod", types::COMPLETE) => (
            "object.status.phase in ['Succeeded', 'Failed']",
            r#""Pod is in phase " + object.status.phase"#,
        ),
        _ => return None,
    };
    let mut known = rule.clone();
    known.cel_expressions = vec![expression.to_owned()];
    if known.message_expression.is_empty() {
        message.clone_into(&mut known.message_expression);
    }
    Some(known)
}

/// One object, and the cost that may still be spent on it.
struct Judge<'a> {
    object: &'a Value,
    purse: u64,
    expressions: usize,
}

/// The variables of an expression. Only those parts of the object that the expression names are
/// converted from JSON. The evaluator asks for the longest name first.
struct Variables<'a> {
    object: &'a Value,
    result: Option<bool>,
}

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, name: &str) -> Option<CowVal<'b, 'b>> {
        let mut path = name.split('.');
        let value = match path.next()? {
            OBJECT => json::convert(path.try_fold(self.object, |value, key| value.get(key))?),
            RESULT if path.next().is_none() => json::truth(self.result?),
            _ => return None,
        };
        Some(CowVal::Owned(value))
    }
}

impl Judge<'_> {
    fn outcome(&mut self, rule: &ConditionRule) -> Outcome {
        let result = match self.holds(&rule.cel_expressions) {
            Ok(result) => result,
            Err(error) => {
                return Outcome::new(rule, "False", reason::CONDITION_RULE_EXPRESSION_ERROR, &error);
            }
        };
        let status = if result { "True" } else { "False" };
        let message = self.message(rule, result);
        Outcome::new(rule, status, reason::CONDITION_RULE_EVALUATED, &message)
    }

    /// True if all expressions are true. Expressions after the first false one are not evaluated.
    fn holds(&mut self, expressions: &[String]) -> Result<bool, String> {
        for expression in expressions {
            match self.value(expression, &OF_RULES, None)? {
                CelValue::Bool(true) => {}
                CelValue::Bool(false) => return Ok(false),
                other => return Err(format!("expected bool result, got {}", other.type_of())),
            }
        }
        Ok(true)
    }

    fn message(&mut self, rule: &ConditionRule, result: bool) -> String {
        if !rule.message_expression.is_empty() {
            match self.value(&rule.message_expression, &OF_MESSAGES, Some(result)) {
                Ok(CelValue::String(message)) if message.is_empty() => {}
                Ok(CelValue::String(message)) => return message.to_string(),
                Ok(other) => {
                    return format!(
                        "expected message expression to have a string result, got {}",
                        other.type_of()
                    );
                }
                Err(error) => return error,
            }
        }
        if !rule.message.is_empty() {
            return rule.message.clone();
        }
        let not = if result { "" } else { "not " };
        format!("Manifest is {not}{}", rule.condition)
    }

    fn value(&mut self, source: &str, dialect: &Dialect, result: Option<bool>) -> Result<CelValue, String> {
        self.expressions += 1;
        if self.expressions > MOST_EXPRESSIONS {
            return Err(format!(
                "there are more than {MOST_EXPRESSIONS} expressions for one object"
            ));
        }
        let expression =
            Expression::compile(source, dialect).map_err(|error| format!("{source:?} {error}"))?;
        let variables = Variables {
            object: self.object,
            result,
        };
        let purse = self.purse.min(OF_EXPRESSION);
        let (value, left) = expression.evaluate(&variables, purse);
        self.purse -= purse - left;
        value
    }
}
