//! Objects that are made to be unreadable. They are drawn from a seed as texts, because no tree of
//! values can hold them. Also a way to read the conditions of such a stored object.

use anyhow::{Context, Result};
use fastrand::Rng;
use kube::{
    Api, Client,
    api::PostParams,
    core::{Object, Request},
};
use serde::{Deserialize, Serialize};

/// Variable with the number of objects per writer.
const COUNT: &str = "ARGOSY_POISON_OBJECTS";

/// The number of objects per writer if the variable is not set.
const USUAL_COUNT: usize = 24;

/// The seed of the first writer's objects.
const SEED: u64 = 0xA4_60_5E;

/// A map that a parser of Rust replaces by the JSON in its text.
const HIDDEN: &str = r#"{"$serde_json::private::RawValue":"[[1]]"}"#;

/// A time in `managedFields` beyond four-digit years: in UTC it is in the year 10000.
const LATE: &str = "9999-12-31T23:59:59-23:59";

/// A writer of unreadable objects.
pub struct Writer {
    /// Client of the API server.
    pub client: Client,
    /// Path of the collection, as in `/api/v1/namespaces/default/configmaps`.
    pub path: String,
    /// The object as text, with `{name}`, with `{managed}` in its metadata, and with `{poison}` in
    /// a place that accepts any value.
    pub form: String,
}

/// The number of objects per writer.
pub fn count() -> Result<usize> {
    std::env::var(COUNT).map_or(Ok(USUAL_COUNT), |text| {
        text.parse().with_context(|| format!("{COUNT} is no number"))
    })
}

impl Writer {
    /// Writes objects named `prefix` and a number. Returns the number of objects that the API
    /// server has accepted.
    pub async fn write(&self, prefix: &str, number: u64) -> Result<usize> {
        let mut rng = Rng::with_seed(SEED + number);
        let mut taken = 0;
        for index in 0..count()? {
            // The first ones are known to do harm.
            let poison = match index {
                0 => nested(130),
                1 => nested(200),
                2 => nested(9_000),
                4 => HIDDEN.to_owned(),
                _ => draw(&mut rng),
            };
            let is_late = index == 3 || (index > 3 && rng.u8(..) < 64);
            taken += usize::from(self.put(&format!("{prefix}-{index}"), &poison, is_late).await?);
        }
        Ok(taken)
    }

    /// Writes one object. Returns true if the API server has accepted it.
    pub async fn put(&self, name: &str, poison: &str, is_late: bool) -> Result<bool> {
        let managed = if is_late {
            format!(
                r#","managedFields":[{{"manager":"poison","operation":"Update","apiVersion":"v1","time":"{LATE}","fieldsType":"FieldsV1","fieldsV1":{{}}}}]"#
            )
        } else {
            String::new()
        };
        let body = self
            .form
            .replace("{name}", name)
            .replace("{managed}", &managed)
            .replace("{poison}", poison);
        let request = Request::new(&self.path).create(&PostParams::default(), body.into_bytes())?;
        match self.client.request_text(request).await {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(_)) => Ok(false),
            Err(error) => Err(error).with_context(|| format!("{}/{name}", self.path)),
        }
    }
}

/// Nested lists.
pub fn nested(levels: usize) -> String {
    format!("{}{}", "[".repeat(levels), "]".repeat(levels))
}

fn draw(rng: &mut Rng) -> String {
    match rng.u8(0..10) {
        0 | 1 => nested(rng.usize(90..300)),
        2 => {
            let levels = rng.usize(90..300);
            format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
        }
        3 => format!("[{}0]", "0,".repeat(rng.usize(1..20_000))),
        4 => {
            let fields: Vec<String> = (0..rng.usize(1..500))
                .map(|n| format!(r#""{n}":{}"#, leaf(rng)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        5 => format!("{{{}:{},{}:{}}}", key(rng), leaf(rng), key(rng), leaf(rng)),
        6 => r#"{"a":1,"a":[2],"a":{"b":3}}"#.to_owned(),
        7 => format!(
            r#"{{"suspend":{},"phase":{},"conditions":{},"nodes":{}}}"#,
            leaf(rng),
            leaf(rng),
            leaf(rng),
            leaf(rng)
        ),
        _ => leaf(rng),
    }
}

/// Numbers, dates and texts at the limits of JSON and its readers.
fn leaf(rng: &mut Rng) -> String {
    const LEAVES: [&str; 20] = [
        "1e308",
        "-1e308",
        "1e999",
        "5e-324",
        "-0.0",
        "18446744073709551616",
        "-9223372036854775809",
        "1E+2",
        "0.1e1",
        r#""10000-01-01T00:00:00Z""#,
        r#""9999-12-31T23:59:59-23:59""#,
        r#""0000-00-00T00:00:00Z""#,
        r#""\ud800""#,
        r#""\ud83d\udea2""#,
        r#""\u0000\u0001\u007f""#,
        r#""\u2028\ufffe\ufeff""#,
        r#""<&>'""#,
        "null",
        "true",
        "[[],{}]",
    ];
    rng.choice(LEAVES).unwrap_or("null").to_owned()
}

fn key(rng: &mut Rng) -> String {
    match rng.u8(0..6) {
        0 => r#""""#.to_owned(),
        1 => format!(r#""{}""#, "k".repeat(rng.usize(1..5_000))),
        2 => r#""\ud800x""#.to_owned(),
        3 => r#""a/b~1c.d""#.to_owned(),
        4 => r#""\"\\\u0000""#.to_owned(),
        _ => r#""__proto__""#.to_owned(),
    }
}

/// The part of an object that is decoded, because other parts cannot be read.
pub type Outline = Object<Nothing, Said>;

/// A spec with any content.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Nothing {}

/// The conditions in a status.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Said {
    #[serde(default)]
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
struct Condition {
    #[serde(rename = "type")]
    type_: String,
    status: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
}

/// True if the object has this condition with `reason`, either as its reason or as the first word
/// of its message.
pub fn says(object: &Outline, type_: &str, status: &str, reason: &str) -> bool {
    let mut conditions = object.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|known| {
        let is_reason = known.reason == reason || known.message.starts_with(&format!("{reason}: "));
        known.type_ == type_ && known.status == status && is_reason
    })
}

/// The outlines of the objects of a kind in a namespace.
pub fn outlines<K>(client: &Client, namespace: &str) -> Api<Outline>
where
    K: kube::Resource<DynamicType = ()>,
{
    Api::namespaced_with(
        client.clone(),
        namespace,
        &kube::core::ApiResource::erase::<K>(&()),
    )
}
