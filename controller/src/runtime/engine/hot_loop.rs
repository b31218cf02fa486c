//! Counts the consecutive successful actions of one key. Not here: the limit.

use std::collections::HashMap;

/// Consecutive actions of a key, counted per object. A key with many objects is therefore not
/// slowed down, but two objects that undo each other are.
#[derive(Default)]
pub(super) struct HotLoopGuard {
    lengths: HashMap<Option<String>, u32>,
    /// The count of the object of the last action.
    pub(super) last: u32,
    /// The last action was of low priority.
    pub(super) was_low: bool,
}

impl HotLoopGuard {
    /// Counts one more action about that object and returns the new count.
    pub(super) fn grow(&mut self, about: Option<String>, was_low: bool) -> u32 {
        self.was_low = was_low;
        let length = self.lengths.entry(about).or_default();
        *length += 1;
        self.last = *length;
        self.last
    }
}
