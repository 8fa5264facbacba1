//! The spanned syntax tree: what was written, nothing of what it means.

use crate::base::{FileId, Span};

/// A name as written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Ident {
    pub text: String,
    pub span: Span,
}

/// One parsed file. Parts that could not be read are absent; the parser has reported them.
#[derive(Debug, Clone, PartialEq)]
pub struct File {
    pub id: FileId,
    pub items: Vec<Item>,
}

/// A top-level item.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// `use "models/step35.step"`
    Use {
        path: String,
        span: Span,
    },
    Let(Let),
    /// `model`, `device`, `cluster`, `recipe`; which kinds are allowed is not the parser's business.
    Block(Block),
}

/// `let name = value`
#[derive(Debug, Clone, PartialEq)]
pub struct Let {
    pub name: Ident,
    pub value: Expr,
}

/// `kind name? (: base)? (for target)? ({ … })?`. `scaling none` is a block without a body; `layer i { … }` has the
/// variable as its name; `profile laptop for cpu { … }` has a target.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    pub kind: Ident,
    pub name: Option<Ident>,
    pub base: Option<Ident>,
    pub target: Option<Ident>,
    /// `None` where no braces were written.
    pub body: Option<Vec<Stmt>>,
    /// From the kind to the closing brace.
    pub span: Span,
}

impl Block {
    /// The statements, none where no braces were written.
    pub fn stmts(&self) -> &[Stmt] {
        self.body.as_deref().unwrap_or_default()
    }

    /// Kind and name, without the body: what a label should underline.
    pub fn head(&self) -> Span {
        self.name.as_ref().map_or(self.kind.span, |name| self.kind.span.to(name.span))
    }
}

/// What stands inside a block.
#[derive(Debug, Clone, PartialEq)]
pub enum Stmt {
    /// `key = value`
    Attr {
        key: Ident,
        value: Expr,
    },
    Block(Block),
    Let(Let),
    /// `require cond else "message"`
    Require {
        cond: Expr,
        message: Option<(String, Span)>,
        span: Span,
    },
    /// `if cond { … } else { … }` around statements; an `else if` is an `If` alone in `otherwise`.
    If {
        cond: Expr,
        then: Vec<Stmt>,
        otherwise: Vec<Stmt>,
        span: Span,
    },
}

/// An expression and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Expr {
    pub kind: ExprKind,
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// `4096`, `1_000`. Out of range for `i64` is the parser's error.
    Int(i64),
    /// `1e-5`, `0.5`
    Float(f64),
    /// A number with a unit written right behind it: `64GiB`, `4Ki`, `30min`, `22%`.
    Unit {
        number: f64,
        unit: Ident,
    },
    Str(String),
    Bool(bool),
    /// `none`, `model.experts`: a word or a reference, which of the two is decided by its use.
    Path(Vec<Ident>),
    List(Vec<Expr>),
    Index {
        list: Box<Expr>,
        index: Box<Expr>,
    },
    Call {
        function: Ident,
        args: Vec<Expr>,
    },
    Unary {
        op: UnaryOp,
        operand: Box<Expr>,
    },
    Binary {
        op: BinaryOp,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    If {
        cond: Box<Expr>,
        then: Box<Expr>,
        otherwise: Box<Expr>,
    },
    /// `0..45`, the end excluded.
    Range {
        start: Box<Expr>,
        end: Box<Expr>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnaryOp {
    Neg,
    Not,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
}

impl BinaryOp {
    /// As it is written.
    pub fn sign(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Rem => "%",
            BinaryOp::Eq => "==",
            BinaryOp::Ne => "!=",
            BinaryOp::Lt => "<",
            BinaryOp::Le => "<=",
            BinaryOp::Gt => ">",
            BinaryOp::Ge => ">=",
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
        }
    }
}
