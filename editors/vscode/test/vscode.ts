/** As much of the editor as the extension's logic touches; what it does is written down. */

export const seen = {
  panels: [] as WebviewPanel[],
  tasks: [] as Task[],
  warnings: [] as string[],
  documents: [] as Document[],
};

interface Document {
  uri: Uri;
  languageId: string;
  isDirty: boolean;
  save(): Promise<boolean>;
}

type Listener<T> = (event: T) => void;

class Emitter<T> {
  private readonly listeners = new Set<Listener<T>>();
  readonly event = (listener: Listener<T>) => {
    this.listeners.add(listener);
    return { dispose: () => this.listeners.delete(listener) };
  };
  fire(event: T): void {
    for (const listener of this.listeners) listener(event);
  }
}

export class Uri {
  private constructor(
    readonly scheme: string,
    readonly fsPath: string,
  ) {}
  static parse(text: string): Uri {
    const url = new URL(text);
    return new Uri(url.protocol.slice(0, -1), decodeURIComponent(url.pathname));
  }
  toString(): string {
    return `${this.scheme}://${encodeURI(this.fsPath)}`;
  }
}

export class WebviewPanel {
  readonly webview = { html: "" };
  revealed = 0;
  private readonly disposed = new Emitter<void>();
  readonly onDidDispose = this.disposed.event;
  constructor(readonly title: string) {
    seen.panels.push(this);
  }
  reveal(): void {
    this.revealed += 1;
  }
  dispose(): void {
    this.disposed.fire();
  }
}

export class ProcessExecution {
  constructor(
    readonly process: string,
    readonly args: string[],
    readonly options: { cwd?: string },
  ) {}
}

export class Task {
  presentationOptions: unknown;
  constructor(
    readonly definition: unknown,
    readonly scope: unknown,
    readonly name: string,
    readonly source: string,
    readonly execution: ProcessExecution,
    readonly problemMatchers: unknown,
  ) {}
}

export const saved = new Emitter<{ languageId: string }>();
export const workspace = {
  onDidSaveTextDocument: saved.event,
  textDocuments: seen.documents,
  getWorkspaceFolder: (uri: Uri) => (uri.fsPath.startsWith("/work/") ? { uri: Uri.parse("file:///work") } : undefined),
};
export const window = {
  createWebviewPanel: (_kind: string, title: string) => new WebviewPanel(title),
  showWarningMessage: async (message: string) => void seen.warnings.push(message),
};
export const tasks = { executeTask: async (task: Task) => void seen.tasks.push(task) };

export const ViewColumn = { Beside: -2 };
export const TaskScope = { Global: 1 };
export const TaskRevealKind = { Always: 1 };
export const TaskPanelKind = { Shared: 1 };
