//! Extracts the metrics and labels that a PromQL expression names.
//!
//! Not here: a check that the expression makes sense.

/// A metric in an expression.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) metric: String,
    /// The labels in its braces.
    pub(super) labels: Vec<String>,
}

/// The metrics of an expression, and the labels by which it groups and joins.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expression {
    pub(super) asked: Vec<Asked>,
    pub(super) grouped_by: Vec<String>,
}

/// Words that are followed by labels in parentheses.
const GROUPING: [&str; 6] = ["by", "without", "on", "ignoring", "group_left", "group_right"];
const OPERATORS: [&str; 6] = ["and", "or", "unless", "bool", "offset", "atan2"];

/// Parses an expression. A word that is not a function, an operator or a label is a metric.
pub(super) fn parse(text: &str) -> Expression {
    let mut parsed = Expression::default();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = word(rest);
        if matches!(first, '"' | '\'' | '`') {
            rest = after_quoted(rest, first);
        } else if word.is_empty() || first.is_ascii_digit() {
            // A number with its unit, or a Grafana variable.
            let skipped = if first == '$' { first.len_utf8() } else { 0 };
            let length = skipped + self::word(&rest[skipped..]).len();
            rest = &rest[length.max(first.len_utf8())..];
        } else {
            rest = rest[word.len()..].trim_start();
            if GROUPING.contains(&word) && rest.starts_with('(') {
                let (labels, after) = rest[1..].split_once(')').unwrap_or_default();
                let labels = labels.split(',').map(|label| label.trim().to_owned());
                parsed.grouped_by.extend(labels.filter(|label| !label.is_empty()));
                rest = after;
            } else if is_metric(word, rest) {
                let labels = match rest.strip_prefix('{') {
                    Some(matchers) => {
                        let (labels, after) = labels(matchers);
                        rest = after;
                        labels
                    }
                    None => Vec::new(),
                };
                let metric = word.to_owned();
                parsed.asked.push(Asked { metric, labels });
            }
        }
    }
    parsed
}

/// Returns true if the word is a metric. A function is followed by a parenthesis, and an
/// aggregation may be followed by `by` or `without`.
fn is_metric(candidate: &str, rest: &str) -> bool {
    let is_word = OPERATORS.contains(&candidate) || GROUPING.contains(&candidate);
    !is_word && !rest.starts_with('(') && !matches!(word(rest), "by" | "without")
}

/// The word at the beginning of a text.
fn word(text: &str) -> &str {
    let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | ':');
    let end = text.find(|character| !is_part(character)).unwrap_or(text.len());
    &text[..end]
}

/// The rest of the text after the string literal at its beginning.
fn after_quoted(text: &str, quote: char) -> &str {
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        if character == '\\' && quote != '`' {
            characters.next();
        } else if character == quote {
            return &text[at + 1..];
        }
    }
    ""
}

/// The labels before the closing brace, and the text after it.
fn labels(mut text: &str) -> (Vec<String>, &str) {
    let mut labels = Vec::new();
    while let Some(first) = text.chars().next() {
        let word = word(text);
        if first == '}' {
            return (labels, &text[1..]);
        } else if matches!(first, '"' | '\'' | '`') {
            text = after_quoted(text, first);
        } else if word.is_empty() {
            text = &text[first.len_utf8()..];
        } else {
            labels.push(word.to_owned());
            text = &text[word.len()..];
        }
    }
    (labels, "")
}

#[test]
fn an_expression_is_taken_apart() {
    let text = r#"histogram_quantile(0.99, sum by (job, le) (rate(a_bucket{job=~"$job",b!="c}\"d"}[$__rate_interval])))
        / on (job) group_left (version) e > bool 0.5 and absent(f{}[5m] offset 1h)"#;
    let asked = |metric: &str, labels: &[&str]| Asked {
        metric: metric.to_owned(),
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
    };
    let parsed = parse(text);
    assert_eq!(
        parsed.asked,
        [asked("a_bucket", &["job", "b"]), asked("e", &[]), asked("f", &[])]
    );
    assert_eq!(parsed.grouped_by, ["job", "le", "job", "version"]);
}
