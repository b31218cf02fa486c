//! Values of thousands of objects that are seldom different: each is kept once. Not here: what they mean.

use std::{collections::HashSet, hash::Hash, sync::Arc};

/// All values that are in use.
#[derive(Debug)]
pub(crate) struct Shared<T> {
    known: HashSet<Arc<T>>,
    /// How many there were after those that nobody used had been forgotten.
    used: usize,
}

/// Below so many nothing is looked for that could be forgotten.
const FEW: usize = 16;

impl<T: Eq + Hash> Shared<T> {
    /// Knows nothing yet.
    pub(crate) fn new() -> Self {
        Self {
            known: HashSet::new(),
            used: 0,
        }
    }

    /// `value`, as all others that are equal to it.
    pub(crate) fn share(&mut self, value: T) -> Arc<T> {
        if let Some(known) = self.known.get(&value) {
            return Arc::clone(known);
        }
        if self.known.len() >= FEW.max(2 * self.used) {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.used = self.known.len();
        }
        let value = Arc::new(value);
        self.known.insert(Arc::clone(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one() {
        let mut shared = Shared::new();
        let (one, other) = (shared.share("a".to_owned()), shared.share("a".to_owned()));
        assert!(Arc::ptr_eq(&one, &other));
        assert!(!Arc::ptr_eq(&one, &shared.share("b".to_owned())));
    }

    #[test]
    fn what_nobody_uses_is_forgotten_and_what_somebody_uses_is_not() {
        let mut shared = Shared::new();
        let kept: Vec<Arc<usize>> = (0..100).map(|value| shared.share(value)).collect();
        for value in 1_000..10_000 {
            shared.share(value);
        }
        assert!(shared.known.len() <= 200, "{}", shared.known.len());
        assert!(
            kept.iter()
                .all(|value| Arc::ptr_eq(value, &shared.share(**value)))
        );
    }
}
