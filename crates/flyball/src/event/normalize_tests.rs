//! Tests of normalization: equal and different results, idempotence, and work linear in the length of the text.

use super::{normalize, normalize_into};
use std::cell::Cell;

thread_local! {
    /// Bytes examined by the scanner on this thread.
    pub(super) static BYTES_EXAMINED: Cell<u64> = const { Cell::new(0) };
}

/// Pairs that differ only in volatile parts.
#[rustfmt::skip]
const EQUAL: &[(&str, &str)] = &[
    ("[2026-11-15T12:07:07Z] pid 4091: 0 tests ran in 0.17s (/tmp/run-d86f)", "[2027-01-02T03:04:05Z] pid 7: 0 tests ran in 12.5s (/tmp/run-0)"),
    ("(/tmp/run-1eef)", "(/tmp/run-fade)"),
    ("at 2026-11-15T12:01:07", "at 2026-11-16T23:59:59"),
    ("2026-11-15T12:01:07.123456+01:00 start", "2026-11-15T12:01:08.5+02:00 start"),
    ("2026-11-15 12:01:07,123 INFO up", "2026-11-15 12:01:09,456 INFO up"),
    ("2026-11-15 12:01:07.123 UTC [x]", "2026-10-01 01:02:03.999 UTC [x]"),
    ("2026/11/15 12:01:07 [error] no", "2026/11/16 12:01:08 [error] no"),
    ("log-2026-11-15.txt", "log-2026-11-16.txt"),
    ("run_2026-11-15_12-01-07/", "run_2026-11-16_12-01-09/"),
    ("20261115T120107Z done", "20261116T130507Z done"),
    ("backup-20261115-120107.tar", "backup-20261116-000001.tar"),
    ("Nov 15 12:01:07 host app: up", "Nov  5 01:01:07 host app: up"),
    ("Nov 15 12:01:07 host sshd[4012]: closed", "Dec 16 12:01:08 host sshd[99]: closed"),
    ("Date: Sun, 15 Nov 2026 12:01:07 +0000", "Date: Mon, 16 Nov 2026 02:01:07 +0100"),
    ("Date:   Sun Nov 15 12:01:07 2026 +0100", "Date:   Mon Nov 16 12:01:09 2026 +0100"),
    ("Sun Nov 15 12:01:07 UTC 2026", "Tue Nov 17 12:01:07 UTC 2026"),
    ("Last-Modified: Sun, 15 Nov 2026 12:01:07 GMT", "Last-Modified: Wed, 01 Jan 2025 00:00:00 GMT"),
    (r#"1.2.3.4 - - [15/Nov/2026:12:01:07 +0000] "GET / HTTP/1.1" 200"#, r#"1.2.3.4 - - [16/Nov/2026:00:01:07 +0000] "GET / HTTP/1.1" 200"#),
    ("-rw-r--r-- 1 me me 12 Nov 15 12:01 a.txt", "-rw-r--r-- 1 me me 12 Nov  3  2025 a.txt"),
    ("12:01:07 ready", "23:59:59 ready"),
    ("at 3:04:05 PM", "at 11:04:09 AM"),
    ("due 11/15/2026", "due 11/16/2026"),
    ("timestamp: 1700000000", "timestamp: 1700009999"),
    (r#"{"ts":1700000000123}"#, r#"{"ts":1700009999456}"#),
    ("start_time=1700000000.25", "start_time=1700000009.75"),
    ("[1700000000] boot", "[1700000009] boot"),
    ("[    1.234567] usb 1-1: new", "[  931.234599] usb 1-1: new"),
    ("ok in 0.12s", "ok in 3.4s"),
    ("done 1.5 ms", "done 22 ms"),
    ("done 12ms", "done 7ms"),
    ("done 12µs", "done 7µs"),
    ("took 3m 20s", "took 1m 2s"),
    ("took 1h2m3s", "took 55.1s"),
    ("Finished in 0.03 seconds", "Finished in 1 second"),
    ("took 5 minutes", "took 1 minute 20 seconds"),
    ("took 5m", "took 6m"),
    ("elapsed: 00:01:22", "elapsed: 00:11:22"),
    ("real\t0m0.120s\nuser\t0m0.010s", "real\t1m0.320s\nuser\t0m0.110s"),
    (r#""duration_ms": 12,"#, r#""duration_ms": 9999,"#),
    (r#"<testcase time="0.012">"#, r#"<testcase time="1.5">"#),
    ("===== 3 passed in 9.99s =====", "==== 3 passed in 10.01s ====="),
    ("== 3 passed in 59.99s ==", "== 3 passed in 65.32s (0:01:05) =="),
    ("  0.12s setup", " 10.12s setup"),
    ("1,234 ms", "999 ms"),
    ("PID: 4012 up", "PID: 17 up"),
    ("worker_pid=4012", "worker_pid=99999"),
    ("process 4012 died, thread 12, tid=7", "process 1 died, thread 3, tid=88"),
    ("thread 'main' (4012) panicked at src/a.rs:3:5", "thread 'main' (99) panicked at src/a.rs:3:5"),
    ("goroutine 12 [running]:", "goroutine 7 [running]:"),
    ("==4012== Invalid read", "==993== Invalid read"),
    ("id 6f9619ff-8b86-d011-b42d-00cf4fc964ff", "id 12345678-1234-1234-1234-123456789012"),
    ("id abcdefab-8b86-4011-b42d-00cf4fc964ff", "id 6f9619ff-8b86-d011-b42d-00cf4fc964ff"),
    ("HEAD is now at 3f2a1b9 fix", "HEAD is now at 9bc01de fix"),
    ("commit 1234567", "commit 3f2a1b9"),
    ("index 3f2a1b9..9bc01de 100644", "index 1111aaa..2222bbb 100644"),
    ("v1.2-3-g3f2a1b9", "v1.2-3-g9bc01de"),
    ("sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "sha256:60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752"),
    ("target/debug/deps/app-3f2a1b9c8d7e6f50.d", "target/debug/deps/app-0123456789abcdef.d"),
    ("<Foo object at 0x7ffe12ab34cd>", "<Foo object at 0x7ffe99ab34c0>"),
    ("wrote /tmp/tmpab12cd/out.txt", "wrote /tmp/tmpzz99yy/out.txt"),
    ("wrote /tmp/tmp.XkQzPqAbCd", "wrote /tmp/tmp.aaBBccDDee"),
    ("/var/folders/zz/x1y2z3/T/tmpabc.log", "/var/folders/aa/q9q9q9/T/tmpdef.log"),
    ("/private/var/tmp/a1/b.c:3:5", "/private/var/tmp/a2/b.c:3:5"),
    (r"C:\Users\me\AppData\Local\Temp\ab12\x.txt", r"C:\Users\you\AppData\Local\Temp\zz99\x.txt"),
    (r#""C:\\Users\\me\\AppData\\Local\\Temp\\ab12\\x.txt""#, r#""C:\\Users\\me\\AppData\\Local\\Temp\\cd34\\x.txt""#),
    ("cc -I/tmp/cc12 a.c", "cc -I/tmp/cc99 a.c"),
    ("/tmp/pytest-of-me/pytest-12/test_a0/out.txt", "/tmp/pytest-of-me/pytest-13/test_a0/out.txt"),
    ("base/pytest-of-me/pytest-12/x", "base/pytest-of-me/pytest-13/x"),
    ("http://localhost:43210/x", "http://localhost:51234/x"),
    ("listening on 127.0.0.1:43210", "listening on 127.0.0.1:32768"),
    ("listening on [::1]:43210", "listening on [::1]:60000"),
    ("port 43210 open", "port 60123 open"),
    ("\x1b[31mFAILED\x1b[0m a", "FAILED a"),
    ("12:0\x1b[1m1:07 x", "12:01:\x1b[0m09 x"),
    ("\x1b]0;title\x07done", "done"),
    ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
    ("get 10%\rget 50%\rget 100%\nok", "get 100%\nok"),
    ("a 1\r\x1b[Kb", "b"),
    ("a\r\nb\r\n", "a\nb"),
    ("-\x08\\\x08|\x08done", "done"),
    ("fetch [=====>    ] 45%", "fetch [=========>] 99%"),
    ("████░░ 45% 12/30 [00:01<00:02, 3.4it/s]", "██████ 100% 30/30 [00:09<00:00, 5.4it/s]"),
    ("x: 45%|####   | 12/30 [00:01<00:02, 3.4it/s]", "x: 100%|#######| 30/30 [00:03<00:00, 9.1it/s]"),
    ("12/30 [====>.....] - ETA: 2s", "13/30 [=====>....] - ETA: 1s"),
    ("━━━━━━━━ 12.3/45.0 MB 3.4 MB/s eta 0:00:05", "━━━━━━╸━━ 22.3/45.0 MB 1.4 MB/s eta 0:00:03"),
    ("Downloading foo 12.3 MB/45 MB", "Downloading foo 13 MB/45 MB"),
    ("[download]  45.0% of 12.34MiB at 1.2MiB/s ETA 00:05", "[download]  46.0% of 12.34MiB at 1.4MiB/s ETA 00:04"),
    ("⠋ Loading", "⠙ Loading"),
    ("speed 3.4it/s", "speed 9it/s"),
    ("speed 1.2s/it", "speed 3s/it"),
    ("12 MB/s", "1.5 MB/s"),
    ("a  \nb\t\n", "a\nb"),
    ("a\n\n\n\nb", "a\n\nb"),
    ("\n\na", "a"),
];

/// Pairs that differ in information.
#[rustfmt::skip]
const DIFFERENT: &[(&str, &str)] = &[
    ("FAILED test_3 - assert 3", "FAILED test_4 - assert 4"),
    ("[2026-11-15T12:07:07Z] 0 tests ran in 0.17s", "[2026-11-15T12:07:07Z] 1 tests ran in 0.17s"),
    ("a.py:12:5: error", "a.py:13:5: error"),
    ("a.py:12:30: error", "a.py:12:31: error"),
    ("a.py:12:30:05: error", "a.py:12:30:06: error"),
    ("/tmp/ab12/a.py:12:30: error", "/tmp/ab12/a.py:12:31: error"),
    ("line 12", "line 13"),
    ("line 0\nstill compiling crate number 0", "line 1\nstill compiling crate number 7"),
    ("3 passed, 1 failed", "2 passed, 2 failed"),
    ("3 passed, 1 failed in 0.1s", "3 passed, 2 failed in 0.1s"),
    ("exit code 1", "exit code 2"),
    ("status 2", "status 3"),
    ("exit code: 0xc0000005", "exit code: 0xc0000135"),
    ("error 0x80070005", "error 0x80070002"),
    ("assert 4 == 5", "assert 4 == 6"),
    ("expected 12 got 13", "expected 12 got 14"),
    ("expected 12ms got 13ms", "expected 12ms got 14ms"),
    ("expected 2026-11-15", "expected 2026-11-16"),
    ("assert x == 3f2a1b9c", "assert x == 3f2a1b9d"),
    ("  left: 12ms\n right: 13ms", "  left: 12ms\n right: 14ms"),
    ("timeout 30s", "timeout 60s"),
    ("1.2.3", "1.2.4"),
    ("python3.11", "python3.12"),
    ("v1.2.3-rc1", "v1.2.3-rc2"),
    ("HTTP/1.1 200 OK", "HTTP/1.1 404 OK"),
    ("HTTP 500", "HTTP 502"),
    ("coverage: 87%", "coverage: 88%"),
    ("tests .... [ 45%]", "tests .... [ 55%]"),
    ("1234 bytes", "1235 bytes"),
    ("12 MB", "13 MB"),
    ("#123", "#124"),
    ("order 12345", "order 12346"),
    ("order 1700000000", "order 1700000001"),
    ("lines [40, 60]", "lines [40, 61]"),
    ("items[12]: bad", "items[13]: bad"),
    ("test_3 ok", "test_4 ok"),
    ("score 0.95", "score 0.96"),
    ("loss 1.234567e-05", "loss 1.234568e-05"),
    ("3/8 done", "4/8 done"),
    ("thread 1 of 4", "thread 2 of 4"),
    ("took 5 attempts", "took 6 attempts"),
    ("10.0.0.1", "10.0.0.2"),
    ("localhost:8080", "localhost:8081"),
    ("127.0.0.1:5432", "127.0.0.1:5433"),
    ("port 5432", "port 5433"),
    ("0x10", "0x11"),
    ("deadbeef", "deadbeee"),
    ("a facade", "a cafe"),
    ("1234567", "1234568"),
    ("123456789012", "123456789013"),
    ("at 12:30", "at 12:31"),
    ("a:b:12:34:56:78", "a:b:12:34:56:79"),
    ("5m of cable", "6m of cable"),
    ("3 seeds", "4 seeds"),
    ("3 sets", "4 sets"),
    ("12 hits", "13 hits"),
    ("/srv/me/a1.txt", "/srv/me/a2.txt"),
    ("/srv/me/tmp/a1", "/srv/me/tmp/a2"),
    ("/tmp/x1/out.txt", "/tmp/x1/err.txt"),
    ("/tmp/x1/out.txt", "/tmp/x1/out.log"),
    ("/tmp/report.txt", "/tmp/summary.txt"),
    ("  a", "    a"),
    ("a b", "ab"),
    ("a\nb", "a\n\nb"),
    ("███░ 50% 3 failed", "███░ 50% 4 failed"),
    ("[=====] 3 passed", "[=====] 4 passed"),
    ("- [ ] 3", "- [x] 3"),
    ("■ one 1", "■ one 2"),
    ("make[1]: *** Error 2", "make[2]: *** Error 2"),
    ("Mayor 15 12", "Mayor 16 12"),
    ("March 5", "March 6"),
    ("a[0] = 1", "a[1] = 1"),
    ("x86_64", "i686"),
    ("E0308", "E0309"),
    ("u32::MAX 4294967295", "u32::MAX 4294967294"),
    ("time 12", "time 13"),
    ("é 1", "è 1"),
    ("“a” 1", "“a” 2"),
];

#[test]
fn texts_that_differ_in_volatile_parts_become_equal() {
    for (a, b) in EQUAL {
        assert_eq!(normalize(a), normalize(b), "{a:?} and {b:?}");
    }
    assert!(EQUAL.len() >= 45);
}

#[test]
fn repeated_run_output_normalizes_to_one_text() {
    let run = |k: u32| {
        let (pid, hundredths, name) = (4000 + 13 * k, k + 10, k * 7919);
        normalize(&format!(
            "[2026-11-15T12:{:02}:07Z] pid {pid}: 0 tests ran in 0.{hundredths}s (/tmp/run-{name:x})",
            k % 60
        ))
    };
    for k in 1..2000 {
        assert_eq!(run(k), run(0));
    }
}

#[test]
fn non_ascii_text_is_unchanged() {
    const PIECES: &[&str] =
        &["é", "—", "a ", "“x”", "日本", "x\n", "/ü", "[ß", "1é", "№ 3", "→", "✓ 12", "🙂", "\\ñ", "é7"];
    let mut dice = TextRng(0x0DDB_1A5E_5BAD_5EED);
    for _ in 0..ROUNDS / 10 {
        let text: String = (0..20).map(|_| PIECES[dice.below(PIECES.len())]).collect();
        let text = text.trim().replace(" \n", "\n");
        assert_eq!(normalize(&text), text);
        assert_eq!(normalize(&format!("\x1b[1m{text}\x1b[0m")), text);
    }
}

#[test]
fn texts_that_differ_in_information_stay_different() {
    for (a, b) in DIFFERENT {
        assert_ne!(normalize(a), normalize(b), "{a:?} and {b:?}");
    }
    assert!(DIFFERENT.len() >= 45);
}

#[test]
fn informative_text_is_unchanged() {
    for (a, b) in DIFFERENT {
        for text in [a, b] {
            let volatile = ["/tmp/x", "/tmp/a", "/tmp/r", "/tmp/s", "0.1", "==]", "██"];
            let mixed = volatile.iter().any(|part| text.contains(part));
            assert!(mixed || normalize(text) == *text, "{text:?} became {:?}", normalize(text));
        }
    }
}

#[test]
fn text_structure_is_preserved() {
    #[rustfmt::skip]
    const CASES: &[(&str, &str)] = &[
        ("[2026-11-15T12:07:07Z] pid 4091: 0 tests ran in 0.17s (/tmp/run-d86f)", "[<time>] pid <id>: 0 tests ran in <took> (<tmp>)"),
        ("Nov 15 12:01:07 host sshd[4012]: port 51234", "<time> host sshd[<id>]: port <port>"),
        ("see /tmp/ab12/src/main.rs:3:5.", "see <tmp>/main.rs:3:5."),
        ("see /tmp/ab12.log.", "see <tmp>.log."),
        ("got <Foo at 0x7ffe12ab34cd>, commit 3f2a1b9", "got <Foo at <address>>, commit <hash>"),
        ("x: 45%|##  | 12/30 [00:01<00:02, 3.4it/s]\ndone", "x: <bar>\ndone"),
        ("==== 3 passed in 0.12s =====\n", "=== 3 passed in <took> ==="),
        ("⠋ wait 12 MB/s", "<spin> wait <speed>"),
        ("http://localhost:43210/a", "http://localhost:<port>/a"),
        ("  at \t\n\n\n  b  ", "  at\n\n  b"),
        ("", ""),
        (" \n\t\n", ""),
    ];
    for (text, expected) in CASES {
        assert_eq!(normalize(text), *expected, "{text:?}");
    }
}

#[test]
fn normalize_into_appends_and_keeps_existing_text() {
    let mut out = String::from("= kept \n\n");
    normalize_into("\n= in 5s ====\n\n", &mut out);
    assert_eq!(out, "= kept \n\n= in <took> ===");
}

/// A small random number generator, identical on every machine.
struct TextRng(u64);

impl TextRng {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

fn assert_stable(text: &str) {
    let once = normalize(text);
    assert_eq!(normalize(&once), once, "from {text:?}");
}

#[test]
fn normalizing_twice_changes_nothing() {
    for (a, b) in EQUAL.iter().chain(DIFFERENT) {
        assert_stable(a);
        assert_stable(b);
        assert_stable(&format!("{a}{b}"));
        assert_stable(&format!("{a} {b}\n{b}\t{a}"));
    }
}

#[test]
fn normalizing_random_pieces_twice_changes_nothing() {
    #[rustfmt::skip]
    const PIECES: &[&str] = &[
        " ", " ", " ", "\n", "  ", "\t", ":", ":", "=", "==", "[", "]", "(", ")", "-", ".", "/", ",", "%", "|", "_", "\\", "\"", "#", "<", ">", "T", "Z", "+",
        "0", "1", "5", "12", "07", "2026", "11", "15", "4012", "43210", "1700000000", "0.12", "1.2.3", "127.0.0.1", "3f2a1b9", "0x7ffe12ab", "12345678",
        "s", "ms", "m", "h", "µs", "seconds", "MB", "it/s", "/s", "MB/s", "e", "x", "e5", "a.py", "é", "—",
        "pid", "thread", "port", "time", "ts", "at", "took", "in", "elapsed", "expected", "got", "left", "code", "commit", "eta", "of", "ms_", "duration_",
        "Nov", "Sun", "UTC", "2026-11-15", "12:01:07", "12:01", "/tmp/", "/tmp/a1", "/var/tmp/", "C:\\Users\\", "AppData\\Local\\Temp\\", "tmp", "out.txt",
        "localhost", "::1]", "/pytest-", "==4012==", "[====> ]", "45%", "12/30", "███", "█", "⠋", "━━━━━", "|##  |", "[00:01<00:02, 3.4it/s]", "====", "----",
        "\r", "\x1b[0m", "\x1b[K", "\x1b", "\x08", "\x1b]", "\x07", " (0:01:05)", "g", "T120107", "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "panicked",
    ];
    let mut dice = TextRng(0x9E37_79B9_7F4A_7C15);
    for _ in 0..ROUNDS {
        let text: String = (0..2 + dice.below(12)).map(|_| PIECES[dice.below(PIECES.len())]).collect();
        assert_stable(&text);
    }
}

#[test]
fn normalizing_random_bytes_twice_changes_nothing() {
    const ALPHABET: &[char] = &[
        '0', '1', '2', '9', 'a', 'f', 's', 'm', ' ', ' ', '\n', ':', '-', '.', '/', '[', ']', '%', '=', '\r',
        '\x1b', '█', '⠋', 'µ', 'T',
    ];
    let mut dice = TextRng(0x1234_5678_9ABC_DEF1);
    for _ in 0..ROUNDS {
        let text: String = (0..1 + dice.below(40)).map(|_| ALPHABET[dice.below(ALPHABET.len())]).collect();
        assert_stable(&text);
    }
}

/// Random texts per test.
const ROUNDS: usize = 40_000;

fn bytes_examined(text: &str) -> u64 {
    BYTES_EXAMINED.with(|n| n.set(0));
    normalize(text);
    BYTES_EXAMINED.with(Cell::get)
}

#[test]
fn work_is_linear_for_adversarial_text() {
    #[rustfmt::skip]
    const UNITS: &[&str] = &[
        "1", "a1", "f1", "[", "\r", "\r\r\r", "/tmp/", "/tmp//tmp//tmp", "/tmp/ ", "/", "1.", "1:", "12:", "12:01:", "1-", "1,", "1,234,", "1 ", "1m ", "1m",
        "1m2", "1/", "1% ", "1%|", "1% [", "1% [=== ", "[==", "[== ", "█", "█ ", "██ |", "|███ ", "━", "⠋", "\x1b", "\x1b[", "\x1b]", "\x1b]a", "\x08", "=", "==", "==1",
        "pid ", "pid 1 ", "ms_", "ms_1", "Nov 1 ", "C:\\", "C:\\a\\", "C:\\AppData\\Local\\Temp", "C:/", "\n", " \n", " ", "  \n\n", "1s ", "1s  ", "=1s=\n", "=1s=",
        "localhost:", "2026-", "2026-11-15", "1700000000 ", "(", "[1", "[00:01<", "1/1 [", "6f9619ff-", "éé1", "0x1", "1e", "1.1e", "left: 1s ",
    ];
    // For each byte that may start a bar, a matcher may look ahead at the whole bar and its numbers.
    const MOST_PER_BYTE: u64 = 500;
    for unit in UNITS {
        let short = unit.repeat(20_000 / unit.len());
        let long = unit.repeat(200_000 / unit.len());
        let (few, many) = (bytes_examined(&short), bytes_examined(&long));
        let per_byte = many / long.len() as u64;
        assert!(per_byte <= MOST_PER_BYTE, "{unit:?}: {per_byte} examined per byte");
        assert!(many <= few * 11 + 10_000, "{unit:?}: {few} examined became {many} for ten times the text");
    }
}

#[test]
fn ordinary_text_is_scanned_about_once() {
    let text = "error: cannot find value `total` in this scope, did you mean a local variable with a similar name?\n".repeat(50);
    let per_hundred_bytes = bytes_examined(&text) * 100 / text.len() as u64;
    // One scan for terminal codes and one for stops.
    assert!(per_hundred_bytes <= 220, "{per_hundred_bytes}");
}

#[test]
fn only_timestamps_are_removed_from_a_patch() {
    use super::strip_timestamps;
    let same = [
        // A patch header, a log line, a commit, a generated timestamp, seconds since 1970.
        (
            "--- a/x.rs\t2026-11-15 12:01:07.123 +0100\n+let a = 1;",
            "--- a/x.rs\t2026-11-16 09:15:00.999 +0100\n+let a = 1;",
        ),
        ("+// generated at 2026-11-15T12:01:07Z", "+// generated at 2027-01-02T03:04:05Z"),
        ("Date: Sun Nov 15 12:01:07 2026 +0100", "Date: Mon Nov 16 08:00:00 2026 +0100"),
        ("+ \"updated_at\": 1731666067,", "+ \"updated_at\": 1731669999,"),
        ("+stamp 20261115T120107Z", "+stamp 20261116T010203Z"),
    ];
    for (a, b) in same {
        assert_eq!(strip_timestamps(a), strip_timestamps(b), "{a}");
        assert_ne!(strip_timestamps(a), a, "{a}");
    }
    let changed = [
        ("+port = 49152", "+port = 49153"),
        ("+ listen localhost:49152", "+ listen localhost:49153"),
        ("+due = 2026-11-15", "+due = 2026-11-16"),
        ("+due: 15 Nov 2026", "+due: 16 Nov 2026"),
        ("+ starts: Nov 15, 2026", "+ starts: Nov 16, 2026"),
        ("+opens at 12:30:00", "+opens at 12:45:00"),
        ("+id = 550e8400-e29b-41d4-a716-446655440000", "+id = 550e8400-e29b-41d4-a716-446655440001"),
        ("+commit d86f1c2a", "+commit d86f1c2b"),
        ("+ pid 4091", "+ pid 4092"),
        ("+timeout 30s", "+timeout 45s"),
        ("+path /tmp/run-d86f", "+path /tmp/run-d870"),
        ("+a  b", "+a b"),
        ("+a ", "+a"),
        ("+a\n\n\n+b", "+a\n\n+b"),
        ("+progress 10%", "+progress 20%"),
        ("+addr 0x7ffd12345678", "+addr 0x7ffd12345679"),
        ("index d86f1c2..aabbcc1 100644", "index d86f1c2..aabbcc2 100644"),
    ];
    for (a, b) in changed {
        assert_eq!(strip_timestamps(a), a, "nothing is removed");
        assert_ne!(strip_timestamps(a), strip_timestamps(b), "{a}");
    }
    // On random text, no new characters appear, and text without a timestamp is unchanged.
    let mut seed = 5_u64;
    let alphabet: Vec<char> = "0123456789-:TZ .,+/NovDec\nжé".chars().collect();
    for _ in 0..20_000 {
        let text: String = (0..40)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                alphabet[(seed >> 33) as usize % alphabet.len()]
            })
            .collect();
        let once = strip_timestamps(&text);
        assert_eq!(once.replace("<time>", "").chars().filter(|c| !text.contains(*c)).count(), 0);
        if !once.contains("<time>") {
            assert_eq!(once, text);
        }
    }
}

#[test]
fn markdown_whitespace_is_ignored_outside_fenced_code() {
    use super::normalize_markdown;
    assert_eq!(normalize_markdown("# A  title \n\n\n\ntext   more\t\n"), "# A title\n\ntext more");
    assert_eq!(normalize_markdown("```\na  b\n```"), "```\na  b\n```");
    assert_ne!(normalize_markdown("```\na  b\n```"), normalize_markdown("```\na b\n```"));
    assert_ne!(normalize_markdown("ab"), normalize_markdown("a b"));
    assert_eq!(normalize_markdown("    indented"), normalize_markdown("  indented"));
    assert_eq!(normalize_markdown(""), "");
}
