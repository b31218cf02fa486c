//! The kinds that the cluster serves, as far as they were discovered, and the time of the next
//! discovery for a kind that is missing.
//!
//! One discovery covers a group version. Not here: the request itself, and the permission to list a
//! kind.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};

use super::{
    backoff,
    ids::{GroupVersion, Resource},
};

/// A kind that the cluster serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Kind, such as `Deployment`.
    pub kind: String,
    /// Plural, such as `deployments`.
    pub plural: String,
    /// True if its objects are namespaced.
    pub is_namespaced: bool,
}

/// The result of a lookup of a kind.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Resolution {
    /// The kind is served.
    Known { resource: Resource, is_namespaced: bool },
    /// The kind was not served at the last discovery, or there was none yet. The next one is
    /// allowed from `ask_at` on.
    Unknown {
        /// The reason why the last discovery failed, if it did.
        problem: Option<String>,
        /// `None` means at once.
        ask_at: Option<Timestamp>,
    },
}

/// The certainty that a cluster does not serve a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Absence {
    /// The kind is served, according to the last discovery.
    Served,
    /// The kind has been missing for long enough.
    Proven,
    /// Discovery must be repeated at this time; `None` means at once.
    Doubtful(Option<Timestamp>),
}

/// The time for which a kind must be missing before it counts as having no objects. An API server
/// that has just started does not serve its custom kinds for a moment.
const ABSENCE_PERIOD: SignedDuration = SignedDuration::from_secs(30);

/// The kinds that the cluster serves, by group version.
#[derive(Debug, Default)]
pub(super) struct Catalog(HashMap<GroupVersion, Answer>);

#[derive(Debug)]
struct Answer {
    kinds: HashMap<String, (Arc<str>, bool)>,
    problem: Option<String>,
    asked_at: Timestamp,
    /// Times of the first and the last answer in a row with exactly these kinds. `None` if no
    /// answer counts yet.
    same: Option<(Timestamp, Timestamp)>,
    /// The number of discoveries in a row without anything new.
    tries: u32,
}

