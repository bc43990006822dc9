//! Renders the graph as SVG: one file without scripts or embedded fonts, readable on light and dark pages.

use super::routes::{EdgeRoute, GraphDrawing, Rect, layout_drawing};
use super::{GraphScene, GraphView};

/// Corner radius of a back edge.
const CORNER: i64 = 9;
/// Margin around the drawing.
const MARGIN: i64 = 8;
/// Number of loop colors; nested loops take the next one.
const COLOR_COUNT: usize = 5;
/// Maximum length of a name in a tooltip, in characters.
const MAX_TOOLTIP_CHARS: usize = 400;

const STYLE: &str = "\
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1c2430}\
.page{fill:#fff}.node{fill:#fff;stroke:#66718a;stroke-width:1.4}.now{stroke:#d4600a;stroke-width:3}\
.mark{font-size:11.5px;fill:#5a6478}.line{fill:none;stroke:#66718a;stroke-width:1.5}.tip{fill:#66718a;stroke:none}\
.group{fill-opacity:.07;stroke-width:1.4;stroke-opacity:.6}.badge{font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:3px}\
.halt{fill:#c21f2f}.trend{font-weight:400}\
.c0{--c:#2f6fdb}.c1{--c:#b45f06}.c2{--c:#1e8a4c}.c3{--c:#8f3fb5}.c4{--c:#0b8494}\
.group{fill:var(--c);stroke:var(--c)}.badge{fill:var(--c)}.badge .halt{fill:#c21f2f}\
.back{stroke:var(--c)}.back-tip{fill:var(--c)}\
@media(prefers-color-scheme:dark){text{fill:#e6ebf4}.page{fill:#10151d}.node{fill:#1a212c;stroke:#8d99b0}\
.now{stroke:#ff9a4a}.mark{fill:#a5b0c4}.line{stroke:#8d99b0}.tip{fill:#8d99b0}.badge{stroke:#10151d}\
.c0{--c:#7fb0ff}.c1{--c:#f0a95a}.c2{--c:#6fd39a}.c3{--c:#d59bf0}.c4{--c:#5fcfdd}.group{fill-opacity:.1}\
.badge{fill:var(--c)}.back{stroke:var(--c)}.back-tip{fill:var(--c)}.badge .halt{fill:#ff8088}}";

/// Renders the view as SVG.
pub fn svg(view: &GraphView) -> String {
    let scene = match GraphScene::new(view) {
        Ok(scene) => scene,
        Err(why) => return message_svg(&why),
    };
    if scene.names.is_empty() {
        return message_svg("no nodes");
    }
    let page = layout_drawing(&scene);
    let mut out = open_svg(page.width + 2 * MARGIN, page.height + 2 * MARGIN);
    out.push_str(&format!("<g transform=\"translate({MARGIN} {MARGIN})\">\n"));
    for (position, rect) in page.loops.iter().enumerate() {
        draw_loop(&scene, position, *rect, &mut out);
    }
    draw_routes(&scene, &page, &mut out);
    for (node, rect) in page.nodes.iter().enumerate() {
        draw_node(&scene, node, *rect, &mut out);
    }
    // Badges last, so that no line runs over them.
    for (position, rect) in page.loops.iter().enumerate() {
        draw_badge(&scene, position, *rect, &mut out);
    }
    out.push_str("</g>\n</svg>\n");
    out
}

fn open_svg(width: i64, height: i64) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"workflow graph\">\n<style>{STYLE}</style>\n<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>\n"
    )
}

fn message_svg(why: &str) -> String {
    let text = escaped(why);
    format!("{}<text x=\"16\" y=\"30\">{text}</text>\n</svg>\n", open_svg(760, 48))
}

fn color(scene: &GraphScene<'_>, position: usize) -> usize {
    // Vary colors among sibling loops as well.
    let depth = scene.view.loops[position].depth;
    let before = scene.view.loops.iter().take(position);
    let roots = before.filter(|l| l.depth == 0).count();
    let root = if depth == 0 { roots } else { roots.saturating_sub(1) };
    (depth + root) % COLOR_COUNT
}

fn draw_loop(scene: &GraphScene<'_>, position: usize, rect: Rect, out: &mut String) {
    let Rect { x, y, width, height } = rect;
    let (class, id) = (color(scene, position), escaped(&scene.view.loops[position].id));
    out.push_str(&format!(
        "<rect class=\"group c{class}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"14\"><title>{id}</title></rect>\n"
    ));
}

