[
  (body)
  (branch)
  (list)
  (call)
  (parenthesized)
] @indent

[ "}" "]" ")" ] @outdent
