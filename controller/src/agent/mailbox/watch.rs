//! The watches of the mailbox. Each passes the objects of runs to the loop of Workflows, and all others
//! to the loop of objects.
//!
//! Both loops read one watch, because a thousand agents share one API server, where each watch costs
//! memory, and requests when it is renewed.
//!
//! Not here: the use that the loops make of the objects.

use std::{collections::HashMap, fmt::Debug};

use argosy_api::{ManifestWork, WorkStatus, names};
use argosy_core::{
    Change,
    agent::{
        manifests::ApplyInput,
        workflows::{AgentInput, ObservedReported, ObservedWork},
    },
};
use kube::{Api, ResourceExt, core::PartialObjectMeta};
use tokio::sync::mpsc::{self, Sender};

use crate::{
    agent::{Member, QUEUE, with_metadata},
    runtime::{
        lenient::Readable,
        watch::{Projected, Uid, follow_projected, selecting_in_mailbox, uid_of},
    },
};

/// The queues of inputs of the two loops.
#[derive(Clone)]
pub(in crate::agent) struct Inputs {
    /// Those of the loop of Workflows.
    pub(in crate::agent) workflows: Sender<AgentInput>,
    /// Those of the loop of objects.
    pub(in crate::agent) objects: Sender<ApplyInput>,
}

/// Watches the ManifestWorks and WorkStatuses of the mailbox. Returns if a loop has ended, or if the ITS
/// was restored to an earlier state.
pub(in crate::agent) async fn follow(member: Member, inputs: Inputs) {
    let works = Api::namespaced(member.its.clone(), member.cluster.as_str());
    let works = follow_kind::<ManifestWork, _, _>(works, &inputs, AgentInput::Work, ApplyInput::Work);
    // Metadata show which report the ITS has; with the statuses, every report would come back in full.
    let statuses = Api::namespaced(member.its.clone(), member.cluster.as_str());
    let statuses = follow_kind::<PartialObjectMeta<WorkStatus>, _, _>(
        statuses,
        &inputs,
        AgentInput::WorkStatus,
        ApplyInput::WorkStatus,
    );
    tokio::select! {
        () = works => {}
        () = statuses => {}
    }
}

async fn follow_kind<K, R, O>(
    api: Api<Projected<K, Sorted<R, O>>>,
    inputs: &Inputs,
    of_run: fn(Change<R>) -> AgentInput,
    of_other: fn(Change<O>) -> ApplyInput,
) where
    K: Readable + Clone + Debug + 'static,
    K::DynamicType: Default,
    Sorted<R, O>: From<K> + Clone + Debug + Send + 'static,
{
    loop {
        let (sender, mut changes) = mpsc::channel(QUEUE);
        let config = selecting_in_mailbox("");
        let watching = follow_projected(api.clone(), config, sender, Projected::into_view, |change| change);
        let sorting = async {
            let mut sorter = Sorter::default();
            while let Some(change) = changes.recv().await {
                let Some((runs, others)) = sorter.sort(change) else {
                    return true;
                };
                let is_taken = send(&inputs.workflows, runs.map(of_run)).await
                    && send(&inputs.objects, others.map(of_other)).await;
                if !is_taken {
                    break;
                }
            }
            false
        };
        let has_moved = tokio::select! {
            () = watching => false,
            has_moved = sorting => has_moved,
        };
        if !has_moved {
            return;
        }
        let kind = K::kind(&K::DynamicType::default()).into_owned();
        tracing::warn!(
            kind,
            "the owner of an object of the mailbox has changed; listing it again"
        );
    }
}

/// Sends an input, if there is one. Returns false if the loop has ended.
async fn send<I>(loop_: &Sender<I>, input: Option<I>) -> bool {
    match input {
        Some(input) => loop_.send(input).await.is_ok(),
        None => true,
    }
}

/// An object of the mailbox, for the loop to which it belongs.
#[derive(Clone, Debug)]
struct Sorted<R, O> {
    uid: Option<Uid>,
    object: Owned<R, O>,
}

#[derive(Clone, Debug)]
enum Owned<R, O> {
    Run(Box<R>),
    Other(Box<O>),
    Nobody,
}

/// The loop to which an object belongs, if Argosy has written it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Run,
    Other,
    Nobody,
}

impl From<ManifestWork> for Sorted<ObservedWork, ManifestWork> {
    fn from(work: ManifestWork) -> Self {
        Self {
            uid: uid_of(&work.metadata),
            object: if work.labels().contains_key(names::ORIGIN_UID_LABEL) {
                Owned::Run(Box::new(work.into()))
            } else {
                Owned::Other(Box::new(work))
            },
        }
    }
}

impl From<PartialObjectMeta<WorkStatus>> for Sorted<ObservedReported, WorkStatus> {
    fn from(status: PartialObjectMeta<WorkStatus>) -> Self {
        let has_label = |label| status.labels().contains_key(label);
        Self {
            uid: uid_of(&status.metadata),
            object: if has_label(names::ORIGIN_UID_LABEL) {
                Owned::Run(Box::new(status.into()))
            } else if has_label(names::OBJECT_UID_LABEL) {
                Owned::Other(Box::new(with_metadata(status)))
            } else {
                Owned::Nobody
            },
        }
    }
}

impl<R, O> Sorted<R, O> {
    fn owner(&self) -> Owner {
        match self.object {
            Owned::Run(_) => Owner::Run,
            Owned::Other(_) => Owner::Other,
            Owned::Nobody => Owner::Nobody,
        }
    }

