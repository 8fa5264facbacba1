/**
 * @file The grammar of `.step` recipes for editors.
 *
 * The compiler's grammar is `grammar/step.pest`; a test parses every recipe with both and holds the trees against each other.
 * Statements are parted by commas and by newlines in front of a word; the scanner tells which newlines those are.
 *
 * @license Apache-2.0
 */

/// <reference types="tree-sitter-cli/dsl" />
// @ts-check

// From loosest to tightest.
const PREC = { range: 1, or: 2, and: 3, compare: 4, add: 5, multiply: 6, unary: 7, index: 8 };

const OPERATORS = [
  [PREC.or, '||'],
  [PREC.and, '&&'],
  [PREC.compare, choice('==', '!=', '<', '<=', '>', '>=')],
  [PREC.add, choice('+', '-')],
  [PREC.multiply, choice('*', '/', '%')],
];

/** @param {GrammarSymbols<string>} $ */
const statements = $ => {
  const separator = choice(',', $._newline);
  const all = seq($._statement, repeat(seq(repeat1(separator), $._statement)), repeat(separator));
  return seq(repeat(separator), optional(all));
};

/** @param {RuleOrLiteral} rule */
const commaSeparated = rule => optional(seq(rule, repeat(seq(',', rule)), optional(',')));

module.exports = grammar({
  name: 'step',

  externals: $ => [
    $._newline, // ends a statement
    $._continuation, // a newline that ends nothing
    $._plain, // digits without a unit
    $._measured, // digits that a unit touches
    $.unit,
    $._error_sentinel, // never used: valid only where the parser recovers from an error
  ],
  extras: $ => [/[ \t\r]/, $.comment, $._continuation],
  word: $ => $.identifier,
  supertypes: $ => [$._statement, $._expression],

  rules: {
    source_file: $ => statements($),

    _statement: $ =>
      choice($.use_statement, $.let_statement, $.require_statement, $.if_statement, $.attribute, $.block),

    use_statement: $ => seq('use', field('path', $.string)),
    let_statement: $ => seq('let', field('name', $.identifier), '=', field('value', $._expression)),
    require_statement: $ =>
      seq('require', field('condition', $._expression), optional(seq('else', field('message', $.string)))),
    if_statement: $ =>
      seq(
        'if',
        field('condition', $._expression),
        field('consequence', $.body),
        optional(seq('else', field('alternative', choice($.body, $.if_statement)))),
      ),
    attribute: $ => seq(field('key', $.identifier), '=', field('value', $._expression)),

    // `kind name? (: base)? (for target)? { … }`, or without a body `kind name (: base)?`.
    block: $ =>
      choice(
        seq(
          field('kind', $.identifier),
          optional(field('name', $.identifier)),
          optional(seq(':', field('base', $.identifier))),
          optional(seq('for', field('target', $.identifier))),
          field('body', $.body),
        ),
        seq(
          field('kind', $.identifier),
          field('name', $.identifier),
          optional(seq(':', field('base', $.identifier))),
        ),
      ),
    body: $ => seq('{', statements($), '}'),

    _expression: $ =>
      choice(
        $.number,
        $.string,
        $.boolean,
        $.path,
        $.list,
        $.call,
        $.index,
        $.parenthesized,
        $.if_expression,
        $.unary_expression,
        $.binary_expression,
        $.range,
      ),

    number: $ => choice($._plain, seq($._measured, $.unit)),
    string: _ => /"([^"\\\n]|\\[^\n])*"/,
    boolean: _ => choice('true', 'false'),
    path: $ => seq($.identifier, repeat(seq(token.immediate('.'), $.identifier))),
    list: $ => seq('[', commaSeparated($._expression), ']'),
    call: $ => seq(field('function', $.identifier), '(', commaSeparated($._expression), ')'),
    index: $ => prec(PREC.index, seq(field('list', $._expression), '[', field('index', $._expression), ']')),
    parenthesized: $ => seq('(', $._expression, ')'),
    if_expression: $ =>
      seq(
        'if',
        field('condition', $._expression),
        field('consequence', $.branch),
        'else',
        field('alternative', choice($.branch, $.if_expression)),
      ),
    branch: $ => seq('{', $._expression, '}'),
    unary_expression: $ =>
      prec(PREC.unary, seq(field('operator', choice('-', '!')), field('operand', $._expression))),
    binary_expression: $ =>
      choice(
        ...OPERATORS.map(([precedence, operator]) =>
          prec.left(
            precedence,
            seq(field('left', $._expression), field('operator', operator), field('right', $._expression)),
          ),
        ),
      ),
    range: $ => prec.left(PREC.range, seq(field('start', $._expression), '..', field('end', $._expression))),

    identifier: _ => /[A-Za-z_][A-Za-z0-9_]*/,
    comment: _ => token(choice(/\/\/[^\n]*/, /\/\*[^*]*\*+([^/*][^*]*\*+)*\//)),
  },
});
