/** Starts `stepc lsp`, and adds what the protocol does not have: a page of the plan, a terminal, a state in the status bar. */

import * as fs from "node:fs";
import * as os from "node:os";
import * as vscode from "vscode";
import { LanguageClient, State as ClientState } from "vscode-languageclient/node";
import { pageOf } from "./page";
import { Plans } from "./plan";
import { findServer } from "./server";
import { type State, shown } from "./status";
import { type Target, targetOf } from "./target";
import { inTerminal } from "./terminal";

/** Commands about a recipe; the server may serve some of them. */
const ABOUT_RECIPES = ["stepc.check", "stepc.plan", "stepc.run", "stepc.openPlan"] as const;
type AboutRecipe = (typeof ABOUT_RECIPES)[number];

let session: Session | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  session = new Session();
  context.subscriptions.push(
    session,
    vscode.commands.registerCommand("stepc.restart", () => session?.restart()),
    vscode.commands.registerCommand("stepc.log", () => session?.log.show()),
    vscode.window.onDidChangeActiveTextEditor(() => session?.showStatus()),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("stepc.server")) void session?.restart();
    }),
  );
  await session.restart();
}

export async function deactivate(): Promise<void> {
  await session?.stop();
}

class Session implements vscode.Disposable {
  readonly log = vscode.window.createOutputChannel("stepc", { log: true });
  private readonly bar = vscode.window.createStatusBarItem("stepc.status", vscode.StatusBarAlignment.Right, 50);
  private readonly plans = new Plans((target) => this.fromServer("stepc.openPlan", target));
  private client: LanguageClient | undefined;
  private program: string | undefined;
  private state: State = { is: "stopped" };
  private registered: vscode.Disposable[] = [];
  /** Restarts follow one another. */
  private running: Promise<void> = Promise.resolve();

  constructor() {
    this.bar.name = "stepc";
    this.bar.command = "stepc.restart";
  }

  restart(): Promise<void> {
    this.running = this.running.then(async () => {
      await this.stop();
      await this.start();
    });
    return this.running;
  }

  async stop(): Promise<void> {
    for (const command of this.registered.splice(0)) command.dispose();
    const client = this.client;
    this.client = undefined;
    await client?.dispose().catch((error: unknown) => this.log.error(String(error)));
  }

  private async start(): Promise<void> {
    const setting = vscode.workspace.getConfiguration("stepc").get("server.path", "stepc");
    this.program = findServer(setting, {
      platform: process.platform,
      searchPath: process.env["PATH"] ?? "",
      home: os.homedir(),
      workspace: vscode.workspace.workspaceFolders?.[0]?.uri.fsPath,
      isFile: (file) => fs.statSync(file, { throwIfNoEntry: false })?.isFile() ?? false,
    });
    if (this.program === undefined) {
      this.become({ is: "missing", setting });
      this.register([]);
      const open = "Open Settings";
      const message = `There is no program \`${setting}\`. Install stepc, or say where it is.`;
      void vscode.window.showErrorMessage(message, open).then((answer) => {
        if (answer === open) void vscode.commands.executeCommand("workbench.action.openSettings", "stepc.server.path");
      });
      return;
    }
    const program = this.program;
    const client = new LanguageClient(
      "stepc",
      "stepc",
      { command: program, args: ["lsp"] },
      {
        documentSelector: [
          { language: "step", scheme: "file" },
          { language: "step", scheme: "untitled" },
        ],
        outputChannel: this.log,
        middleware: { executeCommand: (command, args) => this.execute(command, args) },
      },
    );
    this.client = client;
    client.onDidChangeState(({ newState }) => {
      if (client !== this.client) return;
      if (newState === ClientState.Starting) this.become({ is: "starting" });
      if (newState === ClientState.Stopped) this.become({ is: "stopped" });
      if (newState === ClientState.Running) {
        this.become({ is: "running", version: client.initializeResult?.serverInfo?.version, program });
      }
    });
    try {
      await client.start();
    } catch (error) {
      this.log.error(String(error));
      this.become({ is: "stopped" });
    }
    this.register(this.served());
  }

  private served(): readonly string[] {
    return this.client?.initializeResult?.capabilities.executeCommandProvider?.commands ?? [];
  }

  /** Commands that the server serves are registered by the client, which asks `execute`; the others are registered here. */
  private register(served: readonly string[]): void {
    this.registered = ABOUT_RECIPES.filter((command) => !served.includes(command)).map((command) =>
      vscode.commands.registerCommand(command, (...args: unknown[]) => this.execute(command, args)),
    );
  }

  private async execute(command: string, args: unknown[]): Promise<unknown> {
    if (!isAboutRecipe(command)) return this.client?.sendRequest("workspace/executeCommand", { command, arguments: args });
    const edited = vscode.window.activeTextEditor?.document;
    const target = targetOf(args, edited?.languageId === "step" ? edited.uri.toString() : undefined);
    if (target === undefined) {
      void vscode.window.showWarningMessage("Open a recipe first.");
      return undefined;
    }
    try {
      return await this.about(command, target);
    } catch (error) {
      void vscode.window.showErrorMessage(error instanceof Error ? error.message : String(error));
      return undefined;
    }
  }

  private async about(command: AboutRecipe, target: Target): Promise<unknown> {
    if (command === "stepc.openPlan") return this.plans.open(target);
    if (this.program === undefined) throw new Error("There is no program `stepc`.");
    return inTerminal(this.program, command.slice("stepc.".length) as "check" | "plan" | "run", target);
  }

  private async fromServer(command: string, target: Target): Promise<unknown> {
    if (this.client === undefined) throw new Error("The server is not running.");
    const answer = await this.client.sendRequest("workspace/executeCommand", { command, arguments: [target] });
    if (pageOf(answer) === undefined) throw new Error("The server has no page for this recipe.");
    return answer;
  }

  private become(state: State): void {
    this.state = state;
    this.showStatus();
  }

  showStatus(): void {
    const { text, tooltip, isError } = shown(this.state);
    this.bar.text = text;
    this.bar.tooltip = tooltip;
    this.bar.backgroundColor = isError ? new vscode.ThemeColor("statusBarItem.errorBackground") : undefined;
    if (vscode.window.activeTextEditor?.document.languageId === "step") this.bar.show();
    else this.bar.hide();
  }

  dispose(): void {
    void this.stop();
    this.plans.dispose();
    this.bar.dispose();
    this.log.dispose();
  }
}

function isAboutRecipe(command: string): command is AboutRecipe {
  return (ABOUT_RECIPES as readonly string[]).includes(command);
}
