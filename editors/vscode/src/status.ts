/** What the status bar says of the server. */

export type State =
  | { is: "starting" }
  | { is: "running"; version: string | undefined; program: string }
  | { is: "stopped" }
  | { is: "missing"; setting: string };

export interface Shown {
  text: string;
  tooltip: string;
  isError: boolean;
}

export function shown(state: State): Shown {
  switch (state.is) {
    case "starting":
      return { text: "$(loading~spin) stepc", tooltip: "The server is starting", isError: false };
    case "running": {
      const version = state.version === undefined ? "" : ` ${state.version}`;
      return { text: `$(check) stepc${version}`, tooltip: `${state.program} lsp\nClick to restart`, isError: false };
    }
    case "stopped":
      return { text: "$(error) stepc", tooltip: "The server has stopped\nClick to restart", isError: true };
    case "missing":
      return {
        text: "$(error) stepc",
        tooltip: `There is no program \`${state.setting}\`\nClick to look for it again`,
        isError: true,
      };
  }
}
