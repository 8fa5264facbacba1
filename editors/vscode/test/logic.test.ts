import assert from "node:assert/strict";
import { test } from "node:test";
import { confined, pageOf } from "../src/page";
import { findServer, type Surroundings } from "../src/server";
import { shown } from "../src/status";
import { commandLine, targetOf } from "../src/target";

function around(files: string[], rest: Partial<Surroundings> = {}): Surroundings {
  return {
    platform: "linux",
    searchPath: "/usr/bin::/opt/bin",
    home: "/home/me",
    workspace: "/work",
    isFile: (file) => files.includes(file),
    ...rest,
  };
}

test("the server is found by name, by path, at home and in the workspace", () => {
  assert.equal(findServer("stepc", around(["/opt/bin/stepc"])), "/opt/bin/stepc");
  assert.equal(findServer(" ", around(["/usr/bin/stepc", "/opt/bin/stepc"])), "/usr/bin/stepc");
  assert.equal(findServer("/a/b", around(["/a/b"])), "/a/b");
  assert.equal(findServer("~/bin/stepc", around(["/home/me/bin/stepc"])), "/home/me/bin/stepc");
  assert.equal(findServer("target/release/stepc", around(["/work/target/release/stepc"])), "/work/target/release/stepc");
  assert.equal(findServer("${workspaceFolder}/stepc", around(["/work/stepc"])), "/work/stepc");
  assert.equal(findServer("~stepc/a", around(["/home/mestepc/a"])), undefined);
});

test("a server that is nowhere is none, and a folder is no program", () => {
  assert.equal(findServer("stepc", around([])), undefined);
  assert.equal(findServer("/usr/bin", around(["/usr/bin/stepc"])), undefined);
});

test("Windows has its own separators and suffix", () => {
  const windows = around(["C:\\bin\\stepc.exe"], { platform: "win32", searchPath: "C:\\Windows;C:\\bin" });
  assert.equal(findServer("stepc", windows), "C:\\bin\\stepc.exe");
  assert.equal(findServer("C:\\bin\\stepc", windows), "C:\\bin\\stepc.exe");
});

test("a command is about what its lens says, else about the file that is edited", () => {
  assert.deepEqual(targetOf(["file:///a.step"], "file:///b.step"), { uri: "file:///a.step" });
  assert.deepEqual(targetOf([{ uri: "file:///a.step", profile: "laptop", recipe: 3 }], undefined), {
    uri: "file:///a.step",
    profile: "laptop",
  });
  assert.deepEqual(targetOf([], "file:///b.step"), { uri: "file:///b.step" });
  assert.deepEqual(targetOf([null], undefined), undefined);
  assert.deepEqual(targetOf([{ no: 1 }], "file:///b.step"), undefined);
});

test("the command line names file, recipe and profile", () => {
  const target = { uri: "", recipe: "r", profile: "laptop" };
  assert.deepEqual(commandLine("run", "/a b.step", target), ["run", "/a b.step", "--recipe", "r", "--profile", "laptop"]);
  assert.deepEqual(commandLine("check", "/a.step", { uri: "" }), ["check", "--format", "short", "/a.step"]);
});

test("a page is kept from loading anything, and is otherwise as it was", () => {
  const page = "<!doctype html><html><head lang=en><title>$&</title></head><body>x</body></html>";
  const safe = confined(page);
  assert.match(safe, /<head lang=en><meta http-equiv="Content-Security-Policy" content="default-src 'none';/);
  assert.equal(safe.replace(/<meta http-equiv[^>]*>/, ""), page);
  assert.match(confined("<!doctype html><p>x"), /^<!doctype html><meta /);
});

test("the answer of the server is a page or holds one", () => {
  assert.equal(pageOf("<html>"), "<html>");
  assert.equal(pageOf({ html: "<p>" }), "<p>");
  assert.equal(pageOf(null), undefined);
  assert.equal(pageOf({ html: 3 }), undefined);
});

test("the status says what the server does", () => {
  assert.equal(shown({ is: "running", version: "0.1.0", program: "/bin/stepc" }).text, "$(check) stepc 0.1.0");
  assert.equal(shown({ is: "missing", setting: "stpc" }).isError, true);
  assert.match(shown({ is: "missing", setting: "stpc" }).tooltip, /`stpc`/);
  assert.equal(shown({ is: "starting" }).isError, false);
});
