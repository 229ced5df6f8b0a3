//! The well-known types that the schema uses, as prost messages of our own, so that their JSON is ProtoJSON.

use std::collections::BTreeMap;

/// A point in time: `google.protobuf.Timestamp`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Message)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01T00:00:00Z.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// Nanoseconds after that, 0 to 999,999,999.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

/// Nothing: `google.protobuf.Empty`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct Empty {}

/// A JSON object: `google.protobuf.Struct`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Struct {
    /// Its members.
    #[prost(btree_map = "string, message", tag = "1")]
    pub fields: BTreeMap<String, Value>,
}

/// A JSON array: `google.protobuf.ListValue`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListValue {
    /// Its elements.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<Value>,
}

/// Any JSON value: `google.protobuf.Value`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Value {
    /// Which value; unset is not a value and is refused in requests.
    #[prost(oneof = "value::Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub kind: Option<value::Kind>,
}

/// Parts of [`Value`].
pub mod value {
    /// Which value it is.
    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Kind {
        /// `null`; the number is always 0.
        #[prost(int32, tag = "1")]
        NullValue(i32),
        /// A number.
        #[prost(double, tag = "2")]
        NumberValue(f64),
        /// A string.
        #[prost(string, tag = "3")]
        StringValue(String),
        /// `true` or `false`.
        #[prost(bool, tag = "4")]
        BoolValue(bool),
        /// An object.
        #[prost(message, tag = "5")]
        StructValue(super::Struct),
        /// An array.
        #[prost(message, tag = "6")]
        ListValue(super::ListValue),
    }
}

impl From<value::Kind> for Value {
    fn from(kind: value::Kind) -> Self {
        Self { kind: Some(kind) }
    }
}
