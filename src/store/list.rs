//! Lists of tasks: the query, and the page tokens that carry a client from one page to the next.
//!
//! A page begins where the one before ended, by (status time, id): an offset would repeat and skip tasks while they
//! change. A token holds that place and the total counted for the first page. It is authenticated and bound to agent,
//! owner and filter, so that it can be used for nothing but the next page.

use crate::schema::TaskState;
use base64_simd::URL_SAFE_NO_PAD as BASE64;
use ring::{digest, hmac};
use std::sync::Arc;
use uuid::Uuid;

/// What to list. Agent and owner are always part of it: "not yours" and "does not exist" are one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListQuery {
    /// The agent's name.
    pub agent: Arc<str>,
    /// The owner of the tasks.
    pub owner: Arc<str>,
    /// Only those of this conversation.
    pub context: Option<Arc<str>>,
    /// Only those in this state.
    pub state: Option<TaskState>,
    /// Only those whose state was entered at this time or later, in microseconds since 1970.
    pub after_us: Option<i64>,
    /// The most rows to return.
    pub limit: u32,
    /// Start below this status time and id, those of the last task on the page before.
    pub cursor: Option<(i64, Uuid)>,
}

/// What a page token says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageToken {
    /// Status time of the last task on the page before, in microseconds since 1970.
    pub status_us: i64,
    /// Its id.
    pub id: Uuid,
    /// How many tasks matched when the first page was read.
    pub total: u64,
}

/// Why a page token was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// This store did not make it, or it was changed.
    #[error("the page token is not one that this server made")]
    Malformed,
    /// It was made for another filter, agent or caller.
    #[error("the page token belongs to another query: its filter must stay the same from page to page")]
    OtherQuery,
}

/// Time, id, total.
const PAYLOAD: usize = 8 + 16 + 8;
/// Enough to make guessing hopeless, short enough for an address line.
const SEAL: usize = 16;

/// The key that authenticates the tokens of a store.
#[derive(Debug)]
pub struct PageKey(hmac::Key);

impl PageKey {
    /// Returns a key of these bytes.
    pub fn new(key: &[u8]) -> Self {
        PageKey(hmac::Key::new(hmac::HMAC_SHA256, key))
    }

    /// Returns the token that carries a client to the next page of a query.
    pub fn encode(&self, query: &ListQuery, page: &PageToken) -> String {
        let mut bytes = Vec::with_capacity(PAYLOAD + 2 * SEAL);
        bytes.extend_from_slice(&page.status_us.to_be_bytes());
        bytes.extend_from_slice(page.id.as_bytes());
        bytes.extend_from_slice(&page.total.to_be_bytes());
        bytes.extend_from_slice(&filter_digest(query));
        let seal = hmac::sign(&self.0, &bytes);
        bytes.extend_from_slice(&seal.as_ref()[..SEAL]);
        BASE64.encode_to_string(bytes)
    }

    /// Reads a token.
    ///
    /// # Errors
    /// When this key did not make it, or made it for another query.
    pub fn decode(&self, query: &ListQuery, token: &str) -> Result<PageToken, TokenError> {
        // Longer than any token: not worth decoding.
        if token.len() > 128 {
            return Err(TokenError::Malformed);
        }
        let bytes = BASE64.decode_to_vec(token).map_err(|_| TokenError::Malformed)?;
        if bytes.len() != PAYLOAD + 2 * SEAL {
            return Err(TokenError::Malformed);
        }
        let (signed, seal) = bytes.split_at(PAYLOAD + SEAL);
        let expected = hmac::sign(&self.0, signed);
        if !same(&expected.as_ref()[..SEAL], seal) {
            return Err(TokenError::Malformed);
        }
        let (payload, filter) = signed.split_at(PAYLOAD);
        if filter != filter_digest(query) {
            return Err(TokenError::OtherQuery);
        }
        let number = |at: usize| u64::from_be_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
        let id = Uuid::from_bytes(payload[8..24].try_into().expect("sixteen bytes"));
        Ok(PageToken { status_us: number(0) as i64, id, total: number(24) })
    }
}

/// Compares in constant time.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |diff, (a, b)| diff | (a ^ b)) == 0
}

/// Returns a digest of everything that must stay the same from page to page.
fn filter_digest(query: &ListQuery) -> [u8; SEAL] {
    let mut hash = digest::Context::new(&digest::SHA256);
    let mut text = |text: Option<&str>| {
        // Lengths keep ("ab", "c") and ("a", "bc") apart; absent is not empty.
        hash.update(&text.map_or(u64::MAX, |t| t.len() as u64).to_be_bytes());
        hash.update(text.unwrap_or_default().as_bytes());
    };
    text(Some(&query.agent));
    text(Some(&query.owner));
    text(query.context.as_deref());
    text(query.state.map(|s| s.as_str_name()));
    text(query.after_us.map(|t| t.to_string()).as_deref());
    hash.finish().as_ref()[..SEAL].try_into().expect("a digest is longer")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query() -> ListQuery {
        ListQuery {
            agent: "support".into(),
            owner: "ann".into(),
            context: None,
            state: None,
            after_us: None,
            limit: 50,
            cursor: None,
        }
    }

    const PAGE: PageToken = PageToken { status_us: 1_700_000_000_000_000, id: Uuid::from_u128(7), total: 120 };

    #[test]
    fn a_token_comes_back() {
        let key = PageKey::new(&[1; 32]);
        let token = key.encode(&query(), &PAGE);
        assert_eq!(key.decode(&query(), &token), Ok(PAGE));
        // The page size may change on the way.
        assert_eq!(key.decode(&ListQuery { limit: 7, ..query() }, &token), Ok(PAGE));
    }

    #[test]
    fn a_token_is_good_for_its_query_alone() {
        let key = PageKey::new(&[1; 32]);
        let token = key.encode(&query(), &PAGE);
        for other in [
            ListQuery { agent: "other".into(), ..query() },
            ListQuery { owner: "bob".into(), ..query() },
            ListQuery { agent: "suppor".into(), owner: "tann".into(), ..query() },
            ListQuery { context: Some("".into()), ..query() },
            ListQuery { state: Some(TaskState::Working), ..query() },
            ListQuery { after_us: Some(0), ..query() },
        ] {
            assert_eq!(key.decode(&other, &token), Err(TokenError::OtherQuery), "{other:?}");
        }
    }

    #[test]
    fn a_changed_token_is_no_token() {
        let key = PageKey::new(&[1; 32]);
        let token = key.encode(&query(), &PAGE);
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(key.decode(&query(), &changed), Err(TokenError::Malformed), "{changed}");
        }
        let long = "A".repeat(1 << 20);
        for bad in ["", "A", "=", "ü", &token[1..], &token[..token.len() - 1], long.as_str()] {
            assert_eq!(key.decode(&query(), bad), Err(TokenError::Malformed), "{bad:.20}");
        }
        assert_eq!(PageKey::new(&[2; 32]).decode(&query(), &token), Err(TokenError::Malformed));
    }
}
