//! Counts the consecutive successful actions of one key. Not here: the limit.

use std::collections::HashMap;

/// Consecutive actions of a key, counted per object. A key with many objects is therefore not
/// slowed down, but two objects that undo each other are.
#[derive(Default)]
pub(super) struct HotLoopGuard {
    lengths: HashMap<Option<String>, u32>,
    /// The count of the object of the last action.
    pub(super) last: u32,
}

impl HotLoopGuard {
    /// Counts one more action about that object and returns the new count.
    pub(super) fn grow(&mut self, about: Option<String>) -> u32 {
        let length = self.lengths.entry(about).or_default();
        *length += 1;
        self.last = *length;
        self.last
    }
}
