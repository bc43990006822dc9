//! Formats of the `Retry-After` header.

use super::*;

type TestHeaders<'a> = &'a [(&'a str, &'a str)];

fn check(headers: TestHeaders<'_>) -> Option<u64> {
    let found =
        parse_retry_after(|name| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value));
    found.map(|wait| u64::try_from(wait.as_millis()).unwrap())
}

#[test]
fn seconds_milliseconds_and_dates_are_parsed() {
    let date = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");
    let cases: &[(TestHeaders<'_>, Option<u64>)] = &[
        (&[], None),
        (&[("retry-after", "0")], Some(0)),
        (&[("retry-after", " 7 ")], Some(7_000)),
        (&[("retry-after", "1.2")], Some(2_000)),
        (&[("retry-after-ms", "350"), ("retry-after", "7")], Some(350)),
        (&[("retry-after-ms", "soon"), ("retry-after", "7")], Some(7_000)),
        (&[("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"), date], Some(30_000)),
        (&[("retry-after", "Sunday, 06-Nov-94 08:50:07 GMT"), date], Some(30_000)),
        (&[("retry-after", "Sun Nov  6 08:50:07 1994"), date], Some(30_000)),
        // A past date needs no delay; without a `Date` header our clock is used.
        (&[("retry-after", "Sun, 06 Nov 1994 08:49:00 GMT"), date], Some(0)),
        (&[("retry-after", "Sun, 06 Nov 1994 08:49:00 GMT")], Some(0)),
        (&[("retry-after", "in a while")], None),
        (&[("retry-after", "-5")], None),
        (&[("retry-after", ".5")], None),
    ];
    for (headers, expected) in cases {
        assert_eq!(check(headers), *expected, "{headers:?}");
    }
}

#[test]
fn http_date_without_date_header_uses_the_local_clock() {
    let wait = check(&[("retry-after", "Fri, 01 Jan 2100 00:00:00 GMT")]).unwrap();
    assert!(wait > 365 * 24 * 3_600_000, "{wait}");
}