    /// The changes about this object; `None` if the loop of its former owner still knows it.
    fn changes(
        self,
        former: Option<Owner>,
        run: impl FnOnce(Box<R>) -> Change<R>,
        other: impl FnOnce(Box<O>) -> Change<O>,
    ) -> Option<Changes<R, O>> {
        if former.is_some_and(|former| former != Owner::Nobody && former != self.owner()) {
            return None;
        }
        Some(match self.object {
            Owned::Run(object) => (Some(run(object)), None),
            Owned::Other(object) => (None, Some(other(object))),
            Owned::Nobody => (None, None),
        })
    }
}

/// The change for the loop of Workflows, and that for the loop of objects.
type Changes<R, O> = (Option<Change<R>>, Option<Change<O>>);

/// Sorts the changes of one kind by the owners of the objects.
#[derive(Debug, Default)]
struct Sorter {
    owners: HashMap<Uid, Owner>,
}

impl Sorter {
    /// Returns the changes for the loops; `None` if a label has changed the owner of an object, which its
    /// former loop would still know.
    fn sort<R, O>(&mut self, change: Change<Sorted<R, O>>) -> Option<Changes<R, O>> {
        match change {
            Change::Reset(all) => {
                let owners = all.iter().filter_map(|one| Some((one.uid?, one.owner())));
                self.owners = owners.collect();
                let (mut runs, mut others) = (Vec::new(), Vec::new());
                for one in all {
                    match one.object {
                        Owned::Run(run) => runs.push(*run),
                        Owned::Other(other) => others.push(*other),
                        Owned::Nobody => {}
                    }
                }
                Some((Some(Change::Reset(runs)), Some(Change::Reset(others))))
            }
            Change::Apply(one) => {
                let former = one.uid.and_then(|uid| self.owners.insert(uid, one.owner()));
                one.changes(former, Change::Apply, Change::Apply)
            }
            Change::Delete(one) => {
                let former = one.uid.and_then(|uid| self.owners.remove(&uid));
                one.changes(former, Change::Delete, Change::Delete)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const A: &str = "0b5f9e5c-3a2c-4c57-9a43-0d3ffb6f6f0a";
    const B: &str = "0b5f9e5c-3a2c-4c57-9a43-0d3ffb6f6f0b";

    type Works = Sorted<ObservedWork, ManifestWork>;
    type Statuses = Sorted<ObservedReported, WorkStatus>;

    fn metadata(uid: &str, label: &str) -> serde_json::Value {
        json!({
            "metadata": { "name": format!("argosy-{uid}"), "uid": uid, "labels": { label: uid } },
            "spec": {},
        })
    }

    fn work(uid: &str, label: &str) -> Works {
        let work: ManifestWork = serde_json::from_value(metadata(uid, label)).unwrap();
        work.into()
    }

    fn status(uid: &str, label: &str) -> Statuses {
        let status: PartialObjectMeta<WorkStatus> = serde_json::from_value(metadata(uid, label)).unwrap();
        status.into()
    }

    /// A change in words.
    fn words<T>(change: Option<Change<T>>) -> String {
        match change {
            None => "nothing".to_owned(),
            Some(Change::Apply(_)) => "one".to_owned(),
            Some(Change::Delete(_)) => "one gone".to_owned(),
            Some(Change::Reset(all)) => format!("all {}", all.len()),
        }
    }

    fn sorted<R, O>(sorter: &mut Sorter, change: Change<Sorted<R, O>>) -> Option<[String; 2]> {
        let (runs, others) = sorter.sort(change)?;
        Some([words(runs), words(others)])
    }

    #[test]
    fn each_loop_gets_its_objects_and_the_list_of_its_objects() {
        let mut works = Sorter::default();
        let list = vec![work(A, names::ORIGIN_UID_LABEL), work(B, "of-another-hub")];
        let expect = |words: [&str; 2]| Some(words.map(str::to_owned));
        assert_eq!(
            sorted(&mut works, Change::Reset(list)),
            expect(["all 1", "all 1"])
        );
        let run = || Box::new(work(A, names::ORIGIN_UID_LABEL));
        let other = || Box::new(work(B, "of-another-hub"));
        for (change, expected) in [
            (Change::Apply(run()), ["one", "nothing"]),
            (Change::Apply(other()), ["nothing", "one"]),
            (Change::Delete(run()), ["one gone", "nothing"]),
            (Change::Delete(other()), ["nothing", "one gone"]),
        ] {
            assert_eq!(sorted(&mut works, change), expect(expected));
        }
        assert!(works.owners.is_empty(), "it remembers what is gone");
        let mut statuses = Sorter::default();
        for (label, expected) in [
            (names::ORIGIN_UID_LABEL, ["one", "nothing"]),
            (names::OBJECT_UID_LABEL, ["nothing", "one"]),
            ("foreign", ["nothing", "nothing"]),
        ] {
            let change = || Box::new(status(A, label));
            assert_eq!(sorted(&mut statuses, Change::Apply(change())), expect(expected));
            sorted(&mut statuses, Change::Delete(change())).unwrap();
        }
    }

    #[test]
    fn an_object_whose_label_moves_it_to_the_other_loop_is_noticed_and_a_new_list_is_not() {
        let labels = [names::ORIGIN_UID_LABEL, names::OBJECT_UID_LABEL, "foreign"];
        for before in labels {
            for after in labels {
                let mut statuses = Sorter::default();
                statuses.sort(Change::Reset(vec![status(A, before)])).unwrap();
                let changed = statuses.sort(Change::Apply(Box::new(status(A, after))));
                let is_fine = before == after || before == "foreign";
                assert_eq!(changed.is_some(), is_fine, "{before} {after}");
                assert!(statuses.sort(Change::Reset(vec![status(A, before)])).is_some());
            }
        }
    }
}
