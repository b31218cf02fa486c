//! Metrics of the admission webhook: the duration of reviews, and the end of its certificate.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use jiff::Timestamp;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{family::Family, gauge::ConstGauge, histogram::Histogram},
    registry::Registry,
};

use super::{
    Durations,
    catalog::{CERTIFICATE, REVIEWS},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

/// Buckets in seconds. A review is a lookup in memory; one that takes longer than the API server
/// waits is useless.
const SECONDS: [f64; 10] = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 1.0, 10.0];

/// Metrics of the webhook. Clones share them.
#[derive(Clone, Debug)]
pub struct Reviews {
    durations: Durations<Outcome>,
    certificate: Certificate,
}

impl Reviews {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(SECONDS);
        let reviews = Self {
            durations: Family::new_with_constructor(histogram),
            certificate: Certificate::default(),
        };
        REVIEWS.register(registry, reviews.durations.clone());
        registry.register_collector(Box::new(reviews.certificate.clone()));
        reviews
    }

    /// Records the duration of a review.
    pub(crate) fn reviewed(&self, outcome: &'static str, duration: Duration) {
        let outcome = Outcome { outcome };
        self.durations
            .get_or_create(&outcome)
            .observe(duration.as_secs_f64());
    }

    /// Records the end of the current certificate.
    pub(crate) fn certificate_ends(&self, at: Timestamp) {
        self.certificate.0.store(at.as_second(), Ordering::Relaxed);
    }
}

/// End of the current certificate in Unix time; 0 before there is one, and then it is not exposed.
#[derive(Clone, Debug, Default)]
struct Certificate(Arc<AtomicI64>);

impl Collector for Certificate {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let ends = self.0.load(Ordering::Relaxed);
        if ends == 0 {
            return Ok(());
        }
        let gauge = ConstGauge::new(ends);
        let (name, help) = (CERTIFICATE.stem(), CERTIFICATE.help);
        gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
    }
}
