//! The choice of one of several clusters for a Workflow: the cluster with the smallest reserved part,
//! the Workflow included.
//!
//! A run reserves resources from its claim on, before its pods exist, so that many Workflows that are
//! created at the same time spread. It reserves the requests of its specification, or those of its pods
//! if they are more, and at most the size of its cluster. A cluster may report that the pods of runs
//! request more than is reserved. Then that report counts instead, and never the sum of both, so no run
//! counts twice. A choice is made once: a claim is not moved because the loads change. One
//! function, [`best`], serves the decision and `argosy why`. Not here: the clusters that may be chosen
//! ([`super::Placement`]), and the runs that count (`hub::workflows::load`).

use std::{
    cmp::Ordering,
    collections::{BTreeMap, btree_map},
    fmt,
    hash::{DefaultHasher, Hash, Hasher},
    ops::Bound,
    sync::Arc,
};

use crate::{
    ClusterName,
    model::{
        amounts::{Amounts, CPU, MEMORY, compare_shares, quantity},
        demand::Demand,
        room::Room,
    },
};

/// Maximum amount of a resource that one run reserves: 128 TiB of memory. The sum of a hundred thousand
/// never overflows, so that giving one back leaves the others.
const MOST_RESERVED: u64 = 1 << 47;

/// The load of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Number of unfinished runs that are claimed for it.
    pub(crate) runs: u64,
    /// The sum of what they reserve.
    pub(crate) reserved: Amounts,
    /// Its room.
    pub(crate) room: Room,
    /// The last reservation. Most are equal, and share it.
    last: Option<Arc<Reservation>>,
}

/// The loads of all clusters.
pub(crate) type Loads = BTreeMap<ClusterName, Load>;

/// The reservation of a run on a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    /// The cluster.
    pub(crate) cluster: ClusterName,
    /// The amounts that it asks for.
    pub(crate) asked: Arc<Amounts>,
    /// The amounts that it has reserved, at most what the cluster has.
    pub(crate) amounts: Arc<Amounts>,
}

/// A Workflow for which a cluster is chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    /// The resources that it asks for.
    pub(crate) demand: &'a Demand,
    /// Its own reservation, if it is claimed.
    pub(crate) own: Option<&'a Reservation>,
    /// A number by which any of the clusters that admit it is drawn, whatever their loads. Only tests
    /// draw.
    pub(crate) drawn: Option<u64>,
}

impl<'a> Candidate<'a> {
    /// A Workflow whose cluster is chosen by the loads.
    pub(crate) fn new(demand: &'a Demand, own: Option<&'a Reservation>) -> Self {
        Self {
            demand,
            own,
            drawn: None,
        }
    }
}

/// The reason why a cluster cannot run a Workflow, however few runs it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It does not serve Argo's Workflows.
    NoArgo,
    /// It does not have a resource that the Workflow asks for.
    NoResource(Box<str>),
    /// A pod of the Workflow asks for more than its largest node, or than the whole cluster, has.
    TooLarge {
        resource: Box<str>,
        asked: u64,
        most: u64,
    },
}

/// The chosen cluster, and the next best one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Best<'a> {
    /// The chosen one.
    pub(crate) cluster: &'a ClusterName,
    /// The one that would have been chosen without it.
    pub(crate) next: Option<&'a ClusterName>,
    /// The room of the chosen one for the Workflow.
    pub(crate) left: Left,
}

/// The room of a cluster for one more Workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Enough, or nobody says how much.
    Enough,
    /// Less than the Workflow asks for, or no node.
    TooLittle,
    /// Its administrator allows no more runs.
    NoRun,
}

impl Load {
    /// The load of a cluster without runs.
    pub(crate) fn of(room: Room) -> Self {
        Self {
            room,
            ..Self::default()
        }
    }

