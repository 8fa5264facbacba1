[
  (body)
  (branch)
  (list)
  (call)
  (parenthesized)
] @indent.begin

[ "}" "]" ")" ] @indent.branch @indent.end

(require_statement) @indent.begin
(comment) @indent.ignore
