//! Media types (RFC 9110, section 8.3): what a message declares, and whether a text is one at all.
//!
//! What arrives on the wire is compared by its essence, the part before the parameters, without allocating: a recipient
//! has no use for refusing a request whose parameters are malformed. What a card or a configuration declares is parsed.

use mime::Mime;

/// The essence of a `Content-Type` or of one member of an `Accept` list: type and subtype as they were written, without
/// parameters.
pub fn essence(media_type: &str) -> &str {
    media_type.split(';').next().unwrap_or_default().trim()
}

/// Whether the essence of a media type is this one, in any case.
pub fn is(media_type: &str, expected: &str) -> bool {
    essence(media_type).eq_ignore_ascii_case(expected)
}

/// The essence in lower case, as it is compared and shown.
pub fn normalize(media_type: &str) -> String {
    essence(media_type).to_ascii_lowercase()
}

/// Parses the essence of a media type or media range and returns it in lower case; `None` if it is neither.
pub fn parse(media_type: &str) -> Option<String> {
    let parsed: Mime = essence(media_type).parse().ok()?;
    // The parser takes `text/` for a media type.
    (!parsed.subtype().as_str().is_empty()).then(|| parsed.essence_str().to_owned())
}

/// Whether a media range (`text/plain`, `text/*` or `*/*`, in lower case) includes a media type, also in lower case.
pub fn includes(range: &str, media_type: &str) -> bool {
    match range.split_once('/') {
        Some(("*", "*")) => true,
        Some((kind, "*")) => media_type.split('/').next() == Some(kind),
        _ => range == media_type,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_case_do_not_count() {
        for text in ["application/json", " Application/JSON ; charset=utf-8", "application/json;", "application/json;x"]
        {
            assert!(is(text, "application/json"), "{text}");
            assert_eq!(normalize(text), "application/json");
        }
        assert!(!is("application/json5", "application/json") && !is("", "application/json"));
    }

    #[test]
    fn only_media_types_and_ranges_parse() {
        for (text, expected) in [
            ("text/plain", "text/plain"),
            ("Text/Plain; charset=utf-8", "text/plain"),
            ("application/a2a+json", "application/a2a+json"),
            ("application/vnd.ms-excel.sheet.macroEnabled.12", "application/vnd.ms-excel.sheet.macroenabled.12"),
            ("text/*", "text/*"),
            ("*/*", "*/*"),
        ] {
            assert_eq!(parse(text).as_deref(), Some(expected), "{text}");
        }
        for text in ["", "text", "text/", "/plain", "text plain", "te xt/plain", "text/pl/ain", "\u{fc}/x"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn ranges_include_what_they_name() {
        assert!(
            includes("*/*", "text/plain") && includes("text/*", "text/plain") && includes("text/plain", "text/plain")
        );
        assert!(!includes("text/*", "image/png") && !includes("text/plain", "text/html"));
    }
}
