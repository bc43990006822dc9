//! Canonical form of a request path, as any provider may resolve it.

/// Maximum number of percent-encoding rounds.
const MAX_ENCODINGS: usize = 4;

/// The decoded, lowercase path segments without empty, `.` and `..` segments and without parameters (`;x`). Servers
/// differ in which of these they resolve; a request is guarded if any interpretation is a model call. `None` if the
/// path is encoded too many times or contains control characters.
pub(super) fn canonical_segments(path: &str) -> Option<Vec<String>> {
    let mut bytes = path.as_bytes().to_vec();
    let mut rounds = 0;
    while let Some(decoded) = percent_decoded(&bytes) {
        bytes = decoded;
        rounds += 1;
        if rounds > MAX_ENCODINGS {
            return None;
        }
    }
    let text = String::from_utf8_lossy(&bytes).to_lowercase();
    if text.chars().any(char::is_control) {
        return None;
    }
    let mut segments: Vec<String> = Vec::new();
    for segment in text.split(['/', '\\']) {
        let segment = segment.split(';').next().unwrap_or_default().trim();
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment.to_owned()),
        }
    }
    Some(segments)
}

/// The bytes after one round of percent-decoding; `None` if nothing is encoded.
fn percent_decoded(bytes: &[u8]) -> Option<Vec<u8>> {
    let digit =
        |byte: Option<&u8>| char::from(*byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut changed = false;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                decoded.push(high * 16 + low);
                changed = true;
                at += 3;
            }
            _ => {
                decoded.push(*byte);
                at += 1;
            }
        }
    }
    changed.then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::canonical_segments;

    #[test]
    fn spellings_of_one_path_have_the_same_segments() {
        for path in [
            "/v1/messages",
            "/v1/messages/",
            "//v1//messages",
            "/v1/./messages",
            "/v1/x/../messages",
            "/v1/%6dessages",
            "/v1%2fmessages",
            "/v1/%256dessages",
            "/V1/Messages",
            "/v1/messages;a=b",
            "\\v1\\messages",
            "/../v1/messages",
            "/v1/messages%2f",
        ] {
            assert_eq!(
                canonical_segments(path).as_deref(),
                Some(&["v1".to_owned(), "messages".to_owned()][..]),
                "{path}"
            );
        }
    }

    #[test]
    fn ambiguous_paths_are_rejected() {
        assert_eq!(canonical_segments("/v1/messages%00"), None);
        assert_eq!(canonical_segments("/v1/%25252525256dessages"), None);
        assert!(canonical_segments("/100%").is_some());
    }
}
