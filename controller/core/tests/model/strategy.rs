//! The random generation of scripts.

use proptest::prelude::*;

use crate::{
    actor::Fault,
    script::{CopyStep, Draft, Forgery, Lie, PolicyStep, Restoration, Space, Step, Tamper, UserStep},
};

/// The parts of a script besides the common ones.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub(crate) struct Theme {
    pub(crate) tampering: bool,
    pub(crate) restoring: bool,
    pub(crate) second_agents: bool,
    /// Clusters are lost, and some Workflows may rerun elsewhere.
    pub(crate) reruns: bool,
    /// Clusters are removed from the fleet.
    pub(crate) removing: bool,
    /// Clusters are replaced by others of the same name, and mailboxes are lost.
    pub(crate) rebuilding: bool,
    /// Workflows run on every cluster.
    pub(crate) everywhere: bool,
    /// Users write fields that only Argosy writes.
    pub(crate) forging: bool,
    /// A member writes false statements.
    pub(crate) lying: bool,
    /// API servers answer with errors.
    pub(crate) ailing: bool,
}

fn who() -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(0_usize), 2 => Just(1), 2 => Just(2), 1 => Just(3), 1 => Just(4)]
}

fn n() -> std::ops::Range<usize> {
    0..16
}

/// If a cluster has two agents, no request is late: an agent that sleeps that long has already been
/// taken for dead.
fn fault(theme: Theme) -> impl Strategy<Value = Fault> {
    let late = if theme.second_agents {
        Fault::Answer
    } else {
        Fault::Late
    };
    prop_oneof![6 => Just(Fault::None), 1 => Just(Fault::Request), 1 => Just(Fault::Answer), 1 => Just(late)]
}

fn space() -> impl Strategy<Value = Space> {
    prop_oneof![Just(Space::Wds), Just(Space::Its), Just(Space::Wec)]
}

fn place(theme: Theme) -> BoxedStrategy<&'static str> {
    let place = prop_oneof![
        4 => Just("cluster1"),
        3 => Just("cluster2"),
        1 => Just("any"),
        2 => Just("best"),
        1 => Just("local"),
        1 => Just("nowhere"),
    ];
    if theme.everywhere {
        prop_oneof![1 => place, 2 => Just("every")].boxed()
    } else if theme.reruns {
        prop_oneof![1 => place, 2 => Just("spare")].boxed()
    } else {
        place.boxed()
    }
}

fn draft() -> impl Strategy<Value = Draft> {
    let often = || prop::bool::weighted(0.7);
    let seldom = || prop::bool::weighted(0.2);
    (often(), seldom(), any::<bool>(), any::<bool>()).prop_map(|(is_suspended, is_applied, waits, fails)| {
        Draft {
            is_suspended,
            is_applied,
            waits,
            fails,
        }
    })
}

/// Rooms by which any of the clusters may become the best one, or none has room.
fn room() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just(""),
        Just("runs=0"),
        Just("runs=1"),
        Just("cpu=0"),
        Just("cpu=1m"),
        Just("cpu=100")
    ]
}

fn forgery() -> impl Strategy<Value = Forgery> {
    prop_oneof![
        Just(Forgery::Begun),
        Just(Forgery::Retry),
        Just(Forgery::Held),
        Just(Forgery::Birth),
        Just(Forgery::HeldBirth),
        Just(Forgery::Labels),
    ]
}

fn user_step(theme: Theme) -> BoxedStrategy<UserStep> {
    let forged = forgery().prop_map(UserStep::Forge);
    if theme.forging {
        prop_oneof![30 => usual_user_step(theme), 12 => forged].boxed()
    } else {
        usual_user_step(theme).boxed()
    }
}

fn usual_user_step(theme: Theme) -> impl Strategy<Value = UserStep> {
    prop_oneof![
        8 => (place(theme), draft()).prop_map(|(place, draft)| UserStep::Create(place, draft)),
        4 => place(theme).prop_map(UserStep::Relabel),
        1 => Just(UserStep::Reapply),
        2 => Just(UserStep::Suspend),
        1 => Just(UserStep::Pause),
        1 => Just(UserStep::Go),
        4 => Just(UserStep::Resume),
        3 => Just(UserStep::ResumeStep),
        2 => Just(UserStep::Stop),
        1 => Just(UserStep::Terminate),
        5 => Just(UserStep::Again),
        1 => Just(UserStep::Tear),
        1 => Just(UserStep::Copy),
        1 => Just(UserStep::Resubmit),
        1 => room().prop_map(UserStep::Room),
        3 => Just(UserStep::Delete),
    ]
}

fn tamper() -> impl Strategy<Value = Tamper> {
    prop_oneof![
        Just(Tamper::DeleteObject),
        Just(Tamper::DestroyObject),
        Just(Tamper::DeleteWork)
    ]
}

fn lie() -> impl Strategy<Value = Lie> {
    prop_oneof![
        Just(Lie::Decoy),
        Just(Lie::Begun),
        Just(Lie::Withdrawn),
        Just(Lie::Gone),
        Just(Lie::Freed),
        (0_u64..4, any::<bool>()).prop_map(|(attempt, is_well)| Lie::Ended(attempt, is_well)),
    ]
}

fn copy_step(theme: Theme) -> impl Strategy<Value = CopyStep> {
    prop_oneof![
        3 => Just(CopyStep::Create),
        3 => Just(CopyStep::Resubmit),
        1 => Just(if theme.tampering { CopyStep::Replace } else { CopyStep::Create }),
        2 => Just(CopyStep::Delete),
    ]
}

