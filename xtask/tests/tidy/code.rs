//! Just enough of Rust's grammar to tell code from text: comments and literals are blanked, braces are counted.

/// The part of a file before its tests.
pub(crate) fn outside_tests(text: &str) -> &str {
    text.find("#[cfg(test)]").and_then(|at| text.get(..at)).unwrap_or(text)
}

/// The text with comments and the insides of literals replaced by blanks; lines stay where they are.
pub(crate) fn blanked(text: &str) -> String {
    let source: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < source.len() {
        let end = literal_end(&source, at);
        if end == at {
            out.push(source[at]);
            at += 1;
            continue;
        }
        out.extend(source[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    out
}

/// Where the comment or literal that starts at `at` ends; `at` itself if none starts there.
fn literal_end(source: &[char], at: usize) -> usize {
    let rest = &source[at..];
    let in_word = at > 0 && (source[at - 1].is_alphanumeric() || source[at - 1] == '_');
    match rest {
        ['/', '/', ..] => at + rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => at + find(rest, &['*', '/'], 2),
        ['"', ..] => at + quoted(rest, '"'),
        ['r', '"' | '#', ..] if !in_word => at + raw(rest, 1),
        ['b', 'r', '"' | '#', ..] if !in_word => at + raw(rest, 2),
        ['\'', '\\', ..] => at + quoted(rest, '\''),
        ['\'', _, '\'', ..] => at + 3,
        _ => at,
    }
}

fn quoted(rest: &[char], mark: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != mark {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

fn raw(rest: &[char], start: usize) -> usize {
    let hashes = rest[start..].iter().take_while(|&&c| c == '#').count();
    if rest.get(start + hashes) != Some(&'"') {
        return 0;
    }
    let mut end = vec!['"'];
    end.extend(std::iter::repeat_n('#', hashes));
    find(rest, &end, start + hashes + 1)
}

/// Just behind the first `wanted` at or after `from`.
fn find(rest: &[char], wanted: &[char], from: usize) -> usize {
    let found = (from..rest.len()).find(|&at| rest[at..].starts_with(wanted));
    found.map_or(rest.len(), |at| at + wanted.len())
}

/// Name, first line and number of lines of each function with a body, in blanked code.
pub(crate) fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let starts = lines.iter().enumerate().filter_map(|(at, line)| name_of(line).map(|name| (at, name)));
    starts.filter_map(|(at, name)| body(&lines[at..]).map(|length| (name, at + 1, length))).collect()
}

/// The name of the function that a line declares.
fn name_of(line: &str) -> Option<String> {
    let (before, after) = line.split_once("fn ")?;
    let qualifiers = ["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe", "extern"];
    if !before.split_whitespace().all(|word| qualifiers.contains(&word)) {
        return None;
    }
    let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// How many lines there are to the brace that closes the first one; none if the declaration ends before.
fn body(lines: &[&str]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, line) in lines.iter().enumerate() {
        for c in line.chars() {
            match c {
                ';' if depth == 0 => return None,
                '{' => depth += 1,
                '}' => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
    }
    None
}

#[test]
fn functions_are_measured_through_texts_and_comments() {
    let code = "fn a() {\n    let s = \"}\"; // }\n    let c = '}';\n    let r = r#\"}\"#;\n}\npub(crate) fn b();\n\
                /* fn x() { */ pub const fn d<'a>(t: &'a str) -> &'a str { t }\n";
    let found = functions(&blanked(code));
    assert_eq!(found, [("a".to_owned(), 1, 5), ("d".to_owned(), 7, 1)]);
}
