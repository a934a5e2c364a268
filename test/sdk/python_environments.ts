import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { pythonPackages } from "../support/outside_tools.ts";
import { until } from "../support/process.ts";

const PACKAGE = join(import.meta.dirname, "../../src/sdk/python");
export const PROGRAMS = join(import.meta.dirname, "python");

/** The packages that the Python package and its tests need, with `mcp` 2.x and FastMCP 4. */
export const python = await pythonPackages("python-sdk-frameworks-3", [
  "hatchling==1.33.0",
  "httpx2==2.16.2",
  "mypy==2.4.1",
  "ruff==0.17.6",
  "pytest==9.2.0",
  "fastapi==0.165.0",
  "uvicorn==0.54.0",
  "flask==3.1.3",
  "django==5.2.19",
  "django-types==0.24.0",
  "pydantic-ai-slim==2.68.0",
  "openai-agents==0.24.0",
  "mcp==2.3.0",
  "fastmcp==4.2.3",
]);

/** The packages of MCP clients that need `mcp` 1.x. */
export const oldPython = await pythonPackages("python-mcp-1", [
  "httpx2==2.16.2",
  "mcp==1.30.0",
  "langchain-mcp-adapters==0.3.2",
]);

/** Returns the environment of a Python program with the package's sources and the packages of `folder`. */
export function pythonVariables(folder: string | undefined): Record<string, string> {
  return {
    PATH: process.env.PATH ?? "",
    PYTHONPATH: [PACKAGE, PROGRAMS, folder].join(":"),
    PYTHONDONTWRITEBYTECODE: "1",
  };
}

/** Starts `mcp_bank.py` on HTTP with `mcp` or `fastmcp`. */
export async function startBank(
  kind: string,
  env: Record<string, string>,
): Promise<{ url: URL; bank: ChildProcess }> {
  const bank = spawn("python3", [join(PROGRAMS, "mcp_bank.py"), kind, "http"], { env, stdio: "pipe" });
  let said = "";
  bank.stderr.on("data", (chunk) => {
    said += chunk;
  });
  const address = () => /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(said)?.[0];
  await until("the bank listens", () => address() !== undefined || bank.exitCode !== null);
  const url = address();
  if (url === undefined) throw new Error(said);
  const answers = () => fetch(url).then(Boolean, () => false);
  await until("the bank answers", answers);
  return { url: new URL(url), bank };
}
