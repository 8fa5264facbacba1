//! Evaluation of expressions. Pure and total: every expression gives a [`Value`] or one reported problem, in bounded
//! time and depth. Fields are evaluated when they are referred to; a field that needs itself is a reported cycle.

use super::functions;
use super::node::{Node, Scope};
use super::operators;
use super::schema::{BlockSchema, FieldSchema, Type};
use super::units::{self, UnitError};
use super::value::Value;
use crate::base::{FileId, Span};
use crate::diag::suggest::nearest;
use crate::diag::{Diagnostic, Sink};
use crate::syntax::parse_assignment;
use crate::syntax::tree::{Expr, ExprKind, Ident};
use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Expressions evaluated for one recipe, all together.
const FUEL: u32 = 4_000_000;
/// Expressions and references inside one another.
const DEPTH: u32 = 160;
/// Elements of a list.
const LIST: usize = 10_000;
/// The file that texts of defaults are said to stand in; never shown.
const DEFAULTS: FileId = FileId(u32::MAX);

/// There is no value, and the reason has been reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed;

/// What expressions may refer to besides the recipe: top-level items, and where each file lies.
#[derive(Default)]
pub struct World<'t> {
    /// Devices by name.
    pub devices: HashMap<&'t str, Node<'t>>,
    /// The folder of each file, in which its paths are relative.
    pub folders: HashMap<FileId, PathBuf>,
}

/// A block, what may stand in it, and the blocks around it.
#[derive(Clone, Copy)]
pub struct Chain<'c, 't> {
    pub node: &'c Node<'t>,
    pub schema: &'static BlockSchema,
    pub outer: Option<&'c Chain<'c, 't>>,
    /// The variable of a `layer` block and the layer.
    pub index: Option<(&'t str, i64)>,
}

impl<'c, 't> Chain<'c, 't> {
    /// This block and those around it, from the inside.
    pub fn outward(&'c self) -> impl Iterator<Item = &'c Chain<'c, 't>> {
        std::iter::successors(Some(self), |chain| chain.outer)
    }
}

/// Where an expression stands: in which block, and with which `let`s in sight.
#[derive(Clone, Copy)]
pub struct Frame<'f, 't> {
    pub at: &'f Chain<'f, 't>,
    pub scope: &'f Rc<Scope<'t>>,
}

/// What is being evaluated, for the report of a cycle.
struct Active<'t> {
    key: (usize, &'t str),
    name: &'t str,
    span: Option<Span>,
}

/// Evaluates the expressions of one recipe.
pub struct Evaluator<'e, 't> {
    pub world: &'e World<'t>,
    pub sink: &'e mut Sink,
    active: Vec<Active<'t>>,
    fuel: u32,
    depth: u32,
}

impl<'e, 't> Evaluator<'e, 't> {
    /// Reports to `sink`; nothing is evaluated yet.
    pub fn new(world: &'e World<'t>, sink: &'e mut Sink) -> Self {
        Evaluator { world, sink, active: Vec::new(), fuel: FUEL, depth: 0 }
    }

    /// Reports `diagnostic` and fails.
    pub fn fail<T>(&mut self, diagnostic: Diagnostic) -> Result<T, Failed> {
        self.sink.push(diagnostic);
        Err(Failed)
    }

    /// The value of `expr`. `want` is the type of the field it stands in, by which a bare word is told from a name.
    pub fn eval(
        &mut self,
        expr: &'t Expr,
        frame: Frame<'_, 't>,
        want: Option<&Type>,
    ) -> Result<Value, Failed> {
        if self.fuel == 0 || self.depth == DEPTH {
            let (limit, what) = if self.fuel == 0 { (FUEL, "steps") } else { (DEPTH, "levels") };
            return self.fail(
                Diagnostic::error(
                    "step::value::too_deep",
                    format!("evaluating this takes over {limit} {what}"),
                )
                .label(expr.span, "stopped here")
                .help("name parts with `let`, or write the value itself"),
            );
        }
        self.fuel -= 1;
        self.depth += 1;
        let value = self.eval_kind(expr, frame, want);
        self.depth -= 1;
        value
    }

