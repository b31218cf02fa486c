//! A watch of a process: first a list, then events in order, each delayed as the script wants.

use argosy_core::{Change, Failure, Reconcile};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{api_server::Kind, script::Space, servers::Servers};

/// A watch: the space and kind that it reads, and the input that each change becomes.
pub(crate) struct Watch<R: Reconcile> {
    pub(crate) kind: Kind,
    pub(crate) space: Space,
    pub(crate) selects: fn(&Value, usize) -> bool,
    pub(crate) input: fn(Change<Value>) -> R::Input,
    pub(crate) cursor: usize,
    /// The next thing to arrive is a list that has not been taken yet.
    pub(crate) is_lost: bool,
    /// Nothing arrives while the process catches up.
    pub(crate) is_lagging: bool,
    /// A list that was taken but has not arrived.
    pub(crate) list: Option<Vec<Value>>,
}

impl<R: Reconcile> Watch<R> {
    pub(crate) fn new(
        kind: Kind,
        space: Space,
        selects: fn(&Value, usize) -> bool,
        input: fn(Change<Value>) -> R::Input,
    ) -> Self {
        Self {
            kind,
            space,
            selects,
            input,
            cursor: 0,
            is_lost: true,
            is_lagging: false,
            list: None,
        }
    }

    pub(crate) fn relist(&mut self, number: usize, servers: &Servers) {
        let server = servers.at(self.space, number);
        self.is_lost = false;
        self.list = Some(
            server
                .list(self.kind)
                .filter(|object| (self.selects)(object, number))
                .cloned()
                .collect(),
        );
        self.cursor = server.log.len();
    }

    pub(crate) fn next(&mut self, number: usize, servers: &Servers) -> Option<R::Input> {
        if self.is_lost {
            self.relist(number, servers);
        }
        if let Some(list) = self.list.take() {
            return Some((self.input)(Change::Reset(list)));
        }
        while let Some(event) = servers.at(self.space, number).log.get(self.cursor) {
            self.cursor += 1;
            if event.kind == self.kind && (self.selects)(&event.object, number) {
                let object = Box::new(event.object.clone());
                return Some((self.input)(if event.is_deletion {
                    Change::Delete(object)
                } else {
                    Change::Apply(object)
                }));
            }
        }
        None
    }
}

/// Selects all objects.
pub(crate) fn any(_: &Value, _: usize) -> bool {
    true
}

/// Decodes a change of objects of a kind.
pub(crate) fn typed<K: DeserializeOwned>(change: Change<Value>) -> Change<K> {
    let read = |object: Value| serde_json::from_value(object).expect("an object of the model decodes");
    match change {
        Change::Apply(object) => Change::Apply(Box::new(read(*object))),
        Change::Delete(object) => Change::Delete(Box::new(read(*object))),
        Change::Reset(live) => Change::Reset(live.into_iter().map(read).collect()),
    }
}

/// The change that corresponds to an object in the model's answer.
pub(crate) fn apply<K: DeserializeOwned>(object: Value) -> Change<K> {
    typed(Change::Apply(Box::new(object)))
}

/// Turns a missing object into `None`.
pub(crate) fn found<T>(result: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match result {
        Ok(answer) => Ok(Some(answer)),
        Err(Failure::NotFound { .. }) => Ok(None),
        Err(failure) => Err(failure),
    }
}

pub(crate) fn json_of(object: &impl serde::Serialize) -> Value {
    serde_json::to_value(object).expect("an object encodes")
}
