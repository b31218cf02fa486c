//! The Secrets that an artifact repository names: YAML text in a ConfigMap.
//!
//! Not here: the ConfigMap that a Workflow names, and the key in it (`Dependencies::of_workflow`).

use serde_json::Value;

use super::{Dependencies, REPOSITORIES};

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
        for text in texts.filter(|text| may_name(text)).take(MOST) {
            found.extend(Self::of_repository(text, namespace));
        }
        found
    }

    /// The objects that the text of an artifact repository names. Other text names nothing.
    pub fn of_repository(text: &str, namespace: &str) -> Self {
        let repository = may_name(text).then(|| serde_saphyr::from_str::<Value>(text));
        let repository = repository.and_then(Result::ok);
        let is_one = |repository: &Value| STORES.iter().any(|store| repository.get(*store).is_some());
        let repository = repository.filter(is_one);
        repository
            .map(|repository| Self::of_template(&repository, namespace))
            .unwrap_or_default()
    }
}

/// True if Argo keeps the artifact in the artifact repository: it has no location of its own, or only
/// a key (Argo's `ArtifactLocation`).
pub(super) fn is_kept_in(artifact: &Value) -> bool {
    let is_set = |name: &str| artifact.get(name).is_some_and(|field| !field.is_null());
    let names_bucket = |(store, bucket): (&str, &str)| {
        let bucket = artifact.get(store).and_then(|store| store.get(bucket));
        bucket.is_some_and(|bucket| !bucket.is_null())
    };
    let buckets = [
        ("s3", "bucket"),
        ("gcs", "bucket"),
        ("oss", "bucket"),
        ("azure", "container"),
    ];
    let is_elsewhere = [
        "raw",
        "git",
        "http",
        "hdfs",
        "artifactory",
        "from",
        "fromExpression",
    ];
    !is_elsewhere.into_iter().any(is_set) && !buckets.into_iter().any(names_bucket)
}

/// True if the text may name a Secret. Every field of a Secret has this ending, so most text is not
/// parsed. Aliases make a text longer than it is.
fn may_name(text: &str) -> bool {
    text.len() <= LONGEST && text.contains("Secret") && !text.contains('&')
}

/// The artifact repository that a specification uses: a ConfigMap, and a key in it. `None` if a template
/// may name another one.
pub struct RepositoryRef<'a> {
    /// Name of the ConfigMap.
    pub config_map: &'a str,
    /// Key in it; `None` if an annotation of the ConfigMap names the key.
    pub key: Option<&'a str>,
}

impl<'a> RepositoryRef<'a> {
    /// The repository of the `spec` of a Workflow (Argo's `workflow/artifactrepositories`).
    pub fn of(spec: &'a Value) -> Option<Self> {
        let is_set = |field: &&Value| !field.is_null();
        let reference = spec.get("artifactRepositoryRef").filter(is_set);
        if reference.is_none()
            && spec
                .get("workflowTemplateRef")
                .is_some_and(|field| is_set(&field))
        {
            return None;
        }
        let text = |name: &str| {
            let field = reference.and_then(|reference| reference.get(name));
            field.and_then(Value::as_str).filter(|text| !text.is_empty())
        };
        Some(Self {
            config_map: text("configMap").unwrap_or(REPOSITORIES),
            key: text("key"),
        })
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
