//! The bytes of a card that signatures are over (A2A 8.4.1): its JSON in canonical form, without what signers leave out.

use serde_json::Value;

use crate::schema::AgentCard;

/// The forms of a card that signers are known to sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The protocol's own: defaults are left out unless they are REQUIRED or were set explicitly.
    Protocol,
    /// The same without any empty string, list, object or null, REQUIRED or not: what the SDKs for Python and JavaScript
    /// sign. It differs from the protocol's only on cards that hold such values.
    WithoutEmpty,
}

impl Form {
    /// The bytes to sign.
    pub fn of(self, card: &AgentCard) -> Vec<u8> {
        let unsigned = AgentCard { signatures: Vec::new(), ..card.clone() };
        // The generated writer follows the rules of presence: what is left out here is left out on the wire.
        let value = serde_json::to_value(&unsigned).unwrap_or_default();
        match self {
            Form::Protocol => canonicalize(&value),
            Form::WithoutEmpty => {
                canonicalize(&without_empty(value).unwrap_or_else(|| Value::Object(Default::default())))
            }
        }
    }
}

/// Removes empty values, then those that became empty.
fn without_empty(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::String(text) => (!text.is_empty()).then_some(Value::String(text)),
        Value::Array(items) => {
            let items: Vec<_> = items.into_iter().filter_map(without_empty).collect();
            (!items.is_empty()).then_some(Value::Array(items))
        }
        Value::Object(members) => {
            let members = members.into_iter().filter_map(|(name, value)| Some((name, without_empty(value)?)));
            let members: serde_json::Map<_, _> = members.collect();
            (!members.is_empty()).then_some(Value::Object(members))
        }
        other => Some(other),
    }
}

/// Writes a value in the one form of the JSON Canonicalization Scheme (RFC 8785): no spaces, members in the order of their
/// names' UTF-16 units, numbers as doubles in the notation of ECMAScript.
pub fn canonicalize(value: &Value) -> Vec<u8> {
    // Only numbers that are not finite and keys that are not strings fail, and a `Value` holds neither.
    serde_json_canonicalizer::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn text(value: &Value) -> String {
        String::from_utf8(canonicalize(value)).unwrap()
    }

    #[test]
    fn numbers_are_those_of_ecmascript() {
        // The pairs of appendix B of RFC 8785.
        let cases: [(u64, &str); 24] = [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ];
        for (bits, expected) in cases {
            assert_eq!(text(&json!(f64::from_bits(bits))), expected, "{bits:x}");
        }
        assert_eq!(text(&json!([3, 3.0, -7, 1e2, 0.1, u64::MAX])), "[3,3,-7,100,0.1,18446744073709552000]");
    }

    #[test]
    fn members_are_in_the_order_of_utf_16_and_strings_are_escaped_only_where_they_must() {
        // U+10000 is D800 DC00 in UTF-16, so it comes before U+E000, which is less in UTF-8.
        assert_eq!(
            text(&json!({"\u{e000}": 1, "\u{10000}": 2, "b": 3, "": 4})),
            "{\"\":4,\"b\":3,\"\u{10000}\":2,\"\u{e000}\":1}"
        );
        assert_eq!(
            text(&json!("\u{7}\u{8}\t\n\u{b}\u{c}\r\"\\/\u{7f}é\u{2028}")),
            "\"\\u0007\\b\\t\\n\\u000b\\f\\r\\\"\\\\/\u{7f}é\u{2028}\""
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(|bits| {
                let number = f64::from_bits(bits);
                Value::from(if number.is_finite() { number } else { 0.5 })
            }),
            (-400i32..400, 1u32..100_000).prop_map(|(e, m)| Value::from(f64::from(m) * 10f64.powi(e / 10))),
            // Halves, quarters and so on of large numbers, where two shortest forms can be as near.
            (1u64 << 52..1 << 53, 1u32..7).prop_map(|(n, halvings)| Value::from(n as f64 / f64::from(1 << halvings))),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 64, 6, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                proptest::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_canonical_text_reads_back_as_itself(value in any_json()) {
            let once = canonicalize(&value);
            let again: Value = serde_json::from_slice(&once).unwrap();
            prop_assert_eq!(canonicalize(&again), once);
        }
    }

    #[test]
    fn what_of_a_card_is_signed_follows_the_rules_of_presence() {
        let card = r#"{"name":"Example Agent","description":"","version":"","supportedInterfaces":[],
            "capabilities":{"streaming":false,"pushNotifications":false,"extensions":[]},"iconUrl":"",
            "defaultInputModes":["b","a"],"defaultOutputModes":[],"skills":[],"securitySchemes":{},
            "signatures":[{"protected":"e30","signature":"AA"}]}"#;
        let card: AgentCard = tricord_bindings::proto_json::decode(card.as_bytes()).unwrap();
        assert_eq!(
            String::from_utf8(Form::Protocol.of(&card)).unwrap(),
            r#"{"capabilities":{"pushNotifications":false,"streaming":false},"defaultInputModes":["b","a"],"defaultOutputModes":[],"description":"","iconUrl":"","name":"Example Agent","skills":[],"supportedInterfaces":[],"version":""}"#
        );
        assert_eq!(
            String::from_utf8(Form::WithoutEmpty.of(&card)).unwrap(),
            r#"{"capabilities":{"pushNotifications":false,"streaming":false},"defaultInputModes":["b","a"],"name":"Example Agent"}"#
        );
    }
}
