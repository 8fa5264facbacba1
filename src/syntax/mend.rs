//! A text after edits, which still knows where everything stood before them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;

/// Text to put in place of `range` of the original.
#[derive(Debug, Clone)]
pub(super) struct Edit {
    pub range: Range<usize>,
    pub text: Cow<'static, str>,
}

impl Edit {
    pub(super) fn replace(range: Range<usize>, text: impl Into<Cow<'static, str>>) -> Self {
        Edit { range, text: text.into() }
    }

    pub(super) fn insert(at: usize, text: impl Into<Cow<'static, str>>) -> Self {
        Edit::replace(at..at, text)
    }
}

/// What the scanner and the bracket matcher found to mend.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    pub edits: Vec<Edit>,
    /// Ranges of the original where the edits are a guess: nothing more is reported on their lines.
    pub guesses: Vec<Range<usize>>,
    /// A comment is open to the end of the file and may hide closing brackets.
    pub open_comment: bool,
}

/// Where a stretch of the mended text begins, and what it stands for in the original.
#[derive(Debug)]
struct Anchor {
    mended: usize,
    original: usize,
    /// The stretch is a copy; otherwise an edit, which stands for one place.
    copied: bool,
}

/// The mended text.
#[derive(Debug)]
pub(super) struct Mended {
    pub text: String,
    anchors: Vec<Anchor>,
    /// Offsets in the original at which its lines begin.
    lines: Vec<usize>,
    guessed_lines: BTreeSet<usize>,
}

impl Mended {
    /// Applies the edits in the order of their places; one that overlaps an earlier one is left out.
    pub(super) fn new(original: &str, repairs: Repairs) -> Self {
        let Repairs { mut edits, guesses, .. } = repairs;
        edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
        let (mut text, mut anchors, mut done) = (
            String::with_capacity(original.len() + 16),
            vec![Anchor { mended: 0, original: 0, copied: true }],
            0,
        );
        for edit in edits.into_iter().filter(|edit| !edit.range.is_empty() || !edit.text.is_empty()) {
            if edit.range.start < done {
                continue;
            }
            text.push_str(&original[done..edit.range.start]);
            anchors.push(Anchor { mended: text.len(), original: edit.range.start, copied: false });
            text.push_str(&edit.text);
            anchors.push(Anchor { mended: text.len(), original: edit.range.end, copied: true });
            done = edit.range.end;
        }
        text.push_str(&original[done..]);
        let newlines = original.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).collect();
        let mut mended = Mended { text, anchors, lines, guessed_lines: BTreeSet::new() };
        for guess in guesses {
            let lines = mended.line(guess.start)..=mended.line(guess.end);
            mended.guessed_lines.extend(lines);
        }
        mended
    }

    /// Where the character at `at` of the mended text stood, or would have had to stand.
    pub(super) fn original(&self, at: usize) -> usize {
        let next = self.anchors.partition_point(|anchor| anchor.mended <= at);
        let anchor = &self.anchors[next - 1];
        if anchor.copied { anchor.original + (at - anchor.mended) } else { anchor.original }
    }

    /// Whether `range` of the mended text stands in the original as it is.
    pub(super) fn is_copy(&self, range: &Range<usize>) -> bool {
        let next = self.anchors.partition_point(|anchor| anchor.mended <= range.start);
        self.anchors[next - 1].copied
            && self.anchors.get(next).is_none_or(|anchor| anchor.mended >= range.end)
    }

    /// Whether any line was mended by guessing.
    pub(super) fn has_guesses(&self) -> bool {
        !self.guessed_lines.is_empty()
    }

    /// Whether a place of the original lies on a line that was mended by guessing.
    pub(super) fn is_guess(&self, original: usize) -> bool {
        self.guessed_lines.contains(&self.line(original))
    }

    fn line(&self, original: usize) -> usize {
        self.lines.partition_point(|start| *start <= original) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_survive_edits() {
        let edits = vec![Edit::insert(6, "}\n"), Edit::replace(2..5, "\""), Edit::replace(3..4, "lost")];
        let mended = Mended::new("a “b\nc", Repairs { edits, ..Repairs::default() });
        assert_eq!(mended.text, "a \"b}\n\nc");
        let places: Vec<_> = (0..=mended.text.len()).map(|at| mended.original(at)).collect();
        assert_eq!(places, [0, 1, 2, 5, 6, 6, 6, 7, 8]);
    }
}
