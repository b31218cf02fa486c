//! Evaluation of a template.
//!
//! Owned here: variables and their scopes, fields, and the order of evaluation. Not here: the
//! functions (`functions`).

use std::collections::BTreeMap;

use super::functions::{self, Function};
use super::parser::{Branch, Node, Operand, Pipeline, Target};
use super::value::{Text, Value, Writer};
use super::{Budget, Outcome, shown};

/// The text of the template with these properties.
pub(super) fn evaluate(
    nodes: &[Node<'_>],
    properties: &BTreeMap<String, String>,
    budget: &mut Budget,
) -> Outcome<String> {
    let root = Value::Map(properties);
    let mut run = Run {
        variables: vec![("$", root.clone())],
        text: String::new(),
        budget,
    };
    run.write_all(nodes, &root)?;
    Ok(run.text)
}

struct Run<'a, 'b> {
    /// The innermost variable is the last one.
    variables: Vec<(&'a str, Value<'a>)>,
    text: String,
    budget: &'b mut Budget,
}

impl<'a> Run<'a, '_> {
    fn write_all(&mut self, nodes: &'a [Node<'a>], dot: &Value<'a>) -> Outcome<()> {
        for node in nodes {
            match node {
                Node::Text(text) => self.write(&Value::Text(Text::Given(text)))?,
                Node::Action(pipeline) => {
                    let value = self.pipeline(pipeline, dot)?;
                    if pipeline.target.is_none() {
                        self.write(&value)?;
                    }
                }
                Node::If(branch) => self.branch(branch, dot, false)?,
                Node::With(branch) => self.branch(branch, dot, true)?,
            }
        }
        Ok(())
    }

    fn write(&mut self, value: &Value<'_>) -> Outcome<()> {
        let mut writer = Writer::new(self.budget);
        writer.write_value(value, "<no value>")?;
        self.text.push_str(&writer.finish());
        Ok(())
    }

    fn branch(&mut self, branch: &'a Branch<'a>, dot: &Value<'a>, moves_dot: bool) -> Outcome<()> {
        let outside = self.variables.len();
        let condition = self.pipeline(&branch.condition, dot)?;
        if !condition.is_true() {
            self.write_all(&branch.otherwise, dot)?;
        } else if moves_dot {
            self.write_all(&branch.then, &condition)?;
        } else {
            self.write_all(&branch.then, dot)?;
        }
        self.variables.truncate(outside);
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &'a Pipeline<'a>, dot: &Value<'a>) -> Outcome<Value<'a>> {
        let mut value = None;
        for command in &pipeline.commands {
            value = Some(self.command(command, dot, value)?);
        }
        let value = value.unwrap_or(Value::Nothing);
        match pipeline.target {
            Some(Target::Declare(name)) => self.variables.push((name, value.clone())),
            Some(Target::Assign(name)) => {
                let known = self.variables.iter_mut().rev().find(|(other, _)| *other == name);
                known.ok_or_else(|| undeclared(name))?.1 = value.clone();
            }
            None => {}
        }
        Ok(value)
    }

    /// `input` is the result of the previous command in the pipeline.
    fn command(
        &mut self,
        command: &'a [Operand<'a>],
        dot: &Value<'a>,
        input: Option<Value<'a>>,
    ) -> Outcome<Value<'a>> {
        let Some((first, arguments)) = command.split_first() else {
            return Ok(Value::Nothing);
        };
        if let Operand::Function(function) = first {
            return self.call(*function, arguments, dot, input);
        }
        if !arguments.is_empty() || input.is_some() {
            return Err("only a function can have arguments".to_owned());
        }
        match first {
            Operand::Nil => Err("nil is not a command".to_owned()),
            first => self.operand(first, dot),
        }
    }

    fn call(
        &mut self,
        function: Function,
        arguments: &'a [Operand<'a>],
        dot: &Value<'a>,
        input: Option<Value<'a>>,
    ) -> Outcome<Value<'a>> {
        function.check_count(arguments.len() + usize::from(input.is_some()))?;
        let mut values = Vec::new();
        for argument in arguments {
            let value = self.operand(argument, dot)?;
            // Arguments after the deciding value of an `and` or `or` are not evaluated.
            if function.decided_by(&value) {
                return Ok(value);
            }
            values.push(value);
        }
        values.extend(input);
        functions::call(function, &values, self.budget)
    }

    fn operand(&mut self, operand: &'a Operand<'a>, dot: &Value<'a>) -> Outcome<Value<'a>> {
        match operand {
            Operand::Dot => Ok(dot.clone()),
            Operand::Nil => Ok(Value::Nothing),
            Operand::Literal(value) => Ok(value.clone()),
            Operand::Field(names) => fields(dot.clone(), names),
            Operand::Variable(name, names) => {
                let known = self.variables.iter().rev().find(|(other, _)| other == name);
                fields(known.ok_or_else(|| undeclared(name))?.1.clone(), names)
            }
            Operand::Function(function) => self.call(*function, &[], dot, None),
            Operand::Pipeline(pipeline) => self.pipeline(pipeline, dot),
            Operand::Chain(start, names) => {
                let start = self.operand(start, dot)?;
                fields(start, names)
            }
        }
    }
}

/// Evaluates a chain of fields. Only the properties have fields.
fn fields<'a>(start: Value<'a>, names: &[&str]) -> Outcome<Value<'a>> {
    names.iter().try_fold(start, |value, name| match value {
        Value::Map(properties) => match properties.get(*name) {
            Some(text) => Ok(Value::Text(Text::Given(text))),
            None => Err(format!("the cluster has no property {}", shown(name))),
        },
        other => Err(format!("{} has no field {}", other.kind(), shown(name))),
    })
}

fn undeclared(name: &str) -> String {
    format!("the variable {} is not declared", shown(name))
}
