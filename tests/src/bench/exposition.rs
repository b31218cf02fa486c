//! Reads metrics in the text format of Prometheus and OpenMetrics: samples with labels, and the
//! percentiles of histograms. Comments, types and exemplars are skipped.

use std::collections::BTreeMap;

use super::samples::Summary;

/// One line: a name, labels and a number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    /// Name of the metric, with the suffix of its type.
    pub(super) name: String,
    /// Labels by name.
    pub(super) labels: BTreeMap<String, String>,
    /// The number.
    pub(super) value: f64,
}

impl Sample {
    /// The value of a label; empty if there is none.
    pub(super) fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// All samples of `text` whose name begins with `prefix`. Lines that are not samples are skipped.
pub(super) fn parse(text: &str, prefix: &str) -> Vec<Sample> {
    let lines = text.lines().filter(|line| line.starts_with(prefix));
    lines.filter_map(sample).collect()
}

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest)?,
        None => (BTreeMap::new(), rest),
    };
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample {
        name: name.to_owned(),
        labels,
        value,
    })
}

/// The labels, and the text after their closing brace.
fn labels(text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    let mut rest = text.trim_start_matches([',', ' ']);
    while !rest.starts_with('}') {
        let (name, after) = rest.split_once("=\"")?;
        let (value, after) = quoted(after)?;
        labels.insert(name.trim().to_owned(), value);
        rest = after.trim_start_matches([',', ' ']);
    }
    Some((labels, rest.strip_prefix('}')?))
}

/// A value up to its closing quote, and the text after it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, text.get(at + 1..)?)),
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

/// A histogram: the number of observations up to each bound, in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Histogram(Vec<(f64, f64)>);

/// The histograms `name` in `samples`, by the value of the label `by`. Those of several processes
/// are summed.
pub(super) fn histograms(samples: &[Sample], name: &str, by: &str) -> BTreeMap<String, Histogram> {
    let bucket = format!("{name}_bucket");
    let mut found: BTreeMap<String, Histogram> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.name == bucket) {
        let Ok(bound) = sample.label("le").parse::<f64>() else {
            continue;
        };
        let Histogram(buckets) = found.entry(sample.label(by).to_owned()).or_default();
        match buckets
            .iter_mut()
            .find(|(known, _)| known.total_cmp(&bound).is_eq())
        {
            Some((_, count)) => *count += sample.value,
            None => buckets.push((bound, sample.value)),
        }
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    found
}

impl Histogram {
    /// The observations since `earlier`.
    pub(super) fn since(&self, earlier: Option<&Self>) -> Self {
        let before = |bound: f64| {
            let Histogram(buckets) = earlier?;
            buckets
                .iter()
                .find(|(known, _)| known.total_cmp(&bound).is_eq())
                .map(|(_, count)| *count)
        };
        let buckets = self.0.iter();
        Self(
            buckets
                .map(|(bound, count)| (*bound, count - before(*bound).unwrap_or_default()))
                .collect(),
        )
    }

    /// Adds the counts of `other`, which has the same bounds.
    pub(super) fn add(&mut self, other: &Self) {
        if self.0.is_empty() {
            self.0.clone_from(&other.0);
            return;
        }
        for ((_, count), (_, more)) in self.0.iter_mut().zip(&other.0) {
            *count += more;
        }
    }

    /// Percentiles in milliseconds, as precise as the bounds are. Observations within a bucket are
    /// assumed to be spread evenly.
    pub(super) fn summary(&self) -> Option<Summary> {
        let count = self
            .0
            .last()
            .map(|(_, count)| *count)
            .filter(|count| *count > 0.0)?;
        Some(Summary {
            count: format!("{count:.0}").parse().ok()?,
            p50: self.quantile(0.5 * count)?,
            p90: self.quantile(0.9 * count)?,
            p99: self.quantile(0.99 * count)?,
            max: self.quantile(count)?,
        })
    }

    fn quantile(&self, rank: f64) -> Option<f64> {
        let (mut lower, mut below) = (0.0, 0.0);
        for (bound, count) in &self.0 {
            if *count >= rank {
                if bound.is_infinite() {
                    return Some(lower * 1000.0);
                }
                let share = (rank - below) / (count - below).max(f64::MIN_POSITIVE);
                return Some((lower + (bound - lower) * share) * 1000.0);
            }
            (lower, below) = (*bound, *count);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"# HELP argosy_requests_total Requests.
# TYPE argosy_requests_total counter
argosy_requests_total{space="wds",verb="patch",resource="workflows",code="200"} 12
argosy_requests_total{space="its",verb="create",resource="a \"b\", c",code="201"} 3e1 # {trace="x"} 1
argosy_stage_seconds_bucket{stage="claimed",le="0.1"} 5
argosy_stage_seconds_bucket{stage="claimed",le="0.2"} 10
argosy_stage_seconds_bucket{stage="claimed",le="+Inf"} 10
process_resident_memory_bytes 4096
# EOF
"#;

    #[test]
    fn samples_have_labels_and_numbers() {
        let samples = parse(TEXT, "argosy_requests");
        let read: Vec<_> = samples
            .iter()
            .map(|sample| (sample.label("verb"), sample.label("resource"), sample.value))
            .collect();
        assert_eq!(
            read,
            [("patch", "workflows", 12.0), ("create", "a \"b\", c", 30.0)]
        );
        assert_eq!(parse(TEXT, "process_")[0].value.to_string(), "4096");
    }

    #[test]
    fn a_line_that_is_none_is_passed_over() {
        assert_eq!(parse("a{b=\"c\nd{e} 1\nf x\n\ng 1", ""), parse("g 1", "g"));
    }

    #[test]
    fn a_histogram_tells_percentiles_between_its_bounds() {
        let samples = parse(TEXT, "argosy_stage_seconds");
        let claimed = &histograms(&samples, "argosy_stage_seconds", "stage")["claimed"];
        let summary = claimed.summary().unwrap();
        assert_eq!(summary.count, 10);
        let shown = [summary.p50, summary.p90, summary.max].map(|time| format!("{time:.0}"));
        assert_eq!(shown, ["100", "180", "200"]);
        let nothing_new = claimed.since(Some(claimed));
        assert_eq!(nothing_new.summary(), None);
    }

    #[test]
    fn histograms_of_several_processes_are_taken_together() {
        let samples = parse(TEXT, "argosy_stage_seconds");
        let twice: Vec<Sample> = samples.iter().chain(&samples).cloned().collect();
        let both = histograms(&twice, "argosy_stage_seconds", "stage");
        assert_eq!(both["claimed"].summary().unwrap().count, 20);
    }
}
