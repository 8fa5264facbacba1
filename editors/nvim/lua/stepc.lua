--- Recipes of stepc in Neovim, from 0.7 on: `stepc lsp`, what code lenses run, and files that are inside the program.

local M = { options = { cmd = { 'stepc', 'lsp' }, on_attach = nil } }

--- @param options { cmd: string[]?, on_attach: function? }
function M.setup(options)
  M.options = vim.tbl_extend('force', M.options, options or {})
end

local function client_of(buffer)
  local list = vim.lsp.get_clients or vim.lsp.get_active_clients
  for _, client in pairs(list({ bufnr = buffer })) do
    if client.name == 'stepc' then
      return client
    end
  end
end

--- Calls `done` with what the server answers; its errors are shown.
local function ask(client, method, params, done)
  local function answer(error, result)
    if error then
      vim.notify(error.message or tostring(error), vim.log.levels.ERROR)
    elseif result then
      done(result)
    end
  end
  -- From 0.11 on a client is an object with methods.
  if vim.fn.has('nvim-0.11') == 1 then
    client:request(method, params, answer)
  else
    client.request(method, params, answer)
  end
end

--- `stepc` with a verb on the recipe that a lens names, in a terminal below.
local function in_terminal(verb)
  return function(command)
    local target = (command.arguments or {})[1] or { uri = vim.uri_from_bufnr(0) }
    local line = { M.options.cmd[1], verb, vim.uri_to_fname(target.uri) }
    for _, part in ipairs({ 'recipe', 'profile' }) do
      if target[part] then
        vim.list_extend(line, { '--' .. part, target[part] })
      end
    end
    vim.cmd('silent! wall')
    vim.cmd('botright 15new')
    vim.fn.termopen(line)
  end
end

--- The page of the plan in a browser.
local function open_plan(command, context)
  local client = client_of(context.bufnr)
  if not client then
    return
  end
  local params = { command = 'stepc.openPlan', arguments = command.arguments or { { uri = vim.uri_from_bufnr(0) } } }
  ask(client, 'workspace/executeCommand', params, function(answer)
    local file = vim.fn.tempname() .. '.html'
    vim.fn.writefile(vim.split(answer.html, '\n', { plain = true }), file)
    M.show(file)
  end)
end

--- Shows a page; replace it to use another browser.
function M.show(file)
  if vim.ui.open then
    vim.ui.open(file)
  else
    vim.fn.jobstart({ vim.fn.has('mac') == 1 and 'open' or 'xdg-open', file }, { detach = true })
  end
end

local commands = {
  ['stepc.check'] = in_terminal('check'),
  ['stepc.plan'] = in_terminal('plan'),
  ['stepc.run'] = in_terminal('run'),
  ['stepc.openPlan'] = open_plan,
}

--- Reads a file that is inside the program, where a definition may lead: `step-library:/models/llama.step`. At once, as the
--- cursor is about to be put into it.
local function read_library(event)
  -- Neovim before 0.8 takes the scheme for a folder.
  local client, buffer, uri = client_of(), event.buf, event.match:match('step%-library:.*')
  vim.bo[buffer].buftype, vim.bo[buffer].swapfile = 'nofile', false
  if not client then
    return
  end
  local method, params = 'workspace/textDocumentContent', { uri = uri }
  local answer
  if vim.fn.has('nvim-0.11') == 1 then
    answer = client:request_sync(method, params, 2000, buffer)
  else
    answer = client.request_sync(method, params, 2000, buffer)
  end
  if answer and answer.result then
    vim.api.nvim_buf_set_lines(buffer, 0, -1, false, vim.split(answer.result.text, '\n', { plain = true }))
    vim.bo[buffer].modifiable, vim.bo[buffer].modified = false, false
    vim.bo[buffer].filetype = uri:match('%.md$') and 'markdown' or 'step'
  end
end

vim.api.nvim_create_autocmd('BufReadCmd', { pattern = '*step-library:/*', callback = read_library })

--- The grammar's colours where the parser is installed.
local function highlight(buffer)
  if vim.treesitter.start then
    return pcall(vim.treesitter.start, buffer, 'step')
  end
  local found, parser = pcall(vim.treesitter.get_parser, buffer, 'step')
  if found then
    vim.treesitter.highlighter.new(parser)
  end
end

local clients = {}

--- Starts the server for a buffer, or has a running one serve it too.
function M.attach(buffer)
  highlight(buffer)
  local name = vim.api.nvim_buf_get_name(buffer)
  if name:match('step%-library:') or vim.fn.executable(M.options.cmd[1]) == 0 then
    return
  end
  local folder = vim.fs and vim.fs.find and vim.fs.dirname(vim.fs.find('.git', { path = name, upward = true })[1] or name)
    or vim.fn.fnamemodify(name, ':h')
  local capabilities = vim.lsp.protocol.make_client_capabilities()
  capabilities.workspace.textDocumentContent = vim.empty_dict()
  local config = {
    name = 'stepc',
    capabilities = capabilities,
    cmd = M.options.cmd,
    root_dir = folder,
    workspace_folders = { { uri = vim.uri_from_fname(folder), name = folder } },
    commands = commands,
    on_attach = M.options.on_attach,
  }
  if vim.lsp.start then
    return vim.lsp.start(config, { bufnr = buffer })
  end
  clients[folder] = clients[folder] and vim.lsp.get_client_by_id(clients[folder]) and clients[folder]
    or vim.lsp.start_client(config)
  vim.lsp.buf_attach_client(buffer, clients[folder])
end

return M
