//! The one way to write a JSON value (RFC 8785), and the bytes of a card that signatures are over (A2A 8.4.1).

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

/// Takes out what is empty, and what is empty then.
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

/// Writes a value as RFC 8785 has it: no spaces, members by the UTF-16 units of their names, numbers as doubles in the
/// form of ECMAScript.
pub fn canonicalize(value: &Value) -> Vec<u8> {
    let mut out = String::new();
    write(value, &mut out);
    out.into_bytes()
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        // Without arbitrary precision every number is one that a double comes near.
        Value::Number(number) => write_number(number.as_f64().unwrap_or_default(), out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (at, (name, value)) in members.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_string(name, out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
    }
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\0'..' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

/// `Number::toString` of ECMAScript: the shortest digits that give the double back, without an exponent from 1e-6 up to
/// 1e21.
fn write_number(number: f64, out: &mut String) {
    if number == 0.0 {
        // The negative zero too.
        out.push('0');
        return;
    }
    if number < 0.0 {
        out.push('-');
    }
    let (digits, whole) = digits(number.abs());
    let count = digits.len() as i32;
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or_default());
    let text = match whole {
        _ if count <= whole && whole <= 21 => digits + &zeros(whole - count),
        1..=21 => format!("{}.{}", &digits[..whole as usize], &digits[whole as usize..]),
        -5..=0 => format!("0.{}{digits}", zeros(-whole)),
        _ => {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            format!("{first}{point}{rest}e{:+}", whole - 1)
        }
    };
    out.push_str(&text);
}

/// The shortest digits that give the double back, and how many of them stand before the point. Of two that are as near
/// the even one, which is what serde_json finds, and what Rust's own `{:e}` does not.
fn digits(number: f64) -> (String, i32) {
    let text = serde_json::Number::from_f64(number).map(|number| number.to_string()).unwrap_or_default();
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    let leading = all.len() - significant.len();
    let point = whole.len() as i32 - leading as i32 + exponent.parse::<i32>().unwrap_or_default();
    (significant.trim_end_matches('0').to_owned(), point)
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
            let mut out = String::new();
            write_number(f64::from_bits(bits), &mut out);
            assert_eq!(out, expected, "{bits:x}");
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
        fn an_independent_implementation_writes_the_same(value in any_json()) {
            let other = serde_json_canonicalizer::to_vec(&value).unwrap();
            prop_assert_eq!(canonicalize(&value), other);
        }

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
