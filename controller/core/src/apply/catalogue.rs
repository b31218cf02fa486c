//! Which kinds the cluster serves, as far as it was asked, and when to ask again for one that it does not.
//!
//! One answer covers a version of a group. Not here: the request, and whether a kind may be listed.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use jiff::Timestamp;

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

/// The kinds that the cluster serves.
#[derive(Debug, Default)]
pub(super) struct Catalogue(HashMap<GroupVersion, Answer>);

#[derive(Debug)]
struct Answer {
    kinds: HashMap<String, (Arc<str>, bool)>,
    problem: Option<String>,
    asked_at: Timestamp,
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

    /// Whether the cluster was ever asked for `api`.
    pub(super) fn was_asked(&self, api: &GroupVersion) -> bool {
        self.0.contains_key(api)
    }

    /// Learns what is served of `api`.
    pub(super) fn learn(&mut self, api: GroupVersion, served: Vec<Served>, now: Timestamp) {
        let kinds: HashMap<_, _> = served
            .into_iter()
            .map(|served| (served.kind, (served.plural.into(), served.is_namespaced)))
            .collect();
        let former = self.0.remove(&api);
        let tries = former
            .filter(|former| former.kinds == kinds)
            .map_or(1, |former| former.tries.saturating_add(1));
        let answer = Answer {
            kinds,
            problem: None,
            asked_at: now,
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
            tries: 0,
        });
        answer.problem = Some(problem);
        answer.asked_at = now;
        answer.tries = answer.tries.saturating_add(1);
    }

    /// The API server does not know the kind any more.
    pub(super) fn forget(&mut self, resource: &Resource) {
        if let Some(answer) = self.0.get_mut(&resource.api) {
            answer.kinds.retain(|_, (plural, _)| *plural != resource.plural);
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
}
