import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { Plans } from "../src/plan";
import { inTerminal } from "../src/terminal";
import { saved, seen, Uri } from "./vscode";

beforeEach(() => {
  for (const list of Object.values(seen)) list.length = 0;
});

const recipe = { uri: "file:///work/my%20run.step", profile: "laptop" };

test("a plan has one panel, which follows the recipe and survives its mistakes", async () => {
  let answer: () => Promise<unknown> = async () => ({ html: "<head></head>one" });
  const plans = new Plans(() => answer());
  await plans.open(recipe);
  await plans.open({ ...recipe });
  const [panel, ...others] = seen.panels;
  assert.ok(panel);
  assert.equal(others.length, 0);
  assert.equal(panel.title, "Plan of laptop of my run.step");
  assert.equal(panel.revealed, 1);
  assert.match(panel.webview.html, /Content-Security-Policy.*one$/);

  answer = async () => "<head></head>two";
  saved.fire({ languageId: "markdown" });
  await settled();
  assert.match(panel.webview.html, /one$/);
  saved.fire({ languageId: "step" });
  await settled();
  assert.match(panel.webview.html, /two$/);

  answer = () => Promise.reject(new Error("a mistake"));
  saved.fire({ languageId: "step" });
  await settled();
  assert.match(panel.webview.html, /two$/);

  answer = async () => "three";
  panel.dispose();
  await plans.open(recipe);
  assert.equal(seen.panels.length, 2);
  plans.dispose();
});

test("a command runs the program itself, without a shell, on text that is saved", async () => {
  let writes = 0;
  const save = async () => ((writes += 1), true);
  seen.documents.push({ uri: Uri.parse(recipe.uri), languageId: "step", isDirty: true, save });
  await inTerminal("/bin/stepc", "check", recipe);
  assert.equal(writes, 1);
  const [task] = seen.tasks;
  assert.deepEqual(task?.execution.args, ["check", "--format", "short", "/work/my run.step", "--profile", "laptop"]);
  assert.equal(task?.execution.process, "/bin/stepc");
  assert.equal(task?.execution.options.cwd, "/work");
  assert.equal(task?.problemMatchers, "$stepc");
});

test("what is not on disk is not run", async () => {
  await inTerminal("/bin/stepc", "run", { uri: "untitled:///Untitled-1" });
  assert.equal(seen.tasks.length, 0);
  assert.equal(seen.warnings.length, 1);
});

function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