    /// Reserves what a run asks for, at most what the cluster has, and returns exactly what was added,
    /// so that the same can be given back.
    pub(crate) fn reserve(&mut self, asked: &Arc<Amounts>) -> Arc<Amounts> {
        let mut within = if self.room.is_unknown() {
            Amounts::clone(asked)
        } else {
            asked.within(&self.room.size)
        };
        within.limit(MOST_RESERVED);
        self.reserved.add(&within);
        // The sum has a limited number of resources.
        within.retain(|name| self.reserved.get(name).is_some());
        let amounts = if within == **asked {
            Arc::clone(asked)
        } else {
            Arc::new(within)
        };
        self.runs += 1;
        amounts
    }

    /// Reserves what a run asks for on this cluster, of this name.
    pub(crate) fn reserved_for(&mut self, cluster: ClusterName, asked: Arc<Amounts>) -> Arc<Reservation> {
        let amounts = self.reserve(&asked);
        let reservation = Reservation {
            cluster,
            asked,
            amounts,
        };
        match &self.last {
            Some(last) if **last == reservation => Arc::clone(last),
            _ => Arc::clone(self.last.insert(Arc::new(reservation))),
        }
    }

    /// The amount of a resource that runs take besides one that has reserved `own`: what is reserved,
    /// or what the cluster says that their pods request, if that is more.
    fn taken(&self, name: &str, own: u64) -> u64 {
        let reserved = self.reserved.get(name).unwrap_or_default().saturating_sub(own);
        reserved.max(self.room.used.get(name).unwrap_or_default())
    }

    /// The amounts that runs take.
    pub(crate) fn all_taken(&self) -> Amounts {
        let mut taken = self.reserved.clone();
        taken.raise(&self.room.used.within(&self.room.size));
        taken
    }

    /// Gives back what was reserved.
    pub(crate) fn release(&mut self, amounts: &Amounts) {
        self.runs = self.runs.saturating_sub(1);
        self.reserved.lower(amounts);
        self.reserved.retain_positive();
    }

    /// The amounts that the cluster has for runs.
    fn sizes(&self) -> impl Iterator<Item = (&str, u64)> {
        let names = self.room.size.iter().map(|(name, _)| name);
        names.filter_map(|name| Some((name, self.room.amount_for_runs(name)?)))
    }

    /// The largest part of a resource that is reserved, in percent; `None` if no size is known.
    pub(crate) fn percent(&self) -> Option<u64> {
        // Every node has resources of which it has none, such as huge pages.
        let sizes = self.sizes().filter(|(_, size)| *size > 0);
        let shares = sizes.map(|(name, size)| (self.taken(name, 0), size));
        let (taken, size) = shares.max_by(|one, other| compare_shares(*one, *other))?;
        let percent = u128::from(taken) * 100 / u128::from(size);
        Some(u64::try_from(percent).unwrap_or(u64::MAX))
    }

    /// The reason why the cluster can never run a Workflow of this demand.
    pub(crate) fn unfit(&self, demand: &Demand) -> Option<Unfit> {
        if self.room.lacks_argo {
            return Some(Unfit::NoArgo);
        }
        if self.room.is_unknown() {
            return None;
        }
        let size = &self.room.size;
        // Every node has CPU and memory, even if nobody says how much.
        let is_lacking =
            |name: &str| name != CPU && name != MEMORY && size.get(name).unwrap_or_default() == 0;
        let asked = demand.largest.iter().chain(demand.typical.iter());
        let mut asked = asked.filter(|(_, amount)| *amount > 0);
        if let Some((name, _)) = asked.find(|(name, _)| is_lacking(name)) {
            return Some(Unfit::NoResource(name.into()));
        }
        // Without any node, nothing is known about the nodes that may come.
        let most = |name: &str| {
            self.room
                .largest
                .get(name)
                .or(size.get(name))
                .filter(|most| *most > 0)
        };
        demand.largest.iter().find_map(|(name, asked)| {
            let most = most(name).filter(|most| *most < asked)?;
            Some(Unfit::TooLarge {
                resource: name.into(),
                asked,
                most,
            })
        })
    }
}

