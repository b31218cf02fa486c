//! A trace collector: receives the spans that OpenTelemetry exporters post (OTLP over HTTP,
//! protobuf).
//!
//! It decodes only the fields that tests check. Field numbers are those of
//! `opentelemetry/proto/trace/v1/trace.proto`.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
    time::timeout,
};

use super::waiting::PATIENCE;

/// The fields of a span that tests check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// `service.name` of the process that exported it.
    pub service: String,
    /// Hexadecimal.
    pub trace: String,
    /// Hexadecimal.
    pub id: String,
    /// Hexadecimal; empty if it has none.
    pub parent: String,
    /// Its name.
    pub name: String,
    /// Nanoseconds since 1970.
    pub start: u64,
    /// Nanoseconds since 1970.
    pub end: u64,
    /// Attributes with a text or number value.
    pub attributes: BTreeMap<String, String>,
    /// True if its status is an error.
    pub is_error: bool,
}

/// A listening collector.
#[derive(Debug)]
pub struct Collector {
    address: String,
    spans: watch::Receiver<Vec<Span>>,
    _serving: JoinSet<()>,
}

impl Collector {
    /// Listens on a free port.
    pub async fn open() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = format!("http://{}", listener.local_addr()?);
        let (sender, spans) = watch::channel(Vec::new());
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let sender = sender.clone();
                connections.spawn(async move {
                    // Fails if the exporter closes its connection or is killed.
                    let _ = serve(stream, &sender).await;
                });
            }
        });
        Ok(Self {
            address,
            spans,
            _serving: serving,
        })
    }

    /// The value for `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn endpoint(&self) -> &str {
        &self.address
    }

    /// Waits until `test` holds for the spans, and returns all of them.
    pub async fn until(&self, what: &str, test: impl Fn(&[Span]) -> bool) -> Result<Vec<Span>> {
        let mut spans = self.spans.clone();
        let waited = timeout(PATIENCE, spans.wait_for(|spans| test(spans))).await;
        match waited {
            Ok(found) => Ok(found?.clone()),
            Err(_) => bail!("waited for spans: {what}; there are {:#?}", *self.spans.borrow()),
        }
    }
}

async fn serve(stream: TcpStream, spans: &watch::Sender<Vec<Span>>) -> Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut length = None;
        let mut first = String::new();
        if stream.read_line(&mut first).await? == 0 {
            return Ok(());
        }
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            if line.trim().is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').context("a header has a colon")?;
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.trim().parse()?);
            }
        }
        let mut body = vec![0; length.context("a request says how long it is")?];
        stream.read_exact(&mut body).await?;
        ensure!(first.starts_with("POST /v1/traces "), "{first}");
        let told = read_request(&body)?;
        spans.send_modify(|known| known.extend(told));
        stream
            .write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n",
            )
            .await?;
    }
}

/// A field of a message in the wire format of Protocol Buffers.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn bytes(&self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => bail!("a number where there should be a message"),
        }
    }

    fn text(&self) -> Result<String> {
        Ok(String::from_utf8(self.bytes()?.to_vec())?)
    }

    fn hex(&self) -> Result<String> {
        let digits = self.bytes()?.iter().map(|byte| format!("{byte:02x}"));
        Ok(digits.collect())
    }

    fn number(&self) -> u64 {
        match self {
            Self::Number(number) => *number,
            Self::Bytes(_) => 0,
        }
    }
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count).context("the message ends early")?;
    *bytes = rest;
    Ok(taken)
}

fn varint(bytes: &mut &[u8]) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?.first().copied().unwrap_or_default();
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    bail!("a number that is too long")
}

/// The fields of a message, with their numbers.
fn fields(mut bytes: &[u8]) -> Result<Vec<(u64, Field<'_>)>> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)?),
            1 => Field::Number(u64::from_le_bytes(take(&mut bytes, 8)?.try_into()?)),
            2 => {
                let length = usize::try_from(varint(&mut bytes)?)?;
                Field::Bytes(take(&mut bytes, length)?)
            }
            5 => Field::Number(u64::from(u32::from_le_bytes(take(&mut bytes, 4)?.try_into()?))),
            other => bail!("wire type {other}"),
        };
        fields.push((tag >> 3, field));
    }
    Ok(fields)
}

/// The messages in the field with this number.
fn messages(bytes: &[u8], number: u64) -> Result<Vec<&[u8]>> {
    let fields = fields(bytes)?.into_iter().filter(|(known, _)| *known == number);
    fields.map(|(_, field)| field.bytes()).collect()
}

fn read_request(body: &[u8]) -> Result<Vec<Span>> {
    let mut spans = Vec::new();
    for resource_spans in messages(body, 1)? {
        let mut service = String::new();
        for resource in messages(resource_spans, 1)? {
            let mut known = attributes(&messages(resource, 1)?)?;
            service = known.remove("service.name").unwrap_or_default();
        }
        for scope_spans in messages(resource_spans, 2)? {
            for span in messages(scope_spans, 2)? {
                spans.push(read_span(span, &service)?);
            }
        }
    }
    Ok(spans)
}

fn read_span(bytes: &[u8], service: &str) -> Result<Span> {
    let mut span = Span {
        service: service.to_owned(),
        attributes: attributes(&messages(bytes, 9)?)?,
        ..Span::default()
    };
    for (number, field) in fields(bytes)? {
        match number {
            1 => span.trace = field.hex()?,
            2 => span.id = field.hex()?,
            4 => span.parent = field.hex()?,
            5 => span.name = field.text()?,
            7 => span.start = field.number(),
            8 => span.end = field.number(),
            15 => {
                let status = fields(field.bytes()?)?;
                let is_error = |(number, code): &(u64, Field<'_>)| *number == 3 && code.number() == 2;
                span.is_error = status.iter().any(is_error);
            }
            _ => {}
        }
    }
    Ok(span)
}

fn attributes(pairs: &[&[u8]]) -> Result<BTreeMap<String, String>> {
    let mut attributes = BTreeMap::new();
    for pair in pairs {
        let (mut key, mut value) = (String::new(), None);
        for (number, field) in fields(pair)? {
            match number {
                1 => key = field.text()?,
                2 => {
                    for (kind, field) in fields(field.bytes()?)? {
                        value = match kind {
                            1 => Some(field.text()?),
                            3 => Some(field.number().to_string()),
                            _ => None,
                        };
                    }
                }
                _ => {}
            }
        }
        attributes.extend(value.map(|value| (key, value)));
    }
    Ok(attributes)
}
