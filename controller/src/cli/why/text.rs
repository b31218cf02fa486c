//! Formats an explanation as text: the verdict, then policies, clusters, conditions, mailboxes.

#[cfg(test)]
mod tests;

use argosy_api::workflow;
use argosy_core::{
    explain::{
        ClauseAnswer, ClusterAnswer, DispatchedCopy, Explanation, PolicyAnswer, Reachability, ReportState,
        RoomLeft, Waiting, Wants, WorkState, dry_run::Distribution,
    },
    printable,
};

/// Maximum line width, unless one word is longer.
const WIDTH: usize = 110;

/// Maximum number of policies without the object, and of clusters without a match; the rest is
/// counted.
const SHOWN: usize = 10;

/// Formats the whole page.
pub(super) fn page(explanation: &Explanation) -> String {
    let mut page = Page::default();
    let verdict = &explanation.verdict;
    page.paragraph(0, "", &verdict.sentence);
    for remark in &verdict.remarks {
        page.paragraph(2, "- ", remark);
    }
    let course = &explanation.course;
    if let Some(before) = course.queued_behind {
        page.paragraph(2, "- ", &queue(before));
    }
    waiting(&mut page, &course.waiting);
    policies(&mut page, &explanation.policies);
    clusters(&mut page, explanation);
    if !course.conditions.is_empty() {
        page.heading("CONDITIONS");
        let types = course
            .conditions
            .iter()
            .map(|one| format!("{}={}", one.type_, one.status));
        let rows = types.zip(course.conditions.iter().map(|one| one.message.clone()));
        page.table(&rows.collect::<Vec<_>>());
    }
    if !course.copies.is_empty() {
        page.heading("MAILBOXES");
        let rows = course.copies.iter().flat_map(|copy| {
            copy_lines(copy)
                .into_iter()
                .map(|line| (copy.cluster.clone(), line))
        });
        page.table(&rows.collect::<Vec<_>>());
    }
    if !course.not_read.is_empty() {
        page.heading("NOT READ");
        for missing in &course.not_read {
            page.paragraph(2, "", missing);
        }
    }
    page.text
}

/// Formats the clusters of Workflows that are not created.
pub(super) fn distribution(distribution: &Distribution) -> String {
    let mut page = Page::default();
    page.paragraph(0, "", &format!("each asks for {}", distribution.asks));
    let counts = distribution.clusters.iter();
    let rows = counts.map(|(cluster, count)| {
        let load = distribution
            .loads
            .get(cluster)
            .map(|load| format!(", then {load}"));
        (cluster.clone(), format!("{count}{}", load.unwrap_or_default()))
    });
    page.heading("CLUSTERS");
    page.table(&rows.collect::<Vec<_>>());
    if distribution.not_sent > 0 {
        let not_sent = distribution.not_sent;
        page.paragraph(
            0,
            "",
            &format!("{not_sent} not sent; without --count the reason is shown"),
        );
    }
    page.text
}

/// The place of a Workflow in the queue of its namespace.
fn queue(before: u64) -> String {
    match before {
        0 => "it is the first one in the queue of its namespace".to_owned(),
        1 => "1 Workflow of its namespace comes before it in the queue".to_owned(),
        _ => format!("{before} Workflows of its namespace come before it in the queue"),
    }
}

/// Formats the waiting steps with Argo's messages.
fn waiting(page: &mut Page, waiting: &Waiting) {
    if waiting.is_empty() {
        return;
    }
    page.heading("STEPS THAT WAIT");
    let steps = waiting.steps.iter();
    let rows = steps.map(|step| (step.name.clone(), step.message.clone()));
    page.table(&rows.collect::<Vec<_>>());
    if waiting.others > 0 {
        page.paragraph(2, "", &format!("… and {} more", waiting.others));
    }
}

fn policies(page: &mut Page, policies: &[PolicyAnswer]) {
    let (selecting, others): (Vec<_>, Vec<_>) = policies.iter().partition(|policy| policy.selects);
    if policies.is_empty() {
        return;
    }
    page.heading(&format!(
        "POLICIES ({} of {} select it)",
        selecting.len(),
        policies.len()
    ));
    let mut rows = Vec::new();
    for policy in &selecting {
        rows.extend(
            policy
                .selecting()
                .map(|clause| (policy.name.clone(), selected(clause))),
        );
        rows.extend(problems(policy));
    }
    for policy in others.iter().take(SHOWN) {
        let why = policy.nearest().map_or_else(
            || "spec.downsync is empty, which selects nothing".to_owned(),
            |clause| not_selected(policy, clause),
        );
        rows.push((policy.name.clone(), why));
        rows.extend(problems(policy));
    }
    page.table(&rows);
    page.rest(others.len(), "do not select it either");
}

