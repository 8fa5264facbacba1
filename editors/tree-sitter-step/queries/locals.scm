; A `let` holds in the block around it; so does the variable of a `layer` block.
[ (source_file) (body) ] @local.scope

(let_statement name: (identifier) @local.definition)
(path . (identifier) @local.reference)
