//! Proxy selection from the environment.

use super::*;

type TestEnv<'a> = &'a [(&'a str, &'a str)];

fn check(url: &str, env: TestEnv<'_>) -> Result<Option<String>, String> {
    let look =
        |name: &str| env.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    Ok(proxy_for(url, &look)?.map(|proxy| proxy.uri().to_string()))
}

#[test]
fn proxy_variables_are_honored_and_localhost_is_excluded() {
    let all =
        [("HTTPS_PROXY", "http://p:1"), ("http_proxy", "http://p:2"), ("NO_PROXY", "a.example, .b.example")];
    let cases: &[(&str, TestEnv<'_>, Option<&str>)] = &[
        ("https://x.example/v1", &[], None),
        ("https://x.example/v1", &all, Some("http://p:1/")),
        ("http://x.example/v1", &all, Some("http://p:2/")),
        ("https://a.example/v1", &all, None),
        ("https://c.b.example/v1", &all, None),
        ("https://notb.example/v1", &all, Some("http://p:1/")),
        ("http://127.0.0.1:80/v1", &all, None),
        ("http://localhost:80/v1", &all, None),
        ("http://[::1]:80/v1", &all, None),
        ("https://x.example/v1", &[("ALL_PROXY", "http://p:3")], Some("http://p:3/")),
        ("https://x.example/v1", &[("ALL_PROXY", "http://p:3"), ("no_proxy", "*")], None),
        ("https://x.example/v1", &[("HTTPS_PROXY", "")], None),
    ];
    for (url, env, expected) in cases {
        assert_eq!(check(url, env).unwrap().as_deref(), *expected, "{url} {env:?}");
    }
    assert!(
        check("https://x.example/", &[("HTTPS_PROXY", "ht!tp://user:pass@p")])
            .is_err_and(|e| !e.contains("pass"))
    );
    assert!(check("https://", &[]).is_err());
}
