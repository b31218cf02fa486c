//! Which kinds the cluster serves, as far as it was asked, and when to ask again for one that it does not.
//!
//! One answer covers a version of a group. Not here: the request, and whether a kind may be listed.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use super::{
    ids::{GroupVersion, Resource},
    pace,
};

/// A kind of which a cluster says that it serves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// `Deployment`.
    pub kind: String,
    /// `deployments`.
    pub plural: String,
    /// Whether its objects lie in namespaces.
    pub is_namespaced: bool,
}

/// What is known of a kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    /// It is served.
    Known { resource: Resource, is_namespaced: bool },
    /// It was not served when it was last asked for, if it was, and may be asked for again from `ask_at` on.
    Unknown {
        /// Why nothing could be learnt, if so.
        problem: Option<String>,
        /// `None`: at once.
        ask_at: Option<Timestamp>,
    },
}

/// Whether it is certain that a cluster does not serve a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// It serves it, as far as is known.
    Served,
    /// It has said so for long enough.
    Proven,
    /// It is to be asked again from then on; `None`: at once.
    Doubtful(Option<Timestamp>),
}

/// For how long a kind must not be served before it is believed to have no objects: an API server that has just started does not
/// know its custom kinds for a moment.
const DOUBT: SignedDuration = SignedDuration::from_secs(30);

/// The kinds that the cluster serves.
#[derive(Debug, Default)]
pub(super) struct Catalogue(HashMap<GroupVersion, Answer>);

#[derive(Debug)]
struct Answer {
    kinds: HashMap<String, (Arc<str>, bool)>,
    problem: Option<String>,
    asked_at: Timestamp,
    /// The first and the last answer in a row with just these kinds. Nothing is known before the first.
    same: Option<(Timestamp, Timestamp)>,
    /// How often it was asked without anything new.
    tries: u32,
}

impl Catalogue {
    /// What is known of `kind` in `api`.
    pub(super) fn resolve(&self, api: &GroupVersion, kind: &str) -> Resolution {
        let Some(answer) = self.0.get(api) else {
            return Resolution::Unknown {
                problem: None,
                ask_at: None,
            };
        };
        match answer.kinds.get(kind) {
            Some((plural, is_namespaced)) => Resolution::Known {
                resource: Resource::new(api.clone(), plural),
                is_namespaced: *is_namespaced,
            },
            None => Resolution::Unknown {
                problem: answer.problem.clone(),
                ask_at: (answer.tries > 0).then(|| pace::DISCOVERY.next(answer.asked_at, answer.tries)),
            },
        }
    }

    /// Whether it is certain that `kind` of `api` is not served.
    pub(super) fn absence_of_kind(&self, api: &GroupVersion, kind: &str) -> Absence {
        self.absence_where(api, |answer| answer.kinds.contains_key(kind))
    }

    /// Whether it is certain that the kind `resource` is not served.
    pub(super) fn absence(&self, resource: &Resource) -> Absence {
        let plural = &resource.plural;
        let is_served = |answer: &Answer| answer.kinds.values().any(|(known, _)| known == plural);
        self.absence_where(&resource.api, is_served)
    }

    fn absence_where(&self, api: &GroupVersion, is_served: impl Fn(&Answer) -> bool) -> Absence {
        let Some(answer) = self.0.get(api) else {
            return Absence::Doubtful(None);
        };
        if is_served(answer) {
            return Absence::Served;
        }
        let paced = (answer.tries > 0).then(|| pace::DISCOVERY.next(answer.asked_at, answer.tries));
        match answer.same {
            Some((first, last)) if last.duration_since(first) >= DOUBT => Absence::Proven,
            Some((first, _)) => {
                let enough = first.saturating_add(DOUBT).unwrap_or(Timestamp::MAX);
                // Where the last question was not answered, it is repeated less and less often.
                Absence::Doubtful(Some(
                    paced
                        .filter(|_| answer.problem.is_some())
                        .map_or(enough, |at| at.max(enough)),
                ))
            }
            None => Absence::Doubtful(paced.filter(|_| answer.problem.is_some())),
        }
    }

    /// Learns what is served of `api`.
    pub(super) fn learn(&mut self, api: GroupVersion, served: Vec<Served>, now: Timestamp) {
        let kinds: HashMap<_, _> = served
            .into_iter()
            .map(|served| (served.kind, (served.plural.into(), served.is_namespaced)))
            .collect();
        let former = self.0.remove(&api).filter(|former| former.kinds == kinds);
        let tries = former.as_ref().map_or(1, |former| former.tries.saturating_add(1));
        let first = former
            .and_then(|former| former.same)
            .map_or(now, |(first, _)| first);
        let answer = Answer {
            kinds,
            problem: None,
            asked_at: now,
            same: Some((first, now)),
            tries,
        };
        self.0.insert(api, answer);
    }

    /// Learns that the question about `api` was not answered. What was known stays.
    pub(super) fn learn_problem(&mut self, api: GroupVersion, problem: String, now: Timestamp) {
        let answer = self.0.entry(api).or_insert_with(|| Answer {
            kinds: HashMap::new(),
            problem: None,
            asked_at: now,
            same: None,
            tries: 0,
        });
        answer.problem = Some(problem);
        answer.asked_at = now;
        answer.tries = answer.tries.saturating_add(1);
    }

