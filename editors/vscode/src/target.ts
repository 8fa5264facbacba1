/** What a command is about, and how `stepc` is told. */

/** A recipe of a file, perhaps under one of its profiles. */
export interface Target {
  /** The file as a URI. */
  uri: string;
  recipe?: string;
  profile?: string;
}

/** The target that a code lens or a menu names: a URI, an object with one, or nothing for the file that is being edited. */
export function targetOf(args: readonly unknown[], edited: string | undefined): Target | undefined {
  const [first] = args;
  if (typeof first === "string") return { uri: first };
  if (typeof first !== "object" || first === null) return edited === undefined ? undefined : { uri: edited };
  // `vscode.Uri` from a menu; its `toString` is what the server knows it by.
  if ("scheme" in first && "fsPath" in first) return { uri: String(first) };
  if (!("uri" in first) || typeof first.uri !== "string") return undefined;
  const word = (name: "recipe" | "profile") => {
    const value = (first as Record<string, unknown>)[name];
    return typeof value === "string" ? { [name]: value } : {};
  };
  return { uri: first.uri, ...word("recipe"), ...word("profile") };
}

/** The arguments of `stepc` for `verb`. */
export function commandLine(verb: "check" | "plan" | "run", file: string, target: Target): string[] {
  const profile = target.profile === undefined ? [] : ["--profile", target.profile];
  const recipe = target.recipe === undefined ? [] : ["--recipe", target.recipe];
  const format = verb === "check" ? ["--format", "short"] : [];
  return [verb, ...format, file, ...recipe, ...profile];
}
