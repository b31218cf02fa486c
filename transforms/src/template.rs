//! Templates in the strings of an object, expanded with the properties of its cluster.
//!
//! Owned here: the language, which is Go's `text/template` with `missingkey=error` over a flat map
//! of strings, as in KubeStellar's transport; the limits per object; and the properties of a
//! cluster ([`properties`]). Not here: the choice of objects with templates, and the handling of an
//! object with an error. A string with an error is left unchanged, so that the caller can keep the
//! object that was sent before.
//!
//! Only values are expanded, not the keys of maps, and the result of a template is not expanded
//! again. Features that are useless for a map of strings are rejected: `range`, `define`, `block`,
//! `template`, imaginary numbers, and verbs and flags of `printf` that names do not need. For a
//! mistake that Go prints into the text (`%!d(string=x)`), this module returns an error. `gotmpl`,
//! the most similar crate, is not used: it prints `<no value>` for the `index` of a missing
//! property, for which Go prints nothing, and a template that doubles a variable a few dozen times
//! makes it use up all memory.

mod escape;
mod evaluate;
mod format;
mod functions;
mod lexer;
mod literal;
mod parser;
mod value;

use std::collections::BTreeMap;
use std::fmt;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

/// Maximum length of a string that is expanded.
pub const MAX_STRING_BYTES: usize = 64 * 1024;

/// Maximum number of bytes that the templates of one object may write, build as intermediate
/// values, or compare.
pub const MAX_OBJECT_BYTES: usize = 1024 * 1024;

/// Maximum number of parentheses and blocks that may be open at once. Each `else if` opens one.
pub const MAX_NESTING: usize = 64;

/// Maximum number of reported errors per object. A string whose error is not reported is left
/// unchanged as well.
pub const MAX_ERRORS: usize = 16;

/// The property that every cluster has: the name of its ManagedCluster.
pub const CLUSTER_NAME: &str = "clusterName";

/// The keywords of Go, which cannot be names of properties.
const GO_KEYWORDS: &str = "break case chan const continue default defer else fallthrough for func go goto if import interface \
    map package range return select struct switch type var";

/// The choice of the `{{…}}` in a string that are templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// All of them, as in KubeStellar.
    Go,
    /// Those that begin with a dot and a name, `{{.region}}` or `{{- .region | printf "%s-1" }}`.
    /// Everything else is text, because Argo's own templates, `{{inputs.parameters.x}}` and
    /// `{{=expr}}`, never begin with a dot. Blocks and variables are not available.
    Argo,
}

impl Dialect {
    /// The dialect for the objects of this group.
    pub fn of_group(group: &str) -> Self {
        if group == "argoproj.io" {
            Self::Argo
        } else {
            Self::Go
        }
    }
}

/// A string that could not be expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// Path of the string in the object: `.spec.args[0]["b-c"]`.
    pub path: String,
    /// The error and its remedy.
    pub reason: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

/// A result, or an error message.
type Outcome<T> = Result<T, String>;

/// Expands the templates in all strings of the object. A string with an error is left unchanged;
/// the others are expanded.
pub fn expand(
    object: &mut Value,
    properties: &BTreeMap<String, String>,
    dialect: Dialect,
) -> Vec<TemplateError> {
    let mut expansion = Expansion {
        properties,
        dialect,
        budget: Budget(MAX_OBJECT_BYTES),
        path: String::new(),
        errors: Vec::new(),
    };
    expansion.visit(object);
    expansion.errors
}

/// Like [`expand`], for a Secret: the templates are in the decoded text of its `data`, which is Base64.
/// Data that is not text contains none.
pub fn expand_secret(object: &mut Value, properties: &BTreeMap<String, String>) -> Vec<TemplateError> {
    let mut decoded = Vec::new();
    for (key, value) in data_of(object) {
        let bytes = value.as_str().and_then(|text| STANDARD.decode(text).ok());
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some(text) = text.filter(|text| text.contains("{{")) {
            *value = text.into();
            decoded.push(key.clone());
        }
    }
    let errors = expand(object, properties, Dialect::Go);
    for (_, value) in data_of(object).filter(|(key, _)| decoded.contains(key)) {
        if let Some(text) = value.as_str() {
            *value = STANDARD.encode(text).into();
        }
    }
    errors
}

