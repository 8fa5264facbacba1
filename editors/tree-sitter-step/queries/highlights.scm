; Names as in Neovim and the tree-sitter command line. Helix has its own in `editors/helix`.

(comment) @comment
(string) @string
(use_statement path: (string) @string.special.path)
(number) @number
(unit) @type.builtin
(boolean) @boolean

"use" @keyword.import
[ "let" "require" "for" ] @keyword
[ "if" "else" ] @keyword.conditional

(block kind: (identifier) @type)
(block name: (identifier) @label)
(block base: (identifier) @label)
(block target: (identifier) @constant)
(attribute key: (identifier) @property)
(let_statement name: (identifier) @variable)
(call function: (identifier) @function.call)

(path . (identifier) @variable)
(path "." (identifier) @variable.member)

[ "=" "+" "-" "*" "/" "%" "!" "==" "!=" "<" "<=" ">" ">=" "&&" "||" ".." ] @operator
[ "{" "}" "[" "]" "(" ")" ] @punctuation.bracket
[ "," "." ":" ] @punctuation.delimiter
