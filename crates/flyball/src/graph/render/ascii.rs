//! Renders the graph as text for a terminal: boxes stacked vertically, edges to the next box as arrows between them,
//! forward edges that skip boxes on rails at the left, back edges on rails at the right, and loop labels next to the
//! header.

use super::order::drawing_order;
use super::{GraphScene, GraphView, display_width};

/// Maximum number of rails per side; edges without a rail are listed below the drawing.
const MAX_RAILS: usize = 12;

const UP: u8 = 1;
const DOWN: u8 = 2;
const LEFT: u8 = 4;
const RIGHT: u8 = 8;

/// Renders the view as text.
pub fn ascii(view: &GraphView) -> String {
    let scene = match GraphScene::new(view) {
        Ok(scene) => scene,
        Err(why) => return format!("{why}\n"),
    };
    if scene.names.is_empty() {
        return "(no nodes)\n".to_owned();
    }
    let plan = AsciiLayout::new(&scene);
    let mut text = plan.draw();
    for &(from, to) in &plan.unplaced {
        text.push_str(&format!("also: {} → {}\n", scene.names[from], scene.names[to]));
    }
    text
}

/// All edges into one node on one side share a rail.
struct EdgeRail {
    target: usize,
    sources: Vec<usize>,
    lane: usize,
}

/// Position of a box.
#[derive(Clone, Copy, Default)]
struct BoxPlacement {
    top: usize,
    /// Rows of text in the box.
    rows: usize,
}

struct AsciiLayout<'a> {
    scene: &'a GraphScene<'a>,
    order: Vec<usize>,
    placements: Vec<BoxPlacement>,
    /// Whether each box has an edge to the next one.
    next: Vec<bool>,
    left: Vec<EdgeRail>,
    right: Vec<EdgeRail>,
    unplaced: Vec<(usize, usize)>,
    notes: Vec<Vec<String>>,
}

impl<'a> AsciiLayout<'a> {
    fn new(scene: &'a GraphScene<'a>) -> Self {
        let order = drawing_order(scene);
        let count = order.len();
        let mut rank = vec![0; count];
        for (position, &node) in order.iter().enumerate() {
            rank[node] = position;
        }
        let mut next = vec![false; count];
        let mut sides: [Vec<Vec<usize>>; 2] = [vec![Vec::new(); count], vec![Vec::new(); count]];
        for &(from, to, _) in &scene.edges {
            if rank[to] == rank[from] + 1 {
                next[from] = true;
            } else {
                let back = usize::from(rank[to] <= rank[from]);
                if !sides[back][to].contains(&from) {
                    sides[back][to].push(from);
                }
            }
        }
        let mut notes = vec![Vec::new(); count];
        for (position, &header) in scene.headers.iter().enumerate() {
            notes[header].extend(scene.label_lines(position));
        }
        let mut left_over = Vec::new();
        let [left, right] = sides.map(|targets| assign_lanes(&targets, &rank, &mut left_over));
        let mut plan = AsciiLayout {
            scene,
            order,
            placements: Vec::new(),
            next,
            left,
            right,
            unplaced: left_over,
            notes,
        };
        plan.placements = plan.place_boxes();
        plan
    }

    fn place_boxes(&self) -> Vec<BoxPlacement> {
        let mut places = vec![BoxPlacement::default(); self.order.len()];
        let mut top = 0;
        for &node in &self.order {
            let leaves = [&self.left, &self.right].into_iter().flatten().any(|r| r.sources.contains(&node));
            let two = self.scene.marks[node].is_some() || leaves;
            let rows = if two { 2 } else { 1 }.max(self.notes[node].len());
            places[node] = BoxPlacement { top, rows };
            top += rows + 2 + if self.next[node] { 2 } else { 1 };
        }
        places
    }

    fn title(&self, node: usize) -> String {
        let now = if self.scene.current == Some(node) { "● " } else { "" };
        format!("{now}{}", self.scene.names[node])
    }

    fn draw(&self) -> String {
        let title = |n: &usize| display_width(&self.title(*n));
        let mark = |n: &usize| self.scene.marks[*n].as_deref().map_or(0, display_width);
        let inner = self.order.iter().map(|n| title(n).max(mark(n))).max().unwrap_or(0);
        let lanes = |rails: &[EdgeRail]| rails.iter().map(|r| r.lane + 1).max().unwrap_or(0);
        let box_at = match lanes(&self.left) {
            0 => 0,
            n => 2 * n + 2,
        };
        let box_end = box_at + inner + 3;
        let width = box_end
            + 1
            + match lanes(&self.right) {
                0 => 0,
                n => 2 * n + 2,
            };
        let height = self.placements.iter().map(|p| p.top + p.rows + 4).max().unwrap_or(0);
        let mut canvas =
            AsciiCanvas { lines: vec![vec![0; width]; height], heads: vec![vec![None; width]; height] };
        for rail in &self.left {
            let lane = box_at.saturating_sub(3 + 2 * rail.lane);
            self.draw_rail(&mut canvas, rail, lane, box_at);
        }
        for rail in &self.right {
            self.draw_rail(&mut canvas, rail, box_end + 3 + 2 * rail.lane, box_end);
        }
        let mut rows: Vec<String> = vec![String::new(); height];
        for &node in &self.order {
            self.draw_box(&mut rows, &canvas, node, (box_at, box_end, width));
        }
        let mut text = String::new();
        let used = self.placements.iter().map(|p| p.top + p.rows + 2).max().unwrap_or(0);
        for row in rows.iter().take(used) {
            text.push_str(row.trim_end());
            text.push('\n');
        }
        text
    }

