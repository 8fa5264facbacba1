(comment) @comment
(string) @string
(use_statement path: (string) @string.special.path)
(number) @constant.numeric
(unit) @type.builtin
(boolean) @constant.builtin.boolean

"use" @keyword.control.import
[ "let" "require" "for" ] @keyword
[ "if" "else" ] @keyword.control.conditional

(block kind: (identifier) @type)
(block name: (identifier) @label)
(block base: (identifier) @label)
(block target: (identifier) @constant)
(attribute key: (identifier) @variable.other.member)
(let_statement name: (identifier) @variable)
(call function: (identifier) @function)

(path . (identifier) @variable)
(path "." (identifier) @variable.other.member)

[ "=" "+" "-" "*" "/" "%" "!" "==" "!=" "<" "<=" ">" ">=" "&&" "||" ".." ] @operator
[ "{" "}" "[" "]" "(" ")" ] @punctuation.bracket
[ "," "." ":" ] @punctuation.delimiter
