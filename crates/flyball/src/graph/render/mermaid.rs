//! Renders the graph in Mermaid, for Markdown pages: loops are nested subgraphs.

use super::{GraphScene, GraphView};

/// Renders the view in Mermaid.
pub fn mermaid(view: &GraphView) -> String {
    let mut text = String::from("flowchart TD\n");
    let scene = match GraphScene::new(view) {
        Ok(scene) => scene,
        Err(why) => return format!("{text}  n0[{}]\n", quoted(&why)),
    };
    write_loop(&scene, None, 1, &mut text);
    for (&(from, to, _), closes) in scene.edges.iter().zip(&scene.closed_loop) {
        let arrow = if closes.is_some() { "-.->" } else { "-->" };
        text.push_str(&format!("  n{from} {arrow} n{to}\n"));
    }
    if let Some(node) = scene.current {
        text.push_str(&format!("  style n{node} stroke-width:3px\n"));
    }
    text
}

/// Writes the nodes directly in a loop, then its inner loops.
fn write_loop(scene: &GraphScene<'_>, around: Option<usize>, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for node in (0..scene.names.len()).filter(|&n| scene.innermost[n] == around) {
        let mut label = quoted(&scene.names[node]);
        if let Some(mark) = &scene.marks[node] {
            label = format!("\"{}<br/>{}\"", escaped(&scene.names[node]), escaped(mark));
        }
        text.push_str(&format!("{indent}n{node}[{label}]\n"));
    }
    for (position, found) in scene.view.loops.iter().enumerate() {
        if found.parent == around {
            let label = quoted(&scene.label_lines(position).join(" · "));
            text.push_str(&format!("{indent}subgraph l{position} [{label}]\n"));
            write_loop(scene, Some(position), depth + 1, text);
            text.push_str(&format!("{indent}end\n"));
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// Escapes every character that Mermaid or the surrounding page could interpret.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_alphanumeric() || matches!(c, ' ' | '.' | ',' | '-' | '/' | '_' | ':' | '→' | '·' | '…')
        {
            out.push(c);
        } else {
            out.push_str(&format!("#{};", u32::from(c)));
        }
    }
    out
}
