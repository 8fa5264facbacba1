(block) @class.around
(block body: (body) @class.inside)

(attribute) @entry.around
(attribute value: (_) @entry.inside)

(comment) @comment.inside
(comment)+ @comment.around
