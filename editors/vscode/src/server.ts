/** Where the `stepc` program is. */

import * as path from "node:path";

/** What of the world outside decides it. */
export interface Surroundings {
  platform: NodeJS.Platform;
  /** The variable `PATH`. */
  searchPath: string;
  home: string;
  /** The first folder of the workspace. */
  workspace: string | undefined;
  isFile(file: string): boolean;
}

/** The program that the setting `stepc.server.path` names, or nothing where there is none. */
export function findServer(setting: string, around: Surroundings): string | undefined {
  const { join, isAbsolute, resolve, delimiter, sep } = around.platform === "win32" ? path.win32 : path.posix;
  const suffixes = around.platform === "win32" ? ["", ".exe"] : [""];
  const existing = (file: string) => suffixes.map((suffix) => file + suffix).find(around.isFile);

  const name = (setting.trim() || "stepc")
    .replaceAll("${workspaceFolder}", around.workspace ?? "")
    .replace(/^~(?=[/\\]|$)/, around.home);
  if (isAbsolute(name)) return existing(name);
  if (name.includes("/") || name.includes(sep)) return existing(resolve(around.workspace ?? around.home, name));
  return around.searchPath
    .split(delimiter)
    .filter((folder) => folder !== "")
    .map((folder) => existing(join(folder, name)))
    .find((file) => file !== undefined);
}