fn data_of(secret: &mut Value) -> impl Iterator<Item = (&String, &mut Value)> {
    let data = secret.get_mut("data").and_then(Value::as_object_mut);
    data.into_iter().flatten()
}

/// The properties of a cluster: `clusterName`, the labels and the annotations of its
/// ManagedCluster, then `data` and `binaryData` of its ConfigMap in the namespace
/// `customization-properties`. A later one replaces an earlier one with the same name. Keys for
/// which [`is_property_name`] is false are left out.
pub fn properties<'a>(
    cluster: &str,
    labels: Option<&BTreeMap<String, String>>,
    annotations: Option<&BTreeMap<String, String>>,
    config_map_data: Option<&BTreeMap<String, String>>,
    config_map_binary_data: impl IntoIterator<Item = (&'a String, &'a [u8])>,
) -> BTreeMap<String, String> {
    let name = (CLUSTER_NAME.to_owned(), cluster.to_owned());
    let texts = [labels, annotations, config_map_data];
    let texts = texts.into_iter().flatten().flatten();
    let texts = texts.map(|(key, text)| (key.clone(), text.clone()));
    // Bytes that are not UTF-8 are replaced here, because the object is written as JSON.
    let bytes = config_map_binary_data.into_iter();
    let bytes = bytes.map(|(key, bytes)| (key.clone(), String::from_utf8_lossy(bytes).into_owned()));
    let all = std::iter::once(name).chain(texts).chain(bytes);
    all.filter(|(key, _)| is_property_name(key)).collect()
}

/// Returns true if a template can use a property with this key: the key must be an identifier of Go
/// and no keyword, so `location-group` is not allowed.
pub fn is_property_name(key: &str) -> bool {
    let starts = key.chars().next().is_some_and(|c| !c.is_numeric());
    starts && key.chars().all(lexer::is_word) && !GO_KEYWORDS.split(' ').any(|keyword| keyword == key)
}

/// The rest of the bytes that may be written, built or compared.
struct Budget(usize);

impl Budget {
    fn spend(&mut self, bytes: usize) -> Outcome<()> {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(0);
        left.map(drop).ok_or_else(|| {
            format!("the templates of the object produce more than {MAX_OBJECT_BYTES} bytes of text")
        })
    }
}

/// The traversal of one object.
struct Expansion<'a> {
    properties: &'a BTreeMap<String, String>,
    dialect: Dialect,
    budget: Budget,
    path: String,
    errors: Vec<TemplateError>,
}

impl Expansion<'_> {
    fn visit(&mut self, value: &mut Value) {
        match value {
            Value::String(text) if text.contains("{{") => match self.render(text) {
                Ok(rendered) => *text = rendered,
                Err(reason) if self.errors.len() < MAX_ERRORS => self.errors.push(TemplateError {
                    path: self.path.clone(),
                    reason,
                }),
                Err(_) => {}
            },
            Value::Array(elements) => {
                for (index, element) in elements.iter_mut().enumerate() {
                    self.visit_at(&format!("[{index}]"), element);
                }
            }
            Value::Object(members) => {
                for (key, member) in members {
                    self.visit_at(&step(key), member);
                }
            }
            _ => {}
        }
    }

    fn visit_at(&mut self, step: &str, value: &mut Value) {
        let above = self.path.len();
        self.path.push_str(step);
        self.visit(value);
        self.path.truncate(above);
    }

    fn render(&mut self, text: &str) -> Outcome<String> {
        if text.len() > MAX_STRING_BYTES {
            return Err(format!(
                "the template has {} bytes; the limit is {MAX_STRING_BYTES}",
                text.len()
            ));
        }
        let tokens = lexer::lex(text, self.dialect)?;
        let nodes = parser::parse(&tokens)?;
        evaluate::evaluate(&nodes, self.properties, &mut self.budget)
    }
}

/// A key as a step of a path.
fn step(key: &str) -> String {
    let plain = key.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    if plain && !key.is_empty() && !key.starts_with(|c: char| c.is_ascii_digit()) {
        format!(".{key}")
    } else {
        format!("[{}]", Value::from(key))
    }
}

/// A name or a part of a template, shortened for a message.
fn shown(text: &str) -> String {
    let cut: String = text.chars().take(40).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("\"{}{more}\"", cut.escape_debug())
}

#[cfg(test)]
mod tests;
