//! Every token of a file with the comments around it: pest's pairs without what the formatter decides anew, which is blanks,
//! newlines and commas.

use crate::syntax::cursor::Rule;
use pest::iterators::{Pair, Pairs};

/// A comment as written, with trailing blanks cut from its lines.
#[derive(Debug, Clone)]
pub(super) struct Comment {
    pub text: String,
    /// Newlines between what stands before it and the comment.
    pub newlines: usize,
    /// The column it was written in, from 0.
    pub column: usize,
    /// The author chose the column: two blanks or more stand before it.
    pub placed: bool,
}

impl Comment {
    /// Whether only a new line can follow.
    pub(super) fn is_line(&self) -> bool {
        self.text.starts_with("//")
    }

    fn is_inline(&self) -> bool {
        !self.is_line() && !self.text.contains('\n')
    }
}

/// A token and what stands between the one before it and itself.
#[derive(Debug)]
pub(super) struct Token<'t> {
    pub text: &'t str,
    pub comments: Vec<Comment>,
    /// Newlines behind the last comment.
    pub newlines: usize,
    /// No blank before it.
    pub glued: bool,
    /// The author began a line with it where an expression may be broken.
    pub begins_line: bool,
}

impl Token<'_> {
    fn empty() -> Self {
        Token { text: "", comments: Vec::new(), newlines: 0, glued: true, begins_line: false }
    }

    /// Columns with the comments before it.
    fn width(&self) -> usize {
        let comments = self.comments.iter().map(|comment| columns(&comment.text) + 1);
        comments.sum::<usize>() + columns(self.text)
    }
}

/// A piece of the file.
#[derive(Debug)]
pub(super) enum Node<'t> {
    Token(Token<'t>),
    Tree(Tree<'t>),
    List(List<'t>),
}

/// A piece that is made of others.
#[derive(Debug)]
pub(super) struct Tree<'t> {
    pub rule: Rule,
    pub parts: Vec<Node<'t>>,
    hard: bool,
    width: usize,
}

/// Brackets and what they hold.
#[derive(Debug)]
pub(super) struct List<'t> {
    pub open: Token<'t>,
    /// Behind the opening bracket, to the end of its line.
    pub open_tail: Vec<Comment>,
    pub items: Vec<Item<'t>>,
    /// On lines of their own behind the last item.
    pub dangling: Vec<Comment>,
    pub close: Token<'t>,
    /// In braces, where a newline parts items too.
    pub is_body: bool,
    /// A newline was written inside.
    broken: bool,
    hard: bool,
    width: usize,
}

/// A statement of a body, an element of a list.
#[derive(Debug)]
pub(super) struct Item<'t> {
    /// On lines of their own before it.
    pub lead: Vec<Comment>,
    /// A blank line stands right before it.
    pub blank: bool,
    /// It was the first on its line.
    pub begins_line: bool,
    pub node: Node<'t>,
    /// Behind it, to the end of its line.
    pub tail: Vec<Comment>,
}

impl Node<'_> {
    /// Whether it cannot stand on one line: the author broke it, or a comment does.
    pub(super) fn is_hard(&self) -> bool {
        match self {
            Node::Token(token) => token.begins_line || !token.comments.iter().all(Comment::is_inline),
            Node::Tree(tree) => tree.hard,
            Node::List(list) => list.hard,
        }
    }

    /// Columns on one line.
    pub(super) fn width(&self) -> usize {
        match self {
            Node::Token(token) => token.width(),
            Node::Tree(tree) => tree.width,
            Node::List(list) => list.width,
        }
    }

    /// Its first token.
    pub(super) fn first(&self) -> Option<&Token<'_>> {
        match self {
            Node::Token(token) => Some(token),
            Node::Tree(tree) => tree.parts.first().and_then(Node::first),
            Node::List(list) => Some(&list.open),
        }
    }
}

impl<'t> Node<'t> {
    /// Finds hardness and width again after its first token has changed.
    fn measure(&mut self) {
        match self {
            Node::Token(_) => {}
            Node::List(list) => list.measure(),
            Node::Tree(tree) => {
                if let Some(first) = tree.parts.first_mut() {
                    first.measure();
                }
                tree.hard = tree.parts.iter().any(Node::is_hard);
                tree.width = 0;
                for (index, part) in tree.parts.iter().enumerate() {
                    let blank = index > 0 && part.first().is_some_and(|token| !token.glued);
                    tree.width += usize::from(blank) + part.width();
                }
            }
        }
    }

    fn first_mut(&mut self) -> Option<&mut Token<'t>> {
        match self {
            Node::Token(token) => Some(token),
            Node::Tree(tree) => tree.parts.first_mut().and_then(Node::first_mut),
            Node::List(list) => Some(&mut list.open),
        }
    }
}

/// How many columns a text takes.
pub(super) fn columns(text: &str) -> usize {
    text.chars().count()
}

