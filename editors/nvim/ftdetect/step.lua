vim.api.nvim_create_autocmd({ 'BufRead', 'BufNewFile' }, { pattern = '*.step', command = 'setfiletype step' })