impl fmt::Display for Unfit {
    /// Such as `has no nvidia.com/gpu`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoArgo => f.write_str("does not serve Argo's Workflows"),
            Self::NoResource(name) => write!(f, "has no {name}"),
            Self::TooLarge {
                resource,
                asked,
                most,
            } => write!(
                f,
                "has at most {} {resource} for a pod, and one asks for {}",
                quantity(resource, *most),
                quantity(resource, *asked)
            ),
        }
    }
}

impl fmt::Display for Load {
    /// Such as `3 runs of 20, cpu 2 of 8, memory 1Gi of 16Gi`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.runs == 1 { "" } else { "s" };
        write!(f, "{} run{plural}", self.runs)?;
        if let Some(most) = self.room.runs {
            write!(f, " of {most}")?;
        }
        if self.room.is_unknown() {
            return f.write_str(", size unknown");
        }
        let is_shown = |name: &str| name == CPU || name == MEMORY || self.taken(name, 0) > 0;
        let sizes = self.sizes().filter(|(name, _)| is_shown(name));
        for (name, size) in sizes.take(MOST_SHOWN) {
            write!(
                f,
                ", {name} {} of {}",
                quantity(name, self.taken(name, 0)),
                quantity(name, size)
            )?;
        }
        Ok(())
    }
}

/// Maximum number of resources in the text of a load.
const MOST_SHOWN: usize = 4;

/// The last rank: the cluster has as many runs as its administrator allows.
const CAPPED: u8 = 2;

/// The rank of a cluster for one Workflow: the better one is less.
#[derive(Clone, Copy, Debug)]
struct Rank {
    /// 0 for a cluster that can take the run, 1 for one without any node, or [`CAPPED`].
    last: u8,
    /// Of all resources that the Workflow asks for, the largest part that is reserved then; `None` if
    /// the cluster says the size of none of them.
    share: Option<(u64, u64)>,
    /// The runs, for clusters of which the same part is reserved.
    runs: u64,
}

impl Rank {
    /// `unknown` is the room of a cluster of which nobody says it.
    fn of(load: &Load, cluster: &ClusterName, candidate: Candidate<'_>, unknown: Option<&Room>) -> Self {
        let own = candidate.own.filter(|own| own.cluster == *cluster);
        let runs = load.runs.saturating_sub(u64::from(own.is_some()));
        let room = unknown.filter(|_| load.room.is_unknown()).unwrap_or(&load.room);
        let shares = candidate.demand.typical.iter().filter_map(|(name, asked)| {
            let own = own.and_then(|own| own.amounts.get(name)).unwrap_or_default();
            let taken = load.taken(name, own).saturating_add(asked);
            Some((taken, room.amount_for_runs(name)?))
        });
        let share = shares.max_by(|one, other| compare_shares(*one, *other));
        let is_full = load.room.runs.is_some_and(|most| runs >= most);
        let has_no_node = share.is_some_and(|(_, size)| size == 0);
        Self {
            last: if is_full { CAPPED } else { u8::from(has_no_node) },
            share,
            runs,
        }
    }

    fn percent(self) -> Option<u64> {
        let (taken, size) = self.share?;
        let percent = (u128::from(taken) * 100).checked_div(u128::from(size))?;
        u64::try_from(percent).ok()
    }

    /// Only a size that is known can be too small.
    fn left(self) -> Left {
        let is_enough = || self.last == 0 && self.share.is_none_or(|(taken, size)| taken <= size);
        match self.last {
            CAPPED => Left::NoRun,
            _ if is_enough() => Left::Enough,
            _ => Left::TooLittle,
        }
    }

    /// The rank without the loads: only the room for the Workflow is left of it.
    fn without_load(self) -> Self {
        let last = match self.left() {
            Left::Enough => 0,
            Left::TooLittle => 1,
            Left::NoRun => CAPPED,
        };
        Self {
            last,
            share: None,
            runs: 0,
        }
    }

