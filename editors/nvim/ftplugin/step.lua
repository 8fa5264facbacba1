if vim.b.did_ftplugin then
  return
end
vim.b.did_ftplugin = 1

local buffer = vim.bo
buffer.commentstring = '// %s'
buffer.comments = 's1:/*,mb:*,ex:*/,://'
buffer.expandtab, buffer.shiftwidth, buffer.tabstop = true, 2, 2
buffer.smartindent = true
buffer.omnifunc = 'v:lua.vim.lsp.omnifunc'

require('stepc').attach(vim.api.nvim_get_current_buf())
