//! Layered layout. Each loop is laid out separately and then placed as one box in the enclosing layout, so loops never
//! overlap anything outside them. In each layout the nodes are arranged in layers (by longest path), edges that skip
//! layers get a slot in each, and slots are ordered and moved so that edges are short and straight. All coordinates are
//! whole pixels.

use std::collections::BTreeMap;

use super::{GraphScene, display_width};

/// Padding inside a loop.
pub(super) const PADDING: i64 = 16;
/// Space between layers.
pub(super) const LAYER_GAP: i64 = 42;
/// Width reserved for back edges at the right of a loop.
pub(super) const RAIL_WIDTH: i64 = 22;
/// Height of a line of text.
pub(super) const LINE_HEIGHT: i64 = 18;
/// Width of a character.
const CHAR_WIDTH: i64 = 8;
/// Width of a slot for an edge that passes a layer.
const SLOT_WIDTH: i64 = 12;
/// Space between items in one layer.
const ITEM_GAP: i64 = 26;
/// Maximum length of a short badge, in characters.
const MAX_SHORT_LABEL_CHARS: usize = 16;
/// Number of passes that improve order and positions.
const SWEEPS: usize = 8;

/// Kind of an item in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayoutItemKind {
    Node(usize),
    Loop(usize),
    /// An edge that passes through, by index in the scene's edges.
    Slot,
}

/// An item of a layout. `x` is its center.
#[derive(Clone, Debug)]
pub(super) struct LayoutItem {
    pub kind: LayoutItemKind,
    pub layer: usize,
    pub x: i64,
    width: i64,
    height: i64,
}

/// The layout of one loop, or of the whole graph; positions are relative to its corner.
#[derive(Clone, Debug, Default)]
pub(super) struct LoopLayout {
    pub items: Vec<LayoutItem>,
    /// Items of each layer, from left to right.
    pub layers: Vec<Vec<usize>>,
    /// Top and height of each layer.
    pub bands: Vec<(i64, i64)>,
    /// Slots of an edge, from top to bottom.
    pub slots: BTreeMap<usize, Vec<usize>>,
    pub width: i64,
    pub height: i64,
    links: Vec<(usize, usize)>,
    item_of: BTreeMap<usize, usize>,
}

impl LoopLayout {
    /// The item that is or contains this node.
    pub(super) fn item_holding(&self, node: usize) -> Option<usize> {
        self.item_of.get(&node).copied()
    }
}

/// Width and height of a node's box.
pub(super) fn node_size(scene: &GraphScene<'_>, node: usize) -> (i64, i64) {
    let mark = scene.marks[node].as_deref().map_or(0, display_width);
    let letters = display_width(&scene.names[node]).max(mark);
    let width = (text_width(letters) + 28).max(84);
    (width, if mark > 0 { 52 } else { 38 })
}

fn text_width(letters: usize) -> i64 {
    i64::try_from(letters).unwrap_or(0) * CHAR_WIDTH
}

/// The layouts of all loops, by position, followed by the layout of the whole graph.
pub(super) fn layout_all(scene: &GraphScene<'_>) -> Vec<LoopLayout> {
    let count = scene.view.loops.len();
    let mut levels = vec![LoopLayout::default(); count + 1];
    // Inner loops come after outer ones in the list but must be measured first.
    for position in (0..count).rev() {
        levels[position] = layout_loop(scene, Some(position), &levels);
    }
    levels[count] = layout_loop(scene, None, &levels);
    levels
}

fn layout_loop(scene: &GraphScene<'_>, around: Option<usize>, inner: &[LoopLayout]) -> LoopLayout {
    let mut level = LoopLayout::default();
    add_items(scene, around, inner, &mut level);
    let ways = edge_spans(scene, around, &level);
    assign_layers(&mut level, &ways);
    add_slots(&mut level, &ways);
    sort_layers(&mut level);
    assign_positions(&mut level);
    let entered = ways.iter().any(|way| way.from.is_none());
    compute_size(scene, around, entered, &mut level);
    level
}

