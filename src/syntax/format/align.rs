//! Lines to text: `=` and comments of neighbouring lines in one column.

use super::concrete::{Comment, columns};

/// Columns between code and the comment behind it.
const GAP: usize = 2;

/// One line of the file; the text of a comment may go on over further ones.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub indent: usize,
    pub text: String,
    /// A blank line stands before it.
    pub blank: bool,
    /// Columns before the `=` of the only attribute, with the blank before it left out.
    pub equals: Option<usize>,
    /// That attribute is a `let`.
    pub is_let: bool,
    /// At its end, or going on with the one at the end of the line before.
    pub comment: Option<Comment>,
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.comment.is_none()
    }

    /// The column behind its code.
    fn end(&self) -> usize {
        match self.text.rsplit_once('\n') {
            Some((_, last)) => columns(last),
            None if self.text.is_empty() => 0,
            None => self.indent + columns(&self.text),
        }
    }
}

/// The text of a file.
pub(super) fn print(mut lines: Vec<Line>) -> String {
    runs(
        &mut lines,
        |a, b| a.is_let == b.is_let && a.indent == b.indent,
        |line| line.equals.is_some(),
        equals,
    );
    runs(&mut lines, |_, _| true, |line| line.comment.is_some(), comments);
    let mut out = String::new();
    for (index, line) in lines.iter().enumerate() {
        if line.blank && index > 0 {
            out.push('\n');
        }
        if !line.text.is_empty() {
            pad(&mut out, line.indent);
            out.push_str(&line.text);
        }
        if let Some(comment) = &line.comment {
            pad(&mut out, comment.column - line.end());
            out.push_str(&comment.text);
        }
        out.push('\n');
    }
    out
}

fn pad(out: &mut String, columns: usize) {
    out.extend(std::iter::repeat_n(' ', columns));
}

/// Hands over every longest run of neighbouring lines that belong to one another.
fn runs(
    lines: &mut [Line],
    alike: impl Fn(&Line, &Line) -> bool,
    takes_part: impl Fn(&Line) -> bool,
    mut align: impl FnMut(&mut [Line]),
) {
    let mut at = 0;
    while at < lines.len() {
        let run = lines[at..]
            .iter()
            .enumerate()
            .take_while(|(n, line)| {
                takes_part(line) && (*n == 0 || !line.blank && alike(&lines[at + n - 1], line))
            })
            .count();
        align(&mut lines[at..at + run]);
        at += run.max(1);
    }
}

fn equals(run: &mut [Line]) {
    let most = run.iter().filter_map(|line| line.equals).max().unwrap_or(0);
    for line in run {
        let Some(own) = line.equals else { continue };
        let at = line.text.char_indices().nth(own).map_or(line.text.len(), |(at, _)| at);
        line.text.insert_str(at, &" ".repeat(most - own));
    }
}

fn comments(run: &mut [Line]) {
    let least = run.iter().map(Line::end).max().unwrap_or(0) + GAP;
    let column = run.first().and_then(|line| line.comment.as_ref()).map_or(least, |comment| comment.column);
    let agree =
        run.iter().flat_map(|line| &line.comment).all(|comment| comment.placed && comment.column == column);
    let column = if agree { column.max(least) } else { least };
    for comment in run.iter_mut().flat_map(|line| &mut line.comment) {
        comment.column = column;
    }
}