    fn compare(self, other: Self) -> Ordering {
        // A cluster of which no size is known comes after those that are known to have room, and before
        // those that are known to have none. Among such clusters, the runs decide.
        let share = |rank: Self| rank.share.unwrap_or((1, 1));
        let by_last = self.last.cmp(&other.last);
        by_last
            .then_with(|| compare_shares(share(self), share(other)))
            .then_with(|| self.runs.cmp(&other.runs))
    }
}

/// Loads by cluster, looked up one after the other. Clusters in the order of their names cost one
/// step each.
struct Lookup<'a> {
    loads: &'a Loads,
    rest: btree_map::Range<'a, ClusterName, Load>,
}

impl<'a> Lookup<'a> {
    fn new(loads: &'a Loads) -> Self {
        Self {
            loads,
            rest: loads.range(..),
        }
    }

    fn get(&mut self, cluster: &ClusterName) -> Option<&'a Load> {
        if let Some((name, load)) = self.rest.next()
            // The text is often the very same one.
            && (std::ptr::eq(name.as_str(), cluster.as_str()) || name == cluster)
        {
            return Some(load);
        }
        let from = (Bound::Included(cluster), Bound::Unbounded);
        self.rest = self.loads.range::<ClusterName, _>(from);
        let (name, load) = self.rest.next()?;
        (name == cluster).then_some(load)
    }
}

/// A cluster that may be chosen.
#[derive(Clone, Copy, Debug)]
struct Ranked<'a> {
    cluster: &'a ClusterName,
    rank: Rank,
    /// Its place among all clusters.
    place: usize,
}

impl Ranked<'_> {
    /// The cluster among those that have as much room, in an order that the number decides.
    fn drawn(self, number: u64) -> Self {
        let mut hasher = DefaultHasher::new();
        (number, self.cluster.as_str()).hash(&mut hasher);
        Self {
            rank: self.rank.without_load(),
            place: usize::try_from(hasher.finish() >> 32).unwrap_or_default(),
            ..self
        }
    }

    fn precedes(&self, other: &Self) -> bool {
        let by_rank = self.rank.compare(other.rank);
        by_rank.then(self.place.cmp(&other.place)) == Ordering::Less
    }
}

/// The best two clusters so far.
#[derive(Default)]
struct Leaders<'a> {
    best: Option<Ranked<'a>>,
    next: Option<Ranked<'a>>,
}

impl<'a> Leaders<'a> {
    /// Takes a cluster that is better than one of the two, if it is fit. Most are not better, and are
    /// never asked if they are.
    fn take(&mut self, ranked: Ranked<'a>, is_fit: impl FnOnce() -> bool) {
        let is_better = |than: &Option<Ranked<'a>>| than.is_none_or(|than| ranked.precedes(&than));
        if !is_better(&self.next) || !is_fit() {
            return;
        }
        self.next = if is_better(&self.best) {
            self.best.replace(ranked)
        } else {
            Some(ranked)
        };
    }
}

/// The best of these clusters, the first one among equals. `None` if none can run the Workflow.
pub(crate) fn best<'a>(
    clusters: impl Iterator<Item = &'a ClusterName>,
    loads: &Loads,
    candidate: Candidate<'_>,
) -> Option<Best<'a>> {
    let mut leaders = Leaders::default();
    let take = |ranked: Ranked<'a>, load: &Load| {
        let ranked = candidate.drawn.map_or(ranked, |number| ranked.drawn(number));
        leaders.take(ranked, || load.unfit(candidate.demand).is_none());
    };
    rank_all(clusters, loads, candidate, take);
    let best = leaders.best?;
    Some(Best {
        cluster: best.cluster,
        next: leaders.next.map(|next| next.cluster),
        left: best.rank.left(),
    })
}

