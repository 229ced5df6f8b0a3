//! Negotiates extensions between the caller and the card of an agent.

use tricord_bindings::Error;

use crate::protocol;
use crate::schema::AgentCard;

/// Reduces `extensions` to those that the agent supports, which are then in use (§3.3.4, §4.6).
///
/// # Errors
/// `EXTENSION_SUPPORT_REQUIRED` if the caller does not name an extension that the agent requires.
pub(super) fn negotiate_extensions(card: &AgentCard, extensions: &mut Vec<String>) -> Result<(), Error> {
    let known = card.capabilities.as_ref().map_or(&[][..], |capabilities| &capabilities.extensions);
    if let Some(missing) = known.iter().find(|known| known.required && !extensions.contains(&known.uri)) {
        let message = format!("this agent requires the extension {}: name it in A2A-Extensions", missing.uri);
        return Err(Error::new(&protocol::EXTENSION_SUPPORT_REQUIRED, message).with("extension", &missing.uri));
    }
    let mut seen = Vec::new();
    extensions.retain(|uri| {
        let is_new = known.iter().any(|known| known.uri == *uri) && !seen.contains(uri);
        if is_new {
            seen.push(uri.clone());
        }
        is_new
    });
    Ok(())
}
