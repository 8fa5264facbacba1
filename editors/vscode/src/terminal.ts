/** `stepc check`, `plan` and `run` in a terminal of the editor. */

import * as vscode from "vscode";
import { commandLine, type Target } from "./target";

/** Runs the program on a file that is on disk; unsaved text is saved first. */
export async function inTerminal(program: string, verb: "check" | "plan" | "run", target: Target): Promise<void> {
  const uri = vscode.Uri.parse(target.uri);
  const document = vscode.workspace.textDocuments.find((document) => document.uri.toString() === uri.toString());
  if (document?.isDirty && !(await document.save())) return;
  if (uri.scheme !== "file") {
    void vscode.window.showWarningMessage("Save the recipe first: `stepc` reads it from disk.");
    return;
  }
  const folder = vscode.workspace.getWorkspaceFolder(uri);
  const args = commandLine(verb, uri.fsPath, target);
  const options = folder === undefined ? {} : { cwd: folder.uri.fsPath };
  const task = new vscode.Task(
    { type: "stepc", verb },
    folder ?? vscode.TaskScope.Global,
    verb,
    "stepc",
    new vscode.ProcessExecution(program, args, options),
    verb === "check" ? "$stepc" : [],
  );
  task.presentationOptions = { reveal: vscode.TaskRevealKind.Always, panel: vscode.TaskPanelKind.Shared, clear: true };
  await vscode.tasks.executeTask(task);
}
