//! Templates in the strings of an object, expanded with the properties of the cluster it goes to.
//!
//! Owns the language, which is Go's `text/template` with `missingkey=error` over a flat map of strings, as KubeStellar's transport
//! uses it; what an object may cost; and which properties a cluster has ([`properties`]). Does not own which objects ask for
//! it, nor what becomes of an object with an error: the string stays as it was, so that its caller can keep what is out there.
//!
//! Only values are expanded, never the keys of maps, and what came of a template is not looked at again. What a map of strings
//! has no use for is refused: `range`, `define`, `block`, `template`, numbers with an imaginary part, and those verbs and flags of
//! `printf` that nobody needs for names. Where Go prints a mistake into the text (`%!d(string=x)`), there is an error here.
//! `gotmpl`, the crate that comes nearest, prints `<no value>` where Go's `index` of a missing property is "", and a template that
//! doubles a variable a few dozen times takes all memory.

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

use serde_json::Value;

/// The longest string that is expanded.
pub const MAX_STRING_BYTES: usize = 64 * 1024;

/// What the templates of one object may write, build on the way or compare, in bytes.
pub const MAX_OBJECT_BYTES: usize = 1024 * 1024;

/// How many parentheses and blocks may be open at once. Each `else if` opens one.
pub const MAX_NESTING: usize = 64;

/// How many errors are reported of one object. A string whose error is not reported stays as it was as well.
pub const MAX_ERRORS: usize = 16;

/// The property that every cluster has: name of its ManagedCluster.
pub const CLUSTER_NAME: &str = "clusterName";

/// The keywords of Go, which are no names of properties.
const GO_KEYWORDS: &str = "break case chan const continue default defer else fallthrough for func go goto if import interface \
    map package range return select struct switch type var";

/// Which of the `{{…}}` in a string are templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// All of them, as in KubeStellar.
    Go,
    /// Those that begin with a dot and a name, `{{.region}}` or `{{- .region | printf "%s-1" }}`. Everything else is text, because
    /// Argo has templates of its own, `{{inputs.parameters.x}}` and `{{=expr}}`, and none of them begins with a dot. There are
    /// no blocks and no variables.
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
    /// Where in the object it is: `.spec.args[0]["b-c"]`.
    pub path: String,
    /// What is wrong with it, and what to do.
    pub reason: String,
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.reason)
    }
}

/// A result, or a sentence about what is wrong.
type Outcome<T> = Result<T, String>;

/// Expands the templates in all strings of the object. A string with an error stays as it was; the others are expanded.
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

/// The properties of a cluster, of which a later one replaces an earlier one of the same name: `clusterName`, the labels and the annotations of
/// its ManagedCluster, then `data` and `binaryData` of its ConfigMap in the namespace `customization-properties`. Those whose
/// key is no [`is_property_name`] are left out.
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
    // Bytes that are no UTF-8 would be replaced by whoever writes the object as JSON.
    let bytes = config_map_binary_data.into_iter();
    let bytes = bytes.map(|(key, bytes)| (key.clone(), String::from_utf8_lossy(bytes).into_owned()));
    let all = std::iter::once(name).chain(texts).chain(bytes);
    all.filter(|(key, _)| is_property_name(key)).collect()
}

/// Whether a template can name a property of this key: an identifier of Go that is none of its keywords. So `location-group` is none.
pub fn is_property_name(key: &str) -> bool {
    let starts = key.chars().next().is_some_and(|c| !c.is_numeric());
    starts && key.chars().all(lexer::is_word) && !GO_KEYWORDS.split(' ').any(|keyword| keyword == key)
}

/// Bytes that may still be written, built or compared.
struct Budget(usize);

impl Budget {
    fn spend(&mut self, bytes: usize) -> Outcome<()> {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(0);
        left.map(drop).ok_or_else(|| {
            format!("the templates of the object make more than {MAX_OBJECT_BYTES} bytes of text")
        })
    }
}

/// The walk through one object.
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
                "a template may be {MAX_STRING_BYTES} bytes long, and this one has {}",
                text.len()
            ));
        }
        let tokens = lexer::lex(text, self.dialect)?;
        let nodes = parser::parse(&tokens)?;
        evaluate::evaluate(&nodes, self.properties, &mut self.budget)
    }
}

/// A member as a step of a path.
fn step(key: &str) -> String {
    let plain = key.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
    if plain && !key.is_empty() && !key.starts_with(|c: char| c.is_ascii_digit()) {
        format!(".{key}")
    } else {
        format!("[{}]", Value::from(key))
    }
}

/// A name or a piece of a template, short enough for a sentence.
fn shown(text: &str) -> String {
    let cut: String = text.chars().take(40).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("\"{}{more}\"", cut.escape_debug())
}

#[cfg(test)]
mod tests;
