//! `tricord card verify`: verifies the signatures of a card.

use std::collections::HashMap;
use std::io::Write as _;

use serde_json::{Value, json};
use tricord_bindings::client::HttpClient;

use super::source::{LoadedCard, Source, is_address, is_loopback, origin, read_file};
use crate::card::{Coverage, Form, Header, Jwk, JwkSet, SignedCard};
use crate::cli::exit::{Exit, Failure};
use crate::cli::print::Printer;
use crate::cli::terminal;
use crate::schema::AgentCardSignature;

/// Verify the signatures of any agent's card
///
/// The keys come from --key or --jwks. Without either, they are read from the URL in the signature, if that URL is on
/// the same server as the card. The exit code is 0 if a signature is valid, and 1 if none is.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    pub(super) source: Source,

    /// A JSON Web Key Set with the signers' keys: a file or a URL
    #[arg(long, value_name = "FILE|URL", conflicts_with = "key")]
    jwks: Option<String>,

    /// A PEM file with the signer's public key
    #[arg(long, value_name = "PEM")]
    key: Option<String>,
}

pub(super) async fn run(args: Args) -> Result<Exit, Failure> {
    let found = args.source.read().await?;
    let not_a_card = |why| Failure::new(Exit::Server, format!("{} is not an agent card: {why}", found.name));
    let card = SignedCard::read(&found.json).map_err(not_a_card)?;
    let mut keys = Keys::new(&args, &found).await?;
    let mut verdicts = Vec::new();
    for signature in &card.card().signatures {
        verdicts.push(Verdict::of(&card, signature, &mut keys).await);
    }
    let valid = verdicts.iter().filter(|verdict| verdict.outcome.is_ok()).count();
    let uncovered = card.has_unknown_keys()
        && verdicts.iter().filter_map(|verdict| verdict.outcome.as_ref().ok()).all(|c| *c != Coverage::Received);
    if args.source.connect.json {
        let signatures: Vec<_> = verdicts.iter().map(Verdict::json).collect();
        let document =
            json!({"verified": valid > 0, "signatures": signatures, "hasUnsignedKeys": valid > 0 && uncovered});
        Printer::new(true).json(&document)?;
    } else {
        let mut out = terminal::stdout();
        for (at, verdict) in verdicts.iter().enumerate() {
            writeln!(out, "signature {}: {}", at + 1, verdict.line())?;
        }
        match (valid, verdicts.len()) {
            (_, 0) => writeln!(out, "not verified: {} is not signed", found.name)?,
            (0, _) => writeln!(out, "not verified: no signature of {} is valid", found.name)?,
            (valid, all) => writeln!(out, "verified: {valid} of {all} signatures of {} are valid", found.name)?,
        }
        if valid > 0 && keys.were_read_without_tls() {
            writeln!(
                out,
                "note: the keys were read without TLS, so an attacker on the network could have changed them and the card"
            )?;
        }
        if valid > 0 && uncovered {
            writeln!(
                out,
                "note: the card has fields that the protocol does not define; the signature does not cover them"
            )?;
        }
        out.flush()?;
    }
    Ok(if valid > 0 { Exit::Done } else { Exit::Failed })
}

/// The result for one signature.
struct Verdict {
    header: Option<Header>,
    outcome: Result<Coverage, String>,
}

impl Verdict {
    async fn of(card: &SignedCard, signature: &AgentCardSignature, keys: &mut Keys<'_>) -> Self {
        let header = match Header::read(signature) {
            Ok(header) => header,
            Err(error) => return Self { header: None, outcome: Err(error.to_string()) },
        };
        let outcome = match keys.of(&header).await {
            Ok(keys) => {
                let mut outcome = Err(format!("no key is named {:?}", header.kid));
                for key in keys {
                    outcome = card.check(signature, &key).map_err(|error| error.to_string());
                    if outcome.is_ok() {
                        break;
                    }
                }
                outcome
            }
            Err(why) => Err(why),
        };
        Self { header: Some(header), outcome }
    }

