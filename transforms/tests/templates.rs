//! Property tests of expanding templates, over texts that are templates and texts that only look
//! like templates.

#![allow(
    clippy::indexing_slicing,
    reason = "a property that meets the unexpected must fail"
)]

use std::collections::BTreeMap;

use argosy_transforms::template::{Dialect, expand, is_property_name, properties};
use proptest::prelude::*;
use serde_json::{Value, json};

const DIALECTS: [Dialect; 2] = [Dialect::Go, Dialect::Argo];

fn some_properties() -> BTreeMap<String, String> {
    let pairs = [
        ("clusterName", "edge-1"),
        ("region", "eu-west"),
        ("text", "{{.region}} \"ü\"\n"),
    ];
    pairs.map(|(key, text)| (key.to_owned(), text.to_owned())).into()
}

/// Text composed of the language's tokens, which reaches deeper code than arbitrary text.
fn template() -> impl Strategy<Value = String> {
    const WORDS: [&str; 54] = [
        "{{",
        "}}",
        "{{- ",
        " -}}",
        "{{.region}}",
        "{{.text}}",
        "{{.missing}}",
        "{{if ",
        "{{with ",
        "{{else}}",
        "{{else if ",
        "{{end}}",
        "{{/*",
        "*/}}",
        ".region",
        ".text",
        ".missing",
        ".",
        "$",
        "$x",
        ":=",
        "=",
        "|",
        "(",
        ")",
        " ",
        " ",
        " ",
        "\n",
        "\"",
        "'",
        "`",
        "\\",
        "print",
        "printf ",
        "index . ",
        "slice ",
        "eq ",
        "and ",
        "or ",
        "not ",
        "len ",
        "html ",
        "js ",
        "urlquery ",
        "\"%5.2q\"",
        "\"%-05d|%x\"",
        "'a'",
        "12",
        "0x1F",
        "-1.5e3",
        "nil",
        "true",
        "ü",
    ];
    prop::collection::vec(prop::sample::select(&WORDS[..]), 0..24).prop_map(|words| words.concat())
}

/// Any text is either expanded, or left unchanged with one error.
fn expands_or_stays(text: &str) -> Result<(), TestCaseError> {
    for dialect in DIALECTS {
        let mut object = json!({"a": text, "b": ["{{.region}}"]});
        let errors = expand(&mut object, &some_properties(), dialect);
        prop_assert_eq!(&object["b"][0], "eu-west");
        prop_assert!(errors.len() <= 1);
        for error in &errors {
            prop_assert_eq!(&error.path, ".a");
            prop_assert_eq!(&object["a"], text);
            prop_assert!(
                !error.reason.is_empty() && !error.reason.contains('\n'),
                "{}",
                error
            );
        }
    }
    Ok(())
}

/// Number of random cases per property: `PROPTEST_CASES`, or a default that takes a few seconds.
fn cases() -> u32 {
    let cases = std::env::var("PROPTEST_CASES").ok();
    cases.and_then(|cases| cases.parse().ok()).unwrap_or(4096)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases()) })]

    #[test]
    fn any_text_is_expanded_or_stays(text in any::<String>(), inside in any::<String>()) {
        expands_or_stays(&text)?;
        expands_or_stays(&format!("{{{{{inside}}}}}"))?;
        expands_or_stays(&format!("{{{{.region {inside}}}}}"))?;
    }

    #[test]
    fn any_text_of_the_language_is_expanded_or_stays(text in template()) {
        expands_or_stays(&text)?;
    }

    #[test]
    fn any_format_is_printed_or_refused(format in "[%a-z0-9 .+#*\\[\\]-]{0,12}", text in any::<String>()) {
        for argument in [".text", "-42", "1.5", "true", "nil", "."] {
            expands_or_stays(&format!("{{{{printf `{format}` {argument}}}}}"))?;
        }
        let quoted = json!(text).to_string();
        expands_or_stays(&format!("{{{{printf \"%q\" {quoted}}}}}"))?;
    }

    #[test]
    fn text_without_braces_is_left_alone(text in any::<String>()) {
        let mut object = json!({"a": text.replace("{{", "")});
        let before = object.clone();
        for dialect in DIALECTS {
            prop_assert_eq!(expand(&mut object, &some_properties(), dialect), []);
            prop_assert_eq!(&object, &before);
        }
    }

    #[test]
    fn argos_own_templates_are_left_alone(inside in "[a-z=(][ -|~]{0,24}", around in "[^{}]{0,8}") {
        let text = format!("{around}{{{{{inside}}}}}{around}");
        // The text after the first }} is not inside the template any more.
        prop_assume!(text.matches("{{").count() == 1);
        let mut object = json!(text);
        prop_assert_eq!(expand(&mut object, &some_properties(), Dialect::Argo), []);
        prop_assert_eq!(object, Value::from(text));
    }

    #[test]
    fn a_property_arrives_as_it_is(name in "[a-zA-Z_][a-zA-Z0-9_]{0,8}", text in any::<String>(), around in "[^{}]{0,8}") {
        prop_assume!(is_property_name(&name));
        let labels = BTreeMap::from([(name.clone(), text.clone())]);
        let properties = properties("edge-1", Some(&labels), None, None, []);
        for dialect in DIALECTS {
            let mut object = json!(format!("{around}{{{{ .{name} }}}}{around}"));
            prop_assert_eq!(expand(&mut object, &properties, dialect), []);
            prop_assert_eq!(object, Value::from(format!("{around}{text}{around}")));
        }
    }
}
