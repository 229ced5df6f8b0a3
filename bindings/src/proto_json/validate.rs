//! The rules that generated validators call, and the violations that they find.
//!
//! A validator runs on the decoded message, so every binding refuses the same requests with the same paths.

use std::collections::BTreeMap;

use super::MAX_VALUE_DEPTH;
use super::format::EnumNames;
use super::path::At;
use super::timestamp::{FIRST_SECOND, LAST_SECOND};
use super::value::TOO_DEEP;
use crate::error::{Error, Violation};
use crate::wkt::value::Kind;
use crate::wkt::{Empty, ListValue, Struct, Timestamp, Value};

/// The most violations that are reported. One is enough to refuse a request, and a hostile one could have millions.
const MAX_VIOLATIONS: usize = 20;

/// A message that can check itself against the schema's rules for requests.
pub trait Validate {
    /// Adds the violations of this message, which is at `at`.
    fn check(&self, at: &At<'_>, findings: &mut Findings);

    /// Checks the message as a request: required fields are present and not empty, enum values are known, a required
    /// oneof has a member, and JSON can represent every value.
    ///
    /// # Errors
    /// [`crate::error::kinds::INVALID_PARAMS`] with the violations, at most 20.
    fn validate(&self) -> Result<(), Error> {
        let mut findings = Findings::default();
        self.check(&At::Root, &mut findings);
        match findings {
            Findings { unreadable: Some(violation), .. } => Err(Error::violations(vec![violation])),
            Findings { violations, .. } if violations.is_empty() => Ok(()),
            Findings { violations, .. } => Err(Error::violations(violations)),
        }
    }
}

/// The violations found so far.
#[derive(Debug, Default)]
pub struct Findings {
    violations: Vec<Violation>,
    /// The first value that JSON cannot represent. It is reported alone, because a JSON reader would have stopped
    /// there, and a request over gRPC gets the same answer.
    unreadable: Option<Violation>,
}

impl Findings {
    /// Adds a violation, unless the limit is reached.
    pub fn add(&mut self, at: &At<'_>, description: impl Into<String>) {
        if self.violations.len() < MAX_VIOLATIONS {
            self.violations.push(Violation { field: at.to_string(), description: description.into() });
        }
    }

    fn unreadable(&mut self, at: &At<'_>, description: impl FnOnce() -> String) {
        self.unreadable.get_or_insert_with(|| Violation { field: at.to_string(), description: description() });
    }
}

/// The rules. Each takes a field's value and its position.
pub mod rules {
    use super::{At, BTreeMap, EnumNames, Findings, Validate};

    /// Checks that a required string, bytes, list or map is not empty. Protobuf cannot tell an empty one from an absent
    /// one.
    pub fn not_empty(empty: bool, at: At<'_>, findings: &mut Findings) {
        if empty {
            findings.add(&at, "is required and must not be empty");
        }
    }

    /// Checks that a required message is present. [`message`] checks its content.
    pub fn present<T>(value: &Option<T>, at: At<'_>, findings: &mut Findings) {
        if value.is_none() {
            findings.add(&at, "is required");
        }
    }

    /// Checks a message, if it is present.
    pub fn message<T: Validate>(value: &Option<T>, at: At<'_>, findings: &mut Findings) {
        if let Some(value) = value {
            value.check(&at, findings);
        }
    }

    /// Checks every message of a list.
    pub fn each<T: Validate>(list: &[T], at: At<'_>, findings: &mut Findings) {
        for (index, value) in list.iter().enumerate() {
            value.check(&At::Index(&at, index), findings);
        }
    }

    /// Checks every message of a map.
    pub fn each_entry<T: Validate>(map: &BTreeMap<String, T>, at: At<'_>, findings: &mut Findings) {
        for (key, value) in map {
            value.check(&At::Key(&at, key), findings);
        }
    }

    /// Checks that the number belongs to the enum.
    pub fn known<E: EnumNames>(number: i32, at: At<'_>, findings: &mut Findings) {
        if E::name(number).is_none() {
            findings.unreadable(&at, || E::unknown(number));
        }
    }

    /// Checks that the number belongs to the enum and is not 0, which means unspecified.
    pub fn chosen<E: EnumNames>(number: i32, at: At<'_>, findings: &mut Findings) {
        if number == 0 {
            findings.add(&at, "is required and must not be unspecified");
        } else {
            known::<E>(number, at, findings);
        }
    }
}

impl Validate for Empty {
    fn check(&self, _: &At<'_>, _: &mut Findings) {}
}

impl Validate for Timestamp {
    fn check(&self, at: &At<'_>, findings: &mut Findings) {
        if !(FIRST_SECOND..=LAST_SECOND).contains(&self.seconds) || !(0..=999_999_999).contains(&self.nanos) {
            findings.add(at, "is not in the years 1 to 9999");
        }
    }
}

impl Validate for Struct {
    fn check(&self, at: &At<'_>, findings: &mut Findings) {
        check_struct(self, 1, at, findings);
    }
}

impl Validate for ListValue {
    fn check(&self, at: &At<'_>, findings: &mut Findings) {
        check_list(self, 1, at, findings);
    }
}

impl Validate for Value {
    fn check(&self, at: &At<'_>, findings: &mut Findings) {
        check_value(self, 1, at, findings);
    }
}

fn check_value(value: &Value, level: usize, at: &At<'_>, findings: &mut Findings) {
    match &value.kind {
        None => findings.add(at, "has no value"),
        Some(Kind::NumberValue(number)) if !number.is_finite() => findings.add(at, "is not a finite number"),
        Some(Kind::StructValue(object)) => check_struct(object, level, at, findings),
        Some(Kind::ListValue(list)) => check_list(list, level, at, findings),
        Some(_) => {}
    }
}

fn check_struct(object: &Struct, level: usize, at: &At<'_>, findings: &mut Findings) {
    if level > MAX_VALUE_DEPTH {
        return findings.unreadable(at, || TOO_DEEP.to_owned());
    }
    for (key, value) in &object.fields {
        check_value(value, level + 1, &At::Key(at, key), findings);
    }
}

fn check_list(list: &ListValue, level: usize, at: &At<'_>, findings: &mut Findings) {
    if level > MAX_VALUE_DEPTH {
        return findings.unreadable(at, || TOO_DEEP.to_owned());
    }
    for (index, value) in list.values.iter().enumerate() {
        check_value(value, level + 1, &At::Index(at, index), findings);
    }
}
