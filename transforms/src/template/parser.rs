//! The parser of templates, from tokens to a tree.
//!
//! Owned here: the grammar, the scopes of variables, and the limit on nesting. It follows Go's
//! `text/template/parse`. Not here: errors that Go reports only when it evaluates the erroneous
//! part.

use super::functions::Function;
use super::lexer::{Keyword, Token};
use super::value::{Text, Value};
use super::{MAX_NESTING, Outcome, literal, shown};

/// A part of a template.
#[derive(Debug)]
pub(super) enum Node<'a> {
    Text(&'a str),
    Action(Pipeline<'a>),
    If(Branch<'a>),
    With(Branch<'a>),
}

#[derive(Debug)]
pub(super) struct Branch<'a> {
    pub(super) condition: Pipeline<'a>,
    pub(super) then: Vec<Node<'a>>,
    pub(super) otherwise: Vec<Node<'a>>,
}

/// Commands, each of which receives the value of the previous one.
#[derive(Debug)]
pub(super) struct Pipeline<'a> {
    pub(super) target: Option<Target<'a>>,
    pub(super) commands: Vec<Vec<Operand<'a>>>,
}

/// The variable that a pipeline sets.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'a> {
    Declare(&'a str),
    Assign(&'a str),
}

#[derive(Debug)]
pub(super) enum Operand<'a> {
    Dot,
    Nil,
    Literal(Value<'a>),
    /// The names after the dot.
    Field(Vec<&'a str>),
    Variable(&'a str, Vec<&'a str>),
    Function(Function),
    Pipeline(Pipeline<'a>),
    /// Fields of the result of a parenthesis or a function.
    Chain(Box<Operand<'a>>, Vec<&'a str>),
}

impl Operand<'_> {
    /// Returns true if the operand is allowed after a `|`, so that it receives a value.
    fn takes_input(&self) -> bool {
        !matches!(self, Self::Dot | Self::Nil | Self::Literal(_))
    }
}

/// The end of a list of nodes.
#[derive(PartialEq)]
enum Ending {
    Text,
    Else,
    End,
}

/// The tree of a template.
pub(super) fn parse<'a>(tokens: &'a [Token<'a>]) -> Outcome<Vec<Node<'a>>> {
    let mut parser = Parser {
        tokens,
        variables: vec!["$"],
        depth: 0,
    };
    match parser.list()? {
        (nodes, Ending::Text) => Ok(nodes),
        (_, Ending::Else) => Err("there is an else without an if or with".to_owned()),
        (_, Ending::End) => Err("there is an end without an if or with".to_owned()),
    }
}

struct Parser<'a> {
    tokens: &'a [Token<'a>],
    variables: Vec<&'a str>,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.first().copied()
    }

    fn next(&mut self) -> Option<Token<'a>> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(*first)
    }

    fn skip_blank(&mut self) {
        if self.peek() == Some(Token::Blank) {
            self.next();
        }
    }

    fn enter(&mut self) -> Outcome<()> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(format!(
                "parentheses and blocks are nested deeper than {MAX_NESTING}"
            ));
        }
        Ok(())
    }

    fn list(&mut self) -> Outcome<(Vec<Node<'a>>, Ending)> {
        let mut nodes = Vec::new();
        while let Some(token) = self.next() {
            match token {
                Token::Text(text) => nodes.push(Node::Text(text)),
                Token::Open => match self.action()? {
                    Ok(node) => nodes.push(node),
                    Err(ending) => return Ok((nodes, ending)),
                },
                other => return Err(unexpected(Some(other))),
            }
        }
        Ok((nodes, Ending::Text))
    }

    /// An action, or the end of the current list.
    fn action(&mut self) -> Outcome<Result<Node<'a>, Ending>> {
        self.skip_blank();
        let Some(Token::Keyword(keyword)) = self.peek() else {
            return self
                .pipeline(Token::Close)
                .map(|pipeline| Ok(Node::Action(pipeline)));
        };
        self.next();
        match keyword {
            Keyword::If | Keyword::With => self.block(keyword).map(Ok),
            Keyword::End => self.close().map(|()| Err(Ending::End)),
            Keyword::Else => {
                self.skip_blank();
                // The following keyword begins a branch of its own, which the block parses.
                if !matches!(self.peek(), Some(Token::Keyword(Keyword::If | Keyword::With))) {
                    self.close()?;
                }
                Ok(Err(Ending::Else))
            }
            Keyword::Unsupported(word) => Err(format!("{word} is not supported")),
        }
    }

    fn close(&mut self) -> Outcome<()> {
        self.skip_blank();
        match self.next() {
            Some(Token::Close) => Ok(()),
            other => Err(unexpected(other)),
        }
    }

    /// An `if` or `with`, from its condition to its `end`.
    fn block(&mut self, keyword: Keyword) -> Outcome<Node<'a>> {
        self.enter()?;
        let outside = self.variables.len();
        let condition = self.pipeline(Token::Close)?;
        let (then, ending) = self.list()?;
        let otherwise = match ending {
            Ending::End => Vec::new(),
            Ending::Text => return Err("an if or with has no end".to_owned()),
            Ending::Else if self.peek() == Some(Token::Keyword(keyword)) => {
                self.next();
                vec![self.block(keyword)?]
            }
            Ending::Else => match self.list()? {
                (otherwise, Ending::End) => otherwise,
                (_, Ending::Else) => return Err("an if or with has two else branches".to_owned()),
                (_, Ending::Text) => return Err("an if or with has no end".to_owned()),
            },
        };
        self.variables.truncate(outside);
        self.depth -= 1;
        let branch = Branch {
            condition,
            then,
            otherwise,
        };
        Ok(match keyword {
            Keyword::With => Node::With(branch),
            _ => Node::If(branch),
        })
    }

    fn pipeline(&mut self, end: Token<'a>) -> Outcome<Pipeline<'a>> {
        self.skip_blank();
        let target = self.target()?;
        let mut commands = Vec::new();
        loop {
            self.skip_blank();
            match self.peek() {
                Some(token) if token == end => break,
                Some(token) if begins_operand(token) => commands.push(self.command()?),
                other => return Err(unexpected(other)),
            }
        }
        self.next();
        if commands.is_empty() {
            return Err("the braces or parentheses are empty".to_owned());
        }
        let later = commands.iter().skip(1).filter_map(|command| command.first());
        if later.into_iter().all(Operand::takes_input) {
            Ok(Pipeline { target, commands })
        } else {
            Err("a literal or the dot cannot receive a value from |".to_owned())
        }
    }

    /// `$x :=` or `$x =`, if the pipeline begins with one of them.
    fn target(&mut self) -> Outcome<Option<Target<'a>>> {
        let Some(Token::Variable(name)) = self.peek() else {
            return Ok(None);
        };
        let mut after = self.tokens.iter().skip(1).filter(|token| **token != Token::Blank);
        let target = match after.next() {
            Some(Token::Declare) => Target::Declare(name),
            Some(Token::Assign) => Target::Assign(name),
            Some(Token::Other(',')) => return Err("only one variable can be set at a time".to_owned()),
            _ => return Ok(None),
        };
        self.next();
        self.skip_blank();
        self.next();
        self.variables.push(name);
        Ok(Some(target))
    }

    fn command(&mut self) -> Outcome<Vec<Operand<'a>>> {
        let mut operands = Vec::new();
        loop {
            self.skip_blank();
            if let Some(operand) = self.operand()? {
                operands.push(operand);
            }
            match self.peek() {
                Some(Token::Blank) => {}
                Some(Token::Close | Token::RightParenthesis) => break,
                Some(Token::Pipe) => {
                    self.next();
                    break;
                }
                other => return Err(unexpected(other)),
            }
        }
        if operands.is_empty() {
            return Err("a | has no command before it".to_owned());
        }
        Ok(operands)
    }

    fn operand(&mut self) -> Outcome<Option<Operand<'a>>> {
        let Some(term) = self.term()? else {
            return Ok(None);
        };
        let mut fields = Vec::new();
        while let Some(Token::Field(name)) = self.peek() {
            self.next();
            fields.push(name);
        }
        Ok(Some(match term {
            term if fields.is_empty() => term,
            Operand::Field(first) => Operand::Field([first, fields].concat()),
            Operand::Variable(name, _) => Operand::Variable(name, fields),
            Operand::Dot | Operand::Nil | Operand::Literal(_) => {
                return Err("a literal or the dot has no fields".to_owned());
            }
            term => Operand::Chain(Box::new(term), fields),
        }))
    }

    fn term(&mut self) -> Outcome<Option<Operand<'a>>> {
        let Some(token) = self.peek().filter(|token| begins_operand(*token)) else {
            return Ok(None);
        };
        self.next();
        Ok(Some(match token {
            Token::Dot => Operand::Dot,
            Token::Nil => Operand::Nil,
            Token::Field(name) => Operand::Field(vec![name]),
            Token::Bool(truth) => Operand::Literal(Value::Bool(truth)),
            Token::Number(literal) => Operand::Literal(literal::number(literal)?),
            Token::Character(literal) => Operand::Literal(literal::character(literal)?),
            Token::Quoted(literal) => Operand::Literal(Value::Text(Text::made(&literal::quoted(literal)?))),
            Token::Raw(literal) => Operand::Literal(Value::Text(Text::made(&literal::raw(literal)))),
            Token::Variable(name) if self.variables.contains(&name) => Operand::Variable(name, Vec::new()),
            Token::Variable(name) => return Err(format!("the variable {} is not declared", shown(name))),
            Token::Word(name) => Operand::Function(
                Function::named(name).ok_or_else(|| format!("there is no function {}", shown(name)))?,
            ),
            _ => {
                self.enter()?;
                let pipeline = self.pipeline(Token::RightParenthesis)?;
                self.depth -= 1;
                Operand::Pipeline(pipeline)
            }
        }))
    }
}

