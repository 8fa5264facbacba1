//! Expressions: pest's pairs to [`Expr`] by precedence climbing, with the operators other languages write told apart.

use super::DEPTH_LIMIT;
use super::cursor::{Cursor, Rule};
use super::literal;
use super::parser::Builder;
use super::tree::{BinaryOp, Expr, ExprKind, Ident, UnaryOp};
use crate::base::Span;
use crate::diag::Diagnostic;
use pest::iterators::Pair;
use pest::pratt_parser::{Assoc, Op, PrattParser};
use std::sync::LazyLock;

/// From loosest to tightest.
static PRECEDENCE: LazyLock<PrattParser<Rule>> = LazyLock::new(|| {
    let left = |rule| Op::infix(rule, Assoc::Left);
    let comparisons =
        [Rule::unequal, Rule::single_equal, Rule::less, Rule::at_most, Rule::greater, Rule::at_least];
    PrattParser::new()
        .op(left(Rule::range))
        .op(left(Rule::or) | left(Rule::word_or))
        .op(left(Rule::and) | left(Rule::word_and))
        .op(comparisons.into_iter().fold(left(Rule::equal), |all, rule| all | left(rule)))
        .op(left(Rule::plus) | left(Rule::minus))
        .op(left(Rule::times) | left(Rule::slash) | left(Rule::percent))
        .op(Op::prefix(Rule::neg) | Op::prefix(Rule::not) | Op::prefix(Rule::word_not))
        .op(Op::postfix(Rule::index))
});

