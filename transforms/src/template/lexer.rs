//! The lexer of templates.
//!
//! Owned here: the delimiters of actions, in which the dialects differ, trimming, and comments. It
//! follows the lexer of Go's `text/template/parse`. Not here: the content of literals, which are
//! only delimited.

use super::{Dialect, Outcome, shown};

/// The blanks that Go accepts inside an action, and that a trim marker removes.
pub(super) const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// A token of a template. Literals contain their source text with quotes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    Text(&'a str),
    Open,
    Close,
    Blank,
    Dot,
    /// A name after a dot.
    Field(&'a str),
    /// A variable with its `$`.
    Variable(&'a str),
    /// A name that is not a keyword.
    Word(&'a str),
    Keyword(Keyword),
    Bool(bool),
    Nil,
    Number(&'a str),
    Character(&'a str),
    Quoted(&'a str),
    Raw(&'a str),
    LeftParenthesis,
    RightParenthesis,
    Pipe,
    Declare,
    Assign,
    /// Any other printable character.
    Other(char),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Keyword {
    Else,
    End,
    If,
    With,
    /// A keyword that is not supported.
    Unsupported(&'static str),
}

/// Returns true for letters, digits and `_`, of any script.
pub(super) fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// The tokens of a template; adjacent blanks become one token.
pub(super) fn lex(text: &str, dialect: Dialect) -> Outcome<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(at) = next_action(rest, dialect) {
        let (before, action) = rest.split_at_checked(at).unwrap_or((rest, ""));
        let inside = action.strip_prefix("{{").unwrap_or_default();
        let (before, inside) = match after_left_marker(inside) {
            Some(trimmed) => (before.trim_end_matches(BLANKS), trimmed),
            None => (before, inside),
        };
        if !before.is_empty() {
            tokens.push(Token::Text(before));
        }
        rest = match inside.strip_prefix("/*") {
            Some(comment) => skip_comment(comment)?,
            None => lex_action(inside, &mut tokens)?,
        };
    }
    if !rest.is_empty() {
        tokens.push(Token::Text(rest));
    }
    Ok(tokens)
}

/// The index of the next action.
fn next_action(text: &str, dialect: Dialect) -> Option<usize> {
    let mut from = 0;
    loop {
        let at = from + text.get(from..)?.find("{{")?;
        let inside = text.get(at + 2..)?;
        if dialect == Dialect::Go || begins_with_field(inside) {
            return Some(at);
        }
        // A template of Argo: its content is skipped, whatever it looks like.
        from = at + 2 + inside.find("}}")? + 2;
    }
}

fn begins_with_field(inside: &str) -> bool {
    let inside = after_left_marker(inside)
        .unwrap_or(inside)
        .trim_start_matches(BLANKS);
    let name = inside.strip_prefix('.');
    name.is_some_and(|name| name.starts_with(|c: char| is_word(c) && !c.is_numeric()))
}

/// The text after a dash and a blank that follow an opening delimiter.
fn after_left_marker(inside: &str) -> Option<&str> {
    inside.strip_prefix('-')?.strip_prefix(BLANKS)
}

/// The text after a closing delimiter, which may have a trim marker.
fn after_close(text: &str) -> Option<&str> {
    let trimmed = text
        .strip_prefix(BLANKS)
        .and_then(|text| text.strip_prefix("-}}"));
    trimmed
        .map(|text| text.trim_start_matches(BLANKS))
        .or_else(|| text.strip_prefix("}}"))
}

fn skip_comment(comment: &str) -> Outcome<&str> {
    let (_, rest) = comment
        .split_once("*/")
        .ok_or("a comment is not closed with */")?;
    after_close(rest).ok_or_else(|| "a comment must end with */}}".to_owned())
}

/// Reads the tokens of one action, and returns the text after it.
fn lex_action<'a>(inside: &'a str, tokens: &mut Vec<Token<'a>>) -> Outcome<&'a str> {
    tokens.push(Token::Open);
    let mut parentheses: usize = 0;
    let mut rest = inside;
    loop {
        if let Some(after) = after_close(rest) {
            if parentheses > 0 {
                return Err("a parenthesis is not closed".to_owned());
            }
            tokens.push(Token::Close);
            return Ok(after);
        }
        let (token, after) = next_token(rest)?;
        match token {
            Token::LeftParenthesis => parentheses += 1,
            Token::RightParenthesis => {
                parentheses = parentheses
                    .checked_sub(1)
                    .ok_or("a closing parenthesis has no opening parenthesis")?;
            }
            _ => {}
        }
        if token != Token::Blank || tokens.last() != Some(&Token::Blank) {
            tokens.push(token);
        }
        rest = after;
    }
}

fn next_token(text: &str) -> Outcome<(Token<'_>, &str)> {
    let mut characters = text.chars();
    let first = characters.next().ok_or("{{ is not closed with }}")?;
    let after = characters.as_str();
    let token = match first {
        c if BLANKS.contains(&c) => Token::Blank,
        '|' => Token::Pipe,
        '=' => Token::Assign,
        '(' => Token::LeftParenthesis,
        ')' => Token::RightParenthesis,
        ':' => {
            let after = after.strip_prefix('=').ok_or("a : is not followed by =")?;
            return Ok((Token::Declare, after));
        }
        '"' => return quoted(text, '"').map(|(literal, rest)| (Token::Quoted(literal), rest)),
        '\'' => return quoted(text, '\'').map(|(literal, rest)| (Token::Character(literal), rest)),
        '`' => return raw(text).map(|(literal, rest)| (Token::Raw(literal), rest)),
        '$' => {
            let (name, rest) = name(after)?;
            let (variable, _) = text.split_at_checked(1 + name.len()).unwrap_or((text, ""));
            return Ok((Token::Variable(variable), rest));
        }
        '.' if !after.starts_with(|c: char| c.is_ascii_digit()) => {
            let (name, rest) = name(after)?;
            let token = if name.is_empty() {
                Token::Dot
            } else {
                Token::Field(name)
            };
            return Ok((token, rest));
        }
        '.' | '+' | '-' | '0'..='9' => return number(text),
        c if is_word(c) => return name(text).map(|(word, rest)| (word_token(word), rest)),
        c if c.is_ascii_graphic() => Token::Other(c),
        c => {
            return Err(format!("{} is not allowed in a template", shown(&c.to_string())));
        }
    };
    Ok((token, after))
}

fn word_token(word: &str) -> Token<'_> {
    match word {
        "true" => Token::Bool(true),
        "false" => Token::Bool(false),
        "nil" => Token::Nil,
        "else" => Token::Keyword(Keyword::Else),
        "end" => Token::Keyword(Keyword::End),
        "if" => Token::Keyword(Keyword::If),
        "with" => Token::Keyword(Keyword::With),
        "block" => Token::Keyword(Keyword::Unsupported("block")),
        "break" => Token::Keyword(Keyword::Unsupported("break")),
        "continue" => Token::Keyword(Keyword::Unsupported("continue")),
        "define" => Token::Keyword(Keyword::Unsupported("define")),
        "range" => Token::Keyword(Keyword::Unsupported("range")),
        "template" => Token::Keyword(Keyword::Unsupported("template")),
        word => Token::Word(word),
    }
}

/// A name, which may be empty, and the text after it.
fn name(text: &str) -> Outcome<(&str, &str)> {
    let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    let ends_here = rest.is_empty()
        || rest.starts_with(BLANKS)
        || rest.starts_with(['.', ',', '|', ':', ')', '('])
        || rest.starts_with("}}");
    if !ends_here {
        let wrong: String = rest.chars().take(1).collect();
        return Err(format!("{} cannot follow {}", shown(&wrong), shown(name)));
    }
    Ok((name, rest))
}

/// A quoted literal with its quotes, and the text after it.
fn quoted(text: &str, quote: char) -> Outcome<(&str, &str)> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '\n' => break,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return text.split_at_checked(at + 1).ok_or_else(String::new),
            _ => {}
        }
    }
    Err(format!("a literal is not closed with {quote}"))
}

fn raw(text: &str) -> Outcome<(&str, &str)> {
    let inside = text.strip_prefix('`').and_then(|text| text.find('`'));
    inside
        .and_then(|end| text.split_at_checked(end + 2))
        .ok_or_else(|| "a literal is not closed with `".to_owned())
}

/// A token that looks like a number; parsing it may still fail.
fn number(text: &str) -> Outcome<(Token<'_>, &str)> {
    let mut previous = '\0';
    let magnitude = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_hexadecimal = magnitude.starts_with("0x") || magnitude.starts_with("0X");
    let end = text.find(|c: char| {
        let signs = if is_hexadecimal { ['p', 'P'] } else { ['e', 'E'] };
        let is_sign = matches!(c, '+' | '-') && (previous == '\0' || signs.contains(&previous));
        previous = c;
        !(is_sign || c == '.' || is_word(c))
    });
    let (number, rest) = text
        .split_at_checked(end.unwrap_or(text.len()))
        .unwrap_or((text, ""));
    if rest.starts_with(['+', '-']) {
        return Err(format!("{} is not a number", shown(text)));
    }
    Ok((Token::Number(number), rest))
}
