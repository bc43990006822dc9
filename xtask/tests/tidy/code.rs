//! A minimal Rust scanner that tells code from text: blanks comments and literals, and counts braces.

/// The part of a file before its tests.
pub(crate) fn without_tests(text: &str) -> &str {
    text.find("#[cfg(test)]").and_then(|at| text.get(..at)).unwrap_or(text)
}

/// The text with comments and the contents of literals blanked; line numbers stay the same.
pub(crate) fn blank_literals(text: &str) -> String {
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

/// The comments and the contents of literals, each with its first line. Comments on successive lines are one text.
pub(crate) fn prose(text: &str) -> Vec<(usize, String)> {
    let source: Vec<char> = text.chars().collect();
    let mut texts: Vec<(usize, String)> = Vec::new();
    let (mut at, mut line, mut after_comment) = (0, 1, false);
    while at < source.len() {
        let end = literal_end(&source, at).max(at + 1);
        let piece: String = source[at..end].iter().collect();
        let lines = piece.matches('\n').count();
        if let Some(comment) = piece.strip_prefix("//") {
            let comment = comment.trim_start_matches(['/', '!']);
            match texts.last_mut() {
                Some((_, before)) if after_comment => before.push_str(&format!("\n{comment}")),
                _ => texts.push((line, comment.to_owned())),
            }
            after_comment = true;
        } else if end > at + 1 {
            texts.push((line, piece.replace("\\n", "\n").replace(['"', '\\'], " ")));
            after_comment = false;
        } else if !piece.trim().is_empty() {
            after_comment = false;
        }
        line += lines;
        at = end;
    }
    texts
}

/// The end of the comment or literal that starts at `at`; `at` itself if none starts there.
fn literal_end(source: &[char], at: usize) -> usize {
    let rest = &source[at..];
    let in_word = at > 0 && (source[at - 1].is_alphanumeric() || source[at - 1] == '_');
    match rest {
        ['/', '/', ..] => at + rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => at + find_end(rest, &['*', '/'], 2),
        ['"', ..] => at + quoted_end(rest, '"'),
        ['r', '"' | '#', ..] if !in_word => at + raw_string_end(rest, 1),
        ['b', 'r', '"' | '#', ..] if !in_word => at + raw_string_end(rest, 2),
        ['\'', '\\', ..] => at + quoted_end(rest, '\''),
        ['\'', _, '\'', ..] => at + 3,
        _ => at,
    }
}

fn quoted_end(rest: &[char], mark: char) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != mark {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

fn raw_string_end(rest: &[char], start: usize) -> usize {
    let hashes = rest[start..].iter().take_while(|&&c| c == '#').count();
    if rest.get(start + hashes) != Some(&'"') {
        return 0;
    }
    let mut end = vec!['"'];
    end.extend(std::iter::repeat_n('#', hashes));
    find_end(rest, &end, start + hashes + 1)
}

/// The position after the first `wanted` at or after `from`.
fn find_end(rest: &[char], wanted: &[char], from: usize) -> usize {
    let found = (from..rest.len()).find(|&at| rest[at..].starts_with(wanted));
    found.map_or(rest.len(), |at| at + wanted.len())
}

/// Name, first line and length in lines of each function with a body, in blanked code.
pub(crate) fn function_lengths(code: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = code.lines().collect();
    let starts = lines.iter().enumerate().filter_map(|(at, line)| function_name(line).map(|name| (at, name)));
    starts.filter_map(|(at, name)| body_length(&lines[at..]).map(|length| (name, at + 1, length))).collect()
}

/// The name of the function declared on a line.
fn function_name(line: &str) -> Option<String> {
    let (before, after) = line.split_once("fn ")?;
    let qualifiers = ["pub", "pub(crate)", "pub(super)", "const", "async", "unsafe", "extern"];
    if !before.split_whitespace().all(|word| qualifiers.contains(&word)) {
        return None;
    }
    let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// Number of lines up to the brace that closes the first one; `None` if the declaration ends before it.
fn body_length(lines: &[&str]) -> Option<usize> {
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
fn function_length_ignores_literals_and_comments() {
    let code = "fn a() {\n    let s = \"}\"; // }\n    let c = '}';\n    let r = r#\"}\"#;\n}\npub(crate) fn b();\n\
                /* fn x() { */ pub const fn d<'a>(t: &'a str) -> &'a str { t }\n";
    let found = function_lengths(&blank_literals(code));
    assert_eq!(found, [("a".to_owned(), 1, 5), ("d".to_owned(), 7, 1)]);
}
