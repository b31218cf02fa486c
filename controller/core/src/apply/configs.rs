//! What a ManifestWork's `manifestConfigs` say of an object: several may be of it, as their names may have wildcards.
//!
//! Not here: what is made of that (`feedback`, `rules`, and [`How`](super::views::How)).

use argosy_api::manifest_work::{ConditionRule, FeedbackRule, ManifestConfig, ResourceIdentifier};

use super::{ObjectKey, views::Work};

impl Work {
    /// What is asked of an object's status.
    pub(super) fn feedback_rules(&self, key: &ObjectKey) -> &[FeedbackRule] {
        self.first_rules(key, |config| &config.feedback_rules)
    }

    /// Which conditions an object is to have.
    pub(super) fn condition_rules(&self, key: &ObjectKey) -> &[ConditionRule] {
        self.first_rules(key, |config| &config.condition_rules)
    }

    fn first_rules<'a, R>(
        &'a self,
        key: &ObjectKey,
        rules: impl Fn(&'a ManifestConfig) -> &'a [R],
    ) -> &'a [R] {
        let mut given = self.configs_of(key).map(rules);
        given.find(|rules| !rules.is_empty()).unwrap_or_default()
    }

    /// All that is said of an object. OCM takes each matter from the first that says something of it.
    pub(super) fn configs_of<'a>(&'a self, key: &ObjectKey) -> impl Iterator<Item = &'a ManifestConfig> {
        self.configs
            .iter()
            .filter(|config| covers(&config.resource_identifier, key))
    }
}

/// Whether an identifier is of the object; a `*` in its namespace or name stands for any text, also for none.
fn covers(identifier: &ResourceIdentifier, key: &ObjectKey) -> bool {
    identifier.group == *key.resource.api.group
        && identifier.resource == *key.resource.plural
        && is_like(&identifier.namespace, &key.namespace)
        && is_like(&identifier.name, &key.name)
}

/// Whether `text` is what `pattern` says. Takes the shortest text for every `*`, which finds a match if there is any.
fn is_like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = parts.next_back() else {
        return rest.is_empty();
    };
    for part in parts {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of OCM's own test, and what a text that fits twice could do to it.
    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, expected) in [
            ("test", "test", true),
            ("test", "test1", false),
            ("*", "", true),
            ("*", "shop", true),
            ("", "", true),
            ("", "shop", false),
            ("te*", "test", true),
            ("*st", "test", true),
            ("t*t", "test", true),
            ("t*t", "t", false),
            ("ab*ba", "aba", false),
            ("*a*", "banana", true),
            ("b*na", "banana", true),
            ("b*an*x", "banana", false),
            ("te.t", "test", false),
            ("**", "test", true),
        ] {
            assert_eq!(is_like(pattern, text), expected, "{pattern} {text}");
        }
    }
}
