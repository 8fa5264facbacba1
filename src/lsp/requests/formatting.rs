//! The one layout of a file, as the fewest edits, of the whole or of some lines.

use super::{Answer, View};
use crate::diag::Sink;
use crate::syntax::format::format;
use lsp_types::*;
use std::ops::Range as Bytes;

/// Lays the file out. Nothing where it has syntax errors, which are diagnostics already.
pub fn whole(view: &View, _: DocumentFormattingParams) -> Answer<Option<Vec<TextEdit>>> {
    Ok(edits(view, &|_| true))
}

/// Lays out what is on the lines of a range.
pub fn lines(view: &View, params: DocumentRangeFormattingParams) -> Answer<Option<Vec<TextEdit>>> {
    let (start, end) = (view.offset(params.range.start), view.offset(params.range.end));
    Ok(edits(view, &|hunk| hunk.start <= end && start < hunk.end))
}

fn edits(view: &View, wanted: &dyn Fn(&Bytes<usize>) -> bool) -> Option<Vec<TextEdit>> {
    let old = view.text();
    let new = format(view.file, old, &mut Sink::default())?;
    let hunks = hunks(old, &new)
        .into_iter()
        .filter(|(before, after)| wanted(before) && old[before.clone()] != new[after.clone()]);
    let edits = hunks.map(|(before, after)| TextEdit {
        range: view.lines().range(old, before, view.encoding()),
        new_text: new[after].to_owned(),
    });
    Some(edits.collect())
}

/// Pairs of bytes of two texts that say the same, cut at every line at which both have said as much.
///
/// Layout moves blanks and commas only: a line end up to which both texts hold the same number of other characters is a
/// place where either text may go over into the other.
fn hunks(old: &str, new: &str) -> Vec<(Bytes<usize>, Bytes<usize>)> {
    if !old.chars().filter(says).eq(new.chars().filter(says)) {
        return vec![(0..old.len(), 0..new.len())];
    }
    let (before, after) = (line_ends(old), line_ends(new));
    let (mut cuts, mut at) = (vec![(0, 0)], 0);
    let mut index = 0;
    while let Some((count, _)) = before.get(index) {
        // Blank lines say nothing: both texts have a first and a last line end here.
        let same = before[index..].iter().take_while(|(other, _)| other == count).count();
        at += after[at..].iter().take_while(|(other, _)| other < count).count();
        let there = after[at..].iter().take_while(|(other, _)| other == count).count();
        if there > 0 {
            cuts.push((before[index].1, after[at].1));
            cuts.push((before[index + same - 1].1, after[at + there - 1].1));
        }
        index += same;
    }
    cuts.push((old.len(), new.len()));
    cuts.windows(2).map(|pair| (pair[0].0..pair[1].0, pair[0].1..pair[1].1)).collect()
}

/// Whether layout leaves a character where it is.
fn says(c: &char) -> bool {
    !c.is_whitespace() && *c != ','
}

/// For every line, how many characters that are neither blanks nor commas stand up to its end, and where that is.
fn line_ends(text: &str) -> Vec<(usize, usize)> {
    let (mut said, mut end) = (0, 0);
    let lines = text.split_inclusive('\n').map(|line| {
        said += line.chars().filter(says).count();
        end += line.len();
        (said, end)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_go_over_into_one_another_at_every_hunk() {
        let old = "a { b = 1,\n c = 2 }\n\n\n\nd = 3\n";
        let new = "a {\n  b = 1\n  c = 2\n}\n\nd = 3\n";
        let hunks = hunks(old, new);
        let text: String = hunks.iter().map(|(_, after)| &new[after.clone()]).collect();
        assert_eq!(text, new);
        let text: String = hunks.iter().map(|(before, _)| &old[before.clone()]).collect();
        assert_eq!(text, old);
        assert!(
            hunks
                .iter()
                .any(|(before, after)| &old[before.clone()] == "\n\n\n" && &new[after.clone()] == "\n")
        );
        assert!(
            hunks.iter().any(|(before, after)| old[before.clone()] == new[after.clone()] && before.len() > 5)
        );
    }
}
