//! Which URLs are taken, and where a path leads behind them.

use super::Upstream;

#[test]
fn a_path_is_put_behind_the_url() {
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
fn a_url_that_cannot_be_used_is_refused_with_what_to_write() {
    for url in ["api.openai.com", "ftp://host", "http://", "http://host?key=1", "https://user:secret@host"] {
        let Err(trouble) = Upstream::new(url) else { panic!("{url} was taken") };
        assert_eq!(trouble.code, "bad_upstream");
    }
    let Err(trouble) = Upstream::new("https://user:secret@host") else { panic!("it was taken") };
    assert!(!trouble.what.contains("secret"), "{}", trouble.what);
}
