//! Stub.
#[derive(Clone, Copy, Debug)]
pub enum Shown { Long }
impl Shown { pub fn parse(_: &str) -> Option<Self> { Some(Self::Long) } }
