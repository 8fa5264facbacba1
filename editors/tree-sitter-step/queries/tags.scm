(source_file
  (block
    kind: (identifier)
    name: (identifier) @name) @definition.module)

(body
  (block
    kind: (identifier) @name) @definition.class)

(let_statement name: (identifier) @name) @definition.constant