    /// The API server does not know the kind any more.
    pub(super) fn forget(&mut self, resource: &Resource) {
        if let Some(answer) = self.0.get_mut(&resource.api) {
            let known = answer.kinds.len();
            answer.kinds.retain(|_, (plural, _)| *plural != resource.plural);
            if answer.kinds.len() < known {
                // It was served a moment ago: what was answered before proves nothing.
                answer.same = None;
            }
        }
    }

    /// A kind of `api` that was listed is not known any more: what was answered before proves nothing.
    pub(super) fn doubt(&mut self, api: &GroupVersion) {
        if let Some(answer) = self.0.get_mut(api) {
            answer.same = None;
        }
    }

    /// A definition of `kind` in `group` is established: whoever waits for it may ask at once. Returns the versions concerned.
    pub(super) fn hurry(&mut self, group: &str, kind: &str) -> BTreeSet<GroupVersion> {
        let mut concerned = BTreeSet::new();
        for (api, answer) in &mut self.0 {
            if &*api.group == group && !answer.kinds.contains_key(kind) {
                answer.tries = 0;
                concerned.insert(api.clone());
            }
        }
        concerned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn widgets() -> Vec<Served> {
        vec![Served {
            kind: "Widget".to_owned(),
            plural: "widgets".to_owned(),
            is_namespaced: true,
        }]
    }

    fn ask_at(catalogue: &Catalogue, api: &GroupVersion) -> Option<Timestamp> {
        match catalogue.resolve(api, "Widget") {
            Resolution::Unknown { ask_at, .. } => ask_at,
            Resolution::Known { .. } => panic!("it is known"),
        }
    }

    #[test]
    fn a_kind_that_stays_unknown_is_asked_for_less_and_less_often() {
        let api = GroupVersion::parse("example.com/v1");
        let mut catalogue = Catalogue::default();
        assert_eq!(ask_at(&catalogue, &api), None);
        let mut delays = Vec::new();
        for _ in 0..10 {
            catalogue.learn(api.clone(), Vec::new(), at(0));
            let next = ask_at(&catalogue, &api).unwrap();
            delays.push(next.duration_since(at(0)).as_millis());
        }
        assert_eq!(delays[..3], [500, 1000, 2000]);
        assert_eq!(delays[9], 60_000);
    }

    #[test]
    fn an_established_definition_is_a_reason_to_ask_at_once_and_so_is_the_end_of_a_kind() {
        let api = GroupVersion::parse("example.com/v1");
        let mut catalogue = Catalogue::default();
        catalogue.learn(api.clone(), Vec::new(), at(0));
        catalogue.learn(api.clone(), Vec::new(), at(1));
        assert_eq!(catalogue.hurry("example.com", "Widget"), [api.clone()].into());
        assert_eq!(ask_at(&catalogue, &api), None);
        catalogue.learn(api.clone(), widgets(), at(2));
        let resource = Resource::new(api.clone(), "widgets");
        let known = Resolution::Known {
            resource: resource.clone(),
            is_namespaced: true,
        };
        assert_eq!(catalogue.resolve(&api, "Widget"), known);
        assert!(catalogue.hurry("example.com", "Widget").is_empty());
        catalogue.forget(&resource);
        assert!(ask_at(&catalogue, &api).unwrap() < at(3));
    }

    #[test]
    fn a_question_without_an_answer_takes_nothing_back() {
        let api = GroupVersion::parse("v1");
        let mut catalogue = Catalogue::default();
        catalogue.learn(api.clone(), widgets(), at(0));
        catalogue.learn_problem(api.clone(), "overloaded".to_owned(), at(1));
        assert!(matches!(
            catalogue.resolve(&api, "Widget"),
            Resolution::Known { .. }
        ));
        let other = Resolution::Unknown {
            problem: Some("overloaded".to_owned()),
            ask_at: Some(at(2)),
        };
        assert_eq!(catalogue.resolve(&api, "Gadget"), other);
    }

    #[test]
    fn a_kind_is_not_believed_to_be_gone_before_it_was_missing_for_a_while() {
        let api = GroupVersion::parse("example.com/v1");
        let resource = Resource::new(api.clone(), "widgets");
        let mut catalogue = Catalogue::default();
        assert_eq!(catalogue.absence(&resource), Absence::Doubtful(None));
        catalogue.learn_problem(api.clone(), "overloaded".to_owned(), at(0));
        let problem = catalogue.absence(&resource);
        assert!(matches!(problem, Absence::Doubtful(Some(_))), "{problem:?}");
        catalogue.learn(api.clone(), widgets(), at(1));
        assert_eq!(catalogue.absence(&resource), Absence::Served);
        catalogue.forget(&resource);
        assert_eq!(catalogue.absence(&resource), Absence::Doubtful(None));
        catalogue.learn(api.clone(), Vec::new(), at(10));
        // The watch of what a record names goes on telling so.
        catalogue.forget(&resource);
        assert_eq!(catalogue.absence(&resource), Absence::Doubtful(Some(at(40))));
        catalogue.learn_problem(api.clone(), "overloaded".to_owned(), at(41));
        assert!(matches!(catalogue.absence(&resource), Absence::Doubtful(Some(_))));
        catalogue.learn(api.clone(), Vec::new(), at(42));
        assert_eq!(catalogue.absence(&resource), Absence::Proven);
        assert_eq!(catalogue.absence_of_kind(&api, "Widget"), Absence::Proven);
        catalogue.learn(api.clone(), widgets(), at(43));
        assert_eq!(catalogue.absence_of_kind(&api, "Widget"), Absence::Served);
    }
}