impl Catalog {
    /// Looks up `kind` in `api`.
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
                ask_at: (answer.tries > 0).then(|| backoff::DISCOVERY.next(answer.asked_at, answer.tries)),
            },
        }
    }

    /// The certainty that `kind` of `api` is not served.
    pub(super) fn absence_of_kind(&self, api: &GroupVersion, kind: &str) -> Absence {
        self.absence_where(api, |answer| answer.kinds.contains_key(kind))
    }

    /// The certainty that the kind `resource` is not served.
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
        let paced = (answer.tries > 0).then(|| backoff::DISCOVERY.next(answer.asked_at, answer.tries));
        match answer.same {
            Some((first, last)) if last.duration_since(first) >= ABSENCE_PERIOD => Absence::Proven,
            Some((first, _)) => {
                let enough = first.saturating_add(ABSENCE_PERIOD).unwrap_or(Timestamp::MAX);
                // A discovery that failed is retried with back-off.
                Absence::Doubtful(Some(
                    paced
                        .filter(|_| answer.problem.is_some())
                        .map_or(enough, |at| at.max(enough)),
                ))
            }
            None => Absence::Doubtful(paced.filter(|_| answer.problem.is_some())),
        }
    }

    /// Stores the kinds that `api` serves.
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

    /// Stores that a discovery of `api` failed. The kinds from earlier discoveries stay.
    pub(super) fn on_problem(&mut self, api: GroupVersion, problem: String, now: Timestamp) {
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

    /// Removes a kind that the API server does not serve any more.
    pub(super) fn forget(&mut self, resource: &Resource) {
        if let Some(answer) = self.0.get_mut(&resource.api) {
            let known = answer.kinds.len();
            answer.kinds.retain(|_, (plural, _)| *plural != resource.plural);
            if answer.kinds.len() < known {
                // The kind was served a moment ago, so earlier answers do not prove its absence.
                answer.same = None;
            }
        }
    }

    /// Discards earlier answers about `api` as proof of absence, because a kind of it that was
    /// listed is missing now.
    pub(super) fn mark_uncertain(&mut self, api: &GroupVersion) {
        if let Some(answer) = self.0.get_mut(api) {
            answer.same = None;
        }
    }

    /// Ends the back-off for `kind` in `group`, because its CRD is established. Returns the group
    /// versions concerned.
    pub(super) fn invalidate(&mut self, group: &str, kind: &str) -> BTreeSet<GroupVersion> {
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

    fn ask_at(catalog: &Catalog, api: &GroupVersion) -> Option<Timestamp> {
        match catalog.resolve(api, "Widget") {
            Resolution::Unknown { ask_at, .. } => ask_at,
            Resolution::Known { .. } => panic!("it is known"),
        }
    }

    #[test]
    fn a_kind_that_stays_unknown_is_asked_for_less_and_less_often() {
        let api = GroupVersion::parse("example.com/v1");
        let mut catalog = Catalog::default();
        assert_eq!(ask_at(&catalog, &api), None);
        let mut delays = Vec::new();
        for _ in 0..10 {
            catalog.learn(api.clone(), Vec::new(), at(0));
            let next = ask_at(&catalog, &api).unwrap();
            delays.push(next.duration_since(at(0)).as_millis());
        }
        assert_eq!(delays[..3], [500, 1000, 2000]);
        assert_eq!(delays[9], 60_000);
    }

    #[test]
    fn an_established_definition_is_a_reason_to_ask_at_once_and_so_is_the_end_of_a_kind() {
        let api = GroupVersion::parse("example.com/v1");
        let mut catalog = Catalog::default();
        catalog.learn(api.clone(), Vec::new(), at(0));
        catalog.learn(api.clone(), Vec::new(), at(1));
        assert_eq!(catalog.invalidate("example.com", "Widget"), [api.clone()].into());
        assert_eq!(ask_at(&catalog, &api), None);
        catalog.learn(api.clone(), widgets(), at(2));
        let resource = Resource::new(api.clone(), "widgets");
        let known = Resolution::Known {
            resource: resource.clone(),
            is_namespaced: true,
        };
        assert_eq!(catalog.resolve(&api, "Widget"), known);
        assert!(catalog.invalidate("example.com", "Widget").is_empty());
        catalog.forget(&resource);
        assert!(ask_at(&catalog, &api).unwrap() < at(3));
    }

    #[test]
    fn a_question_without_an_answer_takes_nothing_back() {
        let api = GroupVersion::parse("v1");
        let mut catalog = Catalog::default();
        catalog.learn(api.clone(), widgets(), at(0));
        catalog.on_problem(api.clone(), "overloaded".to_owned(), at(1));
        assert!(matches!(
            catalog.resolve(&api, "Widget"),
            Resolution::Known { .. }
        ));
        let other = Resolution::Unknown {
            problem: Some("overloaded".to_owned()),
            ask_at: Some(at(2)),
        };
        assert_eq!(catalog.resolve(&api, "Gadget"), other);
    }

    #[test]
    fn a_kind_is_not_believed_to_be_gone_before_it_was_missing_for_a_while() {
        let api = GroupVersion::parse("example.com/v1");
        let resource = Resource::new(api.clone(), "widgets");
        let mut catalog = Catalog::default();
        assert_eq!(catalog.absence(&resource), Absence::Doubtful(None));
        catalog.on_problem(api.clone(), "overloaded".to_owned(), at(0));
        let problem = catalog.absence(&resource);
        assert!(matches!(problem, Absence::Doubtful(Some(_))), "{problem:?}");
        catalog.learn(api.clone(), widgets(), at(1));
        assert_eq!(catalog.absence(&resource), Absence::Served);
        catalog.forget(&resource);
        assert_eq!(catalog.absence(&resource), Absence::Doubtful(None));
        catalog.learn(api.clone(), Vec::new(), at(10));
        // The watch of a kind that a record names keeps reporting that it is missing.
        catalog.forget(&resource);
        assert_eq!(catalog.absence(&resource), Absence::Doubtful(Some(at(40))));
        catalog.on_problem(api.clone(), "overloaded".to_owned(), at(41));
        assert!(matches!(catalog.absence(&resource), Absence::Doubtful(Some(_))));
        catalog.learn(api.clone(), Vec::new(), at(42));
        assert_eq!(catalog.absence(&resource), Absence::Proven);
        assert_eq!(catalog.absence_of_kind(&api, "Widget"), Absence::Proven);
        catalog.learn(api.clone(), widgets(), at(43));
        assert_eq!(catalog.absence_of_kind(&api, "Widget"), Absence::Served);
    }
}
