//! The admission webhook: how long reviews take, and when its certificate ends.

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
    catalogue::{CERTIFICATE, REVIEWS},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: &'static str,
}

/// Seconds. A review is a lookup in memory; what takes longer than an API server waits is of no use.
const SECONDS: [f64; 10] = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 1.0, 10.0];

/// Where the webhook reports to. Clones share it.
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

    /// A review took this long.
    pub(crate) fn reviewed(&self, outcome: &'static str, duration: Duration) {
        let outcome = Outcome { outcome };
        self.durations
            .get_or_create(&outcome)
            .observe(duration.as_secs_f64());
    }

    /// The certificate in use ends then.
    pub(crate) fn certificate_ends(&self, at: Timestamp) {
        self.certificate.0.store(at.as_second(), Ordering::Relaxed);
    }
}

/// When the certificate in use ends, in seconds since 1970; 0 before there is one, and then nothing is told.
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
