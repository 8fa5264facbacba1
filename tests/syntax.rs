//! What the parser makes of recipes, good and broken: trees of valid texts, and every diagnostic as the user sees it.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use stepc::base::{SourceMap, Span};
use stepc::diag::render::{Format, Style, render};
use stepc::diag::{Diagnostic, Sink};
use stepc::syntax::tree::{Block, Expr, ExprKind, File, Item, Stmt};
use stepc::syntax::{self, DEPTH_LIMIT};

const PLAIN: Style = Style { color: false, width: 100, unicode: true };

fn parse(text: &str) -> (File, Vec<Diagnostic>, SourceMap) {
    let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
    let id = sources.add("a.step", text);
    let file = syntax::parse(id, text, &mut sink);
    (file, sink.finish(), sources)
}

/// The diagnostics of a text, rendered.
fn errors(text: &str) -> String {
    let (_, diagnostics, sources) = parse(text);
    render(&diagnostics, &sources, Format::Human, PLAIN)
}

/// The diagnostics of a text, a line each.
fn short(text: &str) -> String {
    let (_, diagnostics, sources) = parse(text);
    render(&diagnostics, &sources, Format::Short, PLAIN)
}

/// The statements of the only recipe of a text without mistakes.
fn good(text: &str) -> Block {
    assert_eq!(errors(text), "");
    match parse(text).0.items.pop() {
        Some(Item::Block(block)) => block,
        other => panic!("expected a block, got {other:?}"),
    }
}

/// The value of `x = …`.
fn value(text: &str) -> ExprKind {
    match good(&format!("recipe r {{\nx = {text}\n}}")).stmts() {
        [Stmt::Attr { value, .. }] => value.kind.clone(),
        other => panic!("expected one field, got {other:?}"),
    }
}

/// An expression with every operator in parentheses.
fn show(expr: &Expr) -> String {
    let list = |all: &[Expr]| all.iter().map(show).collect::<Vec<_>>().join(", ");
    match &expr.kind {
        ExprKind::Int(n) => n.to_string(),
        ExprKind::Float(n) => format!("{n:?}"),
        ExprKind::Unit { number, unit } => format!("{number}{}", unit.text),
        ExprKind::Str(text) => format!("{text:?}"),
        ExprKind::Bool(b) => b.to_string(),
        ExprKind::Path(parts) => parts.iter().map(|part| part.text.as_str()).collect::<Vec<_>>().join("."),
        ExprKind::List(all) => format!("[{}]", list(all)),
        ExprKind::Index { list, index } => format!("{}[{}]", show(list), show(index)),
        ExprKind::Call { function, args } => format!("{}({})", function.text, list(args)),
        ExprKind::Unary { op, operand } => format!("({op:?} {})", show(operand)),
        ExprKind::Binary { op, left, right } => format!("({} {op:?} {})", show(left), show(right)),
        ExprKind::If { cond, then, otherwise } => {
            format!("(if {} {} {})", show(cond), show(then), show(otherwise))
        }
        ExprKind::Range { start, end } => format!("({}..{})", show(start), show(end)),
    }
}

fn shown(text: &str) -> String {
    let span = Span::new(SourceMap::default().add("", ""), 0, 0);
    show(&Expr { kind: value(text), span })
}

// ---- valid texts

const RECIPE: &str = r#"// Step-3.5-Flash (196B parameters, 11B active): pretraining on 12 Atlas A3 nodes.
use "models/step35.step"
use "devices/atlas.step"

recipe step35_flash {
  model step35_flash {
    weights = "hf_weights/Step-3.5-Flash"      // a Hugging Face folder, read in place: no conversion
    init    = meta                             // shapes only until a rank loads its own shard
  }

  cluster atlas_a3 { nodes = 12 }              // 16 NPUs a node: cluster.devices == 192

  parallel {
    fsdp      = 192
    ep        = 96                             // 3 of 288 experts a rank
    ep_fsdp   = 2
    recompute = none
    precision { params = bf16, reduce = f32, optimizer = f32 }
  }

  data {
    source wiki { path = "data/wiki/*.parquet", column = "text" }
    tokenizer = model.weights
    sequence  = 4Ki
    pack      = documents                      // attention never crosses a document
  }

  train {
    stage = pretrain
    steps = 2000
    global_batch = cluster.devices             // sequences a step, all devices together
    micro_batch  = 1                           // sequences a device at a time; accumulation follows
    optimizer adamw { lr = 1e-5, betas = [0.9, 0.95], weight_decay = 0.01 }
    schedule cosine { warmup = 0, min_lr = 1e-6 }
    clip  = 1.0
    seed  = 42
  }

  checkpoint { dir = "output/step35_flash", every = 2000, keep = 3 }

  require model.experts % parallel.ep == 0
    else "each rank needs a whole number of experts"

  // The same architecture at laptop size, chosen by itself where no NPU is found.
  profile laptop for cpu {
    cluster cpu { devices = 2 }
    model { weights = scratch, vocab = 4096, hidden = 128, layers = 8, moe sparse { experts = 16, top_k = 4, inner = 64 } }
    parallel { fsdp = 2, ep = 2, ep_fsdp = 1 }
    data { source wiki { path = "../examples/data/*.txt" }, tokenizer = "../examples/data/tokenizer.json", sequence = 256 }
    train { steps = 60, global_batch = 8, optimizer adamw { lr = 3e-3 } }
  }
}
"#;

