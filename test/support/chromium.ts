import { type Browser, chromium } from "playwright-core";
import { debianProgram } from "./debian.ts";

/** Where Chromium is, installed if need be; nothing when it cannot be had. */
export function findChromium(): Promise<string | undefined> {
  return debianProgram("/usr/bin/chromium", "chromium");
}

const QUIET = [
  ...["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"],
  ...["--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"],
];

/** Starts that Chromium without a window, with a profile of its own that goes with it. */
export function startChromium(program: string): Promise<Browser> {
  const args = process.getuid?.() === 0 ? [...QUIET, "--no-sandbox"] : QUIET;
  return chromium.launch({ executablePath: program, args });
}