    fn eval_kind(
        &mut self,
        expr: &'t Expr,
        frame: Frame<'_, 't>,
        want: Option<&Type>,
    ) -> Result<Value, Failed> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Int(number) => Ok(Value::Int(*number)),
            ExprKind::Float(number) => Ok(Value::Float(*number)),
            ExprKind::Unit { number, unit } => self.measure(*number, unit, span),
            ExprKind::Str(text) => Ok(Value::Text(text.clone(), span.file)),
            ExprKind::Bool(value) => Ok(Value::Bool(*value)),
            ExprKind::Path(path) => self.path(path, frame, want),
            ExprKind::List(items) => {
                if items.len() > LIST {
                    return self.fail(too_long(span, items.len()));
                }
                let want = match want {
                    Some(Type::List(inner, _)) => Some(*inner),
                    _ => None,
                };
                let values: Vec<_> = items.iter().map(|item| self.eval(item, frame, want)).collect();
                values.into_iter().collect::<Result<_, _>>().map(Value::List)
            }
            ExprKind::Index { list, index } => {
                let values = self.eval(list, frame, None)?;
                let position = self.eval(index, frame, None)?;
                let found = operators::index(values, position, list.span, index.span);
                found.or_else(|problem| self.fail(*problem))
            }
            ExprKind::Call { function, args } => {
                let values: Vec<_> = args.iter().map(|arg| self.operand(arg, frame)).collect();
                let values = values.into_iter().collect::<Result<Vec<_>, _>>()?;
                let spans: Vec<_> = args.iter().map(|arg| arg.span).collect();
                functions::call(function, values, &spans, span).or_else(|problem| self.fail(*problem))
            }
            ExprKind::Unary { op, operand } => {
                let value = self.operand(operand, frame)?;
                operators::unary(*op, value, operand.span).or_else(|problem| self.fail(*problem))
            }
            ExprKind::Binary { op, left, right } => {
                let first = self.eval(left, frame, None)?;
                if let Some(known) = operators::short_circuit(*op, &first) {
                    return Ok(Value::Bool(known));
                }
                let second = self.eval(right, frame, None)?;
                if !operators::compares_words(*op) {
                    self.must_be_known(&first, left, frame)?;
                    self.must_be_known(&second, right, frame)?;
                }
                let operands = [(first, left.span), (second, right.span)];
                operators::binary(*op, operands, span).or_else(|problem| self.fail(*problem))
            }
            ExprKind::If { cond, then, otherwise } => {
                let branch = if self.truth(cond, frame)? { then } else { otherwise };
                self.eval(branch, frame, want)
            }
            ExprKind::Range { start, end } => {
                let first = self.operand(start, frame)?;
                let second = self.operand(end, frame)?;
                match (first, second) {
                    (Value::Int(first), Value::Int(second)) => Ok(Value::Range(first, second)),
                    (first, second) => {
                        let message =
                            format!("a range needs two whole numbers, not `{first}` and `{second}`");
                        let place = "this range";
                        self.fail(Diagnostic::error("step::value::mismatch", message).label(span, place))
                    }
                }
            }
        }
    }

    /// The value of a condition.
    pub fn truth(&mut self, cond: &'t Expr, frame: Frame<'_, 't>) -> Result<bool, Failed> {
        match self.operand(cond, frame)? {
            Value::Bool(value) => Ok(value),
            other => self.fail(
                Diagnostic::error(
                    "step::value::mismatch",
                    format!("a condition is `true` or `false`, `{other}` is {}", other.phrase()),
                )
                .label(cond.span, "this condition")
                .help("compare it with something: `x == 0`, `x > 0`"),
            ),
        }
    }

    /// A value that must not be a bare word.
    fn operand(&mut self, expr: &'t Expr, frame: Frame<'_, 't>) -> Result<Value, Failed> {
        let value = self.eval(expr, frame, None)?;
        self.must_be_known(&value, expr, frame)?;
        Ok(value)
    }

    /// Where a word is of no use, a bare one is a name that nothing was found for.
    pub fn must_be_known(&mut self, value: &Value, expr: &Expr, frame: Frame<'_, 't>) -> Result<(), Failed> {
        match (value, &expr.kind) {
            (Value::Word(word), ExprKind::Path(path)) if path.len() == 1 && path[0].text == *word => {
                let fields =
                    frame.at.outward().flat_map(|chain| chain.schema.values()).map(|field| field.key);
                let mut known = frame.scope.names();
                known.extend(fields);
                known.extend(frame.at.outward().filter_map(|chain| chain.index.map(|(name, _)| name)));
                let mut problem = Diagnostic::error(
                    "step::value::unknown_name",
                    format!("`{word}` names no value that is known here"),
                )
                .label(expr.span, "unknown");
                if let Some(near) = nearest(word, known) {
                    problem = problem.help(format!("did you mean `{near}`?")).fix(expr.span, near);
                }
                self.fail(problem)
            }
            _ => Ok(()),
        }
    }

    fn measure(&mut self, number: f64, unit: &Ident, span: Span) -> Result<Value, Failed> {
        match units::measure(number, &unit.text) {
            Ok(value) => Ok(value),
            Err(UnitError::TooLarge) => self.fail(
                Diagnostic::error("step::value::overflow", format!("`{number}{}` is too large", unit.text))
                    .label(span, "over 64 bits"),
            ),
            Err(UnitError::Unknown) => {
                let mut problem =
                    Diagnostic::error("step::value::unknown_unit", format!("`{}` is not a unit", unit.text))
                        .label(unit.span, "unknown unit");
                problem = match nearest(&unit.text, units::UNITS.iter().copied()) {
                    Some(near) => problem.help(format!("did you mean `{near}`?")).fix(unit.span, near),
                    None => problem.help(format!("units are {}", units::UNITS.join(" "))),
                };
                self.fail(problem)
            }
        }
    }

