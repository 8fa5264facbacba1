//! Which tokens share a line.

use super::WIDTH;
use super::align::{Line, print};
use super::concrete::{Comment, Item, List, Node, Token, Tree, columns, read};
use crate::base::{FileId, Span};
use crate::diag::{Diagnostic, Sink};
use crate::syntax::cursor::{Grammar, Rule};
use crate::syntax::parse;
use pest::Parser;

const MARK: &str = "\u{feff}";

/// Columns a level of blocks, or a line that goes on, stands further in.
const INDENT: usize = 2;

/// Passes after which a layout has long become its own layout.
const SETTLE: usize = 8;

/// Lays a file out. `None` where it has syntax errors, which are reported. A byte order mark and the kind of line end the
/// file begins with stay.
pub fn format(id: FileId, text: &str, sink: &mut Sink) -> Option<String> {
    let mut own = Sink::default();
    let tree = parse(id, text, &mut own);
    let broken = own.has_errors();
    sink.extend(own.finish());
    if broken {
        return None;
    }
    let (mark, body) = text.strip_prefix(MARK).map_or(("", text), |body| (MARK, body));
    let carriage = body.find('\n').is_some_and(|newline| body[..newline].ends_with('\r'));
    let body = body.replace("\r\n", "\n");
    let mut text = lay_out(&body)?;
    // Comments in odd places can move again once what stands around them has moved.
    for _ in 0..SETTLE {
        let next = lay_out(&text)?;
        if next == text {
            break;
        }
        text = next;
    }
    // Rather no layout than one that says something else.
    if parse(id, &text, &mut Sink::default()).without_places() != tree.without_places() {
        let problem = Diagnostic::error("step::syntax::internal", "cannot lay this file out");
        sink.push(
            problem
                .label(Span::new(id, 0, 0), "its tree would change")
                .help("this is a defect of the compiler, please report it; the file stays as it is"),
        );
        return None;
    }
    Some(mark.to_owned() + &if carriage { text.replace('\n', "\r\n") } else { text })
}

/// One pass over a text without syntax errors: nothing is mended, what the parser reads is this text.
fn lay_out(body: &str) -> Option<String> {
    let pairs = Grammar::parse(Rule::file, body).ok()?;
    let mut layout = Layout::default();
    layout.file(&read(body, pairs));
    Some(print(layout.finish()))
}

#[derive(Default)]
struct Layout {
    done: Vec<Line>,
    line: Line,
    /// Of the lines of the innermost block.
    indent: usize,
    /// A comment to the end of the line: only a new line can follow.
    full: bool,
    /// Comments behind the last item; what follows tells whether they end the line.
    tail: Vec<Comment>,
    /// The last line has a comment at its end in this source column: one right below it goes on with it.
    hanging: Option<usize>,
}

impl Layout {
    fn finish(mut self) -> Vec<Line> {
        self.new_line(0, false);
        self.done
    }

    fn file(&mut self, file: &List<'_>) {
        self.items(file);
        self.comments(&file.dangling, true);
    }

    /// Ends the line and begins one.
    fn new_line(&mut self, indent: usize, blank: bool) {
        self.end_comment();
        let line = std::mem::replace(&mut self.line, Line { indent, blank, ..Line::default() });
        if !line.is_empty() {
            self.hanging = line.comment.as_ref().map(|comment| comment.column);
            self.done.push(line);
        } else {
            self.line.blank |= line.blank;
        }
        self.full = false;
    }

    /// What is waiting stands at the end of the line.
    fn end_comment(&mut self) {
        for comment in std::mem::take(&mut self.tail) {
            self.full |= comment.is_line();
            match &mut self.line.comment {
                Some(earlier) => {
                    earlier.text.push(' ');
                    earlier.text.push_str(&comment.text);
                }
                None => self.line.comment = Some(comment),
            }
        }
    }

    /// Comments on lines of their own.
    fn comments(&mut self, comments: &[Comment], may_be_blank: bool) {
        for (index, comment) in comments.iter().enumerate() {
            let blank = comment.newlines > 1 && (may_be_blank || index > 0);
            self.new_line(self.indent, blank);
            if !blank && self.hanging == Some(comment.column) {
                self.line.comment = Some(comment.clone());
            } else {
                self.line.text.push_str(&comment.text);
            }
            self.full = true;
        }
    }

    fn column(&self) -> usize {
        self.line.indent + columns(&self.line.text)
    }

    /// Writes a word, behind a blank unless it is the first of its line or `glued`.
    fn word(&mut self, text: &str, glued: bool) {
        if !glued && !self.line.text.is_empty() {
            self.line.text.push(' ');
        }
        self.line.text.push_str(text);
    }

