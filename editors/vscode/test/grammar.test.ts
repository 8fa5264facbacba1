/** The TextMate grammar, with the library that the editor uses: chosen places, and every recipe of the repository. */

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as path from "node:path";
import { test } from "node:test";
import { createOnigScanner, createOnigString, loadWASM } from "vscode-oniguruma";
import { INITIAL, Registry, type IGrammar, parseRawGrammar } from "vscode-textmate";

const here = process.cwd();
const repository = path.join(here, "../..");
const grammars: Record<string, string> = {
  "source.step": "syntaxes/step.tmLanguage.json",
  "markdown.step.codeblock": "syntaxes/markdown.tmLanguage.json",
};

async function load(scope: string): Promise<IGrammar> {
  const registry = new Registry({
    onigLib: loaded.then(() => ({ createOnigScanner, createOnigString })),
    loadGrammar: async (name) => {
      const file = grammars[name];
      return file === undefined ? null : parseRawGrammar(fs.readFileSync(path.join(here, file), "utf8"), file);
    },
  });
  const grammar = await registry.loadGrammar(scope);
  assert.ok(grammar);
  return grammar;
}

const loaded = loadWASM(fs.readFileSync(path.join(here, "node_modules/vscode-oniguruma/release/onig.wasm")));

interface Token {
  text: string;
  scope: string;
}

/** The tokens of a text with their innermost scopes, without blanks. */
function tokens(grammar: IGrammar, text: string): Token[] {
  let state = INITIAL;
  return text.split(/\r?\n/).flatMap((line) => {
    const { tokens, ruleStack } = grammar.tokenizeLine(line, state);
    state = ruleStack;
    return tokens
      .map(({ startIndex, endIndex, scopes }) => ({ text: line.slice(startIndex, endIndex), scope: scopes.at(-1) ?? "" }))
      .filter(({ text }) => text.trim() !== "");
  });
}

/** Each line: a text, and its tokens with the scopes they are to have, `.step` left out. */
const expected: [string, ...[string, string][]][] = [
  ['use "models/step35.step"', ["use", "keyword.control.import"], ['"models/step35.step"', "string.quoted.double"]],
  ["let long = 200", ["let", "storage.type.let"], ["long", "variable.other.constant"], ["=", "keyword.operator.assignment"]],
  ["recipe a: b {", ["recipe", "entity.name.type"], ["a", "entity.name.section"], ["b", "entity.other.inherited-class"]],
  ["profile laptop for cpu { }", ["laptop", "entity.name.section"], ["for", "keyword.other.for"], ["cpu", "constant.language.device"]],
  ["model {", ["model", "entity.name.type"], ["{", "punctuation.section.block"]],
  ["scaling none", ["scaling", "entity.name.type"], ["none", "entity.name.section"]],
  ["moe { scaling linear, shared {} }", ["scaling", "entity.name.type"], ["linear", "entity.name.section"], ["shared", "entity.name.type"]],
  ["attention full: other // c", ["full", "entity.name.section"], ["other", "entity.other.inherited-class"], ["// c", "comment.line.double-slash"]],
  ["ep = 96, tp = 2", ["ep", "variable.other.property"], ["96", "constant.numeric"], ["tp", "variable.other.property"]],
  ["a = 64GiB", ["64", "constant.numeric"], ["GiB", "keyword.other.unit"]],
  ["a = 200GB/s", ["200", "constant.numeric"], ["GB/s", "keyword.other.unit"]],
  ["a = 22%, b = 1", ["22", "constant.numeric"], ["%", "keyword.other.unit"]],
  ["a = 22% % 4", ["%", "keyword.other.unit"], ["%", "keyword.operator.arithmetic"], ["4", "constant.numeric"]],
  ["a = 22%4", ["22", "constant.numeric"], ["%", "keyword.operator.arithmetic"]],
  ["a = 22 % b", ["%", "keyword.operator.arithmetic"], ["b", "variable.other"]],
  ["a = 1_000 + 1e-5", ["1_000", "constant.numeric"], ["+", "keyword.operator.arithmetic"], ["1e-5", "constant.numeric"]],
  ["a = 0..45", ["0", "constant.numeric"], ["..", "keyword.operator.range"], ["45", "constant.numeric"]],
  ["a = model.moe.experts", ["model", "variable.other"], [".", "punctuation.accessor"], ["moe", "variable.other.member"]],
  ["a = max(1, b)", ["max", "support.function"], ["(", "punctuation.section.brackets"], ["b", "variable.other"]],
  ["a = if i < 3 { full } else { none }", ["if", "keyword.control.conditional"], ["i", "variable.other"], ["full", "variable.other"], ["else", "keyword.control.conditional"], ["none", "constant.language.none"]],
  ["if late { sparse { clamp = 7.0 } }", ["late", "variable.other"], ["sparse", "entity.name.type"], ["clamp", "variable.other.property"]],
  ["require a == b && !c", ["require", "keyword.control.require"], ["==", "keyword.operator.comparison"], ["&&", "keyword.operator.logical"]],
  ['path = "a//b\\n{i}"', ['"', "string.quoted.double"], ["a//b", "string.quoted.double"], ["\\n", "constant.character.escape"], ["{i}", "constant.other.placeholder"]],
  ["a = true /* b = 1 */", ["true", "constant.language.boolean"], ["/* b = 1 */", "comment.block"]],
];

