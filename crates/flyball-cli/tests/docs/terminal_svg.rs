//! Draws terminal output as an SVG: one text row per line, colors from escape sequences, lines that appear one after
//! the other. Times are fixed, so the same output gives the same bytes.

use std::fmt::Write;

/// A command and its output, including escape sequences.
pub(crate) struct TerminalStep<'a> {
    pub(crate) command: &'a str,
    pub(crate) output: &'a str,
}

/// Tenths of a pixel.
const CHAR_WIDTH: usize = 84;
const LINE_HEIGHT: usize = 20;
const MARGIN: usize = 18;
const TITLE_BAR: usize = 34;
/// Milliseconds before a command appears, and before each line of its output.
const COMMAND_PAUSE: u32 = 900;
const LINE_PAUSE: u32 = 220;

const STYLE: &str = "\
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#d7dde5;white-space:pre}\
.p{fill:#7ee0a3}.c{fill:#fff;font-weight:600}.bold{font-weight:700}.dim{fill:#8b98a8}.red{fill:#ff7b72}\
.yellow{fill:#f2cc60}.green{fill:#7ee0a3}.t{fill:#8b98a8;font-size:13px}\
g.l{animation:show .01s linear both}@keyframes show{from{opacity:0}to{opacity:1}}\
@media (prefers-reduced-motion:reduce){g.l{animation:none}}";

/// Draws the steps in a terminal with `columns` columns. Longer lines are wrapped.
pub(crate) fn render(title: &str, steps: &[TerminalStep<'_>], columns: usize) -> String {
    let mut rows: Vec<(u32, String)> = Vec::new();
    let mut time = 300;
    for (number, step) in steps.iter().enumerate() {
        if number > 0 {
            rows.push((time, String::new()));
        }
        for line in step.command.lines() {
            rows.push((
                time,
                format!("<tspan class=\"p\">$</tspan> <tspan class=\"c\">{}</tspan>", escape(line)),
            ));
        }
        time += COMMAND_PAUSE;
        for line in step.output.trim_end().lines() {
            for part in wrap(&spans(line), columns) {
                time += LINE_PAUSE;
                rows.push((time, part));
            }
        }
        time += COMMAND_PAUSE;
    }
    let width = columns * CHAR_WIDTH / 10 + 2 * MARGIN;
    let height = TITLE_BAR + rows.len() * LINE_HEIGHT + MARGIN;
    let title = escape(title);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{title}\">\n<style>{STYLE}</style>\n\
         <rect x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"10\" fill=\"#0d1117\" stroke=\"#3d4653\"/>\n\
         <circle cx=\"22\" cy=\"18\" r=\"6\" fill=\"#ff5f57\"/><circle cx=\"42\" cy=\"18\" r=\"6\" fill=\"#febc2e\"/>\
         <circle cx=\"62\" cy=\"18\" r=\"6\" fill=\"#28c840\"/>\n\
         <text class=\"t\" x=\"{}\" y=\"22\" text-anchor=\"middle\">{title}</text>\n",
        width - 1,
        height - 1,
        width / 2
    );
    for (number, (time, row)) in rows.iter().enumerate().filter(|(_, (_, row))| !row.is_empty()) {
        let y = TITLE_BAR + (number + 1) * LINE_HEIGHT;
        writeln!(
            svg,
            "<g class=\"l\" style=\"animation-delay:{time}ms\"><text x=\"{MARGIN}\" y=\"{y}\" xml:space=\"preserve\">{row}</text></g>"
        )
        .unwrap();
    }
    svg.push_str("</svg>\n");
    svg
}

/// Characters with their style classes.
fn spans(line: &str) -> Vec<(String, char)> {
    let mut found = Vec::new();
    let mut classes: Vec<&str> = Vec::new();
    let mut chars = line.chars().filter(|c| *c != '\r');
    while let Some(c) = chars.next() {
        if c != '\x1b' {
            found.push((classes.join(" "), c));
            continue;
        }
        assert_eq!(chars.next(), Some('['), "only control sequences are supported: {line:?}");
        let sequence: String = chars.by_ref().take_while(|c| *c != 'm').collect();
        for code in sequence.split(';') {
            match code {
                "" | "0" => classes.clear(),
                "1" => classes.push("bold"),
                "2" => classes.push("dim"),
                "31" => classes.push("red"),
                "32" => classes.push("green"),
                "33" => classes.push("yellow"),
                other => panic!("color {other} is not supported: {line:?}"),
            }
        }
    }
    found
}

/// Splits a line into rows of at most `columns` characters, as SVG text.
fn wrap(line: &[(String, char)], columns: usize) -> Vec<String> {
    if line.is_empty() {
        return vec![String::new()];
    }
    line.chunks(columns).map(draw).collect()
}

fn draw(line: &[(String, char)]) -> String {
    let mut row = String::new();
    for run in line.chunk_by(|a, b| a.0 == b.0) {
        let text = escape(&run.iter().map(|(_, c)| *c).collect::<String>());
        match run[0].0.as_str() {
            "" => row.push_str(&text),
            classes => write!(row, "<tspan class=\"{classes}\">{text}</tspan>").unwrap(),
        }
    }
    row
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[test]
fn colors_and_special_characters_are_drawn() {
    let steps =
        [TerminalStep { command: "run <x>", output: "\x1b[1m\x1b[31mstopped\x1b[0m & done\r\n\nabcdef\n" }];
    let svg = render("A title", &steps, 16);
    let drawn = roxmltree::Document::parse(&svg).expect("well-formed XML");
    let texts: Vec<String> = drawn
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .map(|node| {
            node.descendants().filter(roxmltree::Node::is_text).filter_map(|node| node.text()).collect()
        })
        .collect();
    assert_eq!(texts, ["A title", "$ run <x>", "stopped & done", "abcdef"]);
    assert!(svg.contains("<tspan class=\"bold red\">stopped</tspan>"), "{svg}");
}