const MODEL: &str = r#"model step35_flash {
  vocab  = 128896
  hidden = 4096
  layers = 45
  norm rms { eps = 1e-5, offset = 1 }                    // y = x / rms(x) * (w + offset)

  attention full {
    heads = 64, kv_heads = 8, head_dim = 128
    qk_norm = head
    gate    = per_head
    rope { theta = 5e6, fraction = 0.5, scaling llama3 { factor = 2.0, original = 128Ki, low = 1.0, high = 32.0 } }
  }
  attention sliding: full { heads = 96, window = 512, rope { theta = 1e4, fraction = 1.0, scaling none } }

  mlp dense  { inner = 11264, act = swiglu }
  moe sparse {
    experts = 288, top_k = 8, inner = 1280
    shared { inner = 1280 }
    router { score = sigmoid, bias = true, normalize = true, scale = 3.0, precision = f32 }
  }

  layer i {                                              // i runs over 0..layers
    attention = if i % 4 == 0 { full } else { sliding }
    ffn       = if i < 3 { dense } else { sparse }
    if i >= layers - 2 { sparse { clamp = 7.0 } }        // swiglu limits of the last layers
    if i == layers - 1 { sparse { shared { clamp = 16.0 } } }
  }

  mtp { layers = 3, attention = sliding, ffn = dense, head = own }

  names {                                                // how a checkpoint calls its tensors
    embed = "model.embed_tokens.weight"
    layer = "model.layers.{i}"
    attention { q = "self_attn.q_proj.weight", gate = "self_attn.g_proj.weight" }
    moe { gate = "moe.gate_proj.weight", layout = stacked }
  }
}
"#;

const DEVICES: &str = r#"let node = 16

device ascend { kind = npu, memory = 64GiB, bandwidth = 1.6TB/s }

cluster atlas {
  device           = ascend
  nodes            = 12, devices_per_node = node
  betas            = [
    0.9,
    0.95, // trailing
  ]
  total            =
    nodes * devices_per_node
      + 0
  if nodes > 1 { spare = 5% } else if nodes == 1 { spare = 0% }
  else { spare = 22% }
  /* a comment
     over lines */ last = true
}
"#;

#[test]
fn the_samples_have_no_mistakes() {
    for (text, items) in [(RECIPE, 3), (MODEL, 1), (DEVICES, 3)] {
        assert_eq!(errors(text), "");
        assert_eq!(parse(text).0.items.len(), items);
        let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
        assert_eq!(errors(&windows), "");
        assert_eq!(parse(&windows).0.items.len(), items);
    }
}

#[test]
fn heads_of_blocks() {
    let recipe = good(
        "recipe r {\n profile laptop for cpu { }, attention sliding: full { }\n scaling none, moe { }\n}",
    );
    let heads: Vec<_> = recipe
        .stmts()
        .iter()
        .map(|stmt| match stmt {
            Stmt::Block(block) => {
                let part =
                    |ident: &Option<_>| ident.as_ref().map(|ident: &syntax::tree::Ident| ident.text.clone());
                (
                    block.kind.text.as_str(),
                    part(&block.name),
                    part(&block.base),
                    part(&block.target),
                    block.body.is_some(),
                )
            }
            other => panic!("expected a block, got {other:?}"),
        })
        .collect();
    let some = |text: &str| Some(text.to_owned());
    let expected = [
        ("profile", some("laptop"), None, some("cpu"), true),
        ("attention", some("sliding"), some("full"), None, true),
        ("scaling", some("none"), None, None, false),
        ("moe", None, None, None, true),
    ];
    assert_eq!(heads, expected);
}

#[test]
fn precedence() {
    assert_eq!(shown("1 + 2 * 3 - -4"), "((1 Add (2 Mul 3)) Sub (Neg 4))");
    assert_eq!(shown("a || b && !c == d"), "(a Or (b And ((Not c) Eq d)))");
    assert_eq!(shown("a - b - c"), "((a Sub b) Sub c)");
    assert_eq!(shown("-xs[0][i + 1] / 2"), "((Neg xs[0][(i Add 1)]) Div 2)");
    assert_eq!(shown("0..n - 1"), "(0..(n Sub 1))");
    assert_eq!(shown("(1 + 2) * max(3, len([4, 5,]))"), "((1 Add 2) Mul max(3, len([4, 5])))");
    assert_eq!(shown("if a { 1 } else if b { 2 } else { 3 }"), "(if a 1 (if b 2 3))");
    assert_eq!(shown("model.layers\n  >= 2"), "(model.layers Ge 2)");
}

#[test]
fn numbers_and_units() {
    assert_eq!(shown("1_000"), "1000");
    assert_eq!(shown("1e-5"), "1e-5");
    assert_eq!(shown("5.25"), "5.25");
    assert_eq!(shown("64GiB"), "64GiB");
    assert_eq!(shown("1.5T"), "1.5T");
    assert_eq!(shown("30min"), "30min");
    assert_eq!(shown("392GB/s"), "392GB/s");
    assert_eq!(shown("22%"), "22%");
    assert_eq!(shown("22% + 1"), "(22% Add 1)");
    assert_eq!(shown("22%4"), "(22 Rem 4)");
    assert_eq!(shown("22 % n"), "(22 Rem n)");
    assert_eq!(shown("0..4Ki"), "(0..4Ki)");
    assert_eq!(shown("\"a\\n\\\"步\""), "\"a\\n\\\"步\"");
}

