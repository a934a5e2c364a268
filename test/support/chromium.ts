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

/** Starts Chromium without a window and with a temporary profile. */
export function startChromium(program: string): Promise<Browser> {
  const args = process.getuid?.() === 0 ? [...QUIET, "--no-sandbox"] : QUIET;
  return chromium.launch({ executablePath: program, args });
}
