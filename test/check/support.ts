import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import { stringify } from "yaml";
import { type CheckOptions, loadRules, runCheck } from "../../src/check/check_command.ts";
import type { Finding } from "../../src/check/report.ts";

const rules = loadRules();
const now = () => new Date("2026-11-28T12:00:00Z");

/** A folder of manifests that is removed after the test. */
export async function manifestFolder(files: Record<string, string | Uint8Array | object[]> = {}) {
  const folder = await mkdtemp(join(tmpdir(), "deputize-check-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  const write = async (file: string, content: string | Uint8Array | object[]) => {
    await mkdir(dirname(join(folder, file)), { recursive: true });
    const text = Array.isArray(content) ? content.map((each) => stringify(each)).join("---\n") : content;
    await writeFile(join(folder, file), text);
  };
  for (const [file, content] of Object.entries(files)) await write(file, content);
  return { folder, write };
}

export type Checked = { status: number; out: string; err: string };

/** Runs the command in this process. */
export async function check(folder: string, options: Omit<CheckOptions, "folder"> = {}): Promise<Checked> {
  const output = { out: "", err: "" };
  const status = await runCheck(
    { folder, ...options },
    {
      out: { write: (text) => (output.out += text) },
      err: { write: (text) => (output.err += text) },
      clock: { now },
      rules,
    },
  );
  return { status, ...output };
}

export type CheckedJson = { ok: boolean; findings: Finding[]; [count: string]: unknown };

/** Runs the command with `--json`, and parses its output. */
export async function checkJson(
  folder: string,
  options: Omit<CheckOptions, "folder" | "json"> = {},
): Promise<CheckedJson> {
  const { out } = await check(folder, { ...options, json: true });
  return JSON.parse(out) as CheckedJson;
}

/** Returns the findings about some files, as short lines without the folder. */
export async function findingsIn(files: Record<string, string | Uint8Array | object[]>): Promise<string[]> {
  const { folder } = await manifestFolder(files);
  const { findings } = await checkJson(folder);
  return findings.map(({ file, line, column, severity, path, message, suggestion }) => {
    const about = path === "" ? message : `${path}: ${message}`;
    const hint = suggestion === null ? "" : ` → ${suggestion}`;
    return `${file.slice(folder.length + 1)}:${line}:${column} ${severity} ${about}${hint}`;
  });
}
