[
  (block)
  (if_statement)
  (list)
  (comment)
] @fold
