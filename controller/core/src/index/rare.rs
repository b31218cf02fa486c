//! Values of thousands of objects that are mostly their default, and then take eight bytes each.

use std::ops::{Deref, DerefMut};

/// A type with a constant default.
pub(crate) trait Empty: Default + PartialEq + 'static {
    /// The default.
    const EMPTY: &'static Self;
}

/// A value that is in memory only if it differs from the default.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Rare<T>(Option<Box<T>>);

impl<T: Empty> From<T> for Rare<T> {
    fn from(value: T) -> Self {
        Self((value != *T::EMPTY).then(|| Box::new(value)))
    }
}

impl<T: Empty> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::EMPTY)
    }
}

impl<T: Empty> DerefMut for Rare<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::control::Control;

    #[test]
    fn a_default_takes_no_memory_of_its_own_and_reads_like_any_other_value() {
        let mut control = Rare::from(Control::default());
        assert_eq!(size_of_val(&control), 8);
        assert!(control.0.is_none());
        assert!(!control.suspend);
        control.suspend = true;
        let asked = Control {
            suspend: true,
            ..Control::default()
        };
        assert_eq!(*control, asked);
        assert_eq!(control, Rare::from(asked));
    }
}