fn draw_badge(scene: &GraphScene<'_>, position: usize, rect: Rect, out: &mut String) {
    let label = scene.label(position);
    let class = color(scene, position);
    let halt = label.halt.map_or_else(String::new, |halt| {
        format!("<tspan class=\"halt\"> · halted: {}</tspan>", escaped(&halt))
    });
    let (x, y) = (rect.x + 12, rect.y + 20);
    out.push_str(&format!(
        "<text class=\"badge c{class}\" x=\"{x}\" y=\"{y}\">{}{halt}</text>\n",
        escaped(&label.badge)
    ));
    if let Some(trend) = label.trend {
        let y = y + super::layout::LINE_HEIGHT;
        let trend = escaped(&trend);
        out.push_str(&format!("<text class=\"badge trend c{class}\" x=\"{x}\" y=\"{y}\">{trend}</text>\n"));
    }
}

fn draw_node(scene: &GraphScene<'_>, node: usize, rect: Rect, out: &mut String) {
    let Rect { x, y, width, height } = rect;
    let now = if scene.current == Some(node) { " now" } else { "" };
    let title = escaped(&super::display_name(scene.full_names[node], MAX_TOOLTIP_CHARS));
    out.push_str(&format!(
        "<g><title>{title}</title><rect class=\"node{now}\" x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"8\"/>"
    ));
    let (middle, first) = (x + width / 2, y + 24);
    let name = escaped(&scene.names[node]);
    out.push_str(&format!("<text x=\"{middle}\" y=\"{first}\" text-anchor=\"middle\">{name}</text>"));
    if let Some(mark) = &scene.marks[node] {
        let (second, mark) = (first + 16, escaped(mark));
        out.push_str(&format!(
            "<text class=\"mark\" x=\"{middle}\" y=\"{second}\" text-anchor=\"middle\">{mark}</text>"
        ));
    }
    out.push_str("</g>\n");
}

fn draw_routes(scene: &GraphScene<'_>, page: &GraphDrawing, out: &mut String) {
    for route in &page.routes {
        let (line, tip) = match route.closes {
            None => ("line".to_owned(), "tip".to_owned()),
            Some(closed) => {
                let class = color(scene, closed);
                (format!("line back c{class}"), format!("tip back-tip c{class}"))
            }
        };
        let (path, head) = (path_data(route), arrowhead(route));
        out.push_str(&format!("<path class=\"{line}\" d=\"{path}\"/><path class=\"{tip}\" d=\"{head}\"/>\n"));
    }
}

/// Path data: curves between columns going down, rounded corners going back up.
fn path_data(route: &EdgeRoute) -> String {
    let mut path = String::new();
    let mut before: Option<(i64, i64)> = None;
    for &(x, y) in &route.down {
        match before {
            None => path.push_str(&format!("M{x} {y}")),
            Some((bx, by)) if bx == x || by == y => path.push_str(&format!("L{x} {y}")),
            Some((bx, by)) => {
                let half = (by + y) / 2;
                path.push_str(&format!("C{bx} {half} {x} {half} {x} {y}"));
            }
        }
        before = Some((x, y));
    }
    for (position, &(x, y)) in route.back.iter().enumerate() {
        let next = route.back.get(position + 1);
        match (before, next) {
            (None, _) => path.push_str(&format!("M{x} {y}")),
            (Some(_), None) => path.push_str(&format!("L{x} {y}")),
            (Some(from), Some(&to)) => path.push_str(&corner(from, (x, y), to)),
        }
        before = Some((x, y));
    }
    path
}

fn corner(from: (i64, i64), at: (i64, i64), to: (i64, i64)) -> String {
    let toward = |other: (i64, i64)| {
        let (dx, dy) = (other.0 - at.0, other.1 - at.1);
        let reach = CORNER.min(dx.abs().max(dy.abs()) / 2);
        (at.0 + dx.signum() * reach, at.1 + dy.signum() * reach)
    };
    let (a, b) = (toward(from), toward(to));
    format!("L{} {}Q{} {} {} {}", a.0, a.1, at.0, at.1, b.0, b.1)
}

/// An arrowhead pointing down into the top of a node, or left into its side.
fn arrowhead(route: &EdgeRoute) -> String {
    if let Some(&(x, y)) = route.back.last() {
        return format!("M{x} {y}l9 -4.5v9z");
    }
    let (x, y) = route.down.last().copied().unwrap_or_default();
    format!("M{x} {y}l-4.5 -9h9z")
}

/// Escapes text for XML.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}
