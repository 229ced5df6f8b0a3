//! Checks the fields of a request: the media types of its parts, and the history length.

use tricord_bindings::media_type::{includes, normalize};
use tricord_bindings::{Error, Violation};

use crate::protocol;
use crate::schema::part::Content;
use crate::schema::{AgentCard, Message, Part};

/// The media types that an agent accepts: the defaults of its card and those of every skill.
#[derive(Debug)]
pub(super) struct MediaTypes(Vec<String>);

impl MediaTypes {
    pub(super) fn of(card: &AgentCard) -> Self {
        let of_skills = card.skills.iter().flat_map(|skill| &skill.input_modes);
        let mut types: Vec<_> = card.default_input_modes.iter().chain(of_skills).map(|mode| normalize(mode)).collect();
        types.sort();
        types.dedup();
        Self(types)
    }

    /// Returns an error if the agent does not accept the media type of a part.
    pub(super) fn check(&self, message: &Message) -> Result<(), Error> {
        for (index, part) in message.parts.iter().enumerate() {
            if let Some(media_type) = media_type(part)
                && !self.accepts(&media_type)
            {
                let accepted = self.0.join(", ");
                let message = format!("message.parts[{index}]: the agent accepts {accepted}, not {media_type}");
                let error = Error::new(&protocol::CONTENT_TYPE_NOT_SUPPORTED, message);
                return Err(error.with("mediaType", media_type));
            }
        }
        Ok(())
    }

    fn accepts(&self, media_type: &str) -> bool {
        self.0.iter().any(|known| includes(known, media_type))
    }
}

/// Returns the media type of a part. Bytes and links may have none, and then every agent accepts them.
fn media_type(part: &Part) -> Option<String> {
    if !part.media_type.is_empty() {
        return Some(normalize(&part.media_type));
    }
    match &part.content {
        Some(Content::Text(_)) => Some("text/plain".to_owned()),
        Some(Content::Data(_)) => Some("application/json".to_owned()),
        Some(Content::Raw(_) | Content::Url(_)) | None => None,
    }
}

/// Checks a history length. Absent means the whole history; a negative length is an error (§3.2.4).
pub(super) fn history_length(field: &str, length: Option<i32>) -> Result<Option<u32>, Error> {
    length.map(|length| u32::try_from(length).map_err(|_| violation(field, "must not be negative"))).transpose()
}

pub(super) fn violation(field: &str, description: &str) -> Error {
    Error::violations(vec![Violation { field: field.to_owned(), description: description.to_owned() }])
}
