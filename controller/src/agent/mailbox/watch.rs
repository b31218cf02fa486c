//! The watches of the mailbox. Each passes the objects of runs to the loop of Workflows, and all others
//! to the loop of objects.
//!
//! Both loops read one watch, because a thousand agents share one API server, where each watch costs
//! memory, and requests when it is renewed. So the first list of a kind reaches both loops when all of it
//! has been read, including the ManifestWorks that others have written into the mailbox.
//!
//! Not here: the use that the loops make of the objects.

use std::{collections::HashMap, fmt::Debug, future::pending, time::Duration};

use argosy_api::{ManifestWork, WorkStatus, names};
use argosy_core::{
    Change,
    agent::{
        manifests::ApplyInput,
        workflows::{AgentInput, ObservedReported, ObservedWork},
    },
};
use kube::{Api, ResourceExt, core::PartialObjectMeta};
use tokio::{
    sync::mpsc::{self, Sender},
    time::sleep,
};

use crate::{
    agent::{Member, with_metadata},
    runtime::{
        lenient::Readable,
        watch::{Projected, Uid, follow_projected, selecting_in_mailbox, uid_of},
    },
};

/// Time until a kind is listed again after a label has moved one of its objects to the other loop.
const AGAIN: Duration = Duration::from_secs(1);

/// The queues of inputs of the two loops.
#[derive(Clone)]
pub(in crate::agent) struct Inputs {
    /// Those of the loop of Workflows.
    pub(in crate::agent) workflows: Sender<AgentInput>,
    /// Those of the loop of objects.
    pub(in crate::agent) objects: Sender<ApplyInput>,
}