fn policy_step() -> impl Strategy<Value = PolicyStep> {
    prop_oneof![Just(PolicyStep::Toggle), Just(PolicyStep::Turn)]
}

/// One step of one of the processes.
fn process_step(theme: Theme) -> impl Strategy<Value = Step> {
    prop_oneof![
        16 => (who(), n()).prop_map(|(who, watch)| Step::Deliver(who, watch)),
        12 => (who(), n()).prop_map(|(who, choice)| Step::Decide(who, choice)),
        12 => (who(), n(), fault(theme)).prop_map(|(who, choice, fault)| Step::Execute(who, choice, fault)),
        3 => (who(), n()).prop_map(|(who, choice)| Step::Land(who, choice)),
        12 => (who(), n()).prop_map(|(who, choice)| Step::Settle(who, choice)),
        6 => who().prop_map(Step::Flood),
        2 => who().prop_map(Step::Retry),
        2 => who().prop_map(Step::Beat),
        1 => (who(), n()).prop_map(|(who, watch)| Step::Relist(who, watch)),
        1 => who().prop_map(Step::Restart),
        14 => (who(), fault(theme)).prop_map(|(who, fault)| Step::CatchUp(who, fault)),
        2 => (who(), n()).prop_map(|(who, watch)| Step::Lag(who, watch)),
        2 => (who(), space()).prop_map(|(who, space)| Step::Cut(who, space)),
        1 => (who(), any::<i8>()).prop_map(|(who, minutes)| Step::Skew(who, minutes)),
    ]
}

/// Steps of Argo on either side, of users, and of the gate in front of the WDS.
fn outer_step(theme: Theme) -> impl Strategy<Value = Step> {
    prop_oneof![
        16 => (n(), n()).prop_map(|(cluster, choice)| Step::Argo(cluster, choice)),
        3 => (n(), n()).prop_map(|(cluster, choice)| Step::Expire(cluster, choice)),
        4 => (n(), 0_usize..4).prop_map(|(choice, age)| Step::Local(choice, age)),
        1 => n().prop_map(Step::LocalExpire),
        1 => (n(), n()).prop_map(|(cluster, number)| Step::Foreign(cluster, number)),
        2 => (n(), n(), copy_step(theme)).prop_map(|(cluster, choice, what)| Step::Copy(cluster, choice, what)),
        1 => Just(Step::Webhook),
        1 => Just(Step::Stale),
        1 => any::<u8>().prop_map(Step::Wait),
        1 => (0_u8..72).prop_map(Step::Hours),
        1 => (n(), policy_step()).prop_map(|(choice, what)| Step::Policy(choice, what)),
        16 => (n(), user_step(theme)).prop_map(|(workflow, what)| Step::User(workflow, what)),
    ]
}

/// Steps that only some themes have.
fn rare_step(theme: Theme) -> BoxedStrategy<Step> {
    let none = || Just(Step::CatchUp(0, Fault::None)).boxed();
    let tampering = (n(), n(), tamper())
        .prop_map(|(cluster, choice, what)| Step::Tamper(cluster, choice, what))
        .boxed();
    let restoration = (any::<bool>(), any::<bool>()).prop_map(|(numbers_go_on, is_unnoticed)| Restoration {
        numbers_go_on,
        is_unnoticed,
    });
    let restoring = (space(), prop::option::of(restoration))
        .prop_map(|(space, restoration)| match restoration {
            Some(restoration) => Step::Restore(space, restoration),
            None => Step::Backup(space),
        })
        .boxed();
    let second = n().prop_map(Step::Second).boxed();
    let lose = (n(), 0_u8..8)
        .prop_map(|(cluster, minutes)| Step::Lose(cluster, minutes))
        .boxed();
    let remove = n().prop_map(Step::Remove).boxed();
    let ail = n().prop_map(Step::Ail).boxed();
    let rebuild = prop_oneof![
        2 => n().prop_map(Step::Rebuild),
        1 => n().prop_map(Step::NewMailbox),
        1 => (n(), 0_u8..8).prop_map(|(cluster, minutes)| Step::Lose(cluster, minutes)),
    ]
    .boxed();
    let of_run = prop_oneof![
        6 => (n(), user_step(theme)).prop_map(|(choice, what)| Step::UserOfRun(choice, what)),
        1 => Just(Step::Policy(14, PolicyStep::Turn)),
        1 => Just(Step::Policy(14, PolicyStep::Toggle)),
        1 => Just(Step::CollectGarbage),
    ]
    .boxed();
    if theme.everywhere {
        return of_run;
    }
    if theme.lying {
        return (n(), lie())
            .prop_map(|(choice, what)| Step::Lie(choice, what))
            .boxed();
    }
    prop_oneof![
        1 => if theme.tampering { tampering } else { none() },
        1 => if theme.restoring { restoring } else { none() },
        1 => if theme.second_agents { second } else { none() },
        3 => if theme.reruns { lose } else { none() },
        1 => if theme.removing { remove } else { none() },
        2 => if theme.rebuilding { rebuild } else { none() },
        2 => if theme.ailing { ail } else { none() },
    ]
    .boxed()
}

pub(crate) fn scripts(theme: Theme) -> impl Strategy<Value = Vec<Step>> {
    let rare = if theme.everywhere || theme.lying { 12 } else { 3 };
    let step = prop_oneof![60 => process_step(theme), 40 => outer_step(theme), rare => rare_step(theme)];
    prop::collection::vec(step, 0..300)
}