    /// The checked value of a field of `at`, or of its default. `from` is what referred to it.
    pub fn field(
        &mut self,
        at: &Chain<'_, 't>,
        field: &'static FieldSchema,
        from: Option<Span>,
    ) -> Result<Value, Failed> {
        let written = at.node.fields.get(field.key).filter(|_| !field.read_only);
        let key = (std::ptr::from_ref(at.node) as usize, field.key);
        let place = written.and_then(|written| written.chain.first()).map(|origin| origin.span).or(from);
        self.guarded(key, field.key, place, |eval| match (written, field.default) {
            (Some(written), _) => {
                let frame = Frame { at, scope: &written.scope };
                let value = eval.eval(written.value, frame, Some(&field.ty))?;
                eval.check(value, written.value, field, frame)
            }
            (None, Some(text)) => eval.default(at, field, text, from),
            // Reported by the block that misses it.
            (None, None) => Err(Failed),
        })
    }

    /// Evaluates the text of a default as if it stood in the block.
    fn default(
        &mut self,
        at: &Chain<'_, 't>,
        field: &'static FieldSchema,
        text: &'static str,
        from: Option<Span>,
    ) -> Result<Value, Failed> {
        let Some(expr) = default_expr(text) else { return Err(Failed) };
        let mut sink = Sink::default();
        let scope = Rc::new(Scope::default());
        let value = {
            let mut inner = Evaluator {
                world: self.world,
                sink: &mut sink,
                active: std::mem::take(&mut self.active),
                fuel: self.fuel,
                depth: self.depth,
            };
            let frame = Frame { at, scope: &scope };
            let value = inner
                .eval(expr, frame, Some(&field.ty))
                .and_then(|value| inner.check(value, expr, field, frame));
            (self.active, self.fuel) = (inner.active, inner.fuel);
            value
        };
        // A place in the text of a default means nothing to the reader: point at what asked for it.
        let place = from.or_else(|| at.outward().find_map(|chain| chain.node.place()));
        for mut problem in sink.finish() {
            problem.labels.retain(|label| label.span.file != DEFAULTS);
            problem.fix = problem.fix.filter(|fix| fix.span.file != DEFAULTS);
            let unplaced = problem.labels.is_empty();
            let label = format!("`{}` is not set, its default is `{text}`", field.key);
            self.sink.push(if unplaced { problem.label(place, label) } else { problem });
        }
        value
    }

    /// Runs `inner` unless it is running already, which is a cycle.
    pub fn guarded(
        &mut self,
        key: (usize, &'t str),
        name: &'t str,
        span: Option<Span>,
        inner: impl FnOnce(&mut Self) -> Result<Value, Failed>,
    ) -> Result<Value, Failed> {
        if let Some(start) = self.active.iter().position(|active| active.key == key) {
            let problem = cycle(&self.active[start..]);
            return self.fail(problem);
        }
        self.active.push(Active { key, name, span });
        let value = inner(self);
        self.active.pop();
        value
    }
}

/// The report of a cycle, the same wherever the cycle was entered.
fn cycle(active: &[Active<'_>]) -> Diagnostic {
    let first = active.iter().enumerate().min_by_key(|(_, active)| active.span).map_or(0, |(index, _)| index);
    let (end, start) = active.split_at(first);
    let ring: Vec<_> = start.iter().chain(end).collect();
    let mut names: Vec<_> = ring.iter().map(|active| format!("`{}`", active.name)).collect();
    names.extend(names.first().cloned());
    let mut problem = Diagnostic::error(
        "step::value::cycle",
        format!("{} depends on itself: {}", names[0], names.join(" → ")),
    );
    for (index, active) in ring.iter().enumerate() {
        problem = problem.label(active.span, format!("needs {}", names[index + 1]));
    }
    problem.help("give one of them a value of its own")
}

fn too_long(span: Span, length: usize) -> Diagnostic {
    Diagnostic::error("step::value::too_long", format!("a list of {length}; at most {LIST} are allowed"))
        .label(span, "this list")
}

/// The parsed text of a default. Texts are part of the program: each is read once and kept as long as it runs.
fn default_expr(text: &'static str) -> Option<&'static Expr> {
    static PARSED: LazyLock<Mutex<HashMap<&'static str, Option<&'static Expr>>>> =
        LazyLock::new(Mutex::default);
    let mut parsed = PARSED.lock().unwrap_or_else(PoisonError::into_inner);
    *parsed.entry(text).or_insert_with(|| {
        let assignment = parse_assignment(DEFAULTS, &format!("default = {text}"), &mut Sink::default());
        assignment.map(|(_, expr)| &*Box::leak(Box::new(expr)))
    })
}