test("tokens have their scopes", async () => {
  const grammar = await load("source.step");
  for (const [text, ...wanted] of expected) {
    const found = tokens(grammar, text);
    let at = 0;
    for (const [token, scope] of wanted) {
      const joined = (index: number) => found[index]?.scope.replace(/\.step$/, "") === scope;
      while (at < found.length && !(joined(at) && covers(found, at, token))) at += 1;
      assert.ok(at < found.length, `\`${token}\` of \`${text}\` is ${scope}: ${JSON.stringify(found)}`);
      at += 1;
    }
  }
});

/** Whether the tokens from `at` on that share its scope spell `text`. */
function covers(found: Token[], at: number, text: string): boolean {
  let joined = "";
  for (let index = at; found[index]?.scope === found[at]?.scope && joined.length < text.length; index += 1) {
    joined += found[index]?.text ?? "";
  }
  return joined.trim() === text;
}

function recipes(folder: string): string[] {
  return fs.readdirSync(path.join(repository, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".step"))
    .map((file) => path.join(repository, folder, file));
}

test("no token of any recipe is without a scope or illegal, and nothing stays open at the end", async () => {
  const grammar = await load("source.step");
  const files = ["recipes", "examples", "benches"].flatMap(recipes);
  assert.ok(files.length > 20, `${files.length} recipes`);
  for (const file of files) {
    const text = fs.readFileSync(file, "utf8");
    for (const { text: token, scope } of tokens(grammar, text)) {
      assert.notEqual(scope, "source.step", `${file}: \`${token}\` has no scope`);
      assert.ok(!scope.startsWith("invalid"), `${file}: \`${token}\` is ${scope}`);
    }
    const last = tokens(grammar, `${text}\nuse`).at(-1);
    assert.deepEqual(last, { text: "use", scope: "keyword.control.import.step" }, file);
  }
});

test("Markdown shows recipes in their colours", async () => {
  const grammar = await load("markdown.step.codeblock");
  const found = tokens(grammar, "text\n```step gives=1\nep = 96\n```\nep = 96");
  const ep = found.filter(({ text }) => text.startsWith("ep"));
  assert.deepEqual(ep.map(({ scope }) => scope), ["variable.other.property.step", "markdown.step.codeblock"]);
});

test("the settings, commands and files of the manifest are there", () => {
  const manifest = JSON.parse(fs.readFileSync(path.join(here, "package.json"), "utf8")) as {
    main: string;
    icon: string;
    contributes: { grammars: { path: string }[]; snippets: { path: string }[]; commands: { command: string }[] };
  };
  const { grammars, snippets, commands } = manifest.contributes;
  for (const file of [manifest.main, manifest.icon, ...[...grammars, ...snippets].map(({ path }) => path)]) {
    assert.ok(fs.existsSync(path.join(here, file)), file);
  }
  const source = fs.readFileSync(path.join(here, "src/extension.ts"), "utf8");
  for (const { command } of commands) assert.ok(source.includes(`"${command}"`), command);
});

test("indentation follows brackets", () => {
  const { indentationRules } = JSON.parse(fs.readFileSync(path.join(here, "language-configuration.json"), "utf8")) as {
    indentationRules: { increaseIndentPattern: string; decreaseIndentPattern: string };
  };
  const increases = new RegExp(indentationRules.increaseIndentPattern);
  for (const line of ["recipe a {", "  moe { // c", "a = max(", "a = [", "} else {"]) assert.match(line, increases);
  for (const line of ["a = 1", "scaling none", "moe { a = 1 }", "// a {", 'a = "{"']) assert.doesNotMatch(line, increases);
  assert.match("  }", new RegExp(indentationRules.decreaseIndentPattern));
});
