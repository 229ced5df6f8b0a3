//! Reads server-sent events by the standard, and more strictly where this server has its own rules.

use std::time::Instant;

use bytes::BytesMut;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

/// One event.
#[derive(Debug, PartialEq)]
pub(super) struct Record {
    pub(super) id: Option<String>,
    pub(super) event: Option<String>,
    pub(super) data: String,
}

/// Reads a body as events.
pub(super) struct Reader {
    body: Incoming,
    received: BytesMut,
    /// The comments so far, with the time of each.
    pub(super) comments: Vec<(Instant, String)>,
    lines: Vec<String>,
}

impl Reader {
    pub(super) fn new(body: Incoming) -> Self {
        Self { body, received: BytesMut::new(), comments: Vec::new(), lines: Vec::new() }
    }

    /// Returns the next event, or `None` at a normal end.
    pub(super) async fn next(&mut self) -> Option<Record> {
        loop {
            while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line = self.received.split_to(end + 1);
                let line = String::from_utf8(line[..end].to_vec()).expect("UTF-8");
                assert!(!line.contains('\r'), "a line with a carriage return: {line:?}");
                if let Some(comment) = line.strip_prefix(':') {
                    self.comments.push((Instant::now(), comment.trim().to_owned()));
                } else if !line.is_empty() {
                    self.lines.push(line);
                } else if !self.lines.is_empty() {
                    return Some(record(&std::mem::take(&mut self.lines)));
                } else {
                    panic!("an empty line with nothing before it, which old clients take for an event");
                }
            }
            match self.body.frame().await {
                Some(frame) => {
                    let frame = frame.unwrap_or_else(|error| panic!("the stream broke off: {error}"));
                    if let Ok(data) = frame.into_data() {
                        self.received.extend_from_slice(&data);
                    }
                }
                None => {
                    assert!(self.received.is_empty() && self.lines.is_empty(), "the stream ended inside an event");
                    return None;
                }
            }
        }
    }
}

fn record(lines: &[String]) -> Record {
    let mut record = Record { id: None, event: None, data: String::new() };
    let mut data = 0;
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("a line of no kind: {line:?}"));
        match name {
            "data" => {
                data += 1;
                value.clone_into(&mut record.data);
            }
            "id" => record.id = Some(value.to_owned()),
            "event" => record.event = Some(value.to_owned()),
            other => panic!("a field {other:?}"),
        }
    }
    assert_eq!(data, 1, "an event is one line of data: {lines:?}");
    record
}