fn problems(policy: &PolicyAnswer) -> impl Iterator<Item = (String, String)> {
    let problems = policy.problems.iter();
    problems.map(|problem| (policy.name.clone(), format!("problem: {problem}")))
}

fn selected(clause: &ClauseAnswer) -> String {
    format!("clause {} selects it: {}", clause.index, wants(&clause.wants))
}

fn not_selected(policy: &PolicyAnswer, clause: &ClauseAnswer) -> String {
    let sentences = clause.failing.iter().flat_map(|failing| &failing.sentences);
    let sentences: Vec<&str> = sentences.map(String::as_str).collect();
    let others = policy.clauses.len().saturating_sub(1);
    let more = match others {
        0 => String::new(),
        1 => " (the other clause does not select it either)".to_owned(),
        _ => format!(" (the {others} other clauses do not select it either)"),
    };
    format!("clause {}: {}{more}", clause.index, sentences.join("; "))
}

fn wants(wants: &Wants) -> String {
    let mut all = Vec::new();
    if wants.create_only {
        all.push("created only, never updated".to_owned());
    }
    if wants.singleton_status {
        all.push("the status of its cluster comes back".to_owned());
    }
    if wants.multi_status {
        all.push("the aggregated status of its clusters comes back".to_owned());
    }
    if !wants.status_collectors.is_empty() {
        all.push(format!(
            "status collectors {}",
            wants.status_collectors.join(", ")
        ));
    }
    if all.is_empty() {
        "no status comes back".to_owned()
    } else {
        all.join("; ")
    }
}

/// Formats the clusters. Omits them if no policy selects the object, because they do not matter
/// then.
fn clusters(page: &mut Page, explanation: &Explanation) {
    let clusters = &explanation.clusters;
    if clusters.is_empty() || !explanation.policies.iter().any(|policy| policy.selects) {
        return;
    }
    let (matched, others): (Vec<_>, Vec<_>) = clusters.iter().partition(|cluster| cluster.is_matched());
    page.heading(&format!(
        "CLUSTERS ({} of {} match)",
        matched.len(),
        clusters.len()
    ));
    let object = &explanation.object;
    let is_workflow = (&*object.group, &*object.resource) == (workflow::GROUP, workflow::PLURAL);
    let is_claimed = explanation.course.claim.is_some();
    let mut rows = Vec::new();
    for cluster in matched.into_iter().chain(others.iter().copied().take(SHOWN)) {
        rows.extend(
            cluster_lines(cluster, is_workflow, is_claimed)
                .into_iter()
                .map(|line| (cluster.name.clone(), line)),
        );
    }
    page.table(&rows);
    page.rest(others.len(), "do not match either");
}

/// A cordon keeps only Workflows away. `is_claimed` is true for a Workflow that has its cluster.
fn cluster_lines(cluster: &ClusterAnswer, is_workflow: bool, is_claimed: bool) -> Vec<String> {
    let policies = cluster.policies.iter();
    let mut lines: Vec<String> = policies
        .filter(|one| !cluster.is_matched() || one.selector.is_some())
        .map(|one| match one.selector {
            Some(selector) => format!("matches {}: clusterSelectors[{selector}]", one.policy),
            None => format!("not {}: {}", one.policy, one.failing.join("; ")),
        })
        .collect();
    if cluster.is_matched() {
        lines.push(match &cluster.reachability {
            Reachability::Reachable { since } => format!("can be reached, since {since}"),
            Reachability::Unreachable {
                since,
                reason,
                message,
            } => format!("CANNOT be reached, since {since}: {reason}: {message}"),
            Reachability::NotKnown => "not known yet if it can be reached".to_owned(),
        });
        let is_cordoned = is_workflow && cluster.is_cordoned;
        lines.extend(is_cordoned.then(|| "takes NO new Workflows: it is cordoned".to_owned()));
        let excluded = cluster.excluded_by.as_ref();
        lines.extend(excluded.map(|label| format!("is NOT chosen: the Workflow has the label {label}")));
        lines.extend(load_line(cluster, is_claimed));
        lines.extend(
            cluster
                .unfit
                .as_ref()
                .map(|unfit| format!("CANNOT run it: {unfit}")),
        );
    }
    lines
}

