//! The Secrets that an artifact repository names: YAML text in a ConfigMap.
//!
//! Not here: the ConfigMap that a Workflow names, and the key in it (`Dependencies::of_workflow`).

use serde_json::Value;

use super::Dependencies;

/// Maximum length of the text of a repository in bytes.
const LONGEST: usize = 8 * 1024;

/// Maximum number of repositories in a ConfigMap.
const MOST: usize = 8;

/// The fields of Argo's `ArtifactRepository` that name a store.
const STORES: [&str; 6] = ["artifactory", "azure", "gcs", "hdfs", "oss", "s3"];

impl Dependencies {
    /// The objects that the `data` of a ConfigMap names, if it contains artifact repositories. Other
    /// text names nothing.
    pub(crate) fn of_repositories(data: &Value, namespace: &str) -> Self {
        let mut found = Self::default();
        let texts = data.as_object().into_iter().flatten();
        let texts = texts.filter_map(|(_, text)| text.as_str());
        // The field of every Secret has this ending, so most text is not parsed. Aliases make a text
        // longer than it is.
        let texts =
            texts.filter(|text| text.len() <= LONGEST && text.contains("Secret") && !text.contains('&'));
        for text in texts.take(MOST) {
            let Ok(repository) = serde_saphyr::from_str::<Value>(text) else {
                continue;
            };
            if STORES.iter().any(|store| repository.get(*store).is_some()) {
                found.extend(Self::of_template(&repository, namespace));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn named(data: &Value) -> Vec<String> {
        let found = Dependencies::of_repositories(data, "team");
        found.named.keys().map(ToString::to_string).collect()
    }

    #[test]
    fn the_secrets_of_repositories_are_found_and_other_text_names_none() {
        let s3 = "s3:\n  bucket: b\n  accessKeySecret: {name: s3, key: a}\n  secretKeySecret: {name: s3-more, key: b}\n";
        let gcs = "gcs: {bucket: b, serviceAccountKeySecret: {name: gcs, key: a}}";
        assert_eq!(
            named(&json!({ "default": s3, "other": gcs })),
            ["Secret gcs", "Secret s3", "Secret s3-more"]
        );
        for text in [
            "mySecret: {name: x}",
            "s3: [Secret",
            "s3: {bucket: Secret}",
            "a: &a [Secret, Secret]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\nc: &c [*b, *b, *b, *b, *b, *b, *b, *b]\n\
             d: &d [*c, *c, *c, *c, *c, *c, *c, *c]\ne: [*d, *d, *d, *d, *d, *d, *d, *d]\ns3: {}",
            &format!("{s3}#{}", "x".repeat(LONGEST)),
        ] {
            assert_eq!(
                named(&json!({ "default": text })),
                Vec::<String>::new(),
                "{text:.40}"
            );
        }
        assert_eq!(named(&json!(null)), Vec::<String>::new());
        assert_eq!(named(&json!({ "default": 1 })), Vec::<String>::new());
    }
}