/// Watches the ManifestWorks and WorkStatuses of the mailbox. Returns if the ITS was restored to an
/// earlier state; if a loop has ended, it waits to be dropped.
pub(in crate::agent) async fn follow(member: Member, inputs: Inputs) {
    let works = Api::namespaced(member.its.clone(), member.cluster.as_str());
    let works = route_all::<ManifestWork, _, _>(works, &inputs, AgentInput::Work, ApplyInput::Work);
    // Metadata show which report the ITS has; with the statuses, every report would come back in full.
    let statuses = Api::namespaced(member.its.clone(), member.cluster.as_str());
    let statuses = route_all::<PartialObjectMeta<WorkStatus>, _, _>(
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

/// Watches the objects of one kind, and lists them again whenever a label has moved one of them.
async fn route_all<K, R, O>(
    api: Api<Projected<K, Routed<R, O>>>,
    inputs: &Inputs,
    of_run: fn(Change<R>) -> AgentInput,
    of_other: fn(Change<O>) -> ApplyInput,
) where
    K: Readable + Clone + Debug + 'static,
    K::DynamicType: Default,
    Routed<R, O>: From<K> + Clone + Debug + Send + 'static,
{
    loop {
        let (sender, mut changes) = mpsc::channel(1);
        let config = selecting_in_mailbox();
        let watching = follow_projected(api.clone(), config, sender, Projected::into_view, |change| change);
        let routing = async {
            let mut router = Router::default();
            while let Some(change) = changes.recv().await {
                let Some((runs, others)) = router.route(change) else {
                    return;
                };
                let is_taken = send(&inputs.workflows, runs.map(of_run)).await
                    && send(&inputs.objects, others.map(of_other)).await;
                if !is_taken {
                    // The other loop may still wait for its last answers.
                    pending::<()>().await;
                }
            }
        };
        tokio::select! {
            biased;
            () = watching => return,
            () = routing => {}
        }
        let kind = K::kind(&K::DynamicType::default()).into_owned();
        tracing::warn!(
            kind,
            "a label has moved an object of the mailbox to the agent's other loop; listing the kind again"
        );
        sleep(AGAIN).await;
    }
}

/// Sends an input, if there is one. Returns false if the loop has ended.
async fn send<I>(queue: &Sender<I>, input: Option<I>) -> bool {
    match input {
        Some(input) => queue.send(input).await.is_ok(),
        None => true,
    }
}

/// An object of the mailbox, as the loop to which it goes needs it.
#[derive(Clone, Debug)]
struct Routed<R, O> {
    uid: Option<Uid>,
    object: Object<R, O>,
}

#[derive(Clone, Debug)]
enum Object<R, O> {
    /// It is about a run, and goes to the loop of Workflows.
    OfRun(Box<R>),
    /// It goes to the loop of objects.
    Other(Box<O>),
    /// It goes to neither.
    Foreign,
}

/// The loop to which an object goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Workflows,
    Objects,
}

impl From<ManifestWork> for Routed<ObservedWork, ManifestWork> {
    fn from(work: ManifestWork) -> Self {
        Self {
            uid: uid_of(&work.metadata),
            object: if work.labels().contains_key(names::ORIGIN_UID_LABEL) {
                Object::OfRun(Box::new(work.into()))
            } else {
                Object::Other(Box::new(work))
            },
        }
    }
}

impl From<PartialObjectMeta<WorkStatus>> for Routed<ObservedReported, WorkStatus> {
    fn from(status: PartialObjectMeta<WorkStatus>) -> Self {
        let has_label = |label| status.labels().contains_key(label);
        Self {
            uid: uid_of(&status.metadata),
            object: if has_label(names::ORIGIN_UID_LABEL) {
                Object::OfRun(Box::new(status.into()))
            } else if has_label(names::OBJECT_UID_LABEL) {
                Object::Other(Box::new(with_metadata(status)))
            } else {
                Object::Foreign
            },
        }
    }
}

impl<R, O> Routed<R, O> {
    fn route(&self) -> Option<Route> {
        match self.object {
            Object::OfRun(_) => Some(Route::Workflows),
            Object::Other(_) => Some(Route::Objects),
            Object::Foreign => None,
        }
    }

    /// The changes about this object; `None` if it went to another loop before, which still knows it.
    fn changes(
        self,
        former: Option<Route>,
        run: impl FnOnce(Box<R>) -> Change<R>,
        other: impl FnOnce(Box<O>) -> Change<O>,
    ) -> Option<Changes<R, O>> {
        if former.is_some() && former != self.route() {
            return None;
        }
        Some(match self.object {
            Object::OfRun(object) => (Some(run(object)), None),
            Object::Other(object) => (None, Some(other(object))),
            Object::Foreign => (None, None),
        })
    }
}

/// The change for the loop of Workflows, and that for the loop of objects.
type Changes<R, O> = (Option<Change<R>>, Option<Change<O>>);

/// Routes the changes of one kind, and remembers the routes.
#[derive(Debug, Default)]
struct Router {
    routes: HashMap<Uid, Route>,
}

impl Router {
    /// Returns the changes for the loops; `None` if a label has moved an object from one to the other.
    fn route<R, O>(&mut self, change: Change<Routed<R, O>>) -> Option<Changes<R, O>> {
        match change {
            Change::Reset(all) => {
                let routes = all.iter().filter_map(|one| Some((one.uid?, one.route()?)));
                self.routes = routes.collect();
                let (mut runs, mut others) = (Vec::new(), Vec::new());
                for one in all {
                    match one.object {
                        Object::OfRun(run) => runs.push(*run),
                        Object::Other(other) => others.push(*other),
                        Object::Foreign => {}
                    }
                }
                Some((Some(Change::Reset(runs)), Some(Change::Reset(others))))
            }
            Change::Apply(one) => {
                let former = one.uid.and_then(|uid| match one.route() {
                    Some(route) => self.routes.insert(uid, route),
                    None => self.routes.remove(&uid),
                });
                one.changes(former, Change::Apply, Change::Apply)
            }
            Change::Delete(one) => {
                let former = one.uid.and_then(|uid| self.routes.remove(&uid));
                one.changes(former, Change::Delete, Change::Delete)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    const A: &str = "0b5f9e5c-3a2c-4c57-9a43-0d3ffb6f6f0a";
    const B: &str = "0b5f9e5c-3a2c-4c57-9a43-0d3ffb6f6f0b";
    const LABELS: [&str; 3] = [names::ORIGIN_UID_LABEL, names::OBJECT_UID_LABEL, "foreign"];

    fn object<K: DeserializeOwned>(uid: &str, label: &str) -> K {
        let object = json!({
            "metadata": { "name": format!("argosy-{uid}"), "uid": uid, "labels": { label: uid } },
            "spec": {},
        });
        serde_json::from_value(object).unwrap()
    }

    fn work(uid: &str, label: &str) -> Routed<ObservedWork, ManifestWork> {
        object::<ManifestWork>(uid, label).into()
    }

    fn status(uid: &str, label: &str) -> Routed<ObservedReported, WorkStatus> {
        object::<PartialObjectMeta<WorkStatus>>(uid, label).into()
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

    fn routed<R, O>(router: &mut Router, change: Change<Routed<R, O>>) -> Option<[String; 2]> {
        let (runs, others) = router.route(change)?;
        Some([words(runs), words(others)])
    }

    #[test]
    fn each_loop_gets_its_objects_and_the_list_of_its_objects() {
        let expect = |words: [&str; 2]| Some(words.map(str::to_owned));
        let mut works = Router::default();
        let list = vec![work(A, names::ORIGIN_UID_LABEL), work(B, "foreign")];
        assert_eq!(
            routed(&mut works, Change::Reset(list)),
            expect(["all 1", "all 1"])
        );
        let run = || Box::new(work(A, names::ORIGIN_UID_LABEL));
        let other = || Box::new(work(B, "foreign"));
        for (change, expected) in [
            (Change::Apply(run()), ["one", "nothing"]),
            (Change::Apply(other()), ["nothing", "one"]),
            (Change::Delete(run()), ["one gone", "nothing"]),
            (Change::Delete(other()), ["nothing", "one gone"]),
        ] {
            assert_eq!(routed(&mut works, change), expect(expected));
        }
        let mut statuses = Router::default();
        let to = [["one", "nothing"], ["nothing", "one"], ["nothing", "nothing"]];
        for (label, expected) in LABELS.into_iter().zip(to) {
            let change = || Box::new(status(A, label));
            assert_eq!(routed(&mut statuses, Change::Apply(change())), expect(expected));
            routed(&mut statuses, Change::Delete(change())).unwrap();
        }
        assert!(works.routes.is_empty() && statuses.routes.is_empty());
    }

    /// True if an object with the first label may get the second one without a new list.
    fn may_follow<R, O>(object: impl Fn(&str) -> Routed<R, O>, before: &str, after: &str) -> bool {
        let mut is_noticed = [Change::Apply as fn(Box<_>) -> Change<_>, Change::Delete].map(|change| {
            let mut router = Router::default();
            router.route(Change::Reset(vec![object(before)])).unwrap();
            let moved = router.route(change(Box::new(object(after))));
            assert!(router.route(Change::Reset(vec![object(before)])).is_some());
            moved.is_none()
        });
        is_noticed.sort_unstable();
        assert_eq!(is_noticed[0], is_noticed[1], "{before} {after}");
        !is_noticed[0]
    }

    #[test]
    fn an_object_that_a_label_moves_to_the_other_loop_is_noticed() {
        for before in LABELS {
            for after in LABELS {
                let is_known_to_both = before == after || before == "foreign";
                let status = |label: &str| status(A, label);
                assert_eq!(
                    may_follow(status, before, after),
                    is_known_to_both,
                    "{before} {after}"
                );
                let is_run = |label| label == names::ORIGIN_UID_LABEL;
                let work = |label: &str| work(A, label);
                let is_same = is_run(before) == is_run(after);
                assert_eq!(may_follow(work, before, after), is_same, "{before} {after}");
            }
        }
    }
}