#[test]
fn spans_are_exact() {
    let text = "recipe r { heads = max(1, 2) }";
    let recipe = good(text);
    let [Stmt::Attr { key, value }] = recipe.stmts() else { panic!("one field") };
    assert_eq!(&text[key.span.range()], "heads");
    assert_eq!(&text[value.span.range()], "max(1, 2)");
    assert_eq!(&text[recipe.span.range()], text);
}

#[test]
fn assignments() {
    let read = |text: &str| {
        let (mut sources, mut sink) = (SourceMap::default(), Sink::default());
        let id = sources.add("<--set>", text);
        let found = syntax::parse_assignment(id, text, &mut sink);
        let found = found.map(|(path, value)| {
            (path.into_iter().map(|part| part.text).collect::<Vec<_>>().join("/"), show(&value))
        });
        (found, render(&sink.finish(), &sources, Format::Short, PLAIN))
    };
    let good = |path: &str, value: &str| (Some((path.to_owned(), value.to_owned())), String::new());
    assert_eq!(read("train.steps=10"), good("train/steps", "10"));
    assert_eq!(read("model.attention full.heads = 2 * 4"), good("model/attention full/heads", "(2 Mul 4)"));
    insta::assert_snapshot!(read("train.steps").1, @r#"<--set>:1:12: error[step::syntax::expected]: expected a name or `=`, found the end"#);
    insta::assert_snapshot!(read("train.steps=").1, @r#"<--set>:1:13: error[step::syntax::expected]: expected a value, found the end"#);
    insta::assert_snapshot!(read("data.tokenizer=a/b.json").1, @"");
    insta::assert_snapshot!(read("").1, @r#"<--set>:1:1: error[step::syntax::expected]: expected a name, found the end"#);
}

// ---- broken texts

#[test]
fn independent_faults_are_all_reported_and_nothing_else() {
    let text = "recipe a {
  train {
    steps = = 5
    lr = (1 + 2
    wd =
    seed = 42
    what is this thing
    clip = 1.0
  model m { layers = 3 }
  data { sequence = 4Ki }
}
recipe b { train { steps = 3 } }
";
    insta::assert_snapshot!(short(text), @r#"
    a.step:2:9: error[step::syntax::unclosed]: this `{` is never closed
    a.step:3:13: error[step::syntax::expected]: expected a value, found `=`
    a.step:4:10: error[step::syntax::unclosed]: this `(` is never closed
    a.step:5:9: error[step::syntax::expected]: expected a value, found the end of the line
    a.step:7:13: error[step::syntax::expected]: expected the end of the statement, found `this`
    "#);
    let (file, ..) = parse(text);
    let [Item::Block(a), Item::Block(b)] = file.items.as_slice() else { panic!("two recipes: {file:?}") };
    let kinds = |block: &Block| {
        let kind = |stmt: &Stmt| match stmt {
            Stmt::Attr { key, .. } => key.text.clone(),
            Stmt::Block(block) => block.kind.text.clone(),
            other => format!("{other:?}"),
        };
        block.stmts().iter().map(kind).collect::<Vec<_>>()
    };
    assert_eq!(
        (kinds(a), kinds(b)),
        (vec!["train".into(), "model".into(), "data".into()], vec!["train".into()])
    );
    let [Stmt::Block(train), ..] = a.stmts() else { panic!("train comes first") };
    assert_eq!(kinds(train), ["lr", "seed", "clip"]);
}

#[test]
fn missing_value() {
    insta::assert_snapshot!(errors("recipe a {\n  train {\n    lr =\n    seed = 42\n  }\n}\n"), @r#"
    step::syntax::expected

      × expected a value, found the end of the line
       ╭─[a.step:3:9]
     2 │   train {
     3 │     lr =
       ·         ▲
       ·         ╰── expected a value
     4 │     seed = 42
       ╰────
      help: write a value: `lr = …`

    1 error
    "#);
}

#[test]
fn missing_value_before_a_comment() {
    insta::assert_snapshot!(errors("recipe a {\n  lr = // later\n  what is this // thing\n}\n"), @r#"
    step::syntax::expected

      × expected a value, found the end of the line
       ╭─[a.step:2:7]
     1 │ recipe a {
     2 │   lr = // later
       ·       ▲
       ·       ╰── expected a value
     3 │   what is this // thing
       ╰────
      help: write a value: `lr = …`

    step::syntax::expected

      × expected the end of the statement, found `this`
       ╭─[a.step:3:11]
     2 │   lr = // later
     3 │   what is this // thing
       ·           ──┬─
       ·             ╰── expected the end of the statement
     4 │ }
       ╰────
      help: write `what = VALUE`, or `what NAME { … }` for a block

    2 errors
    "#);
}

#[test]
fn double_equals_sign() {
    insta::assert_snapshot!(errors("recipe a { train { steps = = 5 } }\n"), @r#"
    step::syntax::expected

      × expected a value, found `=`
       ╭─[a.step:1:28]
     1 │ recipe a { train { steps = = 5 } }
       ·                            ┬
       ·                            ╰── expected a value
       ╰────
      help: write one `=`

    1 error
    "#);
}

#[test]
fn unclosed_parenthesis() {
    insta::assert_snapshot!(errors("recipe a {\n  lr = (1 + 2\n  seed = 42\n}\n"), @r#"
    step::syntax::unclosed

      × this `(` is never closed
       ╭─[a.step:2:8]
     1 │ recipe a {
     2 │   lr = (1 + 2
       ·        ┬
       ·        ╰── opened here
     3 │   seed = 42
       ·   ──┬─
       ·     ╰── `)` is missing before this
     4 │ }
       ╰────
      help: close it with `)`

    1 error
    "#);
}

#[test]
fn unclosed_list() {
    insta::assert_snapshot!(errors("recipe a {\n  betas = [0.9, 0.95\n  optimizer adamw { lr = 1 }\n}\n"), @r#"
    step::syntax::unclosed

      × this `[` is never closed
       ╭─[a.step:2:11]
     1 │ recipe a {
     2 │   betas = [0.9, 0.95
       ·           ┬
       ·           ╰── opened here
     3 │   optimizer adamw { lr = 1 }
       ·   ────┬────
       ·       ╰── `]` is missing before this
     4 │ }
       ╰────
      help: close it with `]`

    1 error
    "#);
}

#[test]
fn unclosed_brace_told_by_indentation() {
    insta::assert_snapshot!(errors("recipe a {\n  model m {\n    heads = 3\n\n  train {\n    steps = 1\n  }\n}\n"), @r#"
    step::syntax::unclosed

      × this `{` is never closed
       ╭─[a.step:2:11]
     1 │ recipe a {
     2 │   model m {
       ·           ┬
       ·           ╰── opened here
     3 │     heads = 3
     4 │ 
     5 │   train {
       ·   ──┬──
       ·     ╰── `}` is missing before this
     6 │     steps = 1
       ╰────
      help: close it with `}`

    1 error
    "#);
}

#[test]
fn unclosed_brace_at_the_end() {
    insta::assert_snapshot!(errors("recipe a {\n  steps = 1\n"), @r#"
    step::syntax::unclosed

      × this `{` is never closed
       ╭─[a.step:1:10]
     1 │ recipe a {
       ·          ┬
       ·          ╰── opened here
     2 │   steps = 1
       ·            ▲
       ·            ╰── `}` is missing at the end of the file
       ╰────
      help: close it with `}`

    1 error
    "#);
}

#[test]
fn stray_brace_told_by_indentation() {
    insta::assert_snapshot!(errors("recipe a {\n  model m {\n    heads = 3\n  }\n  }\n  seed = 1\n}\n"), @r#"
    step::syntax::stray

      × this `}` closes nothing
       ╭─[a.step:5:3]
     4 │   }
     5 │   }
       ·   ┬
       ·   ╰── no `{` is open here
     6 │   seed = 1
       ╰────
      help: remove it, or open a `{` before it

    1 error
    "#);
}

#[test]
fn stray_parenthesis() {
    insta::assert_snapshot!(errors("recipe a { x = 5) }\n"), @r#"
    step::syntax::stray

      × this `)` closes nothing
       ╭─[a.step:1:17]
     1 │ recipe a { x = 5) }
       ·                 ┬
       ·                 ╰── no `(` is open here
       ╰────
      help: remove it, or open a `(` before it

    1 error
    "#);
}

#[test]
fn unclosed_text() {
    insta::assert_snapshot!(errors("recipe a {\n  source wiki { path = \"data/*.txt }\n  seed = 1\n}\n"), @r#"
    step::syntax::unclosed_string

      × this string is never closed
       ╭─[a.step:2:24]
     1 │ recipe a {
     2 │   source wiki { path = "data/*.txt }
       ·                        ┬
       ·                        ╰── opened here
     3 │   seed = 1
       ╰────
      help: a string ends on its line: close it with `"`

    1 error
    "#);
}

#[test]
fn unclosed_comment() {
    insta::assert_snapshot!(errors("recipe a {\n  seed = 1 /* why\n}\n"), @r#"
    step::syntax::unclosed_comment

      × this comment is never closed
       ╭─[a.step:2:12]
     1 │ recipe a {
     2 │   seed = 1 /* why
       ·            ─┬
       ·             ╰── opened here, open to the end of the file
     3 │ }
       ╰────
      help: close it with `*/`, or comment single lines with `//`

    1 error
    "#);
}

#[test]
fn colon_for_equals() {
    insta::assert_snapshot!(errors("recipe a { heads: 64 }\n"), @r#"
    step::syntax::assignment

      × a value is set with `=`, not `:`
       ╭─[a.step:1:17]
     1 │ recipe a { heads: 64 }
       ·                 ┬
       ·                 ╰── expected `=`
       ╰────
      help: write `heads = 64`

    1 error
    "#);
}

#[test]
fn double_equals_for_equals() {
    insta::assert_snapshot!(errors("recipe a { heads == 64 }\n"), @r#"
    step::syntax::assignment

      × `==` compares; a value is set with `=`
       ╭─[a.step:1:18]
     1 │ recipe a { heads == 64 }
       ·                  ─┬
       ·                   ╰── expected `=`
       ╰────
      help: write `heads = 64`

    1 error
    "#);
}

#[test]
fn no_equals() {
    insta::assert_snapshot!(errors("recipe a { heads 64 }\n"), @r#"
    step::syntax::assignment

      × `=` is missing between `heads` and its value
       ╭─[a.step:1:17]
     1 │ recipe a { heads 64 }
       ·                 ┬
       ·                 ╰── expected `=`
       ╰────
      help: write `heads = 64`

    1 error
    "#);
}

#[test]
fn quoted_key() {
    insta::assert_snapshot!(errors("recipe a { \"heads\": 64 }\n"), @r#"
    step::syntax::assignment

      × a value is set with `=`, not `:`
       ╭─[a.step:1:19]
     1 │ recipe a { "heads": 64 }
       ·                   ┬
       ·                   ╰── expected `=`
       ╰────
      help: write `heads = 64`

    1 error
    "#);
}

#[test]
fn block_as_value() {
    insta::assert_snapshot!(errors("recipe a { train = { steps = 1 } }\n"), @r#"
    step::syntax::assignment

      × a block is not a value: nothing stands between `train` and `{`
       ╭─[a.step:1:12]
     1 │ recipe a { train = { steps = 1 } }
       ·            ────┬───
       ·                ╰── the head of a block
       ╰────
      help: write `train { … }`

    1 error
    "#);
}

#[test]
fn equals_in_condition() {
    insta::assert_snapshot!(errors("model a { layer i { if i = 0 { x = 1 } } }\n"), @r#"
    step::syntax::operator

      × `=` inside an expression
       ╭─[a.step:1:26]
     1 │ model a { layer i { if i = 0 { x = 1 } } }
       ·                          ┬
       ·                          ╰── a comparison is written `==`
       ╰────
      help: write `==`

    1 error
    "#);
}

#[test]
fn word_operators() {
    insta::assert_snapshot!(errors("recipe a { require x and not y }\n"), @r#"
    step::syntax::operator

      × `and` is not an operator
       ╭─[a.step:1:22]
     1 │ recipe a { require x and not y }
       ·                      ─┬─
       ·                       ╰── logical and is written `&&`
       ╰────
      help: write `&&`

    step::syntax::operator

      × `not` is not an operator
       ╭─[a.step:1:26]
     1 │ recipe a { require x and not y }
       ·                          ─┬─
       ·                           ╰── logical not is written `!`
       ╰────
      help: write `!`

    2 errors
    "#);
}

#[test]
fn semicolons() {
    insta::assert_snapshot!(errors("recipe a {\n  x = 1; y = 2;\n}\n"), @r#"
    step::syntax::semicolon

      × a statement does not end with `;`
       ╭─[a.step:2:8]
     1 │ recipe a {
     2 │   x = 1; y = 2;
       ·        ┬
       ·        ╰── not needed
     3 │ }
       ╰────
      help: a comma or a new line parts statements
            write `,` instead of `;`

    step::syntax::semicolon

      × a statement does not end with `;`
       ╭─[a.step:2:15]
     1 │ recipe a {
     2 │   x = 1; y = 2;
       ·               ┬
       ·               ╰── not needed
     3 │ }
       ╰────
      help: a comma or a new line parts statements
            remove `;`

    2 errors
    "#);
}

#[test]
fn foreign_comments() {
    insta::assert_snapshot!(errors("# one\n# two\nrecipe a {\n  x = 1 -- three\n}\n"), @r#"
    step::syntax::comment

      × `#` does not begin a comment
       ╭─[a.step:1:1]
     1 │ # one
       · ┬
       · ╰── comments begin with `//`
     2 │ # two
       ╰────
      help: write `//`

    step::syntax::comment

      × `--` does not begin a comment
       ╭─[a.step:4:9]
     3 │ recipe a {
     4 │   x = 1 -- three
       ·         ─┬
       ·          ╰── comments begin with `//`
     5 │ }
       ╰────
      help: write `//`

    2 errors
    "#);
}

#[test]
fn single_quotes() {
    insta::assert_snapshot!(errors("recipe a { name = 'wiki' }\n"), @r#"
    step::syntax::quotes

      × text stands in double quotes
       ╭─[a.step:1:19]
     1 │ recipe a { name = 'wiki' }
       ·                   ───┬──
       ·                      ╰── quoted with '
       ╰────
      help: write `"wiki"`

    1 error
    "#);
}

#[test]
fn full_width_punctuation() {
    insta::assert_snapshot!(errors("recipe a { heads ＝ 64，kv = 8 }\n"), @r#"
    step::syntax::lookalike

      × `＝` is a full-width equals sign, not `=`
       ╭─[a.step:1:18]
     1 │ recipe a { heads ＝ 64，kv = 8 }
       ·                  ──
       ╰────
      help: write `=`

    step::syntax::lookalike

      × `，` is a full-width comma, not `,`
       ╭─[a.step:1:24]
     1 │ recipe a { heads ＝ 64，kv = 8 }
       ·                       ──
       ╰────
      help: write `,`

    2 errors
    "#);
}

#[test]
fn misspelt_item() {
    insta::assert_snapshot!(errors("receipe a { x = 1 }\n"), @r#"
    step::syntax::unknown_kind

      × `receipe` is not an item of a file
       ╭─[a.step:1:1]
     1 │ receipe a { x = 1 }
       · ───┬───
       ·    ╰── a file holds use, let, model, device, cluster and recipe
       ╰────
      help: did you mean `recipe`?

    1 error
    "#);
}

#[test]
fn misplaced_items() {
    insta::assert_snapshot!(errors("steps = 5\nrecipe a { use \"b.step\" }\n"), @r#"
    step::syntax::misplaced

      × `steps` stands outside of every block
       ╭─[a.step:1:1]
     1 │ steps = 5
       · ──┬──
       ·   ╰── a file holds use, let, model, device, cluster and recipe
     2 │ recipe a { use "b.step" }
       ╰────
      help: put it inside a block, or name a value with `let steps = …`

    step::syntax::misplaced

      × `use` stands inside a block
       ╭─[a.step:2:12]
     1 │ steps = 5
     2 │ recipe a { use "b.step" }
       ·            ──────┬─────
       ·                  ╰── not allowed here
       ╰────
      help: move it to the top of the file

    2 errors
    "#);
}

#[test]
fn missing_separator() {
    insta::assert_snapshot!(errors("recipe a { x = 1 y = 2 }\n"), @r#"
    step::syntax::separator

      × expected a comma or a new line before `y`
       ╭─[a.step:1:18]
     1 │ recipe a { x = 1 y = 2 }
       ·                  ┬
       ·                  ╰── a second statement begins here
       ╰────
      help: part the two with `,` or a new line

    1 error
    "#);
}

#[test]
fn ternary() {
    insta::assert_snapshot!(errors("recipe a { x = y ? 1 : 2 }\n"), @r#"
    step::syntax::expected

      × expected an operator or the end of the statement, found `?`
       ╭─[a.step:1:18]
     1 │ recipe a { x = y ? 1 : 2 }
       ·                  ┬
       ·                  ╰── expected an operator or the end of the statement
       ╰────
      help: a choice is written `if CONDITION { a } else { b }`

    1 error
    "#);
}

#[test]
fn if_without_else() {
    insta::assert_snapshot!(errors("model a { x = if y { 1 } }\n"), @r#"
    step::syntax::expected

      × expected `else`, found `}`
       ╭─[a.step:1:25]
     1 │ model a { x = if y { 1 } }
       ·                         ▲
       ·                         ╰── expected `else`
       ╰────
      help: a value needs both branches: `if CONDITION { a } else { b }`

    1 error
    "#);
}

#[test]
fn loops() {
    insta::assert_snapshot!(errors("model a { for i in 0..3 { x = } }\n"), @r#"
    step::syntax::expected

      × expected a field, a block, `let`, `if` or `require`, found `for`
       ╭─[a.step:1:11]
     1 │ model a { for i in 0..3 { x = } }
       ·           ─┬─
       ·            ╰── expected a field, a block, `let`, `if` or `require`
       ╰────
      help: there are no loops; `layer i { … }` describes every layer i

    step::syntax::expected

      × expected a value, found `}`
       ╭─[a.step:1:30]
     1 │ model a { for i in 0..3 { x = } }
       ·                              ▲
       ·                              ╰── expected a value
       ╰────
      help: write a value: `x = …`

    2 errors
    "#);
}

#[test]
fn dashed_name() {
    insta::assert_snapshot!(errors("model step-35 { x = 1 }\n"), @r#"
    step::syntax::expected

      × expected `{`, found `-`
       ╭─[a.step:1:11]
     1 │ model step-35 { x = 1 }
       ·           ┬
       ·           ╰── expected `{`
       ╰────
      help: a name holds letters, digits and `_`

    1 error
    "#);
}

#[test]
fn integer_out_of_range() {
    insta::assert_snapshot!(errors("recipe a { x = 9_223_372_036_854_775_808 }\n"), @r#"
    step::syntax::number_range

      × 9223372036854775808 is too large for an integer
       ╭─[a.step:1:16]
     1 │ recipe a { x = 9_223_372_036_854_775_808 }
       ·                ────────────┬────────────
       ·                            ╰── out of range
       ╰────
      help: the largest is 9223372036854775807

    1 error
    "#);
}

#[test]
fn unknown_escape() {
    insta::assert_snapshot!(errors("recipe a { path = \"C:\\data\" }\n"), @r#"
    step::syntax::escape

      × unknown escape `\d`
       ╭─[a.step:1:22]
     1 │ recipe a { path = "C:\data" }
       ·                      ─┬
       ·                       ╰── not an escape
       ╰────
      help: the escapes are \n \t \r \" and \\; write `\\` for a backslash

    1 error
    "#);
}

#[test]
fn chained_comparison() {
    insta::assert_snapshot!(errors("recipe a { require 1 < x < 3 }\n"), @r#"
    step::syntax::chained_comparison

      × comparisons do not chain
       ╭─[a.step:1:26]
     1 │ recipe a { require 1 < x < 3 }
       ·                          ┬
       ·                          ╰── compares the result of a comparison
       ╰────
      help: join two comparisons with `&&`: `a < b && b < c`

    1 error
    "#);
}

#[test]
fn require_with_comma() {
    insta::assert_snapshot!(errors("recipe a { require x == 2, \"two\" }\n"), @r#"
    step::syntax::expected

      × expected `else` before the message of `require`
       ╭─[a.step:1:26]
     1 │ recipe a { require x == 2, "two" }
       ·                          ┬
       ·                          ╰── `else` belongs here
       ╰────
      help: write `require CONDITION else "message"`

    1 error
    "#);
}

#[test]
fn control_character() {
    insta::assert_snapshot!(errors("recipe a { x = 1\0 }\n"), @r#"
    step::syntax::control_character

      × control character U+0000 in the text
       ╭─[a.step:1:17]
     1 │ recipe a { x = 1? }
       ·                 ┬
       ·                 ╰── not a printable character
       ╰────
      help: remove it; is this a text file?

    1 error
    "#);
}

#[test]
fn reserved_word() {
    insta::assert_snapshot!(errors("recipe a { for = 3 }\n"), @r#"
    step::syntax::expected

      × expected a field, a block, `let`, `if` or `require`, found `for`
       ╭─[a.step:1:12]
     1 │ recipe a { for = 3 }
       ·            ─┬─
       ·             ╰── expected a field, a block, `let`, `if` or `require`
       ╰────
      help: `for` is a word of the language and cannot be a name

    1 error
    "#);
}

#[test]
fn yaml() {
    insta::assert_snapshot!(errors("recipe:\n  train:\n    steps: 10\n"), @r#"
    step::syntax::foreign_format

      × this looks like YAML, not like a recipe
       ╭─[a.step:1:1]
     1 │ recipe:
       · ───┬──
       ·    ╰── expected use, let, model, device, cluster or recipe
     2 │   train:
       ╰────
      help: a recipe is written `recipe NAME { train { steps = 10 } }`

    1 error
    "#);
}

#[test]
fn json() {
    insta::assert_snapshot!(errors("{ \"recipe\": { \"train\": { \"steps\": 10 } } }\n"), @r#"
    step::syntax::foreign_format

      × this looks like JSON, not like a recipe
       ╭─[a.step:1:1]
     1 │ { "recipe": { "train": { "steps": 10 } } }
       · ┬
       · ╰── expected use, let, model, device, cluster or recipe
       ╰────
      help: a recipe is written `recipe NAME { train { steps = 10 } }`

    1 error
    "#);
}

#[test]
fn the_fix_of_a_mistake_mends_it() {
    let broken = "receipe a {\n  heads: 64; kv 'x' and 2\n  require a = b, \"c\"\n  x = 1 y = 2\n}\n";
    let mut text = broken.to_owned();
    for _ in 0..10 {
        let (_, diagnostics, _) = parse(&text);
        let Some(fix) = diagnostics.iter().find_map(|d| d.fix.clone()) else { break };
        text.replace_range(fix.span.range(), &fix.text);
    }
    insta::assert_snapshot!(text, @r#"
    recipe a {
      heads = 64, kv = "x" && 2
      require a == b else "c"
      x = 1, y = 2
    }
    "#);
    assert_eq!(errors(&text), "");
}

#[test]
fn nesting_is_bounded() {
    let code = |text: &str| parse(text).1.iter().map(|d| d.code).collect::<Vec<_>>();
    let nested = |open: &str, close: &str, n: usize| {
        format!("recipe r {{ x = {}1{} }}", open.repeat(n), close.repeat(n))
    };
    for n in [DEPTH_LIMIT, 20_000] {
        assert_eq!(code(&nested("(", ")", n)), ["step::syntax::too_deep"]);
        assert_eq!(code(&nested("[", "]", n)), ["step::syntax::too_deep"]);
        assert_eq!(code(&nested("-", "", 1)), [""; 0]);
        assert_eq!(code(&nested("!", "", n)), ["step::syntax::too_deep"]);
        assert_eq!(code(&nested("", " + 1", n)), ["step::syntax::too_deep"]);
        assert_eq!(code(&nested("if a { 1 } else ", "", n)).len(), 1);
        assert_eq!(code(&nested("if a { 1 } else ", "{ 1 }", 1)).len(), 1);
        assert_eq!(
            code(&format!("model m {}{{}}{}", "{ a ".repeat(n), "}".repeat(n))),
            ["step::syntax::too_deep"]
        );
        let chain = format!("model m {{ if a {{ }}{} }}", " else if a { }".repeat(n));
        assert_eq!(code(&chain), ["step::syntax::too_deep"]);
        assert!(!code(&"{".repeat(n)).is_empty() && !code(&"}".repeat(n)).is_empty());
    }
    assert_eq!(errors(&nested("(", ")", 100)), "");
}

// ---- renderers

#[test]
fn labels_in_two_files() {
    let mut sources = SourceMap::default();
    let a = sources.add("a.step", "ep = 7\n");
    let b = sources.add("models/b.step", "\texperts = 288 // 步\n");
    let fault = Diagnostic::error("step::parallel::ep_experts", "288 experts do not divide over ep = 7")
        .label(Span::new(a, 5, 6), "ep is 7")
        .label(Span::new(b, 1, 8), "experts come from here")
        .label(Span::new(a, 0, 2), "set here")
        .help("the nearest value that divides is 6")
        .fix(Span::new(a, 5, 6), "6");
    let warning = Diagnostic::warning("step::train::idle", "nothing to do");
    let all = [fault, warning];
    insta::assert_snapshot!(render(&all, &sources, Format::Human, PLAIN), @r#"
    step::parallel::ep_experts

      × 288 experts do not divide over ep = 7
       ╭─[a.step:1:6]
     1 │ ep = 7
       · ─┬   ┬
       ·  │   ╰── ep is 7
       ·  ╰── set here
       ╰────
      ☞ see also models/b.step
       ╭─[models/b.step:1:2]
     1 │     experts = 288 // 步
       ·     ───┬───
       ·        ╰── experts come from here
       ╰────
      help: the nearest value that divides is 6

    step::train::idle

      ⚠ nothing to do

    1 error, 1 warning
    "#);
    insta::assert_snapshot!(render(&all, &sources, Format::Short, PLAIN), @r#"
    a.step:1:6: error[step::parallel::ep_experts]: 288 experts do not divide over ep = 7
    warning[step::train::idle]: nothing to do
    "#);
    insta::assert_snapshot!(render(&all, &sources, Format::Json, PLAIN), @r#"
    {"code":"step::parallel::ep_experts","severity":"error","message":"288 experts do not divide over ep = 7","path":"a.step","line":1,"column":6,"end":{"line":1,"column":7},"labels":[{"path":"a.step","line":1,"column":6,"end":{"line":1,"column":7},"text":"ep is 7"},{"path":"models/b.step","line":1,"column":2,"end":{"line":1,"column":9},"text":"experts come from here"},{"path":"a.step","line":1,"column":1,"end":{"line":1,"column":3},"text":"set here"}],"help":"the nearest value that divides is 6","fix":{"path":"a.step","line":1,"column":6,"end":{"line":1,"column":7},"text":"6"}}
    {"code":"step::train::idle","severity":"warning","message":"nothing to do","labels":[],"help":null,"fix":null}
    "#);
}

#[test]
fn places_outside_their_text_are_shown_all_the_same() {
    let mut sources = SourceMap::default();
    for text in ["", "\n", "步", "x\t步\r\n\n"] {
        let id = sources.add("a.step", text);
        for (start, end) in [(0, 0), (0, 1), (1, 2), (2, 400), (400, 500), (3, 1)] {
            let span = Span { file: id, start, end };
            let all = [Diagnostic::error("step::a::b", "here").label(span, "this").fix(span, "that")];
            for format in [Format::Human, Format::Short, Format::Json] {
                for (color, width, unicode) in [(true, 0, true), (false, 10, false), (false, 200, true)] {
                    let out = render(&all, &sources, format, Style { color, width, unicode });
                    assert!(out.contains("step::a::b"), "{out}");
                    assert_eq!(out.contains('\u{1b}'), color && format == Format::Human);
                }
            }
        }
    }
}

// ---- any text at all

/// Every place in a diagnostic lies inside the text, and it can be rendered.
fn check(text: &str) {
    let (file, diagnostics, sources) = parse(text);
    for label in diagnostics.iter().flat_map(|d| &d.labels) {
        assert!(text.get(label.span.range()).is_some(), "{label:?} is not in {text:?}");
    }
    render(&diagnostics, &sources, Format::Human, PLAIN);
    render(&diagnostics, &sources, Format::Json, PLAIN);
    for item in &file.items {
        if let Item::Block(block) = item {
            assert!(text.get(block.span.range()).is_some());
        }
    }
    assert!(!diagnostics.iter().any(|d| d.code == "step::syntax::internal"), "{text:?}");
    let mut sink = Sink::default();
    syntax::parse_assignment(file.id, text, &mut sink);
}

#[test]
fn places_inside_mended_text_are_places_of_the_file() {
    for text in
        ["`\"𑌵`", "recipe a { ‘\\步’ = “x” }", "x = 'a\"b' y", "\u{feff}；；", "/*", "\"", "'", "{ /*"]
    {
        check(text);
    }
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

fn sample() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just(RECIPE), Just(MODEL), Just(DEVICES)]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(20_261_201), failure_persistence: None, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn edited_samples_are_read(text in sample(), edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, "[{}()\\[\\]\"'/*=,:;#\n a0%步\u{0}-]{0,3}"), 1..5)) {
        let mut text = text.to_owned();
        for (at, len, insert) in edits {
            let start = floor(&text, at.index(text.len() + 1));
            let end = floor(&text, start + len).max(start);
            text.replace_range(start..end, &insert);
        }
        check(&text);
    }

    #[test]
    fn cut_samples_are_read(text in sample(), at in any::<prop::sample::Index>()) {
        let at = floor(text, at.index(text.len()));
        check(&text[..at]);
        check(&text[at..]);
    }

    #[test]
    fn any_text_is_read(text in "\\PC*") {
        check(&text);
    }

    #[test]
    fn any_tokens_are_read(words in prop::collection::vec(prop::sample::select(vec![
        "recipe", "let", "use", "if", "else", "require", "for", "a", "b", "1", "2.5", "4Ki", "22%", "\"s\"", "'", "\"",
        "{", "}", "(", ")", "[", "]", "=", "==", ":", ",", ";", "\n", "+", "-", "!", "..", ".", "//", "/*", "*/", "and", "#", "--",
    ]), 0..60)) {
        check(&words.join(" "));
        check(&words.concat());
    }
}
