/** The page of a plan as the editor may show it. */

/** The page needs nothing from outside, and gets nothing. */
const POLICY = [
  "default-src 'none'",
  "style-src 'unsafe-inline'",
  "script-src 'unsafe-inline'",
  "img-src data:",
  "font-src data:",
].join("; ");

/** The page with a policy that keeps it from loading anything. */
export function confined(page: string): string {
  const meta = `<meta http-equiv="Content-Security-Policy" content="${POLICY}">`;
  return /<head[^>]*>/i.test(page)
    ? page.replace(/<head[^>]*>/i, (head) => head + meta)
    : page.replace(/^(\s*<!doctype[^>]*>)?/i, (doctype) => doctype + meta);
}

/** The page in the answer of the server, which is the page itself or an object that holds it. */
export function pageOf(answer: unknown): string | undefined {
  if (typeof answer === "string") return answer;
  if (typeof answer === "object" && answer !== null && "html" in answer && typeof answer.html === "string") {
    return answer.html;
  }
  return undefined;
}
