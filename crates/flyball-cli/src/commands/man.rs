//! `flyball man`: the manual pages of all commands, in roff.

use crate::args::{ManArgs, examples, visible_command};
use crate::error::{CliError, Exit};
use crate::formatting::plural;
use crate::output_file::write_file;
use clap::Command;
use clap_mangen::Man;
use std::io::Write;

/// Prints the main page, or writes all pages to a directory.
pub(crate) fn run(args: &ManArgs) -> Result<Exit, CliError> {
    let mut root = visible_command();
    root.build();
    let mut out = crate::terminal::stdout();
    let Some(folder) = &args.out else {
        out.write_all(render_page(&root, "")?.1.as_bytes())?;
        return Ok(Exit::Success);
    };
    let mut pages = Vec::new();
    collect_pages(&root, "", &mut pages)?;
    std::fs::create_dir_all(folder).map_err(|error| {
        let shown = folder.display().to_string();
        CliError::new("cannot_write", shown, error.to_string(), "choose a directory that can be created")
    })?;
    for (name, text) in &pages {
        write_file(&folder.join(name), text, true)?;
    }
    let count = u64::try_from(pages.len()).unwrap_or(u64::MAX);
    writeln!(out, "Wrote {} to {}", plural(count, "page"), folder.display())?;
    Ok(Exit::Success)
}

fn collect_pages(command: &Command, path: &str, pages: &mut Vec<(String, String)>) -> std::io::Result<()> {
    pages.push(render_page(command, path)?);
    for sub in command.get_subcommands() {
        collect_pages(sub, format!("{path} {}", sub.get_name()).trim(), pages)?;
    }
    Ok(())
}

/// The file name and the text of a command's page. `path` is the command without `flyball`.
fn render_page(command: &Command, path: &str) -> std::io::Result<(String, String)> {
    let page = Man::new(command.clone()).source(concat!("Flyball ", env!("CARGO_PKG_VERSION")));
    let mut roff = Vec::new();
    page.render_title(&mut roff)?;
    page.render_name_section(&mut roff)?;
    page.render_synopsis_section(&mut roff)?;
    page.render_description_section(&mut roff)?;
    page.render_options_section(&mut roff)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut roff)?;
    }
    let mut text = String::from_utf8_lossy(&roff).into_owned();
    let lines = examples(path);
    if !lines.is_empty() {
        text.push_str(".SH EXAMPLES\n.nf\n");
        for line in lines {
            // `\&` keeps a line from being read as a request; a plain `-` would become a typographic hyphen.
            text.push_str(&format!("\\&{}\n", line.replace('\\', "\\e").replace('-', "\\-")));
        }
        text.push_str(".fi\n");
    }
    Ok((page.get_filename(), escape_non_ascii(&text)))
}

/// The `groff` escape of every character that is not ASCII: without a preprocessor, `groff` reads Latin-1.
fn escape_non_ascii(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            escaped.push(c);
        } else {
            escaped.push_str(&format!("\\[u{:04X}]", u32::from(c)));
        }
    }
    escaped
}
