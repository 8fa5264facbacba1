/** Panels beside the editor that show the page of a plan, and follow the recipe when it is saved. */

import * as vscode from "vscode";
import { confined, pageOf } from "./page";
import type { Target } from "./target";

/** Asks the server for the page. */
export type Ask = (target: Target) => Promise<unknown>;

export class Plans implements vscode.Disposable {
  private readonly panels = new Map<string, { panel: vscode.WebviewPanel; target: Target }>();
  private readonly saved: vscode.Disposable;

  constructor(private readonly ask: Ask) {
    this.saved = vscode.workspace.onDidSaveTextDocument((document) => {
      if (document.languageId === "step") void this.refresh();
    });
  }

  /** Opens the panel of a target or brings it to the front. */
  async open(target: Target): Promise<void> {
    const page = pageOf(await this.ask(target));
    if (page !== undefined) this.show(target, page);
  }

  /** Shows a page that the server has answered with. */
  show(target: Target, page: string): void {
    const key = JSON.stringify([target.uri, target.recipe, target.profile]);
    const known = this.panels.get(key)?.panel;
    const panel = known ?? this.create(key, target);
    panel.webview.html = confined(page);
    if (known) panel.reveal(undefined, true);
  }

  private create(key: string, target: Target): vscode.WebviewPanel {
    const name = target.uri.slice(target.uri.lastIndexOf("/") + 1);
    const panel = vscode.window.createWebviewPanel(
      "stepc.plan",
      `Plan of ${target.profile === undefined ? "" : `${target.profile} of `}${decodeURIComponent(name)}`,
      { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true },
      { enableScripts: true, retainContextWhenHidden: true, localResourceRoots: [] },
    );
    panel.onDidDispose(() => this.panels.delete(key));
    this.panels.set(key, { panel, target });
    return panel;
  }

  /** Panels whose recipe has mistakes now keep the last page. */
  private async refresh(): Promise<void> {
    const pages = [...this.panels.values()].map(async ({ panel, target }) => {
      const page = await this.ask(target).then(pageOf, () => undefined);
      if (page !== undefined) panel.webview.html = confined(page);
    });
    await Promise.all(pages);
  }

  dispose(): void {
    this.saved.dispose();
    for (const { panel } of this.panels.values()) panel.dispose();
  }
}
