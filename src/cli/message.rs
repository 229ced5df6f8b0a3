//! Builds a message from arguments: words, files and JSON.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use crate::clock::new_id;
use tricord_bindings::{proto_json, wkt};

use super::exit::Failure;
use crate::schema::part::Content;
use crate::schema::{Message, Part, Role, SendMessageConfiguration, SendMessageRequest};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Message")]
pub(super) struct MessageArgs {
    /// The text of the message; `-` reads standard input, which is also read if nothing else is given
    #[arg(value_name = "MESSAGE")]
    words: Vec<String>,

    /// A file to attach, as PATH or 'PATH;type=MEDIA/TYPE'; repeatable
    #[arg(short, long = "file", value_name = "PATH")]
    files: Vec<String>,

    /// JSON to attach, or @PATH of a JSON file; repeatable
    #[arg(short, long = "data", value_name = "JSON")]
    data: Vec<String>,

    /// The id of the task to continue
    #[arg(short, long, value_name = "ID")]
    pub(super) task: Option<String>,

    /// The id of the context that the message belongs to
    #[arg(short, long, value_name = "ID")]
    context: Option<String>,

    /// The id of the message [default: a new UUID]
    #[arg(long, value_name = "ID")]
    message_id: Option<String>,

    /// A key that makes the call safe to repeat: a repeated call returns the task of the first one
    #[arg(long, value_name = "KEY")]
    pub(super) idempotency_key: Option<String>,

    /// A media type that is accepted in the answer; repeatable
    #[arg(long = "accept", value_name = "MEDIA/TYPE")]
    accept: Vec<String>,

    /// How many of the newest messages the answer contains [default: all]
    #[arg(long, value_name = "N")]
    history_length: Option<i32>,
}

impl MessageArgs {
    /// Builds the request.
    pub(super) fn request(&self, return_immediately: bool) -> Result<SendMessageRequest, Failure> {
        let message = Message {
            message_id: self.message_id.clone().unwrap_or_else(|| new_id().to_string()),
            context_id: self.context.clone().unwrap_or_default(),
            task_id: self.task.clone().unwrap_or_default(),
            role: Role::User.into(),
            parts: self.parts()?,
            ..Message::default()
        };
        let configuration = SendMessageConfiguration {
            accepted_output_modes: self.accept.clone(),
            history_length: self.history_length,
            return_immediately,
            ..SendMessageConfiguration::default()
        };
        Ok(SendMessageRequest {
            message: Some(message),
            configuration: Some(configuration),
            ..SendMessageRequest::default()
        })
    }

    fn parts(&self) -> Result<Vec<Part>, Failure> {
        let mut parts = Vec::new();
        let alone = self.files.is_empty() && self.data.is_empty();
        let text = match self.words.as_slice() {
            [dash] if dash == "-" => Some(stdin()?),
            [] if !alone => None,
            [] if std::io::stdin().is_terminal() => {
                return Err(Failure::usage("nothing to send: give a message, --file or --data"));
            }
            [] => Some(stdin()?),
            words => Some(words.join(" ")),
        };
        if let Some(text) = text {
            if text.is_empty() && alone {
                return Err(Failure::usage("nothing to send: the message is empty"));
            }
            parts.push(Part { content: Some(Content::Text(text)), ..Part::default() });
        }
        for file in &self.files {
            parts.push(file_part(file)?);
        }
        for data in &self.data {
            parts.push(data_part(data)?);
        }
        Ok(parts)
    }
}

/// Reads all of standard input, without the newline at its end.
fn stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().read_to_string(&mut text);
    read.map_err(|error| Failure::usage(format!("cannot read standard input as text: {error}")))?;
    if text.ends_with('\n') {
        text.truncate(text.trim_end_matches(['\n', '\r']).len());
    }
    Ok(text)
}

fn file_part(argument: &str) -> Result<Part, Failure> {
    let (path, given) = match argument.split_once(";type=") {
        Some((path, media_type)) => (PathBuf::from(path), Some(media_type.to_owned())),
        None => (PathBuf::from(argument), None),
    };
    let bytes =
        std::fs::read(&path).map_err(|error| Failure::usage(format!("cannot read {}: {error}", path.display())))?;
    Ok(Part {
        content: Some(Content::Raw(bytes.into())),
        filename: path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
        media_type: given.unwrap_or_else(|| media_type(&path).to_owned()),
        ..Part::default()
    })
}

fn data_part(argument: &str) -> Result<Part, Failure> {
    let json = match argument.strip_prefix('@') {
        Some(path) => std::fs::read(path).map_err(|error| Failure::usage(format!("cannot read {path}: {error}")))?,
        None => argument.as_bytes().to_owned(),
    };
    let value: wkt::Value =
        proto_json::decode(&json).map_err(|error| Failure::usage(format!("--data {argument:?}: {error}")))?;
    Ok(Part { content: Some(Content::Data(value)), ..Part::default() })
}

/// Guesses a media type from the extension of a file.
fn media_type(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "txt" | "log" => "text/plain",
        "md" => "text/markdown",
        "csv" => "text/csv",
        "htm" | "html" => "text/html",
        "xml" => "application/xml",
        "json" => "application/json",
        "yaml" | "yml" => "application/yaml",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "svg" => "image/svg+xml",
        "webp" => "image/webp",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "mp4" => "video/mp4",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_type_is_given_or_guessed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.JSON");
        std::fs::write(&path, "{}").unwrap();
        let part = file_part(path.to_str().unwrap()).unwrap();
        assert_eq!((part.filename.as_str(), part.media_type.as_str()), ("a.JSON", "application/json"));
        let part = file_part(&format!("{};type=text/x", path.display())).unwrap();
        assert_eq!(part.media_type, "text/x");
        assert!(file_part("/does/not/exist").is_err());
    }

    #[test]
    fn data_is_json_or_a_file_of_it() {
        assert!(data_part("{\"a\": [1, null]}").is_ok());
        assert!(data_part("{a: 1}").is_err());
        assert!(data_part("@/does/not/exist").is_err());
    }
}