fn begins_operand(token: Token<'_>) -> bool {
    matches!(
        token,
        Token::Bool(_)
            | Token::Character(_)
            | Token::Dot
            | Token::Field(_)
            | Token::LeftParenthesis
            | Token::Nil
            | Token::Number(_)
            | Token::Quoted(_)
            | Token::Raw(_)
            | Token::Variable(_)
            | Token::Word(_)
    )
}

fn unexpected(token: Option<Token<'_>>) -> String {
    let what = match token {
        None => "the end".to_owned(),
        Some(Token::Text(text) | Token::Number(text) | Token::Character(text)) => shown(text),
        Some(Token::Quoted(text) | Token::Raw(text) | Token::Word(text) | Token::Variable(text)) => {
            shown(text)
        }
        Some(Token::Field(name)) => format!("a field {}", shown(name)),
        Some(Token::Other(c)) => shown(&c.to_string()),
        Some(Token::Bool(truth)) => truth.to_string(),
        Some(Token::Keyword(keyword)) => format!("the keyword {keyword:?}").to_lowercase(),
        Some(Token::Open) => "{{".to_owned(),
        Some(Token::Close) => "}}".to_owned(),
        Some(Token::Blank) => "a blank".to_owned(),
        Some(Token::Dot) => "a dot".to_owned(),
        Some(Token::Nil) => "nil".to_owned(),
        Some(Token::LeftParenthesis) => "(".to_owned(),
        Some(Token::RightParenthesis) => ")".to_owned(),
        Some(Token::Pipe) => "|".to_owned(),
        Some(Token::Declare) => ":=".to_owned(),
        Some(Token::Assign) => "=".to_owned(),
    };
    format!("{what} is not allowed here")
}
