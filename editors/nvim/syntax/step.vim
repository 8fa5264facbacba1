" Recipes of stepc, where the tree-sitter grammar is not installed.

if exists('b:current_syntax')
  finish
endif

syn match stepField /\<\h\w*\>\ze\s*=[=>]\@!/
syn match stepKind /\<\h\w*\>\ze\%(\s\+\h\w*\)\=\s*\%(:\s*\h\w*\s*\)\=\%(\s*for\s\+\h\w*\s*\)\={/ nextgroup=stepName skipwhite
syn match stepKind /\%(^\|[{,]\)\@<=\s*\h\w*\ze\s\+\h\w*\s*\%(:\s*\h\w*\s*\)\=\%([,}]\|\/\/\|$\)/ nextgroup=stepName skipwhite
syn match stepName /\<\h\w*\>/ contained
syn match stepFunction /\<\h\w*\>\ze\s*(/
syn match stepOperator /[-+*%!<>=|&]\|\.\.\|\/[/*]\@!/
syn keyword stepKeyword let require for
syn keyword stepInclude use
syn keyword stepConditional if else
syn keyword stepBoolean true false
syn keyword stepNone none
syn match stepNumber /\<\d[0-9_]*\%(\.\d[0-9_]*\)\=\%([eE][+-]\=\d\+\)\=\%(\a\w*\%(\/s\>\)\=\|%\)\=/
syn region stepString start=/"/ skip=/\\./ end=/"/ oneline
syn match stepComment +//.*$+ contains=@Spell
syn region stepComment start=+/\*+ end=+\*/+ contains=@Spell

hi def link stepField Identifier
hi def link stepKind Type
hi def link stepName Label
hi def link stepFunction Function
hi def link stepOperator Operator
hi def link stepKeyword Keyword
hi def link stepInclude Include
hi def link stepConditional Conditional
hi def link stepBoolean Boolean
hi def link stepNone Constant
hi def link stepNumber Number
hi def link stepString String
hi def link stepComment Comment

let b:current_syntax = 'step'