/// A cluster in the order in which they would be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ordered<'a> {
    pub(crate) cluster: &'a ClusterName,
    /// Of all resources that the Workflow asks for, the largest part that is reserved with it, in percent,
    /// if that is known.
    pub(crate) percent: Option<u64>,
    /// The room for the Workflow.
    pub(crate) left: Left,
}

/// The clusters that can run the Workflow, the best one first.
pub(crate) fn order<'a>(
    clusters: impl Iterator<Item = &'a ClusterName>,
    loads: &Loads,
    candidate: Candidate<'_>,
) -> Vec<Ordered<'a>> {
    let mut all: Vec<Ranked<'a>> = Vec::new();
    rank_all(clusters, loads, candidate, |ranked, load| {
        all.extend(load.unfit(candidate.demand).is_none().then_some(ranked));
    });
    all.sort_by(|one, other| one.rank.compare(other.rank).then(one.place.cmp(&other.place)));
    all.iter()
        .map(|ranked| Ordered {
            cluster: ranked.cluster,
            percent: ranked.rank.percent(),
            left: ranked.rank.left(),
        })
        .collect()
}

/// Gives the rank of each cluster to `take`.
fn rank_all<'a>(
    clusters: impl Iterator<Item = &'a ClusterName>,
    loads: &Loads,
    candidate: Candidate<'_>,
    mut take: impl FnMut(Ranked<'a>, &Load),
) {
    let nothing = Load::default();
    let mut lookup = Lookup::new(loads);
    // The smallest cluster that has nodes.
    let mut smallest: Option<(u64, &Room)> = None;
    let mut without_size = Vec::new();
    for (place, cluster) in clusters.enumerate() {
        let load = lookup.get(cluster).unwrap_or(&nothing);
        if load.room.is_unknown() {
            without_size.push((place, cluster, load));
            continue;
        }
        let cpu = load.room.size.get(CPU).unwrap_or(u64::MAX);
        let is_smaller = cpu > 0 && smallest.is_none_or(|(least, _)| cpu < least);
        if is_smaller && load.unfit(candidate.demand).is_none() {
            smallest = Some((cpu, &load.room));
        }
        let rank = Rank::of(load, cluster, candidate, None);
        take(Ranked { cluster, rank, place }, load);
    }
    // A cluster of which nobody says the size is as small as the smallest one that has nodes.
    let smallest = smallest.map(|(_, room)| room);
    for (place, cluster, load) in without_size {
        let rank = Rank::of(load, cluster, candidate, smallest);
        take(Ranked { cluster, rank, place }, load);
    }
}

/// Maximum number of clusters that are counted for the reason of a choice. More would double its cost.
const MOST_COUNTED: usize = 100;

/// The number of these clusters that can run the Workflow, as text: `2`, or `more than 100`. The choice
/// itself looks at the fitness of few of them.
pub(crate) fn count_fit<'a>(
    clusters: impl Iterator<Item = &'a ClusterName>,
    loads: &Loads,
    demand: &Demand,
) -> String {
    let mut lookup = Lookup::new(loads);
    let is_fit = |load: &Load| load.unfit(demand).is_none();
    let fit = clusters.filter(|cluster| lookup.get(cluster).is_none_or(is_fit));
    match fit.take(MOST_COUNTED + 1).count() {
        count @ ..=MOST_COUNTED => count.to_string(),
        _ => format!("more than {MOST_COUNTED}"),
    }
}

/// The reason why the best cluster was chosen from several, for users. `fit` counts those that can run
/// the Workflow.
pub(crate) fn reason(best: &Best<'_>, fit: impl FnOnce() -> String, loads: &Loads) -> String {
    let nothing = Load::default();
    let load = |cluster: &ClusterName| loads.get(cluster).unwrap_or(&nothing);
    let chosen = load(best.cluster);
    match best.next {
        None => format!("the only one that can run it: {chosen}"),
        Some(next) => format!("the best of {}: {chosen}; next {next}: {}", fit(), load(next)),
    }
}

#[cfg(test)]
mod tests;