/// Adds the nodes and loops that are directly in this layout, in the order in which a run reaches them.
fn add_items(scene: &GraphScene<'_>, around: Option<usize>, inner: &[LoopLayout], level: &mut LoopLayout) {
    let mut found: Vec<(usize, usize, LayoutItemKind, i64, i64)> = Vec::new();
    for node in (0..scene.names.len()).filter(|&n| scene.innermost[n] == around) {
        let (width, height) = node_size(scene, node);
        found.push((scene.distance[node], node, LayoutItemKind::Node(node), width, height));
    }
    for (position, child) in scene.view.loops.iter().enumerate() {
        if child.parent == around {
            let header = scene.headers[position];
            let (width, height) = (inner[position].width, inner[position].height);
            let kind = LayoutItemKind::Loop(position);
            found.push((scene.distance[header], header, kind, width, height));
        }
    }
    found.sort_by_key(|item| (item.0, item.1));
    for (_, _, kind, width, height) in found {
        level.items.push(LayoutItem { kind, layer: 0, x: 0, width, height });
    }
    for node in 0..scene.names.len() {
        let chain = scene.enclosing_loops(node);
        let inside = match around {
            None => Some(0),
            Some(position) => chain.iter().position(|&l| l == position).map(|at| at + 1),
        };
        let kind =
            inside.map(|at| chain.get(at).map_or(LayoutItemKind::Node(node), |&l| LayoutItemKind::Loop(l)));
        let item = kind.and_then(|kind| level.items.iter().position(|i| i.kind == kind));
        if let Some(item) = item {
            level.item_of.insert(node, item);
        }
    }
}

/// How an edge passes this layout: from an item or from above, to an item or to below.
struct EdgeSpan {
    edge: usize,
    from: Option<usize>,
    to: Option<usize>,
}

fn edge_spans(scene: &GraphScene<'_>, around: Option<usize>, level: &LoopLayout) -> Vec<EdgeSpan> {
    let mut ways = Vec::new();
    for (edge, &(from, to, _)) in scene.edges.iter().enumerate() {
        if scene.is_drawn_before(edge) {
            continue;
        }
        let (a, b) = (level.item_holding(from), level.item_holding(to));
        let way = match (a, b, scene.closed_loop[edge]) {
            (Some(a), Some(b), None) if a != b => EdgeSpan { edge, from: Some(a), to: Some(b) },
            (Some(a), None, None) => EdgeSpan { edge, from: Some(a), to: None },
            (None, Some(b), None) => EdgeSpan { edge, from: None, to: Some(b) },
            // A back edge leaves inner loops at the bottom and then goes up at the right.
            (Some(a), None, Some(closed)) if Some(closed) != around => {
                EdgeSpan { edge, from: Some(a), to: None }
            }
            _ => continue,
        };
        ways.push(way);
    }
    ways
}