impl Builder<'_> {
    /// An `expr` pair; `None` where a part of it is wrong, which is reported.
    pub(super) fn expr(&mut self, pair: Pair<'_, Rule>) -> Option<Expr> {
        let operators = pair.clone().into_inner().filter(|part| is_operator(part.as_rule())).count();
        self.deeper(operators + 1, &pair.clone(), |builder| builder.climb(pair))
    }

    /// Runs `inside` with `levels` less to go; reports and leaves out what is nested too deeply.
    pub(super) fn deeper<T>(
        &mut self,
        levels: usize,
        pair: &Pair<'_, Rule>,
        inside: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<T> {
        self.depth += levels;
        let out = if self.depth <= DEPTH_LIMIT {
            inside(self)
        } else {
            let span = self.places.of(pair);
            let message = format!("more than {DEPTH_LIMIT} operators and brackets stand inside one another");
            self.report(
                Diagnostic::error("step::syntax::too_deep", message)
                    .label(span, "nested too deeply")
                    .help("name parts of it with `let`"),
            );
            None
        };
        self.depth -= levels;
        out
    }

    fn climb(&mut self, pair: Pair<'_, Rule>) -> Option<Expr> {
        let parts: Vec<_> = pair.clone().into_inner().collect();
        if !alternates(&parts) {
            return self.internal(&pair);
        }
        let chained = self.check_operators(&parts);
        let places = self.places;
        // Built first: the closures below cannot share the builder.
        let indices: Vec<_> = parts
            .iter()
            .filter(|part| part.as_rule() == Rule::index)
            .map(|part| Cursor::over(part.clone()).child(Rule::expr).and_then(|inner| self.expr(inner)))
            .collect();
        let mut indices = indices.into_iter();
        PRECEDENCE
            .map_primary(|primary| self.primary(primary))
            .map_prefix(|op, operand| {
                let operand = operand?;
                let (span, op) = (places.of(&op).to(operand.span), unary(op.as_rule())?);
                Some(Expr { kind: ExprKind::Unary { op, operand: Box::new(operand) }, span })
            })
            .map_postfix(|list, index| {
                let inner = indices.next().flatten();
                let (list, inner) = (list?, inner?);
                let span = list.span.to(places.of(&index));
                Some(Expr { kind: ExprKind::Index { list: Box::new(list), index: Box::new(inner) }, span })
            })
            .map_infix(|left, op, right| {
                let (left, right) = (Box::new(left?), Box::new(right?));
                let span = left.span.to(right.span);
                let kind = match binary(op.as_rule()) {
                    Some(op) => ExprKind::Binary { op, left, right },
                    None => ExprKind::Range { start: left, end: right },
                };
                Some(Expr { kind, span })
            })
            .parse(parts.into_iter())
            .filter(|_| !chained)
    }

    fn primary(&mut self, pair: Pair<'_, Rule>) -> Option<Expr> {
        let span = self.places.of(&pair);
        let kind = match pair.as_rule() {
            Rule::number => literal::number(pair, self.places, self.sink)?,
            Rule::string => ExprKind::Str(literal::string(&pair, self.places, self.sink)),
            Rule::kw_true => ExprKind::Bool(true),
            Rule::kw_false => ExprKind::Bool(false),
            Rule::path => ExprKind::Path(pair.into_inner().map(|part| self.ident(part)).collect()),
            Rule::group => {
                let inner = Cursor::over(pair).child(Rule::expr)?;
                self.expr(inner)?.kind
            }
            Rule::list => ExprKind::List(self.exprs(Cursor::over(pair))?),
            Rule::call => {
                let mut cursor = Cursor::over(pair);
                let function = cursor.child(Rule::ident)?;
                ExprKind::Call { function: self.ident(function), args: self.exprs(cursor)? }
            }
            Rule::if_expr => return self.if_expr(pair),
            _ => return self.internal(&pair),
        };
        Some(Expr { kind, span })
    }

    /// All expressions, each reported for itself; `None` if one of them is wrong.
    fn exprs(&mut self, cursor: Cursor<'_>) -> Option<Vec<Expr>> {
        let all: Vec<_> = cursor.map(|pair| self.expr(pair)).collect();
        all.into_iter().collect()
    }

    /// Conditions and branches in turn and a last branch, folded from the end.
    fn if_expr(&mut self, pair: Pair<'_, Rule>) -> Option<Expr> {
        let span = self.places.of(&pair);
        let mut cursor = Cursor::over(pair.clone());
        let (mut arms, mut last) = (Vec::new(), None);
        let count = pair.clone().into_inner().filter(|part| part.as_rule() == Rule::branch).count();
        self.deeper(count, &pair, |builder| {
            while let Some(part) = cursor.next() {
                if part.as_rule() == Rule::branch {
                    last = builder.branch(part);
                    continue;
                }
                let cond = builder.expr(part);
                let then = cursor.child(Rule::branch).and_then(|branch| builder.branch(branch));
                arms.push((cond, then));
            }
            let mut otherwise = last;
            for (cond, then) in arms.into_iter().rev() {
                let (cond, then, rest) = (cond?, then?, otherwise?);
                let span = Span { start: cond.span.start, ..span };
                let (cond, then) = (Box::new(cond), Box::new(then));
                otherwise = Some(Expr { kind: ExprKind::If { cond, then, otherwise: Box::new(rest) }, span });
            }
            otherwise.map(|expr| Expr { span, ..expr })
        })
    }

    fn branch(&mut self, pair: Pair<'_, Rule>) -> Option<Expr> {
        let inner = Cursor::over(pair).child(Rule::expr)?;
        self.expr(inner)
    }

    pub(super) fn ident(&self, pair: Pair<'_, Rule>) -> Ident {
        Ident { text: pair.as_str().to_owned(), span: self.places.of(&pair) }
    }

    /// Reports operators of other languages, which are read as what they mean, and comparisons that chain, which have no
    /// meaning; whether there are such.
    fn check_operators(&mut self, parts: &[Pair<'_, Rule>]) -> bool {
        let (mut compared, mut chained) = (false, false);
        for op in parts {
            self.check_spelling(op);
            match op.as_rule() {
                rule if is_comparison(rule) && compared => {
                    chained = true;
                    let span = self.places.of(op);
                    self.report(
                        Diagnostic::error("step::syntax::chained_comparison", "comparisons do not chain")
                            .label(span, "compares the result of a comparison")
                            .help("join two comparisons with `&&`: `a < b && b < c`"),
                    );
                }
                rule if is_comparison(rule) => compared = true,
                Rule::and | Rule::word_and | Rule::or | Rule::word_or | Rule::range => compared = false,
                _ => {}
            }
        }
        chained
    }

    fn check_spelling(&mut self, op: &Pair<'_, Rule>) {
        let (meant, message, label) = match op.as_rule() {
            Rule::word_and => ("&&", "`and` is not an operator", "logical and is written `&&`"),
            Rule::word_or => ("||", "`or` is not an operator", "logical or is written `||`"),
            Rule::word_not => ("!", "`not` is not an operator", "logical not is written `!`"),
            Rule::single_equal => ("==", "`=` inside an expression", "a comparison is written `==`"),
            _ => return,
        };
        let span = self.places.of(op);
        self.report(
            Diagnostic::error("step::syntax::operator", message)
                .label(span, label)
                .help(format!("write `{meant}`"))
                .fix(span, meant),
        );
    }
}

/// Whether operands and operators follow one another the way precedence climbing needs them.
fn alternates(parts: &[Pair<'_, Rule>]) -> bool {
    let mut wants_operand = true;
    for part in parts {
        let rule = part.as_rule();
        let infix = binary(rule).is_some() || rule == Rule::range;
        match wants_operand {
            true if infix || rule == Rule::index => return false,
            true => wants_operand = unary(rule).is_some(),
            false if infix => wants_operand = true,
            false if rule == Rule::index => {}
            false => return false,
        }
    }
    !wants_operand
}

fn is_operator(rule: Rule) -> bool {
    unary(rule).is_some() || binary(rule).is_some() || matches!(rule, Rule::range | Rule::index)
}

fn is_comparison(rule: Rule) -> bool {
    use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
    matches!(binary(rule), Some(Eq | Ne | Lt | Le | Gt | Ge))
}

fn unary(rule: Rule) -> Option<UnaryOp> {
    match rule {
        Rule::neg => Some(UnaryOp::Neg),
        Rule::not | Rule::word_not => Some(UnaryOp::Not),
        _ => None,
    }
}

fn binary(rule: Rule) -> Option<BinaryOp> {
    Some(match rule {
        Rule::or | Rule::word_or => BinaryOp::Or,
        Rule::and | Rule::word_and => BinaryOp::And,
        Rule::equal | Rule::single_equal => BinaryOp::Eq,
        Rule::unequal => BinaryOp::Ne,
        Rule::less => BinaryOp::Lt,
        Rule::at_most => BinaryOp::Le,
        Rule::greater => BinaryOp::Gt,
        Rule::at_least => BinaryOp::Ge,
        Rule::plus => BinaryOp::Add,
        Rule::minus => BinaryOp::Sub,
        Rule::times => BinaryOp::Mul,
        Rule::slash => BinaryOp::Div,
        Rule::percent => BinaryOp::Rem,
        _ => return None,
    })
}
