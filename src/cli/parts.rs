//! Renders the parts of messages and artifacts as text for a terminal.

use crate::schema::part::Content;
use crate::schema::{Message, Part, TaskState};

/// Renders parts in order: text as it is, anything else on lines of its own. More parts only add to the end of the text,
/// so that what was printed before need not be printed again.
pub(super) fn text(parts: &[Part]) -> String {
    let mut out = String::new();
    for part in parts {
        add(&mut out, part);
    }
    out
}

/// Appends one part to the text so far.
pub(super) fn add(out: &mut String, part: &Part) {
    let line = match &part.content {
        Some(Content::Text(text)) => return out.push_str(text),
        Some(Content::Url(url)) => url.clone(),
        Some(Content::Data(value)) => serde_json::to_string(value).unwrap_or_default(),
        Some(Content::Raw(bytes)) => match std::str::from_utf8(bytes) {
            Ok(text) if part.media_type.starts_with("text/") => text.trim_end_matches('\n').to_owned(),
            _ => format!("[{}]", file(part, bytes.len())),
        },
        None => return,
    };
    if !out.is_empty() && !out.ends_with('\n') {
        out.push('\n');
    }
    out.push_str(&line);
    out.push('\n');
}

fn file(part: &Part, bytes: usize) -> String {
    let words = [part.filename.as_str(), part.media_type.as_str()];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let unit = if bytes == 1 { "byte" } else { "bytes" };
    format!("{}{}{bytes} {unit}", words.join(", "), if words.is_empty() { "" } else { ", " })
}

/// Renders a message on one line.
pub(super) fn one_line(message: &Message) -> String {
    text(&message.parts).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the short name of a state: `input-required` for `TASK_STATE_INPUT_REQUIRED`.
pub(super) fn state_name(state: TaskState) -> String {
    let name = state.as_str_name();
    name.strip_prefix("TASK_STATE_").unwrap_or(name).to_ascii_lowercase().replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tricord_bindings::{proto_json, wkt};

    fn part(content: Content) -> Part {
        Part { content: Some(content), ..Part::default() }
    }

    #[test]
    fn text_runs_on_and_the_rest_has_lines_of_its_own() {
        let value: wkt::Value = proto_json::decode(br#"{"a":3}"#).unwrap();
        let mut raw = part(Content::Raw(vec![0xff].into()));
        raw.filename = "x.bin".to_owned();
        let parts = [
            part(Content::Text("a".into())),
            part(Content::Text("b".into())),
            part(Content::Data(value)),
            raw,
            part(Content::Text("c".into())),
        ];
        assert_eq!(text(&parts), "ab\n{\"a\":3}\n[x.bin, 1 byte]\nc");
        for n in 0..parts.len() {
            assert!(text(&parts).starts_with(&text(&parts[..n])), "{n}");
        }
    }

    #[test]
    fn states_have_short_names() {
        assert_eq!(state_name(TaskState::InputRequired), "input-required");
    }
}
