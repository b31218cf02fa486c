//! JSONPath in kubectl's dialect (`-o jsonpath`), limited to the syntax that OCM's feedback rules
//! and ignored fields use: fields, quoted fields, indexes, all elements, and elements whose field
//! equals a string, number or boolean.
//!
//! Not here: slices, unions, recursive descent and functions. A path with these is an error, which
//! is shown to the user. The paths of CustomTransforms are RFC 9535, a different dialect
//! (`argosy-transforms`).

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JsonPath(Vec<Segment>);

/// One step of a path.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Segment {
    /// A field of an object.
    Field(String),
    /// A negative index counts from the end.
    Index(i64),
    /// All fields, or all elements of a list.
    All,
    /// A filter such as `[?(@.type=="Ready")]`: the path of the field, and the value that it must
    /// equal.
    Equal(Vec<String>, Value),
}

impl JsonPath {
    /// Parses `text`, with or without braces and `$`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let inner = text.trim();
        let inner = inner
            .strip_prefix('{')
            .and_then(|inner| inner.strip_suffix('}'))
            .unwrap_or(inner);
        let mut rest = inner.strip_prefix('$').unwrap_or(inner);
        let mut segments = Vec::new();
        while !rest.is_empty() {
            let (segment, left) =
                segment(rest).ok_or_else(|| format!("cannot read {rest:?} in the path {text:?}"))?;
            segments.push(segment);
            rest = left;
        }
        if segments.is_empty() {
            return Err(format!("the path {text:?} names no field"));
        }
        Ok(Self(segments))
    }

    /// The steps of the path.
    pub(super) fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// The values that the path selects, in order.
    pub(super) fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for segment in &self.0 {
            found = found.into_iter().flat_map(|value| segment.enter(value)).collect();
        }
        found
    }
}

impl Segment {
    /// True if the segment selects this field of an object.
    pub(super) fn selects_field(&self, name: &str) -> bool {
        match self {
            Self::Field(field) => field == name,
            Self::All => true,
            Self::Index(_) | Self::Equal(..) => false,
        }
    }

    /// True if the segment selects the element `item` with this index of a list of this length.
    pub(super) fn selects_item(&self, item: &Value, index: usize, length: usize) -> bool {
        match self {
            Self::Field(_) => false,
            Self::All => true,
            Self::Index(wanted) => resolve(*wanted, length) == Some(index),
            Self::Equal(path, wanted) => {
                let field = path.iter().try_fold(item, |item, name| item.get(name));
                field == Some(wanted)
            }
        }
    }

    fn enter<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Field(name), Value::Object(fields)) => fields.get(name).into_iter().collect(),
            (Self::All, Value::Object(fields)) => fields.values().collect(),
            (_, Value::Array(items)) => {
                let selected = items.iter().enumerate();
                let selected = selected.filter(|(index, item)| self.selects_item(item, *index, items.len()));
                selected.map(|(_, item)| item).collect()
            }
            _ => Vec::new(),
        }
    }
}

fn resolve(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    usize::try_from(if index < 0 { length + index } else { index }).ok()
}

/// The first segment of `text`, and the rest of the text.
fn segment(text: &str) -> Option<(Segment, &str)> {
    if let Some(rest) = text.strip_prefix('[') {
        let end = closing(rest)?;
        let (inner, rest) = (rest.get(..end)?, rest.get(end + 1..)?);
        return Some((bracketed(inner.trim())?, rest));
    }
    // kubectl accepts a path without the leading dot as well.
    let rest = text.strip_prefix('.').unwrap_or(text);
    let (name, rest) = field_name(rest)?;
    let segment = if name == "*" {
        Segment::All
    } else {
        Segment::Field(name)
    };
    Some((segment, rest))
}

/// The index of the bracket that closes the one before `text`.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_u32, None);
    for (index, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '"' | '\'') => quote = Some(character),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(index),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracketed(inner: &str) -> Option<Segment> {
    if inner == "*" {
        return Some(Segment::All);
    }
    if let Some(filter) = inner.strip_prefix("?(").and_then(|rest| rest.strip_suffix(')')) {
        let (path, value) = filter.split_once("==")?;
        let path = path.trim().strip_prefix('@')?;
        let mut names = Vec::new();
        let mut rest = path;
        while !rest.is_empty() {
            let (name, left) = field_name(rest.strip_prefix('.')?)?;
            names.push(name);
            rest = left;
        }
        return Some(Segment::Equal(names, literal(value.trim())?));
    }
    if let Some(Value::String(name)) = literal(inner) {
        return Some(Segment::Field(name));
    }
    inner.parse().ok().map(Segment::Index)
}

/// A field name that ends at the next dot or bracket. A backslash escapes the next character
/// (`.metadata.labels.a\.b`).
fn field_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '\\' => name.push(characters.next()?.1),
            '.' | '[' => return (!name.is_empty()).then_some((name, text.get(index..)?)),
            ' ' | ']' | '(' | ')' | '{' | '}' | '?' | '@' | '"' | '\'' | ',' | ':' => return None,
            other => name.push(other),
        }
    }
    (!name.is_empty()).then_some((name, ""))
}

/// A string in single or double quotes, a number, or a boolean.
fn literal(text: &str) -> Option<Value> {
    for quote in ['"', '\''] {
        let quoted = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
        if let Some(inner) = quoted {
            return (!inner.contains(quote)).then(|| Value::String(inner.to_owned()));
        }
    }
    serde_json::from_str(text)
        .ok()
        .filter(|value: &Value| value.is_number() || value.is_boolean())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> Value {
        json!({
            "metadata": { "labels": { "a.b/c": "x" } },
            "spec": { "replicas": 3 },
            "status": {
                "ready": true,
                "conditions": [
                    { "type": "Progressing", "status": "True" },
                    { "type": "Available", "status": "False", "count": 2 },
                ],
            },
        })
    }

    #[test]
    fn paths_lead_where_kubectls_do() {
        for (path, found) in [
            (".spec.replicas", json!([3])),
            ("{.spec.replicas}", json!([3])),
            ("$.spec.replicas", json!([3])),
            ("spec.replicas", json!([3])),
            (".spec['replicas']", json!([3])),
            (".status.ready", json!([true])),
            (".status.missing.deeper", json!([])),
            (
                r#".status.conditions[?(@.type=="Available")].status"#,
                json!(["False"]),
            ),
            (
                ".status.conditions[?(@.type == 'Available')].status",
                json!(["False"]),
            ),
            (".status.conditions[?(@.count==2)].type", json!(["Available"])),
            (r#".status.conditions[?(@.type=="None")].status"#, json!([])),
            (".status.conditions[0].type", json!(["Progressing"])),
            (".status.conditions[-1].type", json!(["Available"])),
            (".status.conditions[7].type", json!([])),
            (".status.conditions[*].type", json!(["Progressing", "Available"])),
            (r".metadata.labels.a\.b/c", json!(["x"])),
            (".metadata.labels['a.b/c']", json!(["x"])),
        ] {
            let object = deployment();
            let parsed = JsonPath::parse(path).unwrap();
            let found: Value = json!(found);
            assert_eq!(json!(parsed.find(&object)), found, "{path}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_and_not_guessed() {
        for path in [
            "",
            "$",
            "..",
            ".a..b",
            ".a[",
            ".a[1:2]",
            ".a[0,1]",
            ".a[?(@.b>1)]",
            ".a[?(@.b=='x'||@.c=='y')]",
            ".a b",
            ".a[x]",
            "{range .items}",
        ] {
            assert!(JsonPath::parse(path).is_err(), "{path}");
        }
    }
}
