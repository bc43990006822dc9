//! Renders the graph in DOT for Graphviz: loops are nested clusters.

use super::{GraphScene, GraphView};

/// Fill colors by loop depth; light enough for black text.
const FILLS: [&str; 4] = ["#eef4ff", "#fff3e0", "#ecf8ee", "#fbeefa"];

/// Renders the view in DOT.
pub fn dot(view: &GraphView) -> String {
    let scene = match GraphScene::new(view) {
        Ok(scene) => scene,
        Err(why) => return format!("digraph workflow {{\n  label={};\n}}\n", quoted(&why)),
    };
    let mut text = String::from(
        "digraph workflow {\n  rankdir=TB;\n  node [shape=box, style=\"rounded,filled\", fillcolor=white];\n",
    );
    write_loop(&scene, None, 1, &mut text);
    for (&(from, to, _), closes) in scene.edges.iter().zip(&scene.closed_loop) {
        // An edge that closes a loop must not push the header below the rest.
        let style = if closes.is_some() { " [constraint=false, style=bold, color=\"#3b6fd4\"]" } else { "" };
        text.push_str(&format!("  n{from} -> n{to}{style};\n"));
    }
    text.push_str("}\n");
    text
}

/// Writes the nodes directly in a loop, then its inner loops.
fn write_loop(scene: &GraphScene<'_>, around: Option<usize>, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for node in (0..scene.names.len()).filter(|&n| scene.innermost[n] == around) {
        let mut label = scene.names[node].clone();
        if let Some(mark) = &scene.marks[node] {
            label = format!("{label}\n{mark}");
        }
        let now = if scene.current == Some(node) { ", penwidth=3" } else { "" };
        text.push_str(&format!("{indent}n{node} [label={}{now}];\n", quoted(&label)));
    }
    for (position, found) in scene.view.loops.iter().enumerate() {
        if found.parent == around {
            let label = quoted(&scene.label_lines(position).join("\n"));
            let fill = FILLS[found.depth % FILLS.len()];
            text.push_str(&format!(
                "{indent}subgraph cluster_{position} {{\n{indent}  label={label}; tooltip={}; style=\"rounded,filled\"; color=\"#7a8fb8\"; fillcolor=\"{fill}\";\n",
                quoted(&found.id)
            ));
            write_loop(scene, Some(position), depth + 1, text);
            text.push_str(&format!("{indent}}}\n"));
        }
    }
}

/// A DOT string with escaped quotes and backslashes and DOT line breaks.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('\n', "\\n"))
}