/// The file as one list; its brackets are empty.
pub(super) fn read<'t>(text: &'t str, pairs: Pairs<'t, Rule>) -> List<'t> {
    let mut reader = Reader { text, at: 0, glue: true, broke: false };
    let children: Vec<_> = pairs.flat_map(|file| file.into_inner()).collect();
    reader.list(Token::empty(), children, true)
}

struct Reader<'t> {
    text: &'t str,
    /// Everything before it has been read.
    at: usize,
    /// The next token stands close to the one before it.
    glue: bool,
    /// The last token was an infix operator: a line may be broken behind it.
    broke: bool,
}

impl<'t> Reader<'t> {
    fn node(&mut self, pair: Pair<'t, Rule>) -> Node<'t> {
        let rule = pair.as_rule();
        match rule {
            Rule::body | Rule::list | Rule::branch => Node::List(self.brackets(pair.into_inner().collect())),
            Rule::call => {
                let mut children: Vec<_> = pair.into_inner().collect();
                let arguments = children.split_off(1.min(children.len()));
                let mut parts: Vec<_> = children.into_iter().map(|child| self.node(child)).collect();
                self.glue = true;
                parts.push(Node::List(self.brackets(arguments)));
                tree(rule, parts)
            }
            Rule::index => {
                self.glue = true;
                let parts = pair.into_inner().map(|child| self.node(child)).collect();
                tree(rule, parts)
            }
            Rule::expr => self.expr(pair),
            Rule::require_stmt => {
                let mut parts = Vec::new();
                for child in pair.into_inner() {
                    self.broke = child.as_rule() == Rule::kw_else;
                    parts.push(self.node(child));
                }
                tree(rule, parts)
            }
            _ if is_token(&pair) => Node::Token(self.token(&pair)),
            _ => {
                let parts = pair.into_inner().map(|child| self.node(child)).collect();
                tree(rule, parts)
            }
        }
    }

    /// Operands and operators in turn. `..` stands close where no other operator is about.
    fn expr(&mut self, pair: Pair<'t, Rule>) -> Node<'t> {
        let children: Vec<_> = pair.into_inner().collect();
        let close_range =
            children.iter().all(|part| part.as_rule() == Rule::range || !is_infix(part.as_rule()));
        let mut parts = Vec::with_capacity(children.len());
        for child in children {
            let rule = child.as_rule();
            if !is_infix(rule) {
                parts.push(self.node(child));
                continue;
            }
            let close = rule == Rule::range && close_range;
            self.glue = close;
            self.broke = true;
            parts.push(Node::Token(self.token(&child)));
            self.glue = close;
            self.broke = true;
        }
        tree(Rule::expr, parts)
    }

    fn token(&mut self, pair: &Pair<'t, Rule>) -> Token<'t> {
        let rule = pair.as_rule();
        let span = pair.as_span();
        let text = if rule == Rule::EOI { "" } else { pair.as_str().trim_end() };
        let (comments, newlines) = self.gap(span.start());
        self.at = span.start() + text.len();
        let closes = matches!(rule, Rule::rparen | Rule::rbracket | Rule::comma | Rule::colon);
        // Two signs that touch would be another token.
        let doubled = rule == Rule::neg && self.text[..span.start()].trim_end().ends_with('-');
        let glued = comments.is_empty() && (closes || self.glue && !doubled);
        let may_break = self.broke;
        self.glue = matches!(rule, Rule::lparen | Rule::lbracket | Rule::neg | Rule::not);
        self.broke = false;
        Token { text, comments, newlines, glued, begins_line: newlines > 0 && may_break }
    }

    /// The comments and the newlines behind them between the last token and `end`.
    fn gap(&mut self, end: usize) -> (Vec<Comment>, usize) {
        let (mut comments, mut newlines) = (Vec::new(), 0);
        while let Some(rest) = self.text.get(self.at..end).filter(|rest| !rest.is_empty()) {
            let len = if rest.starts_with("//") {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |len| len + 2)
            } else {
                newlines += usize::from(rest.starts_with('\n'));
                self.at += rest.chars().next().map_or(1, char::len_utf8);
                continue;
            };
            let line = self.text[..self.at].rfind('\n').map_or(0, |newline| newline + 1);
            let lines: Vec<_> = rest[..len].split('\n').map(str::trim_end).collect();
            let before = &self.text[line..self.at];
            comments.push(Comment {
                text: lines.join("\n"),
                newlines,
                column: columns(before),
                placed: before.trim().is_empty() || before.ends_with("  "),
            });
            newlines = 0;
            self.at += len;
        }
        (comments, newlines)
    }

    /// Children from an opening bracket to its closing one.
    fn brackets(&mut self, mut children: Vec<Pair<'t, Rule>>) -> List<'t> {
        let rest = children.split_off(1.min(children.len()));
        let open = match children.first() {
            Some(open) => self.token(open),
            None => Token::empty(),
        };
        let is_body = open.text == "{";
        self.list(open, rest, is_body)
    }

    /// Items, perhaps commas, and last the closing token.
    fn list(&mut self, open: Token<'t>, children: Vec<Pair<'t, Rule>>, is_body: bool) -> List<'t> {
        let start = self.at;
        let mut list = List {
            broken: false,
            hard: false,
            width: 0,
            open,
            open_tail: Vec::new(),
            items: Vec::new(),
            dangling: Vec::new(),
            close: Token::empty(),
            is_body,
        };
        // Comments between two items, and whether they stand behind a newline.
        // The start of a file counts as the end of a line.
        let mut between = Between { newline: list.open.text.is_empty(), ..Between::default() };
        let last = children.len().saturating_sub(1);
        for (index, child) in children.into_iter().enumerate() {
            if child.as_rule() == Rule::comma {
                let comma = self.token(&child);
                between.comma(comma);
                continue;
            }
            if index == last {
                let mut close = self.token(&child);
                between.token(&mut close, true);
                list.end_line(&mut between);
                close.glued = !is_body || list.items.is_empty() && list.open_tail.is_empty();
                list.dangling = std::mem::take(&mut between.lead);
                let holds = !list.items.is_empty() || !list.open_tail.is_empty() || !list.dangling.is_empty();
                list.broken = holds && self.text[start..self.at].contains('\n');
                list.close = close;
                break;
            }
            let mut node = self.node(child);
            let mut blank = false;
            if let Some(first) = node.first_mut() {
                blank = between.token(first, false);
            }
            // Widths change where comments have been taken from the first token.
            node.measure();
            let begins_line = between.newline || list.items.is_empty();
            list.end_line(&mut between);
            let lead = std::mem::take(&mut between.lead);
            list.items.push(Item { lead, blank, begins_line, node, tail: Vec::new() });
            between = Between::default();
        }
        list.measure();
        list
    }
}

/// What stands between two items of a list.
#[derive(Default)]
struct Between {
    /// Up to the first newline.
    tail: Vec<Comment>,
    /// Behind it, each on its own line.
    lead: Vec<Comment>,
    newline: bool,
}

impl Between {
    fn comma(&mut self, comma: Token<'_>) {
        for comment in comma.comments {
            self.comment(comment);
        }
        self.newline |= comma.newlines > 0;
    }

    fn comment(&mut self, comment: Comment) {
        self.newline |= comment.newlines > 0;
        let ends = comment.is_line();
        if self.newline {
            self.lead.push(comment)
        } else {
            self.tail.push(comment)
        }
        self.newline |= ends;
    }

    /// Takes the comments of the token that ends the gap, apart from those that stand on its own line; tells whether a
    /// blank line stands before it.
    fn token(&mut self, token: &mut Token<'_>, is_close: bool) -> bool {
        let own = token.comments.iter().rev().scan(token.newlines, |below, comment| {
            let stays = *below == 0 && !comment.is_line();
            *below = comment.newlines;
            stays.then_some(())
        });
        let own = token.comments.len() - own.count();
        let mut kept = token.comments.split_off(own);
        let newlines = kept.first().map_or(token.newlines, |comment| comment.newlines);
        for comment in token.comments.drain(..) {
            self.comment(comment);
        }
        self.newline |= newlines > 0;
        if is_close {
            // Before a closing bracket a comment belongs to what stands before.
            for comment in kept.drain(..) {
                self.comment(comment);
            }
        }
        if let Some(first) = kept.first_mut() {
            first.newlines = 0;
        }
        token.comments = kept;
        newlines > 1
    }
}

impl List<'_> {
    fn measure(&mut self) {
        let comments = |all: &[Comment]| all.iter().map(|comment| columns(&comment.text) + 1).sum::<usize>();
        self.width = self.open.width() + comments(&self.open_tail);
        self.hard = self.broken || !self.open.comments.iter().all(Comment::is_inline);
        for (index, item) in self.items.iter().enumerate() {
            self.hard |= item.node.is_hard();
            self.width += match index {
                0 => usize::from(self.is_body),
                _ => 2,
            };
            self.width += item.node.width() + comments(&item.tail);
        }
        self.width += usize::from(!self.close.glued) + self.close.width();
    }

    /// Gives the comments at the end of a line to the item they stand behind.
    fn end_line(&mut self, between: &mut Between) {
        let tail = std::mem::take(&mut between.tail);
        match self.items.last_mut() {
            Some(item) => item.tail = tail,
            None => self.open_tail = tail,
        }
    }
}

fn tree(rule: Rule, parts: Vec<Node<'_>>) -> Node<'_> {
    let mut node = Node::Tree(Tree { rule, parts, hard: false, width: 0 });
    node.measure();
    node
}

/// Whether a pair is one token, however many rules it has inside.
fn is_token(pair: &Pair<'_, Rule>) -> bool {
    matches!(pair.as_rule(), Rule::number | Rule::path) || pair.clone().into_inner().next().is_none()
}

fn is_infix(rule: Rule) -> bool {
    use Rule::*;
    matches!(
        rule,
        or | and
            | equal
            | unequal
            | at_most
            | at_least
            | less
            | greater
            | range
            | plus
            | minus
            | times
            | slash
            | percent
    )
}
