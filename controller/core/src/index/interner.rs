//! An interner for values that rarely differ between thousands of objects: each distinct value is
//! stored once. Not here: the meaning of the values.

use std::{collections::HashSet, hash::Hash, sync::Arc};

/// All values in use.
#[derive(Debug)]
pub(crate) struct Interner<T> {
    known: HashSet<Arc<T>>,
    /// Number of values after the last removal of unused ones.
    used: usize,
}

/// With fewer values, unused ones are not searched for.
const FEW: usize = 16;

impl<T: Eq + Hash> Interner<T> {
    /// Creates an empty interner.
    pub(crate) fn new() -> Self {
        Self {
            known: HashSet::new(),
            used: 0,
        }
    }

    /// Returns the shared instance of `value`.
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
        let mut shared = Interner::new();
        let (one, other) = (shared.share("a".to_owned()), shared.share("a".to_owned()));
        assert!(Arc::ptr_eq(&one, &other));
        assert!(!Arc::ptr_eq(&one, &shared.share("b".to_owned())));
    }

    #[test]
    fn what_nobody_uses_is_forgotten_and_what_somebody_uses_is_not() {
        let mut shared = Interner::new();
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