/// The load of a cluster, with its place among those that can be chosen.
fn load_line(cluster: &ClusterAnswer, is_claimed: bool) -> Option<String> {
    let load = cluster.load.as_ref()?;
    let Some(place) = cluster.place else {
        return Some(format!("has {load}"));
    };
    let with_it = cluster
        .percent_with_it
        .map(|percent| format!(", {percent} % with this Workflow"));
    let with_it = with_it.unwrap_or_default();
    let comes = match (place, is_claimed) {
        (1, false) => "comes FIRST".to_owned(),
        (1, true) => "would come first now".to_owned(),
        (_, false) => format!("comes {place}."),
        (_, true) => format!("would come {place}. now"),
    };
    Some(match cluster.room_left {
        Some(RoomLeft::NoRun) => format!("is FULL, its administrator allows no more runs: has {load}"),
        Some(RoomLeft::TooLittle) => format!("{comes}, with too LITTLE room: has {load}{with_it}"),
        Some(RoomLeft::Enough) | None => format!("{comes}: has {load}{with_it}"),
    })
}

fn copy_lines(copy: &DispatchedCopy) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(copy.work.iter().flat_map(work_lines));
    lines.extend(copy.report.as_ref().map(report_line));
    lines
}

fn work_lines(work: &WorkState) -> Vec<String> {
    let mut about = Vec::new();
    if work.attempt > 0 {
        about.push(format!("attempt {}", work.attempt));
    }
    if work.is_withdrawal_asked {
        about.push("withdrawal requested".to_owned());
    }
    if work.is_deleting {
        about.push("being deleted".to_owned());
    }
    if work.conditions.is_empty() {
        about.push("the agent has not answered".to_owned());
    }
    let about = if about.is_empty() {
        String::new()
    } else {
        format!(" ({})", about.join(", "))
    };
    let conditions = work.conditions.iter().map(|one| {
        let message = if one.message.is_empty() { "" } else { ": " };
        format!(
            "{}={} since {}: {}{message}{}",
            one.type_, one.status, one.last_transition_time.0, one.reason, one.message
        )
    });
    let first = format!("ManifestWork {}{about}", work.name);
    std::iter::once(first).chain(conditions).collect()
}

fn report_line(report: &ReportState) -> String {
    let mut line = "WorkStatus".to_owned();
    if report.attempt > 0 {
        line = format!("{line} (attempt {})", report.attempt);
    }
    if !report.phase.is_empty() {
        line = format!("{line}: {}", report.phase);
    }
    if let Some(outcome) = report.outcome {
        line = format!("{line}, the last report: {}", outcome.as_str());
    }
    if let Some(written_at) = report.written_at {
        line = format!("{line}, written {written_at}");
    }
    line
}

/// Lines of text, at most [`WIDTH`] wide if possible. Control characters are replaced, because the
/// page contains text of others and a terminal would execute them.
#[derive(Default)]
struct Page {
    text: String,
}

impl Page {
    fn heading(&mut self, heading: &str) {
        self.text.push('\n');
        self.text.push_str(heading);
        self.text.push('\n');
    }

    /// Formats two columns. The first is as wide as its widest entry; an entry equal to the one
    /// above is left blank.
    fn table(&mut self, rows: &[(String, String)]) {
        // A long name must leave room for the second column.
        let widest = rows.iter().map(|(first, _)| first.chars().count()).max();
        let width = widest.unwrap_or_default().min(WIDTH / 3);
        let mut above = "";
        for (first, second) in rows {
            let shown = if first == above { "" } else { first };
            self.paragraph(2, &format!("{shown:<width$}  "), second);
            above = first;
        }
    }

    /// Adds the number of entries beyond [`SHOWN`].
    fn rest(&mut self, all: usize, verb: &str) {
        if let Some(rest) = all.checked_sub(SHOWN).filter(|rest| *rest > 0) {
            self.paragraph(
                2,
                "",
                &format!("… and {rest} more that {verb} (-o json shows all)"),
            );
        }
    }

    /// Adds `begin` and `text`, indented by `indent` spaces; further lines are aligned with `text`.
    fn paragraph(&mut self, indent: usize, begin: &str, text: &str) {
        let (begin, text) = (printable(begin), printable(text));
        let mut line = " ".repeat(indent) + &begin;
        let hanging = " ".repeat(line.chars().count());
        let mut is_begun = false;
        for word in text.split_whitespace() {
            let room = WIDTH.saturating_sub(line.chars().count());
            if is_begun && word.chars().count() >= room {
                self.line(&line);
                line.clone_from(&hanging);
                is_begun = false;
            }
            if is_begun {
                line.push(' ');
            }
            line.push_str(word);
            is_begun = true;
        }
        self.line(&line);
    }

    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }
}
