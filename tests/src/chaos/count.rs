//! The result of a round.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use anyhow::{Result, ensure};
use argosy_api::{Workflow, workflow};

use crate::fleet::{difference, mirrored};

/// The result of a round.
#[derive(Debug)]
pub(super) struct Count {
    workflows: usize,
    steps: usize,
    phases: BTreeMap<String, usize>,
    pods: usize,
    keys: usize,
    /// Steps that ran more than once.
    pub(super) doubled: usize,
    /// Violations.
    wrong: Vec<String>,
}

impl Count {
    pub(super) fn new(workflows: usize, steps: usize) -> Self {
        Self {
            workflows,
            steps,
            phases: BTreeMap::new(),
            pods: 0,
            keys: 0,
            doubled: 0,
            wrong: Vec::new(),
        }
    }

    /// Counts the final phase that the user sees, and compares it with the run on its cluster.
    pub(super) fn see_status(&mut self, name: &str, shown: &Workflow, there: Option<&Workflow>) {
        let phase = workflow::phase(shown.status.as_ref());
        *self.phases.entry(phase.to_owned()).or_default() += 1;
        match there {
            None => self.wrong.push(format!("{name} is not on its cluster")),
            Some(there) => {
                let found = difference(&mirrored(shown), &mirrored(there));
                if !found.is_empty() {
                    self.wrong
                        .push(format!("{name} is shown otherwise than it is: {found:?}"));
                }
            }
        }
    }

    /// Counts the pods of a run on one cluster. `is_place` is true if the run belongs on this
    /// cluster.
    pub(super) fn see_pods(&mut self, name: &str, pods: &[String], is_place: bool) {
        self.pods += pods.len();
        let too_many = pods.len().saturating_sub(if is_place { self.steps } else { 0 });
        self.doubled += too_many;
        if too_many > 0 {
            self.wrong
                .push(format!("{name} has pods {pods:?}, here: {is_place}"));
        }
    }

    /// Counts the keys of a run in S3. A key has the name, the UID of the object that ran, and the
    /// step.
    pub(super) fn see_keys(&mut self, name: &str, keys: &[String]) {
        self.keys += keys.len();
        let mut steps = BTreeSet::new();
        for key in keys {
            if !steps.insert(key.rsplit('/').next()) {
                self.doubled += 1;
                self.wrong
                    .push(format!("{name}: a step has left more than one object: {keys:?}"));
            }
        }
    }

    /// Fails if a run was lost, was doubled, or is shown differently from its cluster.
    pub(super) fn check(&self) -> Result<()> {
        let shown: Vec<_> = self.wrong.iter().take(5).collect();
        ensure!(self.wrong.is_empty(), "{} of it: {shown:#?}", self.wrong.len());
        Ok(())
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            workflows,
            steps,
            pods,
            keys,
            doubled,
            ..
        } = self;
        write!(f, "{workflows} workflows of {steps} steps:")?;
        for (phase, count) in &self.phases {
            write!(f, " {count} {phase},")?;
        }
        write!(
            f,
            " {pods} pods, {keys} objects in S3, {doubled} steps ran more than once"
        )
    }
}
