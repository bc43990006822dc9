//! Accepted upstream URLs, and how paths are joined to them.

use super::Upstream;

#[test]
fn request_path_is_appended_to_the_upstream_url() {
    let cases = [
        ("http://host", "/v1/messages?a=b", "/v1/messages?a=b"),
        ("http://host/", "/v1/messages", "/v1/messages"),
        ("http://host/v1", "/v1/messages", "/v1/messages"),
        ("http://host/v1", "/messages", "/v1/messages"),
        ("http://host/api/v1/", "/v1/chat/completions", "/api/v1/chat/completions"),
        ("http://host/v1", "/v1beta/models", "/v1/v1beta/models"),
        ("http://host/openai", "/v1/models", "/openai/v1/models"),
    ];
    for (url, path, want) in cases {
        let upstream = Upstream::new(url).expect(url);
        assert_eq!(upstream.path(path), want, "{url} {path}");
    }
}

#[test]
fn unusable_upstream_url_is_rejected() {
    for url in ["api.openai.com", "ftp://host", "http://", "http://host?key=1", "https://user:secret@host"] {
        let Err(error) = Upstream::new(url) else { panic!("{url} was accepted") };
        assert_eq!(error.code, "bad_upstream");
    }
    let Err(error) = Upstream::new("https://user:secret@host") else { panic!("the URL was accepted") };
    assert!(!error.message.contains("secret"), "{}", error.message);
}