/// Places each item one layer below its lowest predecessor.
fn assign_layers(level: &mut LoopLayout, ways: &[EdgeSpan]) {
    let spans: Vec<(usize, usize)> = ways.iter().filter_map(|w| w.from.zip(w.to)).collect();
    // No path is longer than the number of items, so this many rounds suffice.
    for _ in 0..level.items.len() {
        let mut changed = false;
        for &(from, to) in &spans {
            let below = level.items[from].layer + 1;
            if level.items[to].layer < below && below < level.items.len() {
                level.items[to].layer = below;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let count = level.items.iter().map(|i| i.layer + 1).max().unwrap_or(0);
    level.layers = vec![Vec::new(); count];
    for (position, item) in level.items.iter().enumerate() {
        level.layers[item.layer].push(position);
    }
}

fn add_slots(level: &mut LoopLayout, ways: &[EdgeSpan]) {
    for way in ways {
        let first = way.from.map_or(0, |item| level.items[item].layer + 1);
        let end = way.to.map_or(level.layers.len(), |item| level.items[item].layer);
        let mut last = way.from;
        let mut slots = Vec::new();
        for layer in first..end {
            let slot = level.items.len();
            let item = LayoutItem { kind: LayoutItemKind::Slot, layer, x: 0, width: SLOT_WIDTH, height: 0 };
            level.items.push(item);
            level.layers[layer].push(slot);
            level.links.extend(last.map(|before| (before, slot)));
            last = Some(slot);
            slots.push(slot);
        }
        level.links.extend(last.zip(way.to).filter(|(a, b)| a != b));
        level.slots.insert(way.edge, slots);
    }
}

/// Repeatedly moves each item toward the center of its neighbors in the previous layer, then in the next layer.
fn sort_layers(level: &mut LoopLayout) {
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        let count = level.layers.len();
        for step in 1..count {
            let layer = if down { step } else { count - 1 - step };
            let mut rank = vec![0i64; level.items.len()];
            for items in &level.layers {
                for (position, &item) in items.iter().enumerate() {
                    rank[item] = i64::try_from(position).unwrap_or(0) * 1_000;
                }
            }
            let mut items = std::mem::take(&mut level.layers[layer]);
            items.sort_by_key(|&item| mean_of_neighbors(level, item, down, &rank).unwrap_or(rank[item]));
            level.layers[layer] = items;
        }
    }
}

/// The mean of a value over the linked items above (or below).
fn mean_of_neighbors(level: &LoopLayout, item: usize, above: bool, value: &[i64]) -> Option<i64> {
    let (mut sum, mut count) = (0, 0);
    for &(a, b) in &level.links {
        let other = if above && b == item {
            a
        } else if !above && a == item {
            b
        } else {
            continue;
        };
        sum += value[other];
        count += 1;
    }
    (count > 0).then(|| sum / count)
}

/// Moves each layer as close as possible to its linked items, keeping its order.
fn assign_positions(level: &mut LoopLayout) {
    for layer in 0..level.layers.len() {
        place_layer(level, layer, &[]);
    }
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        let count = level.layers.len();
        for step in 1..count {
            let layer = if down { step } else { count - 1 - step };
            let xs: Vec<i64> = level.items.iter().map(|i| i.x).collect();
            let wanted: Vec<i64> = level.layers[layer]
                .iter()
                .map(|&item| mean_of_neighbors(level, item, down, &xs).unwrap_or(xs[item]))
                .collect();
            place_layer(level, layer, &wanted);
        }
    }
}

/// Least squares with minimum distances: neighbors that would come too close move together.
fn place_layer(level: &mut LoopLayout, layer: usize, wanted: &[i64]) {
    let items = level.layers[layer].clone();
    let mut offset = 0;
    // Blocks of (sum of wanted positions, count); a block's position is its mean.
    let mut blocks: Vec<(i64, i64)> = Vec::new();
    let mut offsets = Vec::new();
    for (position, &item) in items.iter().enumerate() {
        if let Some(&before) = position.checked_sub(1).and_then(|p| items.get(p)) {
            let half = (level.items[before].width + level.items[item].width) / 2;
            offset += half + ITEM_GAP;
        }
        offsets.push(offset);
        let wish = wanted.get(position).copied().unwrap_or(offset) - offset;
        let mut block = (wish, 1);
        while let Some(&(sum, count)) = blocks.last() {
            if sum * block.1 <= block.0 * count {
                break;
            }
            block = (block.0 + sum, block.1 + count);
            blocks.pop();
        }
        blocks.push(block);
    }
    let mut places = blocks.iter().flat_map(|&(sum, count)| {
        let at = sum / count;
        (0..count).map(move |_| at)
    });
    // Without wanted positions the layer is centered around zero.
    let shift = if wanted.is_empty() { offset / 2 } else { 0 };
    for (&item, offset) in items.iter().zip(offsets) {
        level.items[item].x = places.next().unwrap_or(0) + offset - shift;
    }
}

/// Converts centers to corner-relative positions, stacks the layers, and adds the borders.
fn compute_size(scene: &GraphScene<'_>, around: Option<usize>, entered: bool, level: &mut LoopLayout) {
    let left = level.items.iter().map(|i| i.x - i.width / 2).min().unwrap_or(0);
    let right = level.items.iter().map(|i| i.x + i.width / 2).max().unwrap_or(0);
    let lines = around.map_or_else(Vec::new, |position| scene.label_lines(position));
    let letters = lines.iter().map(|l| display_width(l)).max().unwrap_or(0);
    // An edge from above should pass beside the badge, if the badge is short.
    let first = level.items.iter().filter(|i| i.layer == 0).map(|i| i.x).min();
    let beside = match first {
        Some(first) if entered && letters <= MAX_SHORT_LABEL_CHARS => {
            (text_width(letters) + 2 * PADDING - (first - left + PADDING)).max(0)
        }
        _ => 0,
    };
    let left = left - beside;
    let label = text_width(letters) + 2 * PADDING;
    let rail = if around.is_some() { RAIL_WIDTH } else { 0 };
    level.width = (right - left + 2 * PADDING + rail).max(label);
    let spare = level.width - (right - left + 2 * PADDING + rail);
    for item in &mut level.items {
        item.x += PADDING - left + spare / 2;
    }
    let mut top = PADDING + LINE_HEIGHT * i64::try_from(lines.len()).unwrap_or(0);
    for items in &level.layers {
        let height = items.iter().map(|&i| level.items[i].height).max().unwrap_or(0);
        level.bands.push((top, height));
        top += height + LAYER_GAP;
    }
    // Below the last layer a back edge may have to turn to the right.
    level.height = (top - LAYER_GAP).max(PADDING) + PADDING + rail / 3;
}