    fn token(&mut self, token: &Token<'_>) {
        for comment in &token.comments {
            if self.full || comment.newlines > 0 && comment.is_line() {
                self.new_line(self.indent + INDENT, false);
            }
            if comment.is_line() && !self.line.text.is_empty() {
                self.tail.push(comment.clone());
                self.end_comment();
            } else {
                self.word(&comment.text, false);
            }
            self.full = comment.is_line();
        }
        if self.full || token.begins_line {
            self.new_line(self.indent + INDENT, false);
        }
        self.word(token.text, token.glued);
    }

    /// A piece on one line if it fits there.
    fn node(&mut self, node: &Node<'_>, room: usize) {
        let blank = node.first().is_some_and(|token| !token.glued && !self.line.text.is_empty());
        let fits = self.column() + usize::from(blank) + node.width() + room <= WIDTH;
        match node {
            Node::Token(token) => self.token(token),
            Node::Tree(tree) if node.is_hard() || !fits => self.broken_tree(tree),
            Node::Tree(tree) => tree.parts.iter().for_each(|part| self.flat(part)),
            Node::List(list) if node.is_hard() || !fits => self.broken_list(list),
            Node::List(_) => self.flat(node),
        }
    }

    fn flat(&mut self, node: &Node<'_>) {
        match node {
            Node::Token(token) => self.token(token),
            Node::Tree(tree) => tree.parts.iter().for_each(|part| self.flat(part)),
            Node::List(list) => {
                self.token(&list.open);
                self.inline(&list.open_tail);
                for (index, item) in list.items.iter().enumerate() {
                    if index > 0 {
                        self.word(",", true);
                    }
                    self.flat(&item.node);
                    self.inline(&item.tail);
                }
                self.token(&list.close);
            }
        }
    }

    fn inline(&mut self, comments: &[Comment]) {
        for comment in comments {
            self.word(&comment.text, false);
        }
    }

    fn broken_tree(&mut self, tree: &Tree<'_>) {
        let is_if = matches!(tree.rule, Rule::if_stmt | Rule::if_expr);
        for part in &tree.parts {
            match part {
                // One branch on several lines, all of them.
                Node::List(list) if is_if && !list.items.is_empty() => self.broken_list(list),
                Node::Token(token) if tree.rule == Rule::require_stmt && token.text == "else" => {
                    self.new_line(self.indent + INDENT, false);
                    self.token(token);
                }
                part => self.node(part, 0),
            }
        }
    }

    fn broken_list(&mut self, list: &List<'_>) {
        self.token(&list.open);
        self.tail.extend_from_slice(&list.open_tail);
        let outside = self.indent;
        self.indent += INDENT;
        self.items(list);
        self.comments(&list.dangling, !list.items.is_empty());
        self.indent = outside;
        self.new_line(outside, false);
        self.token(&list.close);
    }

    fn items(&mut self, list: &List<'_>) {
        let comma = usize::from(!list.is_body);
        // Whether the last item leaves room on its line.
        let mut open = false;
        for (index, item) in list.items.iter().enumerate() {
            let tail: usize = self.tail.iter().map(|comment| columns(&comment.text) + 1).sum();
            let fits = self.column() + tail + 2 + item.node.width() + comma <= WIDTH;
            if open && fits && !item.begins_line && !item.node.is_hard() && item.lead.is_empty() {
                let tail = std::mem::take(&mut self.tail);
                self.inline(&tail);
                self.word(",", true);
                self.line.equals = None;
                self.flat(&item.node);
            } else {
                if index > 0 {
                    self.end_item(list);
                }
                self.comments(&item.lead, index > 0);
                self.new_line(self.indent, item.blank && (index > 0 || !item.lead.is_empty()));
                let line = self.done.len();
                self.first_of_line(item, comma);
                open = !item.node.is_hard() && self.done.len() == line && self.column() + comma <= WIDTH;
            }
            self.tail.extend_from_slice(&item.tail);
            open &= item.tail.iter().all(|comment| !comment.is_line());
        }
        if !list.items.is_empty() {
            self.end_item(list);
        }
    }

    /// Behind the last item of a line; a list has a comma behind each, whatever comment follows.
    fn end_item(&mut self, list: &List<'_>) {
        if !list.is_body {
            self.word(",", true);
        }
    }

    /// An item that begins a line; of an attribute on one line, where its `=` stands.
    fn first_of_line(&mut self, item: &Item<'_>, room: usize) {
        let start = self.done.len();
        match &item.node {
            Node::Tree(tree) if matches!(tree.rule, Rule::attr | Rule::let_stmt) && !item.node.is_hard() => {
                let mut equals = None;
                for part in &tree.parts {
                    if matches!(part, Node::Token(token) if token.text == "=") && equals.is_none() {
                        equals = Some(columns(&self.line.text));
                    }
                    self.node(part, room);
                }
                self.line.equals = equals.filter(|_| self.done.len() == start);
                self.line.is_let = tree.rule == Rule::let_stmt;
            }
            node => self.node(node, room),
        }
    }
}
