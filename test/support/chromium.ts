import { type Browser, chromium } from "playwright-core";
import { debianProgram } from "./debian.ts";

/** Returns the path of Chromium, after installing it if possible, or undefined. */
export function findChromium(): Promise<string | undefined> {
  return debianProgram("/usr/bin/chromium", "chromium");
}

const QUIET = [
  ...["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
  ...["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"],
];

/** Starts Chromium without a window and with a temporary profile. `more` are further arguments. */
export function startChromium(program: string, more: readonly string[] = []): Promise<Browser> {
  const args = [...QUIET, ...more, ...(process.getuid?.() === 0 ? ["--no-sandbox"] : [])];
  return chromium.launch({ executablePath: program, args });
}
