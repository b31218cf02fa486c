//! The ManifestWork's `manifestConfigs` for an object. Several may cover it, because their names
//! may contain wildcards.
//!
//! Not here: the use of these configs (`feedback`, `condition_rules`, and
//! [`How`](super::views::How)).

use argosy_api::manifest_work::{ManifestConfig, ResourceIdentifier};

use super::ObjectKey;

/// All configs that cover an object. OCM takes each setting from the first config that has it.
pub(super) fn configs_of<'a>(
    configs: &'a [ManifestConfig],
    key: &ObjectKey,
) -> impl Iterator<Item = &'a ManifestConfig> {
    configs
        .iter()
        .filter(|config| covers(&config.resource_identifier, key))
}

/// True if an identifier covers the object. A `*` in its namespace or name stands for any text,
/// including none.
fn covers(identifier: &ResourceIdentifier, key: &ObjectKey) -> bool {
    identifier.group == *key.resource.api.group
        && identifier.resource == *key.resource.plural
        && is_like(&identifier.namespace, &key.namespace)
        && is_like(&identifier.name, &key.name)
}

/// True if `text` matches `pattern`. Each `*` takes the shortest possible text, which finds a match
/// if there is one.
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

    /// The table of OCM's own test, plus texts that match at two places.
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
