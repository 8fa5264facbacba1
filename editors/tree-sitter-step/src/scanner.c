// What a context-free lexer cannot tell: which newlines end a statement, and where a number ends in a unit.

#include "tree_sitter/parser.h"

#include <string.h>

enum Token { NEWLINE, CONTINUATION, PLAIN, MEASURED, UNIT, ERROR_SENTINEL };

static bool is_letter(int32_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(int32_t c) { return c >= '0' && c <= '9'; }

static bool is_word(int32_t c) { return is_letter(c) || is_digit(c); }

static bool is_blank(int32_t c) { return c == ' ' || c == '\t' || c == '\r'; }

static void advance(TSLexer *lexer) { lexer->advance(lexer, false); }

static void blanks(TSLexer *lexer) {
    while (is_blank(lexer->lookahead)) advance(lexer);
}

// Long enough for the longest keyword; longer words are cut off, and so are none.
typedef char Word[9];

static void read_word(TSLexer *lexer, Word word) {
    size_t length = 0;
    for (; is_word(lexer->lookahead); advance(lexer)) {
        if (length + 1 < sizeof(Word)) word[length++] = (char)lexer->lookahead;
    }
    word[length] = 0;
}

static bool is_one_of(const Word word, const char *const *words) {
    for (; *words; words++) {
        if (strcmp(word, *words) == 0) return true;
    }
    return false;
}

static const char *const JOINS[] = {"else", "and", "or", NULL};
static const char *const STATEMENTS[] = {"use", "let", "require", NULL};

// `%` is a unit unless an operand follows: `22%` is a ratio, `22 % 4` and `22%4` are remainders.
static bool operand_ahead(TSLexer *lexer) {
    while (lexer->lookahead == ' ' || lexer->lookahead == '\t') advance(lexer);
    if (is_word(lexer->lookahead)) {
        Word word;
        read_word(lexer, word);
        return !is_one_of(word, JOINS);
    }
    if (lexer->lookahead == '!') {
        advance(lexer);
        return lexer->lookahead != '=';
    }
    return lexer->lookahead == '"' || lexer->lookahead == '(' || lexer->lookahead == '[';
}

// The token ends behind the last part that is complete: `0..45` and `1e` begin with whole numbers.
static void digits(TSLexer *lexer) {
    while (is_digit(lexer->lookahead) || lexer->lookahead == '_') advance(lexer);
    lexer->mark_end(lexer);
}

// `4096`, `1_000`, `0.5`, `1e-5`, and whether a unit follows.
static bool number(TSLexer *lexer) {
    digits(lexer);
    lexer->result_symbol = PLAIN;
    if (lexer->lookahead == '.') {
        advance(lexer);
        if (!is_digit(lexer->lookahead)) return true;
        digits(lexer);
    }
    if (lexer->lookahead == 'e' || lexer->lookahead == 'E') {
        advance(lexer);
        if (lexer->lookahead == '+' || lexer->lookahead == '-') advance(lexer);
        if (!is_digit(lexer->lookahead)) {
            // The letter is a unit: `1e-x` is a difference.
            lexer->result_symbol = MEASURED;
            return true;
        }
        while (is_digit(lexer->lookahead)) advance(lexer);
        lexer->mark_end(lexer);
    }
    bool measured = is_letter(lexer->lookahead) && lexer->lookahead != '_';
    if (lexer->lookahead == '%') {
        advance(lexer);
        measured = !operand_ahead(lexer);
    }
    if (measured) lexer->result_symbol = MEASURED;
    return true;
}

// What touches a number that was `MEASURED`: `Ki`, `GB/s`, `%`.
static bool unit(TSLexer *lexer) {
    lexer->result_symbol = UNIT;
    if (lexer->lookahead == '%') {
        advance(lexer);
        lexer->mark_end(lexer);
        return true;
    }
    while (is_word(lexer->lookahead)) advance(lexer);
    lexer->mark_end(lexer);
    if (lexer->lookahead == '/') {
        advance(lexer);
        if (lexer->lookahead == 's') {
            advance(lexer);
            if (!is_word(lexer->lookahead)) lexer->mark_end(lexer);
        }
    }
    return true;
}

// Whether the line that begins with `word`, just read, is a statement of its own and not the value that is missing. A word in
// front of a brace may be either: the last of a condition, or the kind of a block.
static bool begins_statement(TSLexer *lexer, const Word word) {
    if (is_one_of(word, STATEMENTS)) return true;
    if (strcmp(word, "if") == 0) return false;
    blanks(lexer);
    switch (lexer->lookahead) {
        case '=':
            advance(lexer);
            return lexer->lookahead != '=' && lexer->lookahead != '>';
        case ':':
            return true;
        default:
            if (!is_letter(lexer->lookahead)) return false;
            Word next;
            read_word(lexer, next);
            return !is_one_of(next, JOINS);
    }
}

// Passes over `/* … */` behind a slash that was read; whether there was one.
static bool block_comment(TSLexer *lexer) {
    if (lexer->lookahead != '*') return false;
    advance(lexer);
    for (bool star = false; !lexer->eof(lexer); advance(lexer)) {
        if (star && lexer->lookahead == '/') {
            advance(lexer);
            return true;
        }
        star = lexer->lookahead == '*';
    }
    return false;
}

// A newline ends a statement where one may end and a word follows that can begin another. Where none may end, as behind an
// operator, it does so all the same before what is clearly a statement, so that a missing value spoils one line only.
static bool newline(TSLexer *lexer, const bool *valid) {
    while (is_blank(lexer->lookahead) || lexer->lookahead == '\n') advance(lexer);
    lexer->mark_end(lexer);
    lexer->result_symbol = CONTINUATION;
    // The newline behind a line comment decides; a block comment may stand in front of a statement.
    while (lexer->lookahead == '/') {
        advance(lexer);
        if (!block_comment(lexer)) return true;
        blanks(lexer);
    }
    if (!is_letter(lexer->lookahead)) return true;
    Word word;
    read_word(lexer, word);
    if (!is_one_of(word, JOINS) && (valid[NEWLINE] || begins_statement(lexer, word))) {
        lexer->result_symbol = NEWLINE;
    }
    return true;
}

bool tree_sitter_step_external_scanner_scan(void *payload, TSLexer *lexer, const bool *valid) {
    (void)payload;
    if (valid[UNIT] && !valid[ERROR_SENTINEL]) return unit(lexer);
    while (is_blank(lexer->lookahead)) lexer->advance(lexer, true);
    if (valid[PLAIN] && is_digit(lexer->lookahead)) return number(lexer);
    return lexer->lookahead == '\n' && newline(lexer, valid);
}

// The scanner has no state.
void *tree_sitter_step_external_scanner_create(void) { return NULL; }
void tree_sitter_step_external_scanner_destroy(void *payload) { (void)payload; }
unsigned tree_sitter_step_external_scanner_serialize(void *payload, char *buffer) {
    (void)payload;
    (void)buffer;
    return 0;
}
void tree_sitter_step_external_scanner_deserialize(void *payload, const char *buffer, unsigned length) {
    (void)payload;
    (void)buffer;
    (void)length;
}