    /// Draws a rail from the second line of each source along the lane to the first line of the target.
    fn draw_rail(&self, canvas: &mut AsciiCanvas, rail: &EdgeRail, lane: usize, side: usize) {
        let to = self.placements[rail.target].top + 1;
        canvas.draw_horizontal(to, lane, side);
        canvas.draw_arrowhead(to, side, if lane < side { '▶' } else { '◀' });
        for &source in &rail.sources {
            let from = self.placements[source].top + 2;
            canvas.draw_horizontal(from, lane, side);
            canvas.draw_vertical(lane, from, to);
        }
    }

    fn draw_box(
        &self,
        rows: &mut [String],
        canvas: &AsciiCanvas,
        node: usize,
        (at, end, width): (usize, usize, usize),
    ) {
        let place = self.placements[node];
        let inner = end - at - 3;
        let line = "─".repeat(inner + 2);
        let mut inside = vec![format!("┌{line}┐")];
        let texts = [Some(self.title(node)), self.scene.marks[node].clone()];
        for row in 0..place.rows {
            let text = texts.get(row).cloned().flatten().unwrap_or_default();
            let fill = " ".repeat(inner.saturating_sub(display_width(&text)));
            inside.push(format!("│ {text}{fill} │"));
        }
        inside.push(format!("└{line}┘"));
        let middle = " ".repeat((inner + 3) / 2);
        let rest = " ".repeat((inner + 4) - 1 - (inner + 3) / 2);
        let gap: &[&str] = if self.next[node] { &["│", "▼"] } else { &[" "] };
        inside.extend(gap.iter().map(|c| format!("{middle}{c}{rest}")));
        for (i, text) in inside.iter().enumerate() {
            let row = place.top + i;
            let note = i.checked_sub(1).and_then(|n| self.notes[node].get(n));
            let note = note.map_or_else(String::new, |n| format!("  {n}"));
            if let Some(place) = rows.get_mut(row) {
                *place =
                    format!("{}{text}{}{note}", canvas.text(row, 0, at), canvas.text(row, end + 1, width));
            }
        }
    }
}

/// Assigns a lane to each target so that no two rails touch, with short rails closest to the boxes.
fn assign_lanes(
    targets: &[Vec<usize>],
    rank: &[usize],
    left_over: &mut Vec<(usize, usize)>,
) -> Vec<EdgeRail> {
    let mut rails: Vec<(usize, usize, EdgeRail)> = Vec::new();
    for (target, sources) in targets.iter().enumerate().filter(|(_, s)| !s.is_empty()) {
        let ranks = || sources.iter().map(|&s| rank[s]).chain([rank[target]]);
        let (first, last) = (ranks().min().unwrap_or(0), ranks().max().unwrap_or(0));
        rails.push((first, last, EdgeRail { target, sources: sources.clone(), lane: 0 }));
    }
    rails.sort_by_key(|(first, last, _)| (last - first, *first));
    let mut taken: Vec<Vec<(usize, usize)>> = vec![Vec::new(); MAX_RAILS];
    let mut placed = Vec::new();
    for (first, last, mut rail) in rails {
        let free = |lane: &Vec<(usize, usize)>| lane.iter().all(|&(a, b)| last < a || b < first);
        match taken.iter().position(free) {
            Some(lane) => {
                taken[lane].push((first, last));
                rail.lane = lane;
                placed.push(rail);
            }
            None => left_over.extend(rail.sources.iter().map(|&s| (s, rail.target))),
        }
    }
    placed
}

/// A canvas on which lines may cross and join.
struct AsciiCanvas {
    lines: Vec<Vec<u8>>,
    heads: Vec<Vec<Option<char>>>,
}

impl AsciiCanvas {
    fn add(&mut self, row: usize, column: usize, ways: u8) {
        if let Some(cell) = self.lines.get_mut(row).and_then(|r| r.get_mut(column)) {
            *cell |= ways;
        }
    }

    /// Draws from a lane to the side of the box, without drawing over the box.
    fn draw_horizontal(&mut self, row: usize, lane: usize, side: usize) {
        let (from, to) = if lane < side { (lane, side - 1) } else { (side + 1, lane) };
        for column in from..=to {
            let left = if column == lane && lane < side { 0 } else { LEFT };
            let right = if column == lane && lane > side { 0 } else { RIGHT };
            self.add(row, column, left | right);
        }
    }

    fn draw_vertical(&mut self, column: usize, a: usize, b: usize) {
        let (top, bottom) = (a.min(b), a.max(b));
        for row in top..=bottom {
            let up = if row == top { 0 } else { UP };
            let down = if row == bottom { 0 } else { DOWN };
            self.add(row, column, up | down);
        }
    }

    fn draw_arrowhead(&mut self, row: usize, side: usize, head: char) {
        let column = if head == '▶' { side.saturating_sub(1) } else { side + 1 };
        if let Some(cell) = self.heads.get_mut(row).and_then(|r| r.get_mut(column)) {
            *cell = Some(head);
        }
    }

    fn text(&self, row: usize, from: usize, to: usize) -> String {
        let Some((lines, heads)) = self.lines.get(row).zip(self.heads.get(row)) else {
            return String::new();
        };
        let cells = lines.iter().zip(heads).take(to).skip(from);
        cells.map(|(&line, head)| head.unwrap_or_else(|| line_glyph(line))).collect()
    }
}

fn line_glyph(ways: u8) -> char {
    const GLYPHS: [char; 16] =
        [' ', '│', '│', '│', '─', '╯', '╮', '┤', '─', '╰', '╭', '├', '─', '┴', '┬', '┼'];
    GLYPHS.get(usize::from(ways)).copied().unwrap_or(' ')
}
