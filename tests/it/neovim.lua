-- An editing session in a real Neovim. What the editor ends up with after each act is printed, a JSON object a line.

local folder, act = vim.env.FOLDER, {}
require('stepc').setup({ cmd = { vim.env.STEPC, 'lsp' } })

local function report(name, fields)
  io.stdout:write(vim.json.encode({ [name] = fields }) .. '\n')
end

local function wait(what, done)
  if not vim.wait(60000, done, 10) then
    report('timeout', { what = what })
    vim.cmd('cquit')
  end
end

local function lines()
  return vim.api.nvim_buf_get_lines(0, 0, -1, false)
end

local function replace_line(old, new)
  for number, line in ipairs(lines()) do
    if line:find(old, 1, true) then
      vim.api.nvim_win_set_cursor(0, { number, 0 })
      return vim.cmd('normal! 0C' .. new)
    end
  end
  error('no line has ' .. old)
end

local function problems()
  return vim.tbl_map(function(found)
    return { line = found.lnum, column = found.col, ends = found.end_col, text = found.message, code = found.code }
  end, vim.diagnostic.get(0))
end

-- Which of several actions to take is answered by the session.
vim.ui.select = function(items, options, choose)
  report('choices', vim.tbl_map(options.format_item, items))
  choose(items[1], 1)
end

function act.open()
  vim.cmd('edit ' .. folder .. '/small.step')
  wait('the server', function()
    local client = vim.lsp.get_active_clients()[1]
    return client and client.initialized and client.server_capabilities.renameProvider
  end)
  report('open', { filetype = vim.bo.filetype, comment = vim.bo.commentstring, server = vim.lsp.get_active_clients()[1].name })
end

function act.mistype()
  replace_line('global_batch = 8', '    global_bacth = 8 // größer 🚀')
  wait('a diagnostic', function()
    return #vim.diagnostic.get(0) > 0
  end)
  report('problems', problems())
end

function act.mend()
  vim.cmd('normal! 0fg')
  vim.lsp.buf.code_action()
  wait('the fix', function()
    return table.concat(lines(), '\n'):find('global_batch = 8', 1, true) and #vim.diagnostic.get(0) == 0
  end)
  report('mended', { line = vim.api.nvim_get_current_line() })
end

function act.format()
  replace_line('steps        = 10', '    let   long=10,steps=long*1')
  local before = vim.api.nvim_buf_get_changedtick(0)
  vim.lsp.buf.formatting_sync(nil, 10000)
  wait('the layout', function()
    return vim.api.nvim_buf_get_changedtick(0) > before
  end)
  report('formatted', lines())
end

function act.rename()
  vim.fn.search('let long', 'e')
  vim.lsp.buf.rename('how_long')
  wait('the new name', function()
    return table.concat(lines(), '\n'):find('let how_long', 1, true)
  end)
  report('renamed', lines())
end

function act.outline()
  local params = { textDocument = vim.lsp.util.make_text_document_params() }
  local answer = vim.lsp.buf_request_sync(0, 'textDocument/documentSymbol', params, 10000)
  local _, symbols = next(answer)
  report('outline', vim.tbl_map(function(symbol)
    return symbol.name
  end, symbols.result))
end

function act.lenses()
  vim.lsp.codelens.refresh()
  wait('lenses', function()
    return #vim.lsp.codelens.get(0) > 0
  end)
  report('lenses', vim.tbl_map(function(lens)
    return lens.command.title
  end, vim.lsp.codelens.get(0)))
end

function act.plan()
  vim.cmd('silent write')
  local shown
  require('stepc').show = function(file)
    shown = table.concat(vim.fn.readfile(file), '\n')
  end
  for _, lens in ipairs(vim.lsp.codelens.get(0)) do
    if lens.command.title == 'Open plan' then
      vim.lsp.get_active_clients()[1].config.commands[lens.command.command](lens.command, { bufnr = 0 })
    end
  end
  wait('the page of the plan', function()
    return shown
  end)
  report('plan', { page = shown:sub(1, 200), bytes = #shown })
end

function act.hover()
  vim.fn.search('global_batch')
  vim.lsp.buf.hover()
  local text
  wait('the documentation', function()
    for _, window in ipairs(vim.api.nvim_list_wins()) do
      if vim.api.nvim_win_get_config(window).relative ~= '' then
        text = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(window), 0, -1, false)
        return true
      end
    end
  end)
  report('hover', text)
end

function act.complete()
  vim.fn.search('schedule cosine')
  vim.cmd('normal! O    micro')
  local column = #vim.api.nvim_get_current_line()
  vim.api.nvim_win_set_cursor(0, { vim.fn.line('.'), column - 1 })
  local params = vim.lsp.util.make_position_params()
  params.position.character = column
  local _, answer = next(vim.lsp.buf_request_sync(0, 'textDocument/completion', params, 10000))
  local words = {}
  for _, item in ipairs(answer.result.items or answer.result) do
    words[#words + 1] = item.label
  end
  report('completions', words)
  vim.cmd('normal! dd')
end

function act.library()
  replace_line('// What the examples', 'use "models/llama.step"')
  vim.fn.search('use', 'b')
  vim.cmd('normal! f/')
  vim.lsp.buf.definition()
  wait('the library', function()
    return vim.api.nvim_buf_get_name(0):find('step-library:', 1, true)
  end)
  report('library', { name = vim.api.nvim_buf_get_name(0), lines = #lines(), changes = vim.bo.modifiable })
end

function act.colours()
  local parser = vim.treesitter.get_parser(0, 'step')
  local root, query = parser:parse()[1]:root(), vim.treesitter.get_query('step', 'highlights')
  local seen = {}
  for id in query:iter_captures(root, 0) do
    seen[query.captures[id]] = true
  end
  local names = vim.tbl_keys(seen)
  table.sort(names)
  report('colours', names)
end

for name in vim.gsplit(vim.env.ACTS, ' ') do
  local fine, problem = pcall(act[name])
  if not fine then
    report('failed', { act = name, problem = problem })
    vim.cmd('cquit')
  end
end
vim.cmd('qall!')