    fn line(&self) -> String {
        let who = match &self.header {
            Some(Header { alg, kid, .. }) => format!("{alg} by {kid:?} "),
            None => String::new(),
        };
        match &self.outcome {
            Ok(Coverage::Card(Form::Protocol)) => format!("{who}is valid"),
            Ok(Coverage::Card(Form::WithoutEmpty)) => format!("{who}is valid, over the card without its empty values"),
            Ok(Coverage::Received) => format!("{who}is valid, over the exact JSON of the card"),
            Err(why) => format!("{who}is not valid: {why}"),
        }
    }

    fn json(&self) -> Value {
        let header = self.header.as_ref();
        let signed_content = self.outcome.as_ref().ok().map(|coverage| match coverage {
            Coverage::Card(Form::Protocol) => "card",
            Coverage::Card(Form::WithoutEmpty) => "card without empty values",
            Coverage::Received => "received JSON",
        });
        json!({
            "alg": header.map(|header| &header.alg),
            "kid": header.map(|header| &header.kid),
            "jku": header.and_then(|header| header.jku.as_ref()),
            "valid": self.outcome.is_ok(),
            "signedContent": signed_content,
            "reason": self.outcome.as_ref().err(),
        })
    }
}

/// The keys that signatures are verified with.
struct Keys<'a> {
    args: &'a Args,
    found: &'a LoadedCard,
    /// The keys of the command line, used for every signature.
    given: Option<JwkSet>,
    /// The keys that were read from URLs.
    read: HashMap<String, Result<JwkSet, String>>,
}

impl<'a> Keys<'a> {
    async fn new(args: &'a Args, found: &'a LoadedCard) -> Result<Self, Failure> {
        let mut keys = Self { args, found, given: None, read: HashMap::new() };
        if let Some(path) = &args.key {
            let key = Jwk::from_pem(&read_file(path)?).map_err(|error| Failure::usage(format!("{path}: {error}")))?;
            keys.given = Some(JwkSet { keys: vec![key] });
        } else if let Some(from) = &args.jwks {
            let set = match is_address(from) {
                true => keys.fetch(from).await.map_err(|error| Failure::new(Exit::Unreachable, error))?,
                false => {
                    JwkSet::from_json(&read_file(from)?).map_err(|error| Failure::usage(format!("{from}: {error}")))?
                }
            };
            keys.given = Some(set);
        }
        Ok(keys)
    }

    /// Returns the keys for a signature, or the reason why there are none.
    async fn of(&mut self, header: &Header) -> Result<Vec<Jwk>, String> {
        if let Some(given) = &self.given {
            return Ok(given.named(&header.kid).into_iter().cloned().collect());
        }
        let Some(jku) = &header.jku else {
            return Err("it does not name the URL of its key; --jwks or --key set one".to_owned());
        };
        match &self.found.origin {
            None => return Err(format!("it names {jku} for its key; --jwks {jku} reads it from there")),
            // Someone who can change a card can also name keys of their own on another server.
            Some(card) if origin(jku).as_ref() != Some(card) => {
                return Err(format!(
                    "it names {jku} for its key, which is on another server; --jwks {jku} trusts that server"
                ));
            }
            Some(_) => {}
        }
        if !self.read.contains_key(jku) {
            let set = self.fetch(jku).await;
            self.read.insert(jku.clone(), set);
        }
        let set = self.read.get(jku).cloned().unwrap_or_else(|| Ok(JwkSet::default()))?;
        Ok(set.named(&header.kid).into_iter().cloned().collect())
    }

    /// Returns whether a key was read without TLS from another machine.
    fn were_read_without_tls(&self) -> bool {
        let jwks = self.args.jwks.as_ref().filter(|from| is_address(from));
        self.read.keys().chain(jwks).any(|url| url.starts_with("http://") && !is_loopback(url))
    }

    async fn fetch(&self, url: &str) -> Result<JwkSet, String> {
        let settings = self.args.source.connect.settings().map_err(|failure| failure.text().to_owned())?;
        // Credentials are only sent to the server of the card.
        let headers = match &self.found.origin {
            Some(card) if origin(url).as_ref() == Some(card) => settings.headers,
            _ => http::HeaderMap::new(),
        };
        let json = HttpClient::new().get(url, headers, self.args.source.limit()).await.map_err(|e| e.to_string())?;
        JwkSet::from_json(&json).map_err(|error| format!("{url}: {error}"))
    }
}
